"""Simulation of the scheduler in virtual time.

``workload`` and ``traces`` provide the jobs, ``cluster_spec`` the cluster, and ``run`` replays one on the other.
``fast`` has the event loops for equal nodes; ``engine`` and ``machine`` have those for all others. ``slurmctld``
models Slurm's controller, ``simulated_cluster`` offers it through the Slurm port, and ``cycle_driver`` runs our cycle
beside it. ``report`` measures a replay; ``sweep`` and ``studies`` make many.
"""

"""The shell round the decisions in virtual time.

``workload`` and ``traces`` say what comes, ``cluster_spec`` what it runs on, ``run`` replays the one on the other.
``fast`` has the loops for equal nodes, ``engine`` and ``machine`` those for all others, ``slurmctld`` its model, which
``simulated_cluster`` puts behind the Slurm port and ``cycle_driver`` runs our cycle beside. ``report`` says what a
replay was like, ``sweep`` and ``studies`` make many.
"""

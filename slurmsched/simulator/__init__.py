"""The shell round the decisions in virtual time.

``workload`` and ``traces`` say what comes, ``fleet`` what it runs on, ``experiment`` replays the one on the other.
``pool`` has the fast loops for equal nodes, ``machine`` everything else and the model of slurmctld, which ``cluster``
puts behind the Slurm port and ``steering`` runs our cycle beside. ``report`` says what a replay was like, ``sweep``
makes many.
"""

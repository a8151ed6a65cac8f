"""Files to begin with, for ``slurmsched simulate --example``: a policy, a cluster, a trace, a workload."""

from __future__ import annotations

POLICY = """\
# slurmsched simulate synthetic:2000 --nodes 8 --policy fifo --policy policy.toml
[policy]
name = "ours"              # else the name of the file
ordering = "las"           # needed: an ordering with its parameters, or a preset
selection = "preemptive"   # or strict, backfill, easy, conservative, leases ...
placement = "consolidate"
admission = "accept-all"   # or load:1.2
forecast = "exact"         # or limit, history, model
restart_s = 60             # seconds that a preemption costs
beat_s = 300               # seconds between decisions; 0: at each event
"""

CLUSTER = """\
# slurmsched simulate synthetic:2000 --cluster cluster.toml --set map_partitions=all
[[nodes]]
count = 12
gpus = 8
gpu_type = "a100"
cpus = 128
memory_gib = 1024
partitions = ["train"]

[[nodes]]                  # in every partition
count = 4
gpus = 4

[[partitions]]
name = "train"
max_time = "2-00:00:00"

[[partitions]]
name = "debug"
tier = 2

[[qos]]
name = "high"
priority = 10
"""

TRACE = """\
# slurmsched simulate trace.toml --nodes 16
[trace]
file = "jobs.csv"          # from the folder of this file on
# format = "philly"        # where the first lines of the file do not show it
cpu_jobs = false           # keep jobs without GPUs
strict = false             # fail on jobs that could never run
# elastic = 0.5            # the part of the jobs that can run on half to twice their GPUs
# measure = "3000:4000"    # only these jobs count in the figures
# map_partitions = "all"   # each job may run in any partition of the cluster
"""

WORKLOAD = """\
# slurmsched simulate workload.toml --nodes 16
[workload]
jobs = 2000
load = 1.1
arrivals = "diurnal"       # or poisson, bursty

[gpu_mix]                  # GPUs = weight
1 = 0.7
8 = 0.3

[habits]
users = 100
"""

EXAMPLES = {"policy": POLICY, "cluster": CLUSTER, "trace": TRACE, "workload": WORKLOAD}

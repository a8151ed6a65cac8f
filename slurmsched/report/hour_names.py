"""The names of what a daemon counts by the hour, and their units."""

from __future__ import annotations

COUNTED_S = "counted_s"  #: seconds between cycles, behind a colon the mode
GPUS_S = "gpu_s"  #: GPU-seconds of the cluster
FREE_S = "free_gpu_s"  #: of them free
WAITED_FOR_S = "free_gpu_s_while_waiting"  #: of them free, at most as many as jobs waited for
STRANDED_CPUS_S = "stranded_cpus_gpu_s"  #: free and out of reach for want of CPUs, by account and user
STRANDED_MEMORY_S = "stranded_memory_gpu_s"
WRITES = "writes"  #: accepted by Slurm, behind a colon the kind
REFUSED = "writes_refused"
CALLS = "calls"  #: commands of Slurm that ran, behind a colon the command
MODE_CALLS = "calls_in_mode"  #: the same, behind a colon the mode
RPCS = "rpcs"  #: of everybody to slurmctld, by sdiag, behind a colon the mode
RPC_S = "rpc_s"  #: seconds that they took
RPC_SPAN_S = "rpc_span_s"  #: seconds between the two readings of sdiag
EFFECT_JOBS = "order_jobs"  #: pending jobs of an account over samples, behind a colon the mode
EFFECT_S = "order_change_s"  #: sum of the changes of the work ahead of these
EFFECT_SOONER = "order_sooner"
EFFECT_LATER = "order_later"
IDLE_HELD_S = "idle_gpu_s_held"  #: GPU-seconds held without a process for half an hour and more, by holder
IDLE_WAIT_S = "idle_wait_s"  #: seconds that jobs waited though they would have run, had these been free, by who waited
IDLE_WAIT_GPU_S = "idle_wait_gpu_s"  #: the same times their GPUs
IDLE_JOBS = "idle_wait_jobs"  #: jobs that began to wait so
REPLAY_JOBS = "replay_jobs"  #: jobs that started, by account, behind a colon the mode
REPLAY_LONGER_S = "replay_longer_s"  #: seconds that jobs wait in our order and would not in Slurm's own
REPLAY_SHORTER_S = "replay_shorter_s"  #: seconds that jobs wait in Slurm's own order and not in ours
EFFECT_SAMPLES = "order_samples"  #: samples, nobody's


def named(what: str, of: str) -> str:
    """Return the name of what is counted, of one mode, kind or command."""
    return f"{what}:{of}"[:64]

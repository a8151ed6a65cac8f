"""The options of sbatch(1) in the tested releases: their forms, their variables, and what a prediction makes of each.

Every option stands in exactly one of COUNTED, WITHOUT_EFFECT and NOT_UNDERSTOOD.
"""

from __future__ import annotations

SHORT = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus", "H": "hold",
    "J": "job-name", "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit", "Q": "quiet", "S": "core-spec",
    "V": "version", "W": "wait", "a": "array", "b": "begin", "c": "cpus-per-task", "d": "dependency", "e": "error",
    "h": "help", "i": "input", "k": "no-kill", "m": "distribution", "n": "ntasks", "o": "output", "p": "partition",
    "q": "qos", "s": "oversubscribe", "t": "time", "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip

ALIASES = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}
"""Other spellings of options."""


def _names(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


FLAGS = _names(
    "consolidate-segments contiguous external help hold ignore-pbs no-requeue overcommit oversubscribe parsable",
    "quiet reboot spread-job spread-segments stepmgr test-only usage use-min-nodes verbose version wait",
)
"""Options that take no value."""

OPTIONAL = _names("exclusive get-user-env nice no-kill oom-kill-step propagate requeue resv-ports")
"""Options that take a value only where ``=`` joins it."""

COUNTED = _names(
    "account array begin comment constraint cpus-per-gpu cpus-per-task exclude exclusive gpus gpus-per-node",
    "gpus-per-socket gpus-per-task gres hold job-name licenses mem mem-per-cpu mem-per-gpu mincpus nodelist nodes",
    "ntasks ntasks-per-gpu ntasks-per-node overcommit oversubscribe partition qos reservation segment",
    "sockets-per-node switches threads-per-core time tmp",
)
"""Options that an answer takes into account."""

WITHOUT_EFFECT = _names(
    "acctg-freq autocomplete chdir container container-id container-type context cpu-freq error export export-file",
    "extra get-user-env gpu-bind gpu-freq help ignore-pbs input kill-on-invalid-dep mail-type mail-user mem-bind",
    "no-kill no-requeue oom-kill-step open-mode output parsable profile propagate quiet requeue signal stepmgr",
    "test-only tres-bind usage verbose version wait wait-all-nodes wckey wrap",
)
"""Options without an effect on a job's start or runtime."""

NOT_UNDERSTOOD = _names(
    "batch bb bbf cluster-constraint clusters consolidate-segments contiguous core-spec cores-per-socket deadline",
    "delay-boot dependency distribution external extra-node-info gid gres-flags hint mcs-label mem-update",
    "network nice nodefile ntasks-per-core ntasks-per-socket ntasks-per-tres power prefer priority reboot resources",
    "resv-ports spread-job spread-segments thread-spec time-min tres-per-task uid use-min-nodes",
)
"""Options that may matter and are not taken into account: the first line of an answer names them."""

KNOWN = COUNTED | WITHOUT_EFFECT | NOT_UNDERSTOOD

OF_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
"""Options of which a job may have one."""

VARIABLES = {
    "SBATCH_ACCOUNT": "account", "SBATCH_ARRAY_INX": "array", "SBATCH_ACCTG_FREQ": "acctg-freq",
    "SBATCH_BATCH": "batch", "SBATCH_BURST_BUFFER": "bb", "SBATCH_CLUSTER_CONSTRAINT": "cluster-constraint",
    "SBATCH_CONSOLIDATE_SEGMENTS": "consolidate-segments", "SBATCH_CLUSTERS": "clusters",
    "SLURM_CLUSTERS": "clusters", "SBATCH_CONSTRAINT": "constraint", "SBATCH_CORE_SPEC": "core-spec",
    "SBATCH_CPUS_PER_GPU": "cpus-per-gpu", "SBATCH_DELAY_BOOT": "delay-boot", "SBATCH_DISTRIBUTION": "distribution",
    "SBATCH_EXCLUSIVE": "exclusive", "SBATCH_GRES": "gres", "SBATCH_GRES_FLAGS": "gres-flags", "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node", "SBATCH_GPUS_PER_SOCKET": "gpus-per-socket",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task", "SLURM_HINT": "hint", "SBATCH_HINT": "hint",
    "SBATCH_JOB_NAME": "job-name", "SBATCH_MEM_PER_CPU": "mem-per-cpu", "SBATCH_MEM_PER_GPU": "mem-per-gpu",
    "SBATCH_MEM_PER_NODE": "mem", "SBATCH_NETWORK": "network", "SBATCH_OVERCOMMIT": "overcommit",
    "SBATCH_PARTITION": "partition", "SBATCH_POWER": "power", "SBATCH_QOS": "qos", "SBATCH_REQ_SWITCH": "switches",
    "SBATCH_RESERVATION": "reservation", "SBATCH_SEGMENT_SIZE": "segment", "SBATCH_SPREAD_JOB": "spread-job",
    "SBATCH_SPREAD_SEGMENTS": "spread-segments", "SBATCH_THREAD_SPEC": "thread-spec",
    "SBATCH_THREADS_PER_CORE": "threads-per-core", "SBATCH_TIMELIMIT": "time",
    "SBATCH_TRES_PER_TASK": "tres-per-task", "SBATCH_USE_MIN_NODES": "use-min-nodes",
    "SBATCH_GET_USER_ENV": "get-user-env", "SBATCH_MEM_BIND": "mem-bind", "SBATCH_OPEN_MODE": "open-mode",
    "SBATCH_PROFILE": "profile", "SBATCH_SIGNAL": "signal", "SBATCH_WAIT_ALL_NODES": "wait-all-nodes",
}  # fmt: skip
"""Input environment variables of sbatch with the options they stand for, in the order in which sbatch reads them.

Variables of options without an effect are left out, unless sbatch refuses some of their values.
"""


def whole_name(name: str) -> str:
    """Return the option that *name* spells or abbreviates, else *name*."""
    if name not in KNOWN | ALIASES.keys():
        longer = [option for option in (*KNOWN, *ALIASES) if option.startswith(name)]
        name = longer[0] if len(longer) == 1 else name
    return ALIASES.get(name, name)

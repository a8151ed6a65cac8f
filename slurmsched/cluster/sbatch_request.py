"""The size of a job as sbatch and slurmctld make it from options: nodes, tasks, CPUs, GPUs and memory.

The rules are those of a pending job as ``scontrol show job`` shows it; tests compare them with a real Slurm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from .text.gres_request import asked_gres
from .text.hostlist import expand
from .text.sbatch import refuse_newer_values
from .text.sbatch_releases import AS_22_05, OptionRules
from .text.sbatch_values import exclusive_mode, limit_s, mebibytes, node_range, positive, refuse, refuse_planes

_INVALID_GRES = "Invalid generic resource (gres) specification"


@dataclass
class _Gpus:
    """The numbers of GPUs of one type, by what they are for; 0 where not asked.

    Of several items for the same the last one binds, but slurmctld counts the largest.
    """

    job: int = 0
    node: int = 0
    socket: int = 0
    task: int = 0
    total: int = 0
    largest: dict[str, int] = field(default_factory=dict)  #: by what they are for


@dataclass
class _Sizes:
    """The numbers of a job while sbatch settles them; None where none was named."""

    nodes: int | None = None
    most_nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    sockets_per_node: int | None = None
    cpus_per_task: int | None = None
    cpus_per_gpu: int = 0
    tasks_per_gpu: int = 0
    gpus: dict[str, _Gpus] = field(default_factory=dict)


@dataclass(frozen=True)
class SizeRules:
    """What releases of Slurm count differently (docs/releases.md)."""

    tasks_first: bool = False
    """Nodes follow from the tasks and the most of them on a node; of GPUs by task and by node those by task count."""
    newer_values: bool = False  #: --nodes takes a list, --exclusive topo; else both are refused, even where replaced
    options: OptionRules = AS_22_05
    task_on_each_node: bool = False  #: a job whose GPUs take more nodes than it has tasks is refused


@dataclass(frozen=True)
class SbatchRequest:
    """The size of a job; *memory_mib* is that of the whole job, NaN for the default of its partition."""

    nodes: int  #: at least
    most_nodes: int  #: 0 for any number
    tasks: int
    tasks_per_node: int  #: at most; 0 for any number
    cpus: int  #: of the whole job, before GPUs bring theirs
    cpus_per_task: int
    cpus_per_node: int  #: at least
    cpus_per_gpu: int
    gpus: dict[str, int]  #: by type, in the order of the request; "" for any type
    gpus_per_node: dict[str, int]  #: the most of each type that one node must have
    per_node: str  #: GPUs asked by job and by node, in Slurm's spelling
    per_task: bool  #: GPUs are asked by task or by socket
    per_socket: bool
    memory_mib: float
    node_memory_mib: float  #: the least that one node must have; 0 where nothing says so
    memory_per_cpu: bool  #: of *memory_mib* each CPU has its part
    all_memory: bool  #: it takes all memory of each node
    per_gpu: bool  #: CPUs or memory are asked by GPU
    exclusive: bool
    required: str  #: host list
    time_limit_s: float  #: NaN without one
    other_gres: tuple[tuple[str, str, int], ...] = ()  #: GRES beside GPUs on each node: name, type, number
    gpu_memory_mib: float = 0.0  #: the default of its partition for each GPU, in place of other memory; 0 for none

    @property
    def all_gpus(self) -> int:
        """The number of GPUs of all types."""
        return sum(self.gpus.values())

    @property
    def started_cpus(self) -> int:
        """The fewest CPUs that the job has once it runs."""
        by_task = self.tasks * self.cpus_per_task if self.cpus >= self.tasks else 0
        return max(self.cpus, by_task, self.nodes * self.cpus_per_node, self.all_gpus * self.cpus_per_gpu)

    @property
    def started_nodes(self) -> int:
        """The fewest nodes that the job has once it runs."""
        return max(self.nodes, -(-self.tasks // self.tasks_per_node) if self.tasks_per_node else 1)

    def memory_on(self, nodes: int) -> float:
        """Return the memory of the whole job on so many *nodes*, NaN for the default."""
        if self.gpu_memory_mib:
            return self.gpu_memory_mib * self.all_gpus
        by_node = self.node_memory_mib and not self.memory_per_cpu
        return self.node_memory_mib * nodes if by_node else self.memory_mib

    @property
    def started_memory_mib(self) -> float:
        """The memory that the job has once it runs, NaN for the default."""
        if self.memory_per_cpu and not self.gpu_memory_mib:
            return self.node_memory_mib * self.started_cpus
        return self.memory_on(self.started_nodes)


def request_of(options: Mapping[str, str], rules: SizeRules, least_nodes: int = 1) -> SbatchRequest:
    """Return the size of a job with these *options*; ConfigError with sbatch's words where it refuses them.

    A job that may have as many as *least_nodes*, the least of its partitions, has no fewer.
    """
    if not rules.newer_values:
        refuse_newer_values(options)
    for _, words in rules.options.refusals(options):
        refuse(words)
    sizes, cpus, required = _client_sizes(options, rules)
    if "cpus-per-gpu" in options and "cpus-per-task" in options:
        _refuse_gres("--cpus-per-gpu is mutually exclusive with --cpus-per-task")
    others = _gpus_asked(options, sizes, rules)
    _settle_gpus(sizes, options, rules)
    overcommit = "overcommit" in options
    if sizes.tasks_per_node is not None and sizes.nodes is not None and sizes.tasks is None:
        sizes.tasks = sizes.tasks_per_node * sizes.nodes
    if not overcommit and sizes.tasks is not None and sizes.tasks > cpus:
        cpus = sizes.tasks * (sizes.cpus_per_task or 1)
    if rules.tasks_first:
        _nodes_of_tasks(sizes)
    sizes.nodes = 1 if sizes.nodes is None else sizes.nodes
    if rules.tasks_first and sizes.tasks is None and sizes.tasks_per_node:
        sizes.tasks = sizes.tasks_per_node * sizes.nodes
        cpus = max(cpus, sizes.tasks * (sizes.cpus_per_task or 1))
    if sizes.nodes < least_nodes <= (sizes.most_nodes or least_nodes):
        sizes.nodes = least_nodes
        if rules.task_on_each_node and sizes.tasks is not None and sizes.tasks < least_nodes:
            refuse("Batch job submission failed: Task count specification invalid")
    _settle_gpus(sizes, options, rules)
    if sizes.most_nodes is not None and sizes.most_nodes < sizes.nodes:
        refuse("Batch job submission failed: Node count specification invalid")
    gpus = {kind: one.total for kind, one in sizes.gpus.items() if one.total}
    tasks = sizes.nodes if sizes.tasks is None else sizes.tasks
    per_task = sizes.cpus_per_task or 1
    per_node = max(_number(options, "mincpus", 1), per_task)
    if sizes.tasks_per_node and tasks > 1 and not overcommit:
        per_node = max(per_node, per_task * sizes.tasks_per_node)
    made = SbatchRequest(
        nodes=sizes.nodes,
        most_nodes=sizes.most_nodes or 0,
        tasks=tasks,
        tasks_per_node=sizes.tasks_per_node or 0,
        cpus=cpus,
        cpus_per_task=per_task,
        cpus_per_node=per_node,
        cpus_per_gpu=sizes.cpus_per_gpu,
        gpus=gpus,
        gpus_per_node={kind: max(one.node, one.task) for kind, one in sizes.gpus.items()},
        per_node=_per_node_text(options),
        per_task="gpus-per-task" in options or "gpus-per-socket" in options,
        per_socket="gpus-per-socket" in options,
        memory_mib=math.nan,
        node_memory_mib=float(_memory(options, "mem") or _memory(options, "mem-per-cpu") or 0),
        memory_per_cpu="mem-per-cpu" in options,
        all_memory=any(_memory(options, name) == 0 for name in ("mem", "mem-per-cpu")),
        per_gpu="cpus-per-gpu" in options or "mem-per-gpu" in options,
        exclusive=exclusive_of(options) == "exclusive",
        required=required,
        time_limit_s=limit_s(options["time"]) if "time" in options else math.nan,
        other_gres=others,
    )
    return replace(made, memory_mib=_whole_memory_mib(options, made))


def _client_sizes(options: Mapping[str, str], rules: SizeRules) -> tuple[_Sizes, int, str]:
    """Return the numbers as sbatch itself settles them, the CPUs of the job, and the required nodes."""
    nodes_set = "nodes" in options
    nodes, most = node_range(options["nodes"]) if nodes_set else (1, 0)
    if nodes_set and not nodes:
        refuse("a job without nodes cannot be tried out")
    required = _hosts(options, "nodelist")
    _hosts(options, "exclude")
    if required:
        nodes, nodes_set = max(len(required), nodes if nodes_set else 0), True
    if most and nodes > most:
        refuse(f"invalid number of nodes (-N {nodes}-{most})")
    tasks, tasks_set = _number(options, "ntasks", 1), "ntasks" in options
    tasks_per_node = _given(options, "ntasks-per-node")
    fixed = most in (0, nodes)
    if tasks_per_node and not tasks_set and fixed and (nodes_set or not rules.tasks_first):
        tasks, tasks_set = nodes * tasks_per_node, True
    refuse_planes(options.get("distribution", ""), nodes, tasks)
    if nodes_set and fixed and not tasks_set:
        tasks = max(nodes, 1)
        for name in ("sockets-per-node", "threads-per-core"):
            if name in options:
                tasks, tasks_set = tasks * _number(options, name, 1), True
    elif nodes_set and tasks_set:
        most = min(most, tasks)
        if tasks < nodes:
            nodes = most = tasks
            required = required[:nodes]
    cpus_per_task, sockets = _given(options, "cpus-per-task"), options.get("extra-node-info", "").partition(":")[0]
    sizes = _Sizes(
        nodes=nodes if nodes_set else None,
        most_nodes=most or None if nodes_set else None,
        tasks=tasks if tasks_set else None,
        tasks_per_node=tasks_per_node,
        sockets_per_node=_given(options, "sockets-per-node") or (int(sockets) if sockets.isdecimal() else None),
        cpus_per_task=cpus_per_task,
        cpus_per_gpu=_number(options, "cpus-per-gpu", 0),
        tasks_per_gpu=_number(options, "ntasks-per-gpu", 0),
    )
    cpus = max(nodes, 1) if "overcommit" in options else tasks * (cpus_per_task or 1)
    return sizes, cpus, ",".join(required)


def _gpus_asked(options: Mapping[str, str], sizes: _Sizes, rules: SizeRules) -> tuple[tuple[str, str, int], ...]:
    """Note the GPUs that *options* ask for in *sizes*; return other GRES."""
    if sizes.tasks_per_gpu:
        for name in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
            if name in options:
                refuse(f"--{name} is mutually exclusive with --ntasks-per-gpu")
    asked, others = asked_gres(options, older=not rules.newer_values)
    for what in ("job", "node", "socket", "task"):
        for kind, number in asked[what]:
            one = sizes.gpus.setdefault(kind, _Gpus())
            setattr(one, what, number)
            one.largest[what] = max(one.largest.get(what, 0), number)
    return tuple(others)


def _nodes_of_tasks(sizes: _Sizes) -> None:
    """Let the nodes follow from the tasks and the most of them on a node, where no number of nodes was named."""
    if sizes.nodes is None and sizes.tasks and sizes.tasks_per_node:
        sizes.nodes = -(-sizes.tasks // sizes.tasks_per_node)


def _settle_gpus(sizes: _Sizes, options: Mapping[str, str], rules: SizeRules) -> None:
    """Multiply GPUs by nodes, sockets and tasks, and derive those numbers from the GPUs; refuse what disagrees."""
    if not sizes.gpus and not sizes.tasks_per_gpu:
        return
    if rules.tasks_first:
        _nodes_of_tasks(sizes)
    by_task = "gpus-per-task" in options
    same = sizes.nodes is not None and sizes.nodes == sizes.most_nodes
    if (by_task or sizes.tasks_per_gpu) and sizes.tasks is None and same:
        nodes = sizes.nodes or 1
        if sizes.tasks_per_gpu:
            sizes.tasks = nodes * sizes.tasks_per_gpu
        elif sizes.tasks_per_node is not None:
            sizes.tasks = nodes * sizes.tasks_per_node
        elif sizes.cpus_per_task is None:
            sizes.tasks = nodes
    for one in sizes.gpus.values():
        by_task_alone = rules.tasks_first and one.task and sizes.tasks is not None
        one.total = max(
            one.largest.get("job", one.job),
            0 if by_task_alone else one.largest.get("node", 0) * (sizes.nodes or 1),
            one.largest.get("socket", 0) * _sockets(sizes),
            one.largest.get("task", 0) * (1 if sizes.tasks is None else sizes.tasks),
        )
    _settle_tasks_per_gpu(sizes)
    for kind, one in sizes.gpus.items():
        _agree(one, sizes, 0 if kind else sizes.cpus_per_gpu)
    named = sizes.tasks if "ntasks" in options else None
    if rules.task_on_each_node and named is not None and (sizes.nodes or 1) > named:
        refuse("Batch job submission failed: Task count specification invalid")
    if len(sizes.gpus) > 1 and "" in sizes.gpus:
        refuse("Invalid GRES specification (with and without type identification)")


def _sockets(sizes: _Sizes) -> int:
    if sizes.nodes is not None and sizes.sockets_per_node is not None:
        return sizes.nodes * sizes.sockets_per_node
    return 1


def _settle_tasks_per_gpu(sizes: _Sizes) -> None:
    if not sizes.tasks_per_gpu:
        return
    gpus = sum(one.total for one in sizes.gpus.values())
    if gpus:
        sizes.tasks = gpus * sizes.tasks_per_gpu
    elif sizes.tasks:
        each = sizes.tasks // sizes.tasks_per_gpu
        if each:
            sizes.gpus[""] = _Gpus(job=each, total=each)
    else:
        refuse(
            f"--ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification; {_INVALID_GRES}"
        )


def _agree(one: _Gpus, sizes: _Sizes, cpus_each: int) -> None:
    """Refuse numbers of GPUs that disagree with each other or with the nodes and tasks; derive missing ones."""
    if one.job and (one.node > one.job or one.task > one.job or one.socket > one.job):
        _refuse_gres("Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket")
    if one.node and (one.task > one.node or one.socket > one.node):
        _refuse_gres("Failed to ensure --gpus >= --gpus-per-task")
    if one.socket and sizes.sockets_per_node is None:
        _refuse_gres("--gpus-per-socket option requires --sockets-per-node specification")
    if one.job and one.node:
        nodes = _quotient(one.job, one.node, "--gpus is not multiple of --gres=gpu/--gpus-per-node")
        if (sizes.nodes is not None and nodes < sizes.nodes) or (
            sizes.most_nodes is not None and nodes > sizes.most_nodes
        ):
            _refuse_gres(
                "Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node required nodes "
                f"({nodes}) doesn't fall between min_nodes and max_nodes boundaries."
            )
        sizes.nodes = sizes.most_nodes = nodes
    if one.node and one.socket:
        sockets = _quotient(one.node, one.socket, "--gres=gpu/--gpus-per-node not multiple of --gpus-per-socket.")
        if sizes.sockets_per_node != sockets:
            _refuse_gres(
                "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-socket required "
                "number of sockets differ from --sockets-per-node."
            )
    if sizes.tasks_per_gpu and sizes.tasks is not None and sizes.tasks % sizes.tasks_per_gpu:
        _refuse_gres("Failed to validate job spec, -n/--ntasks has to be a multiple of --ntasks-per-gpu.")
    whole = _agree_tasks(one, sizes, cpus_each) if one.task else one.job
    if whole:
        if sizes.nodes is not None and whole < sizes.nodes:
            _refuse_gres("Failed to validate job spec, --gpus < -N")
        if sizes.most_nodes is not None:
            sizes.most_nodes = min(sizes.most_nodes, whole)


def _agree_tasks(one: _Gpus, sizes: _Sizes, cpus_each: int) -> int:
    """Do the same for GPUs per task, and return the GPUs of the whole job."""
    whole = one.job
    if one.job:
        tasks = _quotient(one.job, one.task, "--gpus not multiple of --gpus-per-task")
        if sizes.tasks is None:
            sizes.tasks = tasks
        elif sizes.tasks != tasks:
            _refuse_gres(
                "Failed to validate job spec. Based on --gpus and --gpus-per-task number of requested tasks differ "
                "from -n/--ntasks."
            )
    elif sizes.tasks is not None:
        whole = sizes.tasks * one.task
    else:
        _refuse_gres(
            "Failed to validate job spec. --gpus-per-task used without either --gpus or -n/--ntasks is not allowed."
        )
    if one.node:
        each = _quotient(one.node, one.task, "--gres=gpu/--gpus-per-node not multiple of --gpus-per-task.")
        if not sizes.tasks_per_node:
            sizes.tasks_per_node = each
        elif sizes.tasks_per_node != each:
            _refuse_gres(
                "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-task requested number "
                "of tasks per node differ from --ntasks-per-node."
            )
    if one.socket:
        _quotient(one.socket, one.task, "--gpus-per-socket not multiple of --gpus-per-task.")
    if cpus_each:
        cpus = cpus_each * one.task
        if not sizes.cpus_per_task:
            sizes.cpus_per_task = cpus
        elif sizes.cpus_per_task != cpus:
            _refuse_gres(
                "Failed to validate job spec. Based on --cpus-per-gpu and --gpus-per-task requested number of cpus "
                "differ from -c/--cpus-per-task."
            )
    return whole


def _quotient(whole: int, part: int, words: str) -> int:
    if whole % part:
        _refuse_gres(f"Failed to validate job spec, {words}")
    return whole // part


def _refuse_gres(words: str) -> NoReturn:
    refuse(f"{words} {_INVALID_GRES}")


def _whole_memory_mib(options: Mapping[str, str], made: SbatchRequest) -> float:
    """Return the memory of the whole job, NaN for the default and for all of each node."""
    if made.all_memory:
        return math.nan
    if "mem" in options:
        return float(mebibytes("mem", options["mem"]) * made.nodes)
    if "mem-per-cpu" in options:
        return float(mebibytes("mem-per-cpu", options["mem-per-cpu"]) * made.cpus)
    if "mem-per-gpu" in options:
        each = mebibytes("mem-per-gpu", options["mem-per-gpu"])
        if not made.gpus:
            refuse(f"Requested mem_per_tres=gres:gpu:{each} but did not request any GPU. {_INVALID_GRES}")
        return float(each * made.all_gpus) if each else math.nan
    return math.nan


def exclusive_of(options: Mapping[str, str]) -> str:
    """Return the mode of --exclusive in force, empty for none: of it and --oversubscribe the later one counts."""
    last = [name for name in options if name in ("exclusive", "oversubscribe")][-1:]
    return exclusive_mode(options["exclusive"]) if last == ["exclusive"] else ""


def _memory(options: Mapping[str, str], name: str) -> int | None:
    return mebibytes(name, options[name]) if name in options else None


def _per_node_text(options: Mapping[str, str]) -> str:
    by_node = [f"gpu:{part}" for part in options.get("gpus-per-node", "").split(",") if part]
    gres = options.get("gres", "")
    by_node += [part for part in gres.split(",") if part and gres.lower() != "none"]
    by_job = [f"gpu:{part}" for part in options.get("gpus", "").split(",") if part]
    return ",".join(f"gres:{part.removeprefix('gres:').removeprefix('gres/')}" for part in (*by_job, *by_node))


def _hosts(options: Mapping[str, str], name: str) -> list[str]:
    if not options.get(name):
        return []
    if "/" in options[name]:
        refuse(f"--{name}: a file of nodes cannot be tried out")
    try:
        return list(dict.fromkeys(expand(options[name])))
    except ValueError:
        refuse("Batch job submission failed: Invalid node name specified")


def _given(options: Mapping[str, str], name: str) -> int | None:
    return positive(name, options[name]) if name in options else None


def _number(options: Mapping[str, str], name: str, otherwise: int) -> int:
    return positive(name, options[name]) if name in options else otherwise

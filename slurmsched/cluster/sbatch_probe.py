"""A hypothetical job from the options of sbatch(1)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo

import numpy as np

from ..errors import CommentError, ConfigError
from .columns import BoolArray
from .fewest_nodes import fewest_nodes
from .jobs import ANY_NODES, JobTable, job_table
from .limits import LICENCE, NO_LIMITS, LimitTable
from .node_request import NodeRequest
from .nodes import HIDDEN_NODES, NodeTable, PartitionTable
from .permissions import Permissions, Verdict, Wish
from .reservations import NO_RESERVATIONS, ReservationTable, claimant_of, doubts_of, followed
from .sbatch_checks import check_deadline, check_owner, doubts_by_site, doubts_of_dependency, doubts_of_partitions
from .sbatch_defaults import defaults_of, with_defaults
from .sbatch_node_parts import uncounted, unmet
from .sbatch_request import SbatchRequest, exclusive_of, request_of
from .text.comment import parse
from .text.constraint import constraint_of
from .text.gres_request import names_a_type_twice
from .text.hostlist import expand, fold
from .text.plural import gpus_of_type
from .text.sbatch import not_understood, written_values
from .text.sbatch_values import (
    SWITCH_WAIT_S,
    array_tasks,
    is_newer_value,
    is_node_list,
    limit_s,
    node_range,
    refuse,
    segment,
    span_s,
    submission_failed,
    switches,
)
from .text.slurm_time import begin_s
from .topology import FLAT, Topology, TopologyRequest, topology_request_text

PROBE_ID = 2**32
"""The id of a hypothetical job, higher than any id of Slurm."""

_LICENCE = re.compile(r"([^:=\s]+)(?::\s*\+?(\d{1,9}))?")
_GPU_GRES = re.compile(r"(?:^|,)(?:gres[:/])?gpu(?:[:=,]|$)")
_FEATURE = re.compile(r"[^&|\[\](),*]+")


@dataclass(frozen=True)
class Site:
    """What a hypothetical job is checked against."""

    partitions: PartitionTable
    nodes: NodeTable
    limits: LimitTable = NO_LIMITS  #: where they were read
    permissions: Permissions = field(default_factory=Permissions)
    groups: Callable[[str], Collection[str] | None] = field(default=lambda user: None)  #: of a user, in unix
    topology: Topology = FLAT
    reservations: ReservationTable = NO_RESERVATIONS
    job_ids: frozenset[int] = frozenset()  #: that wait or run


@dataclass(frozen=True)
class Probe:
    """A hypothetical job as a table of one row, and what of its options is not taken into account."""

    job: JobTable
    not_understood: tuple[str, ...]
    request: SbatchRequest


def probe(options: Mapping[str, str], user: str, now_s: float, zone: tzinfo, site: Site) -> Probe:
    """Return the job that *options* would submit now; ConfigError or CommentError where it would be refused."""
    check_owner(options, user)
    granted = _granted(options, user, _partition(options, site), site)
    partition = ",".join(granted.partitions)
    rows = [list(site.partitions.name).index(name) for name in granted.partitions]
    least_nodes = int(site.partitions.least_nodes[rows].min())
    request, counted_otherwise = _request(options, site.permissions, least_nodes)
    home = _row_of_defaults(request, rows, site)
    request = with_defaults(request, options, defaults_of(site.partitions, home))
    _check_names(options, request, site)
    allowed = _allowed(request, rows, site)
    hidden = bool(set(granted.partitions) & set(site.partitions.hidden_nodes))
    lacking, why = unmet(options, request, site.nodes, allowed)
    if not hidden and not names_a_type_twice(options):
        _check_nodes(request, allowed, site.nodes, _beside(request, rows, site))
        if why:
            submission_failed(why)
    allowed &= ~lacking
    _check_segment(request.nodes, _topology_request(options).segment, site.topology)
    comment = options.get("comment", "")
    deadline_s = _deadline_s(comment, now_s, zone)
    starts_s = _begins_s(options, now_s, zone)
    limited_s = _limit_s(request, rows[0], home, site.partitions)
    check_deadline(options, starts_s, limited_s, site.permissions, now_s, zone)
    nodes = request.started_nodes
    memory_mib = _memory_mib(request, allowed, site.nodes, nodes)
    cpus = request.started_cpus
    if not request.gpus and not request.most_nodes and not request.required:
        nodes = max(nodes, fewest_nodes(site.nodes, allowed, cpus, request.cpus_per_task, memory_mib))
    memory_mib = _memory_mib(request, allowed, site.nodes, nodes)
    tasks = array_tasks(options["array"], site.permissions.array_size) if "array" in options else 1
    job = job_table(
        1,
        job_id=[PROBE_ID],
        array_job_id=[PROBE_ID if "array" in options else 0],
        tasks=[tasks],
        name=[options.get("job-name", "wrap" if "wrap" in options else "sbatch")],
        user=[user],
        account=[granted.account],
        qos=[granted.qos],
        partition=[partition],
        reason=[granted.reason or _reason(options, starts_s, now_s)],
        gpus=[request.all_gpus],
        gpu_type=[next(filter(None, request.gpus), "")],
        nodes=[nodes],
        most_nodes=[request.most_nodes or ANY_NODES],
        ntasks=[request.tasks],
        cpus=[cpus],
        memory_mib=[memory_mib],
        node_memory_mib=[0.0 if request.memory_per_cpu or request.gpu_memory_mib else request.node_memory_mib],
        cpu_memory_mib=[request.node_memory_mib if request.memory_per_cpu and not request.gpu_memory_mib else 0.0],
        node_request=[_node_request(request, cpus)],
        features=[options.get("constraint", "")],
        licences=[options.get("licenses", "")],
        required_nodes=[request.required],
        excluded_nodes=[_excluded(options, [site.nodes.name[row] for row in np.flatnonzero(lacking)])],
        reservation=[options.get("reservation", "")],
        exclusive=[request.exclusive or bool(site.partitions.whole_nodes[rows].all())],
        topology_request=[topology_request_text(_topology_request(options))],
        per_node=[request.per_node],
        per_job=["gpus" in options],
        per_task=[request.per_task],
        per_gpu=[request.per_gpu],
        gpu_cpus=[request.cpus_per_gpu],
        time_limit_s=[limited_s],
        comment=[comment],
        deadline_s=[deadline_s],
        submitted_s=[now_s],
        first_submit_s=[now_s],
        eligible_s=[max(now_s, starts_s)],
    )
    doubts = (
        *not_understood(options),
        *granted.unsure,
        *counted_otherwise,
        *doubts_by_site(options, site.permissions),
        *doubts_of_dependency(options, site.permissions, site.job_ids),
        *doubts_of_partitions(options, request, site.partitions, rows),
        *_unsure(options, request, site, allowed),
        *((HIDDEN_NODES,) if hidden else ()),
        *_doubts_of_reservation(options, job, site),
    )
    return Probe(job, tuple(dict.fromkeys(doubts)), request)


def _doubts_of_reservation(options: Mapping[str, str], job: JobTable, site: Site) -> Iterator[str]:
    """Yield what is not known of the reservations that a job names."""
    if not (named := options.get("reservation")):
        return
    yield from doubts_of(site.reservations, named, claimant_of(job, 0), site.permissions.parents)
    if "," in named and not followed(site.reservations, job)[0]:
        yield f"--reservation={named} (which of them has room first)"


def _deadline_s(comment: str, now_s: float, zone: tzinfo) -> float:
    """Return the deadline that a comment asks for; infinite without one, CommentError where it has passed."""
    asked = parse(comment).deadline
    deadline_s = math.inf if asked is None else asked.resolve(now_s, zone)
    if deadline_s <= now_s:
        raise CommentError(f"the deadline {asked} has passed")
    return deadline_s


def _request(
    options: Mapping[str, str], permissions: Permissions, least_nodes: int
) -> tuple[SbatchRequest, tuple[str, ...]]:
    """Return the size of the job, and what is not known of it where it is not known how the release counts."""
    requests, refusals = [], []
    for release in permissions.releases:
        try:
            requests.append(request_of(options, release.sizes, least_nodes))
        except ConfigError as error:
            refusals.append(error)
    if not requests:
        raise refusals[0]
    newer = [f"--{name}={value}" for name, value in written_values(options) if is_newer_value(name, value)]
    rules = [release.sizes.options for release in permissions.releases]
    newer += dict.fromkeys(f"--{name}={options[name]}" for one in rules for name, _ in one.refusals(options))
    sizes = {(tuple(one.gpus.items()), one.nodes, one.tasks) for one in requests}
    if refusals:
        return requests[0], (
            f"{', '.join(newer) or 'its GPUs by task and by node'} (some releases of Slurm refuse it)",
        )
    if len(sizes) > 1:
        return requests[0], ("its GPUs by task and by node (some releases of Slurm count them otherwise)",)
    return requests[0], ()


def _partition(options: Mapping[str, str], site: Site) -> str:
    """Return the partitions that the job asks for, else that of its reservation, else the default one."""
    partitions = site.partitions
    names = list(partitions.name)
    newer = all(release.sizes.newer_values for release in site.permissions.releases)
    if "partition" not in options or (newer and not options["partition"]):
        rows = zip(site.reservations.name, site.reservations.partition, strict=True)
        if of_own := [partition for name, partition in rows if partition and name == options.get("reservation")]:
            return of_own[0]
        default = [name for name, is_default in zip(names, partitions.default.tolist(), strict=True) if is_default]
        if not default:
            submission_failed(
                f"No partition specified or system default partition; say -p and one of {', '.join(names)}"
            )
        return default[0]
    asked = list(filter(None, options["partition"].split(",")))
    for name in asked or [""]:
        if name not in names:
            submission_failed(f"Invalid partition name specified: {name[:80]!r}; say -p and one of {', '.join(names)}")
    return ",".join(dict.fromkeys(asked))


def _granted(options: Mapping[str, str], user: str, partition: str, site: Site) -> Verdict:
    """Return the partitions, the account and the QOS that Slurm gives the job; refuse one that it refuses."""
    reservation = bool(options.get("reservation"))
    wish = Wish(user, tuple(partition.split(",")), options.get("account"), options.get("qos"), reservation)
    verdict = site.permissions.verdict(wish, site.groups)
    if verdict.refusal:
        submission_failed(verdict.refusal)
    return verdict


def _excluded(options: Mapping[str, str], lacking: list[str]) -> str:
    """Return the nodes that the job excludes, and those that do not meet it, as a host list."""
    asked = options.get("exclude", "")
    return fold(dict.fromkeys([*(expand(asked) if asked else ()), *lacking])) if lacking else asked


def _check_names(options: Mapping[str, str], request: SbatchRequest, site: Site) -> None:
    """Refuse features, nodes, QOS and arrays that Slurm does not have."""
    has = {feature for text in site.nodes.features.names for feature in text.split(",")}
    hidden = {node for text in site.partitions.hidden_nodes.values() for node in expand(text)}
    for option, words in (("constraint", "Invalid feature"), ("prefer", "Invalid preferred feature")):
        asked = _FEATURE.findall(options.get(option, ""))
        if not hidden and any(name.strip() not in has and not name.strip().isdigit() for name in asked):
            submission_failed(f"{words} specification")
    if not {*_FEATURE.findall(options.get("batch", ""))} <= {*_FEATURE.findall(options.get("constraint", ""))}:
        submission_failed("Job --batch option is invalid or not a subset of --constraints")
    names = set(site.nodes.name) | hidden
    required = set(expand(request.required)) if request.required else set()
    excluded = set(expand(options["exclude"])) if options.get("exclude") else set()
    some = "nodes" in options and len(required) > node_range(options["nodes"])[0]
    some &= any(release.sizes.newer_values for release in site.permissions.releases)  # of them it may take others
    if not required | excluded <= names or (required & excluded and not some):
        submission_failed("Invalid node name specified")
    _check_licences(options.get("licenses", ""), site.limits)
    least_s = limit_s(options["time-min"]) if "time-min" in options else 0.0
    if least_s > request.time_limit_s:  # never of a job without a limit of its own
        submission_failed("Invalid time-min specification (exceeds job's time or other limits)")


def _check_licences(asked: str, limits: LimitTable) -> None:
    """Refuse licences that Slurm does not have, or not as many of; nothing where they were not read."""
    has = licences_of(limits)
    wanted: Counter[str] = Counter()
    for part in filter(None, re.split(r"[,;]", asked) if has else ()):
        found = _LICENCE.fullmatch(part)
        if found is None:
            submission_failed(f"Invalid license specification: {part[:80]!r} (accepted: NAME or NAME:COUNT)")
        wanted[found[1]] += int(found[2] or 1)
    for name, many in wanted.items():
        if name not in has or many > has[name]:
            submission_failed(f"Invalid license specification: there are {has.get(name, 0)} of {name[:80]!r}")


def licences_of(limits: LimitTable) -> dict[str, int]:
    """Return how many licences of each name there are; none where they were not read."""
    rows = [row for row in range(len(limits)) if limits.whose[row] == LICENCE]
    return {limits.name[row]: int(limits.most[row]) for row in rows}


def _allowed(request: SbatchRequest, rows: list[int], site: Site) -> BoolArray:
    """Select the nodes of the job's partitions, of those that it names, if it names any."""
    wanted = {site.partitions.name[row] for row in rows}
    inside = [bool(wanted & set(names.split(","))) for names in site.nodes.partitions.names]
    allowed: BoolArray = site.nodes.partitions.map(inside, np.bool_)
    if request.required:
        allowed &= np.isin(list(site.nodes.name), expand(request.required))
    return allowed


def _beside(request: SbatchRequest, rows: list[int], site: Site) -> BoolArray:
    """Select the nodes that the job may have, of which those that it names are only some where it may have more."""
    named = len(expand(request.required)) if request.required else 0
    return _allowed(replace(request, required="") if named != request.most_nodes else request, rows, site)


def _check_nodes(request: SbatchRequest, allowed: BoolArray, nodes: NodeTable, beside: BoolArray) -> None:
    """Refuse GPUs and memory that no node *allowed* has, and more GPUs than those *beside* have in all."""
    if not allowed.any():
        return
    for kind, gpus in request.gpus.items():
        there = nodes.gpus_of(kind)[allowed]
        most = int(there.max(initial=0))
        each = max(request.gpus_per_node.get(kind, 0), 1)
        if each > most or (gpus > int(nodes.gpus_of(kind)[beside].sum()) and not request.per_socket):
            of = f" of {kind}" if kind else ""
            why = (
                f"no node has {gpus_of_type(each, kind)}{of}" if each > most else f"the nodes have not {gpus} such GPUs"
            )
            submission_failed(f"Requested node configuration is not available: {why}")
    memory_mib = 0.0 if request.gpu_memory_mib else request.node_memory_mib
    if memory_mib > float(nodes.memory_mib[allowed].max(initial=0.0)):
        submission_failed(f"Memory specification can not be satisfied: no node has {memory_mib:.0f} MiB")


def _memory_mib(request: SbatchRequest, allowed: BoolArray, nodes: NodeTable, count: int) -> float:
    """Return the memory over *count* nodes; 0 without an option and without a default of the partition."""
    if request.gpu_memory_mib:
        return request.started_memory_mib
    if request.all_memory:
        return count * float(nodes.memory_mib[allowed].min(initial=np.inf)) if allowed.any() else 0.0
    if math.isnan(request.memory_mib):
        return 0.0
    return request.started_memory_mib if request.memory_per_cpu else request.memory_on(count)


def _node_request(request: SbatchRequest, cpus: int) -> str:
    """Return the CPUs and memory that each node must have, as squeue would show them; empty where that is not known."""
    if request.gpu_memory_mib or request.all_memory or not request.node_memory_mib:
        return ""
    memory_mib = math.ceil(request.node_memory_mib)
    return str(NodeRequest(cpus, request.cpus_per_task, request.cpus_per_node, memory_mib, request.memory_per_cpu))


def _topology_request(options: Mapping[str, str]) -> TopologyRequest:
    """Return what the job asks of the topology."""
    few, wait_s = switches(options["switches"]) if "switches" in options else (0, 0.0)
    return TopologyRequest(few, wait_s, segment(options.get("segment", "0")), exclusive_of(options) == "topo")


def _check_segment(nodes: int, each: int, topology: Topology) -> None:
    """Refuse segments that do not divide the nodes of the job."""
    if topology.plugin == "block" and 0 < each < nodes and nodes % each:
        words = f"--segment={each} does not divide {nodes} nodes"
        submission_failed(f"Requested node configuration is not available: {words}")


def _row_of_defaults(request: SbatchRequest, rows: list[int], site: Site) -> int:
    """Return the partition of the job's *rows* whose defaults it has: the first, or the first with nodes enough."""
    if not all(release.defaults_where_nodes_are_enough for release in site.permissions.releases):
        return rows[0]
    parts = site.partitions
    for row in rows:
        there = _allowed(replace(request, required=""), [row], site).sum()
        least, most = int(parts.least_nodes[row]), int(parts.most_nodes[row]) or request.most_nodes
        if least <= request.nodes <= there and request.most_nodes <= most:
            return row
    return rows[0]


def _limit_s(request: SbatchRequest, first: int, home: int, partitions: PartitionTable) -> float:
    """Return the limit of the job, else DefaultTime of its *first* partition, else the longest one in its *home*."""
    if not math.isnan(request.time_limit_s):
        return request.time_limit_s
    default_s = float(partitions.default_time_s[first])
    return float(partitions.max_time_s[home]) if math.isnan(default_s) else default_s


def _begins_s(options: Mapping[str, str], now_s: float, zone: tzinfo) -> float:
    if "begin" not in options:
        return now_s
    try:
        return begin_s(options["begin"], now_s, zone)
    except (ValueError, OverflowError):
        refuse(f"Invalid --begin specification: {options['begin'][:80]!r}")


def _reason(options: Mapping[str, str], starts_s: float, now_s: float) -> str:
    if "hold" in options:
        return "JobHeldUser"
    return "BeginTime" if starts_s > now_s else "Priority"


def _unsure(options: Mapping[str, str], request: SbatchRequest, site: Site, allowed: BoolArray) -> tuple[str, ...]:
    """Return the options of which it is not known here whether Slurm grants them."""
    found = list(uncounted(options, request, site.nodes.take(np.flatnonzero(allowed))))
    if not constraint_of(options.get("constraint", "")).understood:
        found.append(f"--constraint={options['constraint']}")
    found += [f"{what} of Slurm {how}" for what, how in _by_release(options, request, site)]
    if site.topology.plugin and not site.topology.levels and request.nodes > 1:
        found.append(f"--nodes={request.nodes} (which nodes lie together in a {site.topology.plugin} is not read)")
    if is_node_list(options.get("nodes", "")):
        found.append(f"--nodes={options['nodes']} (that it takes no number of nodes between these)")
    if options.get("licenses") and not licences_of(site.limits):
        found.append(f"--licenses={options['licenses']} (how many are free was not read)")
    if site.topology.levels and span_s(options.get("switches", "").partition("@")[2] or "5") > SWITCH_WAIT_S:
        found.append(f"--switches={options['switches']} (for more than 5 min only where max_switch_wait lets it wait)")
    kinds = [kind for kind in request.gpus if kind]
    return (*found, *([f"GPUs of several types ({', '.join(kinds)})"] if len(kinds) > 1 else []))


def _by_release(options: Mapping[str, str], request: SbatchRequest, site: Site) -> Iterator[tuple[str, str]]:
    """Yield the options that releases of Slurm read differently, and how."""
    yield from _by_topology(options, request, site.topology)
    if "gpus-per-socket" in options and "gpus" in options:
        yield "--gpus-per-socket (some releases", "count it otherwise beside --gpus)"
    if "gpus-per-task" in options and not {"gpus", "ntasks", "nodes"} & options.keys():
        yield "--gpus-per-task (some releases", "refuse it without -n, -N or -G)"
    if names_a_type_twice(options):
        yield "--gpus-per-task (some releases", "count a type that is named twice otherwise)"
    if "gpus-per-node" in options and _GPU_GRES.search(options.get("gres", "")):
        yield f"--gpus-per-node={options['gpus-per-node']} (some releases", "refuse it beside --gres=gpu)"
    for per in ("ntasks-per-node", "ntasks-per-gpu"):
        if "overcommit" in options and per in options:
            yield "--overcommit (some releases", f"count CPUs otherwise beside --{per})"
    if "exclusive" in options and "oversubscribe" in options:
        yield "--oversubscribe (some releases", "refuse it beside --exclusive)"
    if "cpus-per-gpu" in options and not request.gpus:
        yield f"--cpus-per-gpu={options['cpus-per-gpu']} (some releases", "refuse it without GPUs)"
    named = set(expand(options["nodelist"])) if options.get("nodelist") else set()
    if "nodes" in options and len(named) > node_range(options["nodes"])[0]:
        yield f"--nodelist={options['nodelist']} (some releases", "take only as many of these nodes as -N says)"


def _by_topology(options: Mapping[str, str], request: SbatchRequest, topology: Topology) -> Iterator[tuple[str, str]]:
    """Yield likewise what releases make of segments and of blocks without other jobs."""
    if exclusive_of(options) == "topo" and not topology.levels:
        yield "--exclusive=topo (some releases", "refuse it)"
    if "segment" in options and topology.plugin != "block":
        yield f"--segment={options['segment']} (some releases", "refuse it)"
    elif "segment" in options:
        each = segment(options["segment"])
        if each > min(request.nodes, *(unit.size for unit in topology.levels[0])):
            yield f"--segment={each} (some releases", "never start a job with fewer nodes, or smaller blocks)"

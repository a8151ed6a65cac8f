"""Simulations that continue from the present state of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ..cluster.jobs import JobState, JobTable
from ..cluster.limits import by_known_limits
from ..cluster.may_have import Allowances
from ..cluster.nodes import NodeTable, by_type
from ..cluster.reasons import ReasonKind, reason_of, where_kind
from ..cluster.reservations import UNREAD, ReservationTable, followed, own_bounds_s
from ..cluster.state import View, with_parts_of_nodes
from ..cluster.text.hostlist import expanded
from ..cluster.text.tres import slots_in
from ..cluster.topology import Topology, read_topology_request, rule_of
from ..decide.ordering.ranking import base_priority
from ..policies.selection.allowed_nodes import binding
from ..policies.selection.could_hold import never
from ..policies.selection.job_spread import on_any_number, spread
from ..policies.selection.planned_room import YEAR_S
from ..policies.selection.resources import hold_part, is_on, link, number_forms, recount, take_slots
from ..policies.selection.sorted_rows import Line
from ..policies.selection.unit_choice import BASE, WHOLE
from ..policies.selection.unit_rules import PATIENCE_S, most_together, unit_rules
from ..simulator.cluster_spec import ClusterSpec
from ..simulator.earlier_usage import so_far, use_before
from ..simulator.engine.calendar import BEGIN, END, NEVER, SERIALS, Calendar
from ..simulator.engine.job_state import PENDING, RUNNING, SUSPENDED
from ..simulator.machine.controller import note_openings
from ..simulator.rows_by_type import one_row_per_type, rows_by_name, rows_of_job
from ..simulator.simulated_cluster import SimulatedCluster
from ..simulator.slurmctld.gates import gates_of
from ..simulator.slurmctld.shared_accounts import SharedAccounts
from ..simulator.slurmctld.slurmconf import SlurmConf
from ..simulator.slurmctld.slurmctld import MOST_PRIORITY, levels, wake_loops
from ..simulator.slurmctld.state import ACTIVE, ARRIVED, CALC_DUE, NOW, Controller
from ..simulator.workload.workload import Workload, workload
from ..slurm.port import counts_memory
from .fitting import at_ease, unfit

HELD = (ReasonKind.HELD_BY_USER, ReasonKind.HELD_BY_ADMIN, ReasonKind.HELD_BY_SLURM)
MODELLED = (ReasonKind.WAITS, ReasonKind.BEGIN, *HELD)
"""Kinds of reasons that are modelled; a job with any other (a dependency, a limit, a reservation) keeps waiting."""

NOT_MODELLED = "it may be spread over nodes in a way that is not played forward"


def resumed(
    view: View,
    config: Mapping[str, str],
    conf: SlurmConf | None = None,
    shared: str = "",
    arrivals: View | None = None,
    past: Workload | None = None,
) -> SimulatedCluster:
    """Build the cluster of *view*, in virtual time from ``view.now_s`` on, with forecasts as runtimes.

    *config* is the output of ``scontrol show config``. Pending tasks of an array become jobs of their own, shown as one
    row as before. The pending jobs of *arrivals*, sorted by their submission, are submitted then, and come in as far as
    the bound of *conf* on admitted jobs allows; no others arrive. Jobs that others suspended stay so, those that powers
    stop in place run on for as long as that lasts too, and nodes stay as they are. Of a running job only its part of
    the nodes that sinfo shows is known. The nodes of the partition *shared*, by default that of jobs with slots, have
    slots of their GPUs; jobs that share them lose no speed, since their forecasts come from such runs too. With *past*,
    the runs that ended before, fair share begins with what users have used. ConfigError names a pending job that no
    nodes could hold (``unplaced`` lists those).
    """
    whole = one_row_per_task(view)
    arrived = len(whole.running) + len(whole.pending)
    if arrivals is not None:
        whole = replace(
            whole, pending=whole.pending.joined(arrivals.pending), forecast=whole.forecast.joined(arrivals.forecast)
        )
    view = _one_row_per_type(whole)
    shared, reservations = shared or _partition_of_slots(view), view.reservations
    running = _going_on(view.running)
    view, parts = with_parts_of_nodes(view)
    fleet = ClusterSpec(
        *(view.nodes, view.partitions, view.qos),
        topology=view.topology,
        shared=shared,
        reservations=reservations,
        part_use=view.part_use,
        parts=parts,
    )
    table = _with_binding_nodes(running.joined(view.pending))
    left_s = _within_own(_left_s(view), reservations, table, view.now_s, config)
    work = _as_workload(table, left_s, with_parts_of_nodes(whole)[0], config)  # by nodes, as ``unplaced`` sees them
    jobs, table = at_ease(work, table, len(running), fleet)
    cluster = SimulatedCluster(jobs, fleet, conf or SlurmConf.of(config), config, submitted=table, unmeasured=1.0)
    if past is not None:
        cluster.model.usage.until_s[0] = view.now_s
        accounts = SharedAccounts.of(jobs, cluster.conf.associations)
        use_before(cluster.model.usage, cluster.model.weights, accounts, past.joined(so_far(running, view.now_s)))
    _put(cluster, table, len(running), arrived, view)
    return cluster


def _going_on(running: JobTable) -> JobTable:
    """Return the jobs with those as running that powers let go on by themselves, and without halts to come."""
    state = np.where(running.suspended_by_us, int(JobState.RUNNING), running.state)
    none_s = np.zeros(len(running))
    return running.changed(state=state, halts_low_s=none_s, halts_s=none_s, halts_high_s=none_s)


def _one_row_per_type(view: View) -> View:
    nodes = one_row_per_type(view.nodes)
    return view if nodes is view.nodes else replace(view, nodes=nodes)


def one_row_per_task(view: View) -> View:
    """Return the view with a row for each waiting task, by job id."""
    rows = np.repeat(np.arange(len(view.pending)), view.pending.tasks)
    some = view.take(rows[np.argsort(view.pending.job_id[rows], kind="stable")])
    return replace(some, pending=replace(some.pending, tasks=np.ones(len(rows), dtype=np.int64)))


def held(jobs: JobTable) -> BoolArray:
    """Select pending jobs that a person holds: their user or an admin."""
    return np.asarray(where_kind(jobs, *HELD) | (jobs.priority == 0))


def barred(jobs: JobTable, reservations: ReservationTable) -> BoolArray:
    """Select pending jobs that wait for something that is not modelled: a dependency, a limit.

    So is a reservation that is not known, and of one that names its own, one that cannot be followed.
    """
    free: BoolArray = jobs.dependency.map([not text for text in jobs.dependency.names], np.bool_)
    modelled = where_kind(jobs, *MODELLED)
    if len(reservations):
        waits_for_its_own = where_kind(jobs, ReasonKind.RESERVATION) & jobs.reservation.nonempty()
        modelled = (modelled | waits_for_its_own) & followed(reservations, jobs)
    if not len(reservations) or reservations.has(UNREAD).any():
        # Of one in several partitions the reason is about one of them.
        maintenance = jobs.reason.map([reason_of(text).for_maintenance for text in jobs.reason.names], np.bool_)
        free &= ~(maintenance & jobs.partition.map(["," not in names for names in jobs.partition.names], np.bool_))
    return ~(free & modelled)


def unplaced(view: View, config: Mapping[str, str]) -> dict[int, str]:
    """Find pending jobs that the modelled slurmctld cannot hold, each with the reason as a clause.

    Among them are those that these nodes could never hold. Nodes that are down count as if they were there.
    """
    table = _with_binding_nodes(view.pending)
    jobs = _as_workload(table, view.forecast.runtime_s, view, config)
    found = unfit(jobs, table, ClusterSpec(one_row_per_type(view.nodes), view.partitions, view.qos))
    too_large = never(view.pending, view.nodes, view.partitions)
    return dict.fromkeys(found, NOT_MODELLED) | {row: one.why for row, one in too_large.items()}


def _with_binding_nodes(table: JobTable) -> JobTable:
    """Return the jobs without the nodes that they require beside others."""
    return table.changed(required_nodes=binding(table))


def _partition_of_slots(view: View) -> str:
    """Return the partition in which jobs have slots; empty where none has."""
    for jobs in (view.running, view.pending):
        with_slots = jobs.per_node.map([bool(slots_in(text)) for text in jobs.per_node.names], np.bool_)
        if with_slots.any():
            return jobs.partition[np.flatnonzero(with_slots)[0]]
    return ""


def _within_own(
    left_s: FloatArray, reservations: ReservationTable, jobs: JobTable, now_s: float, config: Mapping[str, str]
) -> FloatArray:
    """Return the remaining runtimes of *jobs* that Slurm ends with their reservation, at most until then."""
    if not jobs.reservation.nonempty().any():
        return left_s
    begin_s, end_s = own_bounds_s(reservations, jobs, now_s)
    begin_s = np.maximum(begin_s, now_s)
    return np.asarray(np.minimum(left_s, np.maximum(end_s + _overrun_s(config) - begin_s, 1.0)))


def _overrun_s(config: Mapping[str, str]) -> float:
    """Return how long jobs may go on after the end of their reservation (ResvOverRun)."""
    text = config.get("ResvOverRun", "0").split(" ")[0]
    return 60.0 * float(text) if text.isdecimal() else np.inf


def _left_s(view: View) -> FloatArray:
    """Return the remaining runtime of each job."""
    return np.asarray(np.fmax(np.concatenate([view.remaining.median_s, view.forecast.runtime_s]), 1.0))


def _as_workload(table: JobTable, runtime_s: FloatArray, view: View, config: Mapping[str, str]) -> Workload:
    """Convert jobs to a workload.

    squeue shows one node for a job that left their number to Slurm; such a job gets as few as can hold it.
    """
    where = table.node_list.map([len(expanded(text)) for text in table.node_list.names], np.int64)
    nodes = np.where(where > 0, where, spread(table, view.nodes, view.partitions))
    consumable, cpus, any_number = counts_memory(config), _charged_cpus(table, nodes, view), on_any_number(table)
    least = np.maximum(table.nodes, -(-table.cpus // np.maximum(cpus, 1)))
    return workload(
        len(table),
        **{name: getattr(table, name) for name in ("job_id", "user", "account", "partition", "qos", "name", "gpus")},
        gpu_type=_of_any_type(table.gpu_type, any_number | ((nodes == 1) & (table.gpus > 0)), view.nodes),
        features=table.features,
        nodes=np.where(any_number, least, nodes),
        cpus=cpus,
        memory_mib=table.memory_mib / nodes if consumable else np.zeros(len(table)),
        time_limit_s=table.time_limit_s,
        submit_s=np.full(len(table), view.now_s),
        runtime_s=runtime_s,
    )


def _of_any_type(gpu_type: Labels, rows: BoolArray, nodes: NodeTable) -> Labels:
    """Let the jobs of *rows* that ask for no type of GPU have those of all types of nodes with several."""
    mixed = (by_type(text) for text in nodes.gpu_types.names)
    every = "+".join(sorted({*nodes.gpu_type.names, *(name for types in mixed for name in types)}))
    of_no_type = rows & ~gpu_type.nonempty()
    has_mixed = nodes.gpu_types.nonempty().any() or len(set(nodes.name)) < len(nodes)  # whole, or a row for each type
    if not has_mixed or not of_no_type.any():
        return gpu_type
    return Labels(np.where(of_no_type, len(gpu_type.names), gpu_type.codes), (*gpu_type.names, every))


def _charged_cpus(table: JobTable, nodes: IntArray, view: View) -> IntArray:
    """Return the CPUs on each of its *nodes* that Slurm gives a job, with those for its memory (MaxMemPerCPU)."""
    cpus, may = -(-table.cpus // nodes), Allowances(view.nodes, view.partitions)
    most_mib = np.array([may.everywhere(names).cpu_memory_mib for names in table.partition.names] or [np.inf])
    by_memory = np.ceil(np.nan_to_num(table.memory_mib) / nodes / most_mib[table.partition.codes] - 1e-9)
    return np.asarray(np.maximum(cpus, by_memory.astype(np.int64)))


def _put(cluster: SimulatedCluster, table: JobTable, running: int, arrived: int, view: View) -> None:
    """Let running jobs run where they are, and waiting jobs, up to row *arrived*, wait with their present priority."""
    model, now_s = cluster.model, view.now_s
    model.clock[NOW], model.clock[ARRIVED] = now_s, arrived
    model.clock[CALC_DUE] = now_s + model.rules.calc_period_s
    model.clock[ACTIVE] = model.stage.requests.gpus[:arrived].sum()
    model.usage.until_s[0] = now_s
    model.stage.life.submit_s[:] = np.nan_to_num(table.submitted_s, nan=now_s)
    model.wishes.points[:] = table.site_points
    model.wishes.nice[:] = table.nice
    model.base[:] = base_priority(table) + table.nice
    model.wishes.held[:], model.wishes.barred[:] = held(table), barred(table, view.reservations)
    table = _gated(cluster, table, running, view)
    cluster.model = model = _with_unit_rules(cluster.model, table, view.topology)
    _seat(model, table, running, view)
    table = _patient(table, running, view)
    _close_units(model, table, running)
    recount(model.stage.resources)
    model.stage.ready_s[:] = now_s + view.nodes.ready_s
    ends_s = _run(model, table, running, now_s)
    begins_s = _queue(model, table, running, arrived, now_s)
    _enter(model.stage.calendar, ends_s, begins_s)
    note_openings(model.stage.calendar, model.stage.resources.closed, now_s)
    wake_loops(model, now_s)


def _gated(cluster: SimulatedCluster, table: JobTable, running: int, view: View) -> JobTable:
    """Let limits and dependencies hold jobs until others end, where both are known; return *table* with begin times.

    Other jobs that wait for what is not modelled stay barred.
    """
    gates, begins_s = gates_of(view.limits, view.partitions, table, running, view.now_s)
    model = cluster.model._replace(gates=gates)
    cluster.model = model
    barred_ = model.wishes.barred
    barred_[by_known_limits(view.limits, view.partitions, table) & ~table.dependency.nonempty()] = False
    begun = ~np.isnan(begins_s) & (gates.left == 0) & (np.arange(len(table)) >= running)
    barred_[begun & ~where_kind(table, ReasonKind.LIMIT)] = False
    return replace(table, eligible_s=np.where(begun, np.fmax(begins_s, view.now_s), table.eligible_s))


def _with_unit_rules(model: Controller, table: JobTable, topology: Topology) -> Controller:
    """Bind jobs to the blocks and switches that they need; those with whole blocks take all nodes of these."""
    if not topology.levels:
        return model
    requests = model.stage.requests
    lines, rules, of = unit_rules(table, topology)
    requests.rule[:] = of
    whole = np.array([rule is not None and rule.whole for rule in rules], dtype=np.bool_)[of]
    requests.exclusive[whole] = True
    number_forms(requests)
    resources = model.stage.resources._replace(rules=lines)
    return model._replace(stage=model.stage._replace(resources=resources))


def _patient(table: JobTable, running: int, view: View) -> JobTable:
    """Let jobs begin when few enough switches have room for them by what runs now, or when they take any."""
    if view.topology.plugin != "tree" or not any(table.topology_request.names):
        return table
    job, node, _ = view.free_gpus.held
    free_s, names = view.nodes.ready_s.copy(), list(view.nodes.name)
    np.maximum.at(free_s, node, view.remaining.median_s[job])
    idle = (view.nodes.cpus_used == 0) & (view.nodes.gpus_used == 0)
    known = view.nodes.usable & (idle | np.isin(np.arange(len(names)), node))
    begins_s = table.eligible_s.copy()
    for row in np.flatnonzero(table.topology_request.nonempty()).tolist():
        asked, nodes = read_topology_request(table.topology_request[row]), int(table.nodes[row])
        rule = rule_of(view.topology, asked, nodes)
        if row < running or rule is None or asked.wait_s >= PATIENCE_S:
            continue
        any_s = min(begins_s[row], view.now_s) + asked.wait_s
        ends_s = np.unique(np.append(free_s[known & (view.now_s + free_s < any_s)], 0.0)).tolist()
        rooms = (most_together(view.topology, rule, names, known & (free_s <= end_s), nodes) for end_s in ends_s)
        room_s = next((end_s for end_s, room in zip(ends_s, rooms, strict=True) if room >= nodes), np.inf)
        if room_s > 0:
            begins_s[row] = max(begins_s[row], min(view.now_s + room_s, any_s))
    return replace(table, eligible_s=begins_s)


def _close_units(model: Controller, table: JobTable, running: int) -> None:
    """Keep other jobs off the blocks that running jobs have for themselves."""
    resources, held_ = model.stage.resources, model.stage.held
    rules = resources.rules[model.stage.requests.rule[:running]]
    for row in np.flatnonzero(rules[:, WHOLE]).tolist() if len(resources.units) else []:
        units = resources.units[rules[row, BASE]]
        its = np.array([is_on(held_, row, node) for node in range(len(units))], dtype=np.bool_)
        for node in np.flatnonzero(np.isin(units, units[its & (units >= 0)]) & ~its).tolist():
            link(resources.free, held_, row, node, 0, max(0, int(resources.free.cpus[node])))
            resources.free.memory_mib[node] -= model.stage.requests.memory_mib[row]


def _queue(model: Controller, table: JobTable, running: int, arrived: int, now_s: float) -> FloatArray:
    """Queue the jobs that wait, in order; return the begin time of each that may not begin yet, else NEVER."""
    life, factors, weights = model.stage.life, model.factors, model.weights
    eligible_s = np.where(np.isfinite(table.eligible_s), table.eligible_s, now_s)
    rows = np.arange(running, len(table))
    life.begin_s[rows] = eligible_s[rows]
    life.restarts[rows] = table.restarts[rows]
    age = np.minimum(1.0, np.maximum(0.0, now_s - eligible_s) / weights.max_age_s)
    fair = model.usage.shares.fair[model.usage.of_job]
    own = weights.age * age + weights.fair_share * fair + weights.size * factors.width + weights.qos * factors.qos
    own = own + factors.fixed
    factors.offset[rows] = model.base[rows] - np.maximum(1, own[rows].astype(np.int64))
    priority = np.maximum(1, model.base + model.wishes.points - model.wishes.nice)
    priority[model.wishes.held] = 0
    keys = -(levels(model) * MOST_PRIORITY + priority)
    waiting = rows[: arrived - running]
    life.state[waiting] = PENDING
    _line(model.queue, waiting, keys[waiting], np.floor(life.submit_s[waiting]))
    begins_s = np.full(len(table), NEVER)
    begins_s[waiting] = np.where(eligible_s[waiting] > now_s, eligible_s[waiting], NEVER)
    return begins_s


def reprioritize(model: Controller, running: int, priority: IntArray) -> None:
    """Give the jobs that do not run these priorities, without points and nice, where nothing else adds to them."""
    rows, many = np.arange(running, running + len(priority)), model.queue.many[0]
    model.base[rows], model.factors.offset[rows] = priority, priority - 1
    keys = np.asarray(-(levels(model) * MOST_PRIORITY + model.base), dtype=np.float64)
    _line(model.queue, rows[:many], keys[rows[:many]], np.floor(model.stage.life.submit_s[rows[:many]]))


def _line(line: Line, rows: IntArray, keys: FloatArray, turns: FloatArray) -> None:
    """Fill an empty line with *rows*, by *keys*, then by *turns*, then by row."""
    order, many = np.lexsort((rows, turns, keys)), len(rows)
    line.rows[:many], line.keys[:many], line.many[0] = rows[order], keys[order], many


def _enter(calendar: Calendar, ends_s: FloatArray, begins_s: FloatArray) -> None:
    """Fill an empty calendar with future ends and begin times. Sorted entries form a heap."""
    ends, begins = np.flatnonzero(ends_s < NEVER), np.flatnonzero(begins_s < NEVER)
    at_s = np.concatenate([ends_s[ends], begins_s[begins]])
    what = np.concatenate([END * SERIALS + ends, BEGIN * SERIALS + begins])
    order, many = np.lexsort((what, at_s)), len(at_s)
    calendar.at_s[:many], calendar.what[:many], calendar.many[0] = at_s[order], what[order], many


def _seat(model: Controller, table: JobTable, running: int, view: View) -> None:
    """Allocate nodes to running jobs.

    Slurm does not show how many GPUs of each node a job has. Jobs on one node come first; the others share what sinfo
    reports in use beside those, as evenly as there is room; no job gets more than a node has.
    """
    number = rows_by_name(view.nodes)
    names = [expanded(text) for text in table.node_list.take(slice(0, running))]
    free, held_, in_use = model.stage.resources.free, model.stage.held, view.nodes.gpus_used.copy()
    slots, gpus_with_slots = model.stage.resources.slots, model.stage.requests.slots
    free_gpus, free_cpus, free_memory_mib = free.gpus, free.cpus, free.memory_mib
    memory_mib, wanted = model.stage.requests.memory_mib, np.where(gpus_with_slots > 0, 0, table.gpus).tolist()
    cpus_in_all, exclusive = table.cpus.tolist(), table.exclusive.tolist()
    for row in sorted(range(running), key=lambda row: len(names[row])):
        kind, request = table.gpu_type[row], table.per_node[row]
        there = [rows_of_job(view.nodes, number[name], kind, request) for name in names[row] if name in number]
        at = np.array([one for rows in there for one in rows], dtype=np.int64)
        if not len(at):
            continue
        gpus = wanted[row]
        here = -(-gpus * len(there) // len(names[row]))
        share = _evenly(here, np.minimum(in_use[at], free_gpus[at]))
        share += _evenly(here - int(share.sum()), free_gpus[at] - share)
        in_use[at] = np.maximum(0, in_use[at] - share)
        cpus = max(1, -(-cpus_in_all[row] // len(names[row])))
        its_own = set(at.tolist())
        others = [one for name in names[row] for one in number.get(name, ()) if one not in its_own]
        for node, its in zip([*at.tolist(), *others], [*share.tolist(), *[0] * len(others)], strict=True):
            if its or not gpus or node not in its_own:  # a node has its CPUs and memory once, whatever its types
                left = max(0, int(free_cpus[node]))
                link(free, held_, row, node, its, left if exclusive[row] else min(cpus, left))
                free_memory_mib[node] -= memory_mib[row]
                hold_part(model.stage.resources, held_, model.stage.requests, row, node, its)
                take_slots(slots, node, gpus_with_slots[row])


def _evenly(gpus: int, most: IntArray) -> IntArray:
    """Split *gpus* as evenly as *most* allows; less in all where it has less."""
    most = np.maximum(most, 0)
    if len(most) == 1:
        return np.minimum(most, gpus)
    share, left = np.zeros_like(most), min(gpus, int(most.sum()))
    while left > 0:
        open_ = np.flatnonzero(share < most)
        each = max(1, left // len(open_))
        for at in open_.tolist():
            more = min(each, int(most[at] - share[at]), left)
            share[at] += more
            left -= more
    return share


def _run(model: Controller, table: JobTable, running: int, now_s: float) -> FloatArray:
    """Let the jobs that have their nodes run; return the end of each job, NEVER where it does not run."""
    stage, life, some = model.stage, model.stage.life, slice(0, running)
    started_s = np.where(np.isfinite(table.started_s), table.started_s, now_s)[some]
    nodes = table.node_list.map([len(expanded(text)) for text in table.node_list.names], np.int64)
    plan_s = np.where(np.isfinite(table.time_limit_s), table.limit_after_start_s, YEAR_S)[some]
    life.started_s[some], life.first_s[some], life.since_s[some] = started_s, started_s, now_s
    life.spread[some], life.restarts[some] = np.maximum(1, nodes[some]), table.restarts[some]
    life.plan_s[some] = plan_s
    life.begin_s[some] = np.where(np.isfinite(table.eligible_s), table.eligible_s, now_s)[some]
    _line(stage.running, np.arange(running), started_s + plan_s, np.zeros(running))
    np.add.at(model.caps.used, model.caps.account[some], stage.requests.gpus[some])
    suspended = table.state[some] == JobState.SUSPENDED
    life.state[some] = np.where(suspended, SUSPENDED, RUNNING)
    life.due_s[some] = np.where(suspended, NEVER, now_s + life.left_s[some])
    return np.asarray(life.due_s)

"""The construction of a modelled slurmctld from a workload, a cluster and a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels
from ...cluster.jobs import JobTable
from ...cluster.text.plural import count, gpus_of_type
from ...cluster.text.tres import slots_in
from ...cluster.topology import TopologyRequest, rule_of
from ...errors import ConfigError
from ...policies.placement import ANY_NUMBER, CONSOLIDATE
from ...policies.selection.allowed_nodes import AllowedNodes, PartitionSets, allowed_nodes
from ...policies.selection.closed_times import ClosedTimes, claim_groups, closed_to
from ...policies.selection.fragmentation import no_mix
from ...policies.selection.free_resources import FreeResources
from ...policies.selection.loops import nothing_started, turns_of
from ...policies.selection.node_search import find
from ...policies.selection.planned_room import MOST_STEPS, YEAR_S, blank_outlook
from ...policies.selection.preemption import no_spare
from ...policies.selection.resources import (
    NodeResources,
    NodeSlots,
    ResourceRequests,
    carry_over,
    counted,
    no_counts,
    nothing_held,
    number_forms,
    recount,
)
from ...policies.selection.sorted_rows import empty_line
from ...policies.selection.struct_arrays import records, writable
from ...policies.selection.unit_choice import NO_RULES, scratch_of
from ..cluster_spec import ClusterSpec
from ..engine.calendar import NEVER, NODES, OPENS, Calendar, blank, note
from ..engine.job_state import JobSpeed, MachineContext, alone, not_submitted
from ..engine.keys import Keys
from ..engine.ranked_runs import IN_USE, RankedRuns, no_ranked_runs
from ..engine.segments import has_room, larger, no_segments
from ..slurmctld.fair_share import share_out
from ..slurmctld.fixed_points import fixed_points
from ..slurmctld.gates import no_gates
from ..slurmctld.multifactor import Factors
from ..slurmctld.shared_accounts import SharedAccounts
from ..slurmctld.slurmconf import SlurmConf
from ..slurmctld.state import AWAITED, AWAITED_STOP, Caps, Controller, JobAdjustments, Outages, Scratch
from ..workload.workload import Workload
from .outages import no_outages


def controller(
    jobs: Workload,
    fleet: ClusterSpec,
    conf: SlurmConf,
    *,
    required: Labels | None = None,
    excluded: Labels | None = None,
    reservation: Labels | None = None,
    any_number: BoolArray | None = None,
    outages: Outages | None = None,
    pace: JobSpeed | None = None,
    given: Keys | None = None,
    logged: bool = False,
) -> Controller:
    """Build a Slurm in its initial state; *required* are the nodes that jobs insist on, *excluded* those that
    they do not use, as host lists, *reservation* the reservations that they name; jobs of *any_number* of nodes have as
    few as hold them now, so many at least.

    *outages* are future failures, *pace* the speeds of jobs, *given* the keys of a direct executor.

    ConfigError names a job that this cluster could never run.
    """
    size = len(jobs)
    no = np.zeros(size, dtype=np.bool_)
    places, closed = _places(jobs, fleet, required, excluded, reservation)
    accounts = SharedAccounts.of(jobs, conf.associations)
    parts, requests = places.parts, _requests(jobs, places.kind)
    if any_number is not None and any_number.any():
        requests.how[any_number] = ANY_NUMBER
        number_forms(requests)
    resources = _bound(_resources(fleet, places.allowed, closed), requests, fleet)
    failures = outages or no_outages()
    plan_s = np.where(np.isfinite(jobs.time_limit_s), jobs.time_limit_s, YEAR_S)
    # Jobs that have whole blocks hold nodes on which they use nothing.
    whole_blocks = len(fleet.nodes) if fleet.topology.levels else 0
    most_links = whole_blocks + int(2 * resources.has.gpus.sum() + np.maximum(jobs.nodes, 1)[jobs.gpus == 0].sum() + 1)
    most_links *= 2 if fleet.parts is not None else 1  # a part beside each node
    room = 4 * size + len(failures.at_s) * (2 + resources.has.gpus.max(initial=0)) + len(closed.ends_s) + 64
    calendar = blank(int(room))
    for at, at_s in enumerate(failures.at_s.tolist()):
        note(calendar, at_s, NODES, at)
    note_openings(calendar, closed, float(jobs.submit_s.min(initial=np.inf)))
    stage = MachineContext(
        resources=resources,
        held=nothing_held(size, most_links),
        requests=requests,
        life=not_submitted(jobs.submit_s, jobs.runtime_s, plan_s),
        pace=pace or alone(jobs),
        running=empty_line(min(size, most_links) + 1),
        calendar=calendar,
        ready_s=np.full(len(fleet.nodes), -np.inf),
        log=no_segments(4 * size + 4, 4 * most_links) if logged else no_segments(),
        launch_s=conf.launch_s,
        release_s=conf.release_s,
    )
    _check(jobs, stage, fleet)
    nodes, caps = len(fleet.nodes), _caps(jobs.account, fleet)
    return Controller(
        stage=stage,
        queue=empty_line(size),
        rules=conf.rules,
        weights=conf.weights,
        usage=accounts.usage(jobs, float(jobs.submit_s.min(initial=np.inf))),
        factors=_factors(jobs, fleet, fixed_points(jobs, fleet, conf.fixed, accounts)),
        wishes=records(JobAdjustments(_zeros(size), _zeros(size), no, no)),
        base=_zeros(size),
        parts=parts,
        caps=caps,
        gates=no_gates(size),
        outages=failures,
        outlook=blank_outlook(nodes, _steps(conf, size, stage), size, conf.rules.whole_nodes),
        ranked=_ranked(conf, size, stage),
        given=given or Keys(np.zeros((1, size)), np.zeros(size), np.zeros(0)),
        scratch=_scratch(stage, parts, caps),
        blocked=np.zeros(len(parts.tier), dtype=np.bool_),
        reserved=_zeros(len(parts.tier)),
        barred=np.zeros(nodes, dtype=np.bool_),
        clock=np.array([-np.inf, 0.0, NEVER, -np.inf, NEVER, -np.inf, NEVER, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NEVER]),
    )


def _ranked(conf: SlurmConf, jobs: int, stage: MachineContext) -> RankedRuns:
    """Return empty ranks; they are for a preemptive starter, and jobs whose work begins with their run."""
    if not conf.rules.repacking or stage.launch_s > 0:
        return no_ranked_runs()
    return no_ranked_runs(jobs, len(stage.running.rows), float(stage.life.submit_s.min(initial=np.inf)))


def _steps(conf: SlurmConf, jobs: int, stage: MachineContext) -> int:
    """Return the room for steps of a backfill plan."""
    reserved = 2 * min(conf.rules.reservations, jobs) + len(stage.resources.closed.ends_s) + 4
    ends = int(min(conf.rules.bf_window_s / conf.rules.bf_resolution_s + 2, len(stage.running.rows)))
    return min(reserved + ends, MOST_STEPS)


def _zeros(size: int) -> IntArray:
    return np.zeros(size, dtype=np.int64)


def _scratch(stage: MachineContext, parts: PartitionSets, caps: Caps) -> Scratch:
    """Return scratch for decisions; a job takes at most one link for each node that it has."""
    jobs, nodes, running = len(stage.requests.gpus), len(stage.resources.up), len(stage.running.rows)
    no = np.zeros(jobs, dtype=np.bool_)
    return Scratch(
        waiting=_zeros(jobs),
        turns=turns_of(jobs, len(parts.tier), nodes),
        started=nothing_started(running, stage.held.links.shape[1]),
        used=_zeros(len(caps.used)),
        spare=no_spare(stage.resources, jobs),
        ranked=_zeros(running),
        keys=np.zeros(running),
        order=_zeros(jobs),
        runs=no,
        yields=no.copy(),
        taken=np.zeros((2, running), dtype=np.int64),
        taken_keys=np.zeros(running),
    )


def note_openings(calendar: Calendar, closed: ClosedTimes, from_s: float) -> None:
    """Enter the times after *from_s* at which reservations open nodes."""
    for at, at_s in enumerate(closed.ends_s.tolist()):
        if at_s > from_s:
            note(calendar, at_s, OPENS, at)


def _places(
    jobs: Workload,
    fleet: ClusterSpec,
    required: Labels | None,
    excluded: Labels | None = None,
    reservation: Labels | None = None,
) -> tuple[AllowedNodes, ClosedTimes]:
    groups = claim_groups(fleet.reservations, jobs, reservation)
    of = None if groups is None else groups.of
    try:
        places = allowed_nodes(jobs, fleet.nodes, fleet.partitions, required, excluded, of)
    except KeyError as error:
        raise ConfigError(
            f"jobs ask for partition {error.args[0]!r}, which the cluster does not have; there are: "
            f"{', '.join(fleet.partitions.name)} (simulate --set map_partitions=all reads them as these)"
        ) from None
    closed = closed_to(fleet.reservations, fleet.nodes, groups, places.group, fleet.part_use, fleet.parts)
    places.allowed[:, closed.first :] = False
    return places, closed


def _requests(jobs: Workload, kind: IntArray) -> ResourceRequests:
    requests = records(
        ResourceRequests(
            gpus=jobs.gpus,
            slots=_zeros(len(jobs)),
            nodes=jobs.nodes,
            cpus=np.maximum(jobs.cpus, 1),
            memory_mib=jobs.memory_mib,
            exclusive=np.zeros(len(jobs), dtype=np.bool_),
            kind=kind,
            rule=_zeros(len(jobs)),
            how=np.full(len(jobs), CONSOLIDATE, dtype=np.int64),
            form=_zeros(len(jobs)),
        )
    )
    number_forms(requests)
    return requests


def _resources(fleet: ClusterSpec, allowed: BoolArray, closed: ClosedTimes) -> NodeResources:
    nodes, slots = fleet.nodes, fleet.slots
    whole = np.where(slots > 0, 0, nodes.gpus)  # GPUs with slots are not handed out whole
    resources = NodeResources(
        has=records(FreeResources(nodes.gpus, nodes.cpus, nodes.memory_mib)),
        free=records(FreeResources(whole, nodes.cpus, nodes.memory_mib)),
        counts=no_counts(len(nodes)),
        slots=records(NodeSlots(slots, _zeros(len(nodes)), _zeros(len(nodes)))),
        up=nodes.usable.copy(),
        allowed=allowed,
        closed=closed,
        sizes=np.unique(nodes.gpus)[::-1].copy(),
        units=fleet.units,
        rules=NO_RULES.copy(),
        unit_room=scratch_of(fleet.units),
        room=np.zeros((4, len(nodes)), dtype=np.int64),
        mix=no_mix(),
    )
    return counted(resources)


def _bound(resources: NodeResources, requests: ResourceRequests, fleet: ClusterSpec) -> NodeResources:
    """Bind jobs on several nodes to the blocks of a *fleet* that binds them; they have as few nodes as hold them."""
    if not fleet.binds or not fleet.topology.levels:
        return resources
    nodes = np.maximum(requests.nodes, -(-requests.gpus // max(1, fleet.size)))
    distinct, of = np.unique(nodes, return_inverse=True)
    rules = [rule_of(fleet.topology, TopologyRequest(), int(many)) for many in distinct]
    lines = [NO_RULES[0], *(np.array([int(part) for part in rule]) for rule in rules if rule)]
    places = np.cumsum([rule is not None for rule in rules]) * [rule is not None for rule in rules]
    requests.rule[:] = places[of]
    requests.nodes[requests.rule > 0] = nodes[requests.rule > 0]
    number_forms(requests)
    return resources._replace(rules=np.array(lines, dtype=np.int64))


def _factors(jobs: Workload, fleet: ClusterSpec, fixed: FloatArray) -> Factors:
    highest = max(1, int(fleet.qos.priority.max(initial=0)))
    priority = dict(zip(fleet.qos.name, fleet.qos.priority.tolist(), strict=True))
    qos: FloatArray = jobs.qos.map([priority.get(name, 0) / highest for name in jobs.qos.names], np.float64)
    return records(Factors(qos, jobs.gpus / max(1, fleet.total), fixed, _zeros(len(jobs))))


def _caps(account: Labels, fleet: ClusterSpec) -> Caps:
    names = account.names or ("",)
    most = np.array([fleet.account_gpus.get(name, np.iinfo(np.int64).max // 2) for name in names], dtype=np.int64)
    return writable(Caps(account.codes, most, np.zeros(len(names), dtype=np.int64)))


class UnfitJob(NamedTuple):
    """A job that could never run, even on an idle cluster."""

    row: int
    why: str  #: continues the sentence "job N"


def misfits(jobs: Workload, fleet: ClusterSpec) -> list[UnfitJob]:
    """Find the jobs that no nodes of *fleet* can hold, or that a partition or account never lets run; each once."""
    places, closed = _places(jobs, fleet, None)
    requests = _requests(jobs, places.kind)
    found = _misfits(jobs, requests, _bound(_resources(fleet, places.allowed, closed), requests, fleet), fleet)
    return sorted({misfit.row: misfit for misfit in reversed(list(found))}.values())


def _check(jobs: Workload, stage: MachineContext, fleet: ClusterSpec) -> None:
    """Raise ConfigError for the first job that could never run."""
    for misfit in _misfits(jobs, stage.requests, stage.resources, fleet):
        raise ConfigError(f"job {jobs.job_id[misfit.row]} {misfit.why}")


def _misfits(
    jobs: Workload, requests: ResourceRequests, resources: NodeResources, fleet: ClusterSpec
) -> Iterator[UnfitJob]:
    """Yield jobs that could never run; room is checked for one job of each kind and size."""
    longest = dict(zip(fleet.partitions.name, fleet.partitions.max_time_s.tolist(), strict=True))
    if longest:
        most_s = jobs.partition.map(
            [max(longest.get(name, np.inf) for name in names.split(",")) for names in jobs.partition.names], np.float64
        )
        for row in np.flatnonzero(np.isfinite(jobs.time_limit_s) & (jobs.time_limit_s > most_s)).tolist():
            limits = f"a limit of {jobs.time_limit_s[row]:.0f} s, its partition {jobs.partition[row]!r}"
            yield UnfitJob(row, f"has {limits} allows {most_s[row]:.0f} s")
    nowhere = np.zeros(len(fleet.nodes), dtype=np.bool_)
    _, first = np.unique(requests.form, return_index=True)
    whole = resources._replace(up=np.ones_like(resources.up))
    for row in first.tolist():
        if not find(whole, requests, row, resources.has, nowhere):
            why = f"asks for {_words(jobs, row)}; no nodes of the cluster can hold it"
            yield from (UnfitJob(one, why) for one in np.flatnonzero(requests.form == requests.form[row]).tolist())
    cap = _caps(jobs.account, fleet)
    for row in np.flatnonzero(jobs.gpus > cap.most[cap.account]).tolist():
        wide = gpus_of_type(int(jobs.gpus[row]), jobs.gpu_type[row])
        yield UnfitJob(row, f"asks for {wide}, its account may have {cap.most[cap.account[row]]}")


def _words(jobs: Workload, row: int) -> str:
    parts = [gpus_of_type(int(jobs.gpus[row]), jobs.gpu_type[row])]
    if jobs.gpu_type[row]:
        parts.append(f"of type {jobs.gpu_type[row]}")
    if jobs.nodes[row]:
        parts.append(f"on {count(int(jobs.nodes[row]), 'node')}")
    if jobs.cpus[row] or jobs.memory_mib[row]:
        parts.append(f"with {count(int(jobs.cpus[row]), 'CPU')} and {jobs.memory_mib[row]:.0f} MiB on each")
    if jobs.features[row]:
        parts.append(f"and features {jobs.features[row]}")
    return " ".join(parts)


def places_changed(model: Controller, jobs: Workload, fleet: ClusterSpec, table: JobTable) -> Controller:
    """Update the model after jobs were moved to other partitions or nodes; *table* has which they name."""
    places, closed = _places(jobs, fleet, table.required_nodes, table.excluded_nodes, table.reservation)
    model.stage.requests.kind[:] = places.kind
    number_forms(model.stage.requests)
    resources = model.stage.resources._replace(allowed=places.allowed, closed=closed)
    stage = model.stage._replace(resources=resources)
    sets = len(places.parts.tier)
    blocked = np.zeros(sets, dtype=np.bool_)
    return model._replace(stage=stage, parts=places.parts, blocked=blocked, reserved=_zeros(sets))


def request_slots(requests: ResourceRequests, rows: Iterable[int], per_node: Labels, gpus: IntArray) -> None:
    """Let jobs request a slot of each GPU that *per_node* names; whole *gpus* where it names none."""
    for row in rows:
        slots = slots_in(per_node[row])
        requests.slots[row] = sum(1 << gpu for gpu in slots)
        requests.gpus[row] = 0 if slots else gpus[row]


def await_only(model: Controller, rows: slice) -> None:
    """Let the simulation end with the last of these jobs."""
    model.clock[AWAITED], model.clock[AWAITED_STOP], _ = rows.indices(len(model.base))


def with_room_to_log(model: Controller) -> Controller:
    """Return the model with room in its log of runs for all that can end until the decision after next."""
    log, stage = model.stage.log, model.stage
    if has_room(log, 2 * len(stage.running.rows), 2 * stage.held.links.shape[1]):
        return model
    return model._replace(stage=stage._replace(log=larger(log)))


def extended(model: Controller, fresh: Controller) -> Controller:
    """Copy the state of *model* into *fresh*, which was built for the same jobs and more behind them."""
    size, old, new = len(model.base), model.stage, fresh.stage
    per_job: list[tuple[Any, Any]] = [(new.life, old.life), (fresh.wishes, model.wishes), (fresh.base, model.base)]
    for ours, theirs in [*per_job, (fresh.factors, model.factors)]:
        ours[:size] = theirs
    carry_over(old.held, new.held)
    for line, before in ((new.running, old.running), (fresh.queue, model.queue)):
        many = before.many[0]
        line.rows[:many], line.keys[:many], line.many[0] = before.rows[:many], before.keys[:many], many
    events = old.calendar.many[0]
    new.calendar.at_s[:events], new.calendar.what[:events] = old.calendar.at_s[:events], old.calendar.what[:events]
    new.calendar.many[0] = events
    new.resources.free[:] = old.resources.free  # type: ignore[index]  # an array of records
    new.resources.slots[:] = old.resources.slots  # type: ignore[index]  # likewise
    new.resources.up[:] = old.resources.up
    recount(new.resources)
    fresh.usage.shares.used_s[: len(model.usage.shares.used_s)] = model.usage.shares.used_s
    fresh.usage.until_s[:] = model.usage.until_s
    share_out(fresh.usage.shares, model.weights.fair_tree, model.weights.dampening)
    fresh.caps.used[: len(model.caps.used)] = model.caps.used
    fresh.clock[:] = model.clock
    fresh.ranked.counts[IN_USE] = 0
    return fresh

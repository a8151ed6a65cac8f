"""Room over time for selections that reserve, and for slurmctld's backfill, in loops that compile.

A plan is a row of steps; what is free at a step is free until the next one. Later steps are added as they are needed,
from the planned ends of running jobs.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ..compiled import borrowing, inner
from .free_resources import FreeResources
from .node_search import find_open
from .resources import ALL, CHOSEN, NEXT, NONE, OPEN, TAKEN, Held, NodeResources, ResourceRequests, own_part
from .resources import CPUS as HELD_CPUS
from .resources import GPUS as HELD_GPUS
from .resources import NODE as HELD_NODE
from .sorted_rows import Line
from .struct_arrays import records

NEVER = np.inf

YEAR_S = 365 * 86400.0
"""The duration planned for a job without a time limit, as by Slurm's backfill."""

MOST_STEPS = 4000
"""Most steps of a plan."""

MANY, ENDED, FOUND, TRIED, OPENED = 0, 1, 2, 3, 4


class PlannedDurations(Protocol):
    """The duration with which each job is planned."""

    @property
    def plan_s(self) -> FloatArray:
        """Seconds from the start of the job."""
        ...


class Planned(Protocol):
    """The jobs and nodes of a plan, in the arrays of an event loop or of one decision."""

    @property
    def resources(self) -> NodeResources:
        """The nodes."""
        ...

    @property
    def held(self) -> Held:
        """The allocations of running jobs."""
        ...

    @property
    def requests(self) -> ResourceRequests:
        """The requests of all jobs."""
        ...

    @property
    def life(self) -> PlannedDurations:
        """The durations of all jobs."""
        ...

    @property
    def running(self) -> Line:
        """The running jobs by planned end."""
        ...


class BackfillPlan(NamedTuple):
    """The steps of a plan, by time. What is free at one is in line ``line[step]``, with one column per node."""

    at_s: FloatArray
    line: IntArray  #: a step that comes between two others takes a new line, so that none is moved
    gpus: IntArray
    cpus: IntArray
    memory_mib: FloatArray
    total: IntArray  #: GPUs free over all nodes
    falls: BoolArray  #: True where something is less free at this step than at the one before
    counts: IntArray  #: MANY steps made; jobs ENDED by the last; nodes FOUND for the last search; forms TRIED; closed
    #: times OPENED by the last step
    least: FreeResources  #: scratch: the least that is free over a stretch of steps
    open: IntArray  #: scratch: the nodes that have room for a job so far
    barred: BoolArray  #: nodes that a search leaves out
    tried: IntArray  #: for each form of jobs one that was searched for; NONE
    forms: IntArray  #: the forms that were searched for
    full_s: FloatArray  #: of ``tried``: it has no room at steps up to this one
    kept_s: FloatArray  #: per node, from when on it is kept for a job that waits for slots; NEVER for none
    whole_nodes: (
        bool  #: a reservation keeps its nodes whole, from the start of a planned end's interval, as slurmctld's
    )


def blank_outlook(nodes: int, steps: int, forms: int, whole_nodes: bool = False) -> BackfillPlan:
    """Return an empty plan with room for *steps* steps."""
    return BackfillPlan(
        np.empty(steps),
        np.empty(steps, dtype=np.int64),
        np.empty((steps, nodes), dtype=np.int64),
        np.empty((steps, nodes), dtype=np.int64),
        np.empty((steps, nodes)),
        np.empty(steps, dtype=np.int64),
        np.empty(steps, dtype=np.bool_),
        np.zeros(5, dtype=np.int64),
        records(FreeResources(np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64), np.empty(nodes))),
        np.empty(nodes, dtype=np.int64),
        np.zeros(nodes, dtype=np.bool_),
        np.full(forms, NONE, dtype=np.int64),
        np.empty(forms, dtype=np.int64),
        np.empty(forms),
        np.full(nodes, NEVER),
        whole_nodes,
    )


@inner
def look(outlook: BackfillPlan, resources: NodeResources, now_s: float) -> None:
    """Begin the plan with what is free now."""
    outlook.counts[MANY], outlook.counts[ENDED] = 1, 0
    outlook.counts[OPENED] = np.searchsorted(resources.closed.ends_s, now_s, side="right")
    outlook.at_s[0], outlook.falls[0], outlook.line[0] = now_s, False, 0
    outlook.kept_s[:] = NEVER
    outlook.gpus[0], outlook.cpus[0], outlook.memory_mib[0] = (
        resources.free.gpus,
        resources.free.cpus,
        resources.free.memory_mib,
    )
    outlook.total[0] = resources.counts.gpus[ALL]
    forget(outlook)


@borrowing
def forget(outlook: BackfillPlan) -> None:
    """Forget where jobs had no room, before a search on other nodes."""
    for at in range(outlook.counts[TRIED]):
        outlook.tried[outlook.forms[at]] = NONE
    outlook.counts[TRIED] = 0


@borrowing
def earliest(
    outlook: BackfillPlan, stage: Planned, row: int, resolution_s: float, until_s: float, now_only: bool
) -> int:
    """Find the first step from which a job has room for its planned duration; -1 where none begins by *until_s*.

    Its nodes are then in the first lines of ``resources.room``, their number in ``counts``.
    """
    requests, plan_s = stage.requests, stage.life.plan_s
    known_s = full_until(outlook.tried, outlook.full_s, requests, plan_s, row)
    first = _past(outlook, known_s)
    step = _search(outlook, stage, row, first, resolution_s, until_s, now_only)
    held_s = outlook.at_s[0] if now_only else NEVER
    full_s = _before(outlook, step) if step >= 0 else held_s
    if full_s > known_s:
        form = requests.form[row]
        if outlook.tried[form] == NONE:
            outlook.forms[outlook.counts[TRIED]] = form
            outlook.counts[TRIED] += 1
        outlook.tried[form], outlook.full_s[form] = row, full_s
    return step


@borrowing
def _search(
    outlook: BackfillPlan,
    stage: Planned,
    row: int,
    step: int,
    resolution_s: float,
    until_s: float,
    now_only: bool,
) -> int:
    while step < outlook.counts[MANY] or _further(outlook, stage, resolution_s):
        if outlook.at_s[step] > until_s:
            return NONE
        if _fits(outlook, stage, row, step):
            return step
        if now_only:
            return NONE
        step += 1
    return NONE


@borrowing
def _past(outlook: BackfillPlan, full_s: float) -> int:
    """Return the first step made that is later than *full_s*, or the next to be made."""
    step = 0
    while step < outlook.counts[MANY] and outlook.at_s[step] <= full_s:
        step += 1
    return step


@borrowing
def _before(outlook: BackfillPlan, step: int) -> float:
    """Return the time of the last step that is before the time of *step*."""
    earlier = step - 1
    while earlier >= 0 and outlook.at_s[earlier] == outlook.at_s[step]:
        earlier -= 1
    return float(outlook.at_s[earlier]) if earlier >= 0 else -np.inf


@borrowing
def full_until(tried: IntArray, full_s: FloatArray, requests: ResourceRequests, plan_s: FloatArray, row: int) -> float:
    """Return the time until which a job surely has no room; NEVER in this whole pass, -inf where nothing is known.

    What is free in a plan only shrinks as more is planned: where a job had no room, another with identical requests and
    no shorter duration has none. It takes few arrays, since a pass calls it for each waiting job.
    """
    form = requests.form[row]
    other = tried[form]
    if other == NONE or plan_s[row] < plan_s[other]:
        return -np.inf
    return float(full_s[form])


@inner
def _fits(outlook: BackfillPlan, stage: Planned, row: int, step: int) -> bool:
    """Return True if a job has room from *step* on: at the step itself and wherever something is taken again later."""
    if outlook.total[step] < stage.requests.gpus[row]:
        return False
    least, resources, requests, line = outlook.least, stage.resources, stage.requests, outlook.line[step]
    least.gpus[:], least.cpus[:] = outlook.gpus[line], outlook.cpus[line]
    least.memory_mib[:] = outlook.memory_mib[line]
    at_s, plan_s = outlook.at_s[step], stage.life.plan_s[row]
    outlook.counts[FOUND] = find_open(resources, requests, row, least, outlook.barred, at_s, plan_s)
    if not outlook.counts[FOUND]:
        return False
    end_s = at_s + plan_s
    many, falls = _open_nodes(outlook, resources.room[OPEN]), False
    for later in range(step + 1, outlook.counts[MANY]):
        if outlook.at_s[later] >= end_s:
            break
        if outlook.falls[later]:
            falls, many = True, _narrowed(outlook, requests, row, outlook.line[later], many)
            _narrow_parts(outlook, resources, requests.kind[row], outlook.line[later], many)
            if not many:
                outlook.counts[FOUND] = 0
                return False
    if falls:
        outlook.counts[FOUND] = find_open(resources, requests, row, least, outlook.barred, at_s, plan_s)
    return bool(outlook.counts[FOUND] > 0)


@borrowing
def _open_nodes(outlook: BackfillPlan, room: IntArray) -> int:
    """List the nodes with *room* for a job; return their number. No other node has any where less is free."""
    many = 0
    for node in range(len(room)):
        if room[node] > 0:
            outlook.open[many] = node
            many += 1
    return many


@borrowing
def _narrowed(outlook: BackfillPlan, requests: ResourceRequests, row: int, line: int, many: int) -> int:
    """Lower what is least free on the first *many* open nodes to *line*; return how many stay, 0 for too few."""
    least, still, gpus = outlook.least, 0, 0
    for at in range(many):
        node = outlook.open[at]
        least.gpus[node] = min(least.gpus[node], outlook.gpus[line, node])
        least.cpus[node] = min(least.cpus[node], outlook.cpus[line, node])
        least.memory_mib[node] = min(least.memory_mib[node], outlook.memory_mib[line, node])
        if requests.gpus[row] and least.gpus[node] <= 0:
            continue
        if least.cpus[node] < requests.cpus[row] or least.memory_mib[node] < requests.memory_mib[row]:
            continue
        outlook.open[still] = node
        still += 1
        gpus += least.gpus[node]
    return still if gpus >= requests.gpus[row] or not requests.gpus[row] else 0


@borrowing
def _narrow_parts(outlook: BackfillPlan, resources: NodeResources, kind: int, line: int, many: int) -> None:
    """Lower what is least free of a job's own parts of the open nodes; of others', which it may not have, raise it."""
    least, closed = outlook.least, resources.closed
    if not len(closed.own):
        return
    for part in range(closed.first, len(least.gpus)):
        cpus, gpus, own = outlook.cpus[line, part], outlook.gpus[line, part], False
        for at in range(many):
            own |= closed.own[kind, outlook.open[at]] == part
        least.cpus[part] = min(least.cpus[part], cpus) if own else max(least.cpus[part], cpus)
        least.gpus[part] = min(least.gpus[part], gpus) if own else max(least.gpus[part], gpus)


@borrowing
def _further(outlook: BackfillPlan, stage: Planned, resolution_s: float) -> bool:
    """Add the next step: the next planned end, with those within the resolution, or the end of a closed time."""
    running, many, ends_s = stage.running, outlook.counts[MANY], stage.resources.closed.ends_s
    end_s = running.keys[outlook.counts[ENDED]] if outlook.counts[ENDED] < running.many[0] else NEVER
    open_s = ends_s[outlook.counts[OPENED]] if outlook.counts[OPENED] < len(ends_s) else NEVER
    if min(end_s, open_s) == NEVER or many == len(outlook.at_s):
        return False
    _copy(outlook, many - 1, many)
    if open_s <= end_s:
        at_s = until_s = np.ceil(open_s / resolution_s) * resolution_s if outlook.whole_nodes else open_s
        outlook.counts[OPENED] += 1
    else:
        at_s, until_s = _interval(outlook, end_s, resolution_s)
    outlook.at_s[many], outlook.falls[many] = max(at_s, outlook.at_s[many - 1]), False
    line = outlook.line[many]
    while outlook.counts[ENDED] < running.many[0] and running.keys[outlook.counts[ENDED]] <= until_s:
        row = running.rows[outlook.counts[ENDED]]
        links, spot = stage.held.links, stage.held.first[row]
        while spot != NONE:
            node = links[HELD_NODE, spot]
            outlook.gpus[line, node] += links[HELD_GPUS, spot]
            outlook.total[many] += links[HELD_GPUS, spot]
            outlook.cpus[line, node] += links[HELD_CPUS, spot]
            outlook.memory_mib[line, node] += stage.requests.memory_mib[row]
            spot = links[NEXT, spot]
        outlook.counts[ENDED] += 1
    outlook.counts[MANY] += 1
    return True


@inner
def _interval(outlook: BackfillPlan, end_s: float, resolution_s: float) -> tuple[float, float]:
    """Return the time of the step for a planned end, and that of the last end which the step has too.

    slurmctld rounds reservations down to multiples of the resolution (backfill.c); other plans wait for the end.
    """
    now_s = outlook.at_s[0]
    if outlook.whole_nodes:
        at_s = np.floor(end_s / resolution_s) * resolution_s
        return float(at_s), float(np.nextafter(at_s + resolution_s, at_s))
    at_s = now_s + np.ceil((max(end_s, now_s + resolution_s) - now_s) / resolution_s) * resolution_s
    at_s = max(at_s, outlook.at_s[outlook.counts[MANY] - 1])
    return float(at_s), float(at_s)


@inner
def _copy(outlook: BackfillPlan, of: int, to: int) -> None:
    """Let the step *to* have a line of its own, the next one, with what is free at the step *of*."""
    before, line = outlook.line[of], outlook.counts[MANY]
    outlook.line[to] = line
    outlook.gpus[line], outlook.cpus[line] = outlook.gpus[before], outlook.cpus[before]
    outlook.memory_mib[line] = outlook.memory_mib[before]
    outlook.total[to] = outlook.total[of]


@borrowing
def reserve(outlook: BackfillPlan, stage: Planned, row: int, step: int, resolution_s: float, ends: bool) -> None:
    """Reserve the nodes just found for a job, from *step* on for its planned duration.

    Without *ends* no step is added for its end: for the last reservation of a pass, whose end does not matter, and for
    a job that starts, whose end is added with those of all running jobs.
    """
    end_s = outlook.at_s[step] + stage.life.plan_s[row]
    if ends:
        while outlook.at_s[outlook.counts[MANY] - 1] < end_s and _further(outlook, stage, resolution_s):
            pass
    after = step
    while after < outlook.counts[MANY] and outlook.at_s[after] < end_s:
        after += 1
    ends_inside = after < outlook.counts[MANY]
    if ends_inside and outlook.at_s[after] > end_s and outlook.counts[MANY] < len(outlook.at_s):
        _split(outlook, after, end_s)
    elif not ends_inside and ends and outlook.counts[MANY] < len(outlook.at_s):
        _copy(outlook, after - 1, after)
        outlook.at_s[after], outlook.falls[after] = end_s, False
        outlook.counts[MANY] += 1
    room, requests = stage.resources.room, stage.requests
    for at in range(outlook.counts[FOUND]):
        node = room[CHOSEN, at]
        for later in range(step, after):
            line = outlook.line[later]
            if step > 0 and outlook.whole_nodes:
                outlook.total[later] -= max(0, outlook.gpus[line, node])
                outlook.gpus[line, node] = outlook.cpus[line, node] = 0
                continue
            outlook.gpus[line, node] -= room[TAKEN, at]
            outlook.total[later] -= room[TAKEN, at]
            outlook.cpus[line, node] -= (
                stage.resources.has.cpus[node] if requests.exclusive[row] else requests.cpus[row]
            )
            outlook.memory_mib[line, node] -= requests.memory_mib[row]
            part = own_part(stage.resources.closed, requests.kind[row], node)
            if part >= 0:
                outlook.cpus[line, part] -= requests.cpus[row]
                outlook.gpus[line, part] -= min(room[TAKEN, at], max(0, outlook.gpus[line, part]))
    outlook.falls[step] = True


@borrowing
def keep_for(outlook: BackfillPlan, stage: Planned, row: int) -> None:
    """Keep the node of a job that waits for slots from the planned end that gives it its slots.

    slurmctld plans whole nodes: jobs on other GPUs of that node start only if they end before.
    """
    allowed = stage.resources.allowed[stage.requests.kind[row]]
    for node in range(len(allowed)):
        if allowed[node]:
            outlook.kept_s[node] = min(outlook.kept_s[node], _slots_s(stage, row, node))


@borrowing
def _slots_s(stage: Planned, row: int, node: int) -> float:
    """Return the planned end after which a node has a free slot of each GPU that a job requests.

    That is the first end on the node if only CPUs or memory are missing.
    """
    running, missing = stage.running, stage.requests.slots[row] & stage.resources.slots.twice[node]
    for at in range(running.many[0]):
        other = running.rows[at]
        if stage.held.links[HELD_NODE, stage.held.first[other]] != node:
            continue
        missing &= ~stage.requests.slots[other]
        if not missing:
            return float(running.keys[at])
    return NEVER


@borrowing
def started(outlook: BackfillPlan, end_s: float) -> None:
    """Count a job that joined the running ones as ended in the plan, if its end lies within the steps made."""
    if end_s <= outlook.at_s[outlook.counts[MANY] - 1]:
        outlook.counts[ENDED] += 1


@inner
def _split(outlook: BackfillPlan, step: int, at_s: float) -> None:
    """Add a step before *step* that equals the one before it."""
    for later in range(outlook.counts[MANY], step, -1):
        outlook.at_s[later], outlook.falls[later] = outlook.at_s[later - 1], outlook.falls[later - 1]
        outlook.line[later], outlook.total[later] = outlook.line[later - 1], outlook.total[later - 1]
    _copy(outlook, step - 1, step)
    outlook.at_s[step], outlook.falls[step] = at_s, False
    outlook.counts[MANY] += 1

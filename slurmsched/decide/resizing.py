"""Sizes: jobs that can run on several numbers of GPUs get the one that serves all jobs best. Pure.

A pending job's number is one line for Slurm. A running job saves its work, queues itself again, and is then such a job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..cluster.actions import Action, Resize
from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.plan import Standing
from ..cluster.size_speeds import read_sizes
from ..cluster.state import View
from ..cluster.text.hostlist import expanded
from ..policies.resizing import divided_at_a_cost, step_seconds
from ..policies.selection.allowed_nodes import suits
from .deadlines.gpu_availability import gpus_in_use
from .deadlines.preemption import stop_actions
from .deadlines.stops import Stops, stops_for_sizes
from .profiling import both
from .rules import ResizingRules, Rules

OVERRUN = 0.1
"""What a job that outlasted its forecast is taken to need still, as a share of the time that it ran."""

UNKNOWN_S = 3_600.0
"""The runtime of a job without a forecast."""

SOON_S = 10.0
"""When a job starts at the earliest that does not start now."""

SOONER = 0.9
"""A job waits for GPUs, or for another number of them, where its end is then at most this share of the time away."""

MOST = 16
"""The waiting jobs for which running ones are made smaller in one decision."""

TASKS = 64
"""The tasks of one array that are placed."""


@dataclass(frozen=True)
class Sizing:
    """The changes of one decision."""

    resizes: tuple[Action, ...] = ()
    stops: tuple[Action, ...] = ()  #: of running jobs that come back with another number of GPUs


def sizing(view: View, rules: Rules, standings: IntArray, ranked: IntArray, busy: Collection[int]) -> Sizing:
    """Return the changes of the numbers of GPUs of jobs; the pending ones *ranked* are placed in their order.

    Jobs that wait for the end of a hold of ours, such as those just queued again, come last. Jobs in *busy* are being
    stopped already. A job that we changed gets its own number back once it is no longer ours to change, or waits for a
    limit of its user or account with more.
    """
    jobs, terms = view.pending, rules.resizing
    if rules.composition is not None or (terms is None and not jobs.own_gpus.any()):
        return Sizing()
    able = resizable(jobs, view, rules) if terms is not None else np.zeros(len(jobs), dtype=np.bool_)
    able &= ~((standings == Standing.LIMIT_BLOCKED) & (jobs.gpus > jobs.own_gpus) & (jobs.own_gpus > 0))
    plain = plain_request(jobs) & ~jobs.interactive
    back = [
        Resize(int(jobs.job_id[row]), own, int(jobs.gpus[row]), own)
        for row, own in enumerate(jobs.own_gpus.tolist())
        if own and not able[row] and plain[row]
    ]
    running = resizable(view.running, view, rules)
    if terms is None or not (able.any() or running.any()):
        return Sizing(tuple(back))
    again = able & (standings == Standing.WAITS_FOR_BEGIN) & jobs.held_by_us & (jobs.restarts > 0)
    rows = np.concatenate([ranked[: rules.window], np.flatnonzero(again)])
    placed = _Placement(view, terms, able)
    for row in rows.tolist():
        placed.place(row)
    growth = _Growth(placed, running & ~np.isin(view.running.job_id, list(busy)), stops_for_sizes(view, rules))
    resizes, stops = growth.changes()
    return Sizing((*back, *resizes), tuple(stops))


def resizable(jobs: JobTable, view: View, rules: Rules) -> BoolArray:
    """Select jobs whose owners agreed to several numbers of GPUs and to restarts, and of which nothing else depends
    on that number."""
    promised = np.isin(jobs.job_id, view.promises.job_id[view.promises.open])
    alone = ~jobs.exclusive & (jobs.beside == 0) & (jobs.guest_gpus == 0)
    agreed = jobs.ckpt & jobs.requeueable & ~jobs.off & ~jobs.interactive & ~promised
    sizes = (jobs.least_gpus < jobs.most_gpus) & (jobs.least_gpus <= jobs.gpus) & (jobs.gpus <= jobs.most_gpus)
    found = plain_request(jobs) & alone & agreed & sizes & ~jobs.required_nodes.said() & ~jobs.reservation.said()
    if rules.profiling is not None:
        found &= ~both(jobs, rules.profiling)
    return np.asarray(found, dtype=np.bool_)


def plain_request(jobs: JobTable) -> BoolArray:
    """Select single jobs that ask for a number of GPUs on one node, on which nothing else that they ask for depends."""
    single = (jobs.nodes <= 1) & (jobs.array_job_id == 0) & (jobs.het_job_id == 0)
    return np.asarray(single & ~(jobs.per_task | jobs.per_gpu | jobs.shares) & (jobs.gpus > 0))


@dataclass
class _Work:
    """What jobs have to do yet, and their speed on each number of GPUs."""

    jobs: JobTable
    runtime_s: FloatArray
    now_s: float
    doubling: float

    def step_s(self, row: int, most: int) -> FloatArray:
        """Return the seconds of a unit of work on 0, 1, ... *most* GPUs."""
        key = self.jobs.size_speeds[row]
        if len(self._steps.get(key, ())) <= most:
            self._steps[key] = step_seconds(read_sizes(key), most, self.doubling)
        return self._steps[key][: most + 1]

    def left(self, row: int) -> float:
        """Return the units of work left; a forecast is that on the number of GPUs that the owner asked for."""
        jobs, gpus = self.jobs, int(self.jobs.gpus[row])
        own = int(jobs.own_gpus[row]) or gpus
        step_s, this_s = self.step_s(row, max(own, gpus)), 0.0
        if np.isfinite(jobs.started_s[row]) and jobs.node_list[row]:
            this_s = max(self.now_s - float(jobs.started_s[row]), 0.0)
        if jobs.iterations[row] > 0 and np.isfinite(jobs.pace_s[row]):
            left_s = (jobs.iterations[row] - jobs.done[row]) * jobs.pace_s[row] - this_s
            return float(max(left_s, OVERRUN * this_s, 1.0) / step_s[gpus])
        earlier_s = max(float(jobs.ran_s[row]) - this_s, 0.0)
        done = earlier_s / step_s[own] + this_s / step_s[gpus]
        whole_s = min(
            float(np.nan_to_num(self.runtime_s[row], nan=UNKNOWN_S, posinf=UNKNOWN_S)), jobs.time_limit_s[row]
        )
        return float(max(whole_s / step_s[own] - done, OVERRUN * done, 1.0 / step_s[own]))

    @cached_property
    def _steps(self) -> dict[str, FloatArray]:
        return {}


@dataclass(frozen=True)
class _Wait:
    """A pending job that waits for one of its nodes."""

    row: int
    gpus: int  #: the fewest on a node with which it starts
    start_s: float  #: from now
    nodes: BoolArray  #: empty of nodes where it needs several


@dataclass
class _Placement:
    """Pending jobs placed in their order, on GPUs as these come free; jobs of several sizes on as few as they may.

    A job takes the GPUs that come free first on the nodes that it may use. Which ones Slurm gives it is not known. One
    that waits keeps no GPU from others that is free now: Slurm fills these too.
    """

    view: View
    rules: ResizingRules
    able: BoolArray  #: pending jobs of several sizes
    waiting: BoolArray = field(init=False)  #: nodes that a job waits for
    starters: dict[int, list[int]] = field(init=False, default_factory=dict)  #: by node: rows that start there now
    later: dict[int, int] = field(init=False, default_factory=dict)  #: the size with which a waiting row ends soonest
    waits: list[_Wait] = field(init=False, default_factory=list)
    order: list[int] = field(init=False, default_factory=list)  #: rows of several sizes

    def __post_init__(self) -> None:
        view, nodes = self.view, self.view.nodes
        self.waiting = np.zeros(len(nodes), dtype=np.bool_)
        self.pending = _Work(view.pending, view.forecast.runtime_s, view.now_s, self.rules.doubling)
        self.running = _Work(view.running, view.forecast_running.runtime_s, view.now_s, self.rules.doubling)
        self.cpus = nodes.cpus - nodes.cpus_used
        self.memory_mib = nodes.memory_mib - nodes.memory_used_mib
        self.now = np.where(nodes.usable, np.maximum(nodes.gpus - nodes.gpus_used, 0), 0).astype(np.int64)
        self.free_s = self._free_s()
        self._allowed: dict[tuple[int, ...], BoolArray] = {}

    def place(self, row: int) -> None:
        """Place a pending job, or the tasks of an array."""
        jobs = self.view.pending
        if self.able[row]:
            self._place_sized(row)
            return
        gpus, many = int(jobs.gpus[row]), max(int(jobs.nodes[row]), 1)
        allowed = self.allowed(jobs, row)
        most = int(self.view.nodes.gpus[allowed].max(initial=0))
        if gpus <= 0 or not most:
            return
        many = max(many, -(-gpus // most))
        each, runtime_s = -(-gpus // many), self.pending.runtime_s[row]
        for _ in range(min(int(jobs.tasks[row]), TASKS)):
            start_s, nodes = self._earliest(row, each, allowed, many)
            if not np.isfinite(start_s):
                return
            self._take(row, nodes, each, start_s, start_s + float(np.nan_to_num(runtime_s, nan=UNKNOWN_S)))
            if start_s > 0:
                self._wait(row, each, start_s, allowed, many)
                return

    def _place_sized(self, row: int) -> None:
        jobs, sizes = self.view.pending, self.sizes(row)
        if not len(sizes):
            return
        self.order.append(row)
        allowed = self.allowed(jobs, row)
        step_s, left = self.pending.step_s(row, int(sizes[-1])), self.pending.left(row)
        starts = [self._earliest(row, gpus, allowed, 1)[0] for gpus in sizes.tolist()]
        ends_s = np.array(starts) + step_s[sizes] * left
        now_s = np.where(np.array(starts) <= 0, ends_s, np.inf)
        best, least = int(np.argmin(ends_s)), int(sizes[0])
        if ends_s[best] >= SOONER * now_s.min():
            node = self._roomiest(row, least, int(sizes[-1]), allowed)
            self._take(row, [node], least, 0.0, float(step_s[least] * left))
            self.starters.setdefault(node, []).append(row)
            return
        present = np.flatnonzero(sizes == jobs.gpus[row])
        if len(present) and ends_s[best] > SOONER * ends_s[present[0]]:
            best = int(present[0])
        self.later[row] = int(sizes[best])
        nodes = self._earliest(row, int(sizes[best]), allowed, 1)[1]
        self._take(row, nodes, int(sizes[best]), starts[best], float(ends_s[best]))
        self._wait(row, least, float(starts[best]), allowed, 1)

    def _wait(self, row: int, gpus: int, start_s: float, allowed: BoolArray, many: int) -> None:
        nodes = allowed & (self.view.nodes.gpus >= gpus)
        self.waiting |= nodes
        self.waits.append(_Wait(row, gpus, start_s, nodes & (many == 1) & self._fits(row, 1)))

    def sizes(self, row: int) -> IntArray:
        """Return the numbers of GPUs on which a pending job of several sizes may run on one node here."""
        jobs = self.view.pending
        most = int(self.view.nodes.gpus[self.allowed(jobs, row)].max(initial=0))
        return np.arange(int(jobs.least_gpus[row]), min(int(jobs.most_gpus[row]), most) + 1)

    def allowed(self, jobs: JobTable, row: int) -> BoolArray:
        """Select the usable nodes on which a job may run."""
        columns = (jobs.partition, jobs.gpu_type, jobs.steered, jobs.features, jobs.excluded_nodes, jobs.required_nodes)
        key = (id(jobs), *(int(column.codes[row]) for column in columns))
        if key not in self._allowed:
            nodes = self.view.nodes
            found = nodes.with_gpus_for(jobs.partition[row], jobs.gpu_type[row] or jobs.steered[row])
            found &= suits("", jobs.features[row], nodes)
            if jobs.excluded_nodes[row]:
                found &= ~np.isin(list(nodes.name), expanded(jobs.excluded_nodes[row]))
            if jobs.required_nodes[row]:
                found &= np.isin(list(nodes.name), expanded(jobs.required_nodes[row]))
            self._allowed[key] = found
        return self._allowed[key]

    def _earliest(self, row: int, gpus: int, allowed: BoolArray, many: int) -> tuple[float, list[int]]:
        """Return when *many* nodes have so many GPUs free each for a pending job, and which; infinite for never."""
        if gpus > self.free_s.shape[1]:
            return np.inf, []
        later_s = np.maximum(self.free_s[:, gpus - 1], SOON_S)
        start_s = np.where((self.now >= gpus) & self._fits(row, many), 0.0, later_s)
        start_s = np.where(allowed, start_s, np.inf)
        if many > len(start_s):
            return np.inf, []
        nodes = np.lexsort((self.now, start_s))[:many]  # the tightest of those that are free first
        return float(start_s[nodes].max()), nodes.tolist()

    def _fits(self, row: int, many: int) -> BoolArray:
        jobs = self.view.pending
        fits = self.cpus * many >= jobs.cpus[row]
        return np.asarray(fits & (self.memory_mib * many >= np.nan_to_num(jobs.memory_mib[row])))

    def _roomiest(self, row: int, least: int, most: int, allowed: BoolArray) -> int:
        """Return the node with the fewest free GPUs of those with *most*, else the one with most free ones."""
        room = self.now
        fits = allowed & self._fits(row, 1) & (room >= least)
        whole = fits & (room >= most)
        if whole.any():
            return int(np.argmin(np.where(whole, room, np.iinfo(np.int64).max)))
        return int(np.argmax(np.where(fits, room, -1)))

    def _take(self, row: int, nodes: list[int], gpus: int, start_s: float, end_s: float) -> None:
        jobs = self.view.pending
        for node in nodes:
            self.free_s[node, :gpus] = end_s
            self.free_s[node].sort()
            if start_s <= 0:
                self.now[node] -= gpus
                self.cpus[node] -= -(-int(jobs.cpus[row]) // len(nodes))
                self.memory_mib[node] -= np.nan_to_num(jobs.memory_mib[row]) / len(nodes)

    def _free_s(self) -> FloatArray:
        """Return the seconds until each GPU of each node is free, by forecasts, in rising order; else infinite."""
        nodes = self.view.nodes
        free_s = np.full((len(nodes), int(nodes.gpus.max(initial=0))), np.inf)
        jobs, on, held = gpus_in_use(self.view)
        left_s = np.array([self.left_s(row) for row in range(len(self.view.running))])
        for node in np.flatnonzero(nodes.usable & (nodes.gpus > 0)).tolist():
            total, used = int(nodes.gpus[node]), int(min(nodes.gpus_used[node], nodes.gpus[node]))
            here = on == node
            busy_s = np.repeat(left_s[jobs[here]], held[here])[:used]
            unknown_s = np.full(used - len(busy_s), busy_s.max(initial=SOON_S))  # of jobs that are not shown
            free_s[node, :total] = np.sort(np.concatenate([np.zeros(total - used), busy_s, unknown_s]))
        return free_s

    def left_s(self, row: int) -> float:
        """Return the seconds that a running job goes on for on its GPUs."""
        jobs = self.view.running
        gpus = max(int(jobs.gpus[row]), 1)
        ends_s = self.running.step_s(row, max(gpus, int(jobs.own_gpus[row])))[gpus] * self.running.left(row)
        return float(min(max(ends_s, 1.0), jobs.time_limit_s[row]))


@dataclass
class _Entrant:
    """A job of several sizes that may have more GPUs of a node."""

    row: int
    runs: bool
    least: int
    most: int
    cost_s: float = 0.0


@dataclass
class _Growth:
    """What is left on each node, divided among the jobs that start there and running ones that may come back larger."""

    placed: _Placement
    running: BoolArray  #: running jobs of several sizes
    stopping: Stops | None  #: None if no job may be stopped

    def changes(self) -> tuple[list[Action], list[Action]]:
        """Return the changes of pending jobs, and the stops of running ones."""
        placed, rows = self.placed, []
        targets = dict(placed.later)
        runs = self._runners()
        for node in sorted({*placed.starters, *runs}):
            entrants = [*self._starters(node), *runs.get(node, [])]
            for one, gpus in zip(entrants, self._divided(node, entrants), strict=True):
                if not one.runs:
                    targets[one.row] = gpus
                elif gpus > one.least:
                    rows.append(one.row)
        stops: list[Action] = []
        if self.stopping is not None:
            chosen = np.array(sorted({*rows, *self._smaller()}), dtype=np.int64)
            stops = stop_actions(placed.view, chosen, self.stopping, placed.rules.stop_signal)
        return list(self._resizes(targets)), stops

    def _resizes(self, targets: dict[int, int]) -> Iterator[Action]:
        """Yield the changes to *targets*, by row; a job gets more GPUs once in ``least_s``."""
        view, jobs = self.placed.view, self.placed.view.pending
        for row in self.placed.order:
            if (gpus := targets.get(row)) is None:
                continue
            before, own = int(jobs.gpus[row]), int(jobs.own_gpus[row])
            rests = jobs.resized_s[row] > view.now_s - self.placed.rules.least_s
            if gpus != before and not (gpus > before and rests):
                yield Resize(int(jobs.job_id[row]), gpus, before, own or before)

    def _starters(self, node: int) -> Iterator[_Entrant]:
        """Yield the jobs that start on a node: where others wait for it they get no more than they ask for now."""
        jobs, size = self.placed.view.pending, int(self.placed.view.nodes.gpus[node])
        for row in self.placed.starters.get(node, []):
            least, most = int(jobs.least_gpus[row]), int(jobs.most_gpus[row])
            most = int(jobs.gpus[row]) if self.placed.waiting[node] else most
            yield _Entrant(row, False, least, min(most, size))

    def _runners(self) -> dict[int, list[_Entrant]]:
        """Return the running jobs that may be stopped to get more GPUs, by the node on which they could have most.

        Nobody waits for that node, and only free GPUs of another one are theirs.
        """
        placed, found = self.placed, dict[int, list[_Entrant]]()
        if self.stopping is None:
            return found
        jobs, nodes = placed.view.running, placed.view.nodes
        may = self.running & (self.stopping.may | self.stopping.awaited) & (jobs.gpus < jobs.most_gpus)
        free, names = placed.now.copy(), np.array(list(nodes.name))
        for row in np.flatnonzero(may).tolist():
            gpus = int(jobs.gpus[row])
            here = names == jobs.node_list[row]
            room = np.where(here, free + gpus, np.where(free >= gpus, free, 0))
            room = np.where(placed.allowed(jobs, row) & ~placed.waiting, room, 0)
            room = np.minimum(room, jobs.most_gpus[row])
            node = int(np.lexsort((~here, -room))[0])
            if room[node] > gpus:
                entrant = _Entrant(row, True, gpus, int(room[node]), self._cost_s(row))
                found.setdefault(node, []).append(entrant)
                free[node] -= 0 if here[node] else gpus
        return found

    def _divided(self, node: int, entrants: list[_Entrant]) -> list[int]:
        """Divide the free GPUs of a node among *entrants*."""
        placed, nodes = self.placed, self.placed.view.nodes
        here = [one for one in entrants if not one.runs or placed.view.running.node_list[one.row] == nodes.name[node]]
        total = int(placed.now[node]) + sum(one.least for one in here)
        works = [placed.running if one.runs else placed.pending for one in entrants]
        most = max(one.most for one in entrants)
        step_s = np.stack([work.step_s(one.row, most) for work, one in zip(works, entrants, strict=True)])
        left = np.array([work.left(one.row) for work, one in zip(works, entrants, strict=True)])
        least, limit = (np.array([getattr(one, name) for one in entrants]) for name in ("least", "most"))
        cost_s = np.array([one.cost_s for one in entrants])
        gpus: list[int] = divided_at_a_cost(step_s, left, least, limit, cost_s, total).tolist()
        return gpus

    def _smaller(self) -> Iterator[int]:
        """Yield running jobs that come back with fewer GPUs so that others start, which gain more than these lose."""
        if self.stopping is None:
            return
        placed, jobs = self.placed, self.placed.view.running
        may = self.running & (self.stopping.may | self.stopping.awaited) & (jobs.gpus > jobs.least_gpus)
        losses = {row: self._loss_s(row) for row in np.flatnonzero(may).tolist()}
        now, place = placed.now.copy(), {name: at for at, name in enumerate(placed.view.nodes.name)}
        for wait in placed.waits[:MOST]:
            if not losses:
                return
            options = []
            for node in {place[jobs.node_list[row]] for row in losses if jobs.node_list[row] in place}:
                here = [row for row in losses if jobs.node_list[row] == placed.view.nodes.name[node]]
                if wait.nodes[node] and (rows := self._enough(wait.gpus - int(now[node]), here, losses)):
                    options.append((sum(losses[row] for row in rows), node, rows))
            if options and min(options)[0] < wait.start_s:
                _, node, rows = min(options)
                now[node] += sum(int(jobs.gpus[row] - jobs.least_gpus[row]) for row in rows) - wait.gpus
                for row in rows:
                    del losses[row]
                yield from rows

    def _enough(self, gpus: int, rows: list[int], losses: dict[int, float]) -> list[int]:
        """Return those of *rows* that give up so many GPUs at the least loss for each; none if all give too few."""
        jobs, chosen = self.placed.view.running, []
        give = {row: int(jobs.gpus[row] - jobs.least_gpus[row]) for row in rows}
        for row in sorted(rows, key=lambda row: (losses[row] / give[row], row)):
            if gpus <= 0:
                break
            chosen.append(row)
            gpus -= give[row]
        return chosen if gpus <= 0 else []

    def _loss_s(self, row: int) -> float:
        """Return by how much later a running job ends with the fewest GPUs that it accepts, its restart included."""
        work, jobs = self.placed.running, self.placed.view.running
        step_s = work.step_s(row, int(jobs.gpus[row]))
        return float(work.left(row) * (step_s[jobs.least_gpus[row]] - step_s[jobs.gpus[row]])) + self._cost_s(row)

    def _cost_s(self, row: int) -> float:
        """Return what a restart costs a running job."""
        jobs = self.placed.view.running
        seen_s = float(jobs.restart_cost_s[row])
        return float(jobs.coldstart_s[row]) + (seen_s if seen_s > 0 else self.placed.rules.restart_s)

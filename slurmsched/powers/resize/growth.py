"""The GPUs that pending jobs of several sizes and running ones share, and who comes back with others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...cluster.actions import Action, Resize
from ...cluster.columns import BoolArray, IntArray
from ...cluster.jobs import JobTable
from ...cluster.ties import in_ms, in_points
from ...decide.deadlines.preemption import stop_actions
from ...decide.deadlines.stops import Stops, awaited_s
from ...decide.job_nodes import gpus_by_node
from ...decide.remaining_work import RemainingWork
from ...policies.resizing import REMAINING_TIMES, Entrants, SizeDivision, divided_at_a_cost, find_size_division
from ...policies.size_choice import restart_factor
from .placement import SizePlacement

MOST = 16
"""The waiting jobs for which running ones are made smaller in one decision."""


@dataclass
class _Entrant:
    """A job of several sizes that may have more GPUs of a node."""

    row: int
    runs: bool
    least: int
    most: int
    cost_s: float = 0.0


@dataclass(frozen=True)
class _Shape:
    """What a job by nodes takes of each of them, and which it may use."""

    gpus: int
    cpus: float
    memory_mib: float
    allowed: bytes


@dataclass
class GpuDivision:
    """What is left on each node, divided among the jobs that start there and running ones that may come back larger."""

    placed: SizePlacement
    running: BoolArray  #: running jobs of several sizes
    stopping: Stops | None  #: None if no job may be stopped

    def changes(self) -> tuple[list[Action], list[Action]]:
        """Return the changes of pending jobs, and the stops of running ones."""
        placed, rows = self.placed, []
        targets, now = dict(placed.later), placed.now.copy()
        for one, gpus in [*self._on_one_node(), *self._by_nodes()]:
            if not one.runs:
                targets[one.row] = gpus
            elif gpus > one.least:
                rows.append(one.row)
        stops: list[Action] = []
        if self.stopping is not None:
            chosen = np.array(sorted({*rows, *self._smaller(now)}), dtype=np.int64)
            stops = stop_actions(placed.view, chosen, self.stopping, placed.rules.stop_signal)
        return list(self._resizes(targets)), stops

    def _resizes(self, targets: dict[int, int]) -> Iterator[Action]:
        """Yield the changes to *targets*, by row; a job gets more GPUs once in ``least_s``."""
        view, jobs = self.placed.view, self.placed.view.pending
        for row in self.placed.order:
            if (gpus := targets.get(row)) is None:
                continue
            before, own = int(jobs.gpus[row]), int(jobs.own_gpus[row])
            rests = jobs.resized_s[row] > max(view.now_s - self.placed.rules.least_s, 0.0)
            if gpus != before and not (gpus > before and rests):
                yield Resize(int(jobs.job_id[row]), gpus, before, own or before, int(self.placed.each[row]))

    def _on_one_node(self) -> Iterator[tuple[_Entrant, int]]:
        """Yield the GPUs of jobs that stay on one node; what they get is not free any more."""
        runs = self._runners()
        for node in sorted({*self.placed.starters, *runs}):
            entrants = self._without_new_stops([*self._starters(node), *runs.get(node, [])])
            divided = list(zip(entrants, self._divided(node, entrants), strict=True))
            held = sum(one.least for one in entrants if self._is_on(one, node))
            there = sum(gpus for one, gpus in divided if self._is_on(one, node) or gpus > one.least)
            self.placed.now[node] -= max(there - held, 0)
            yield from divided

    def _without_new_stops(self, entrants: list[_Entrant]) -> list[_Entrant]:
        """Return *entrants* of the same GPUs without those to be asked to stop, while another one is on its way there.

        Else a job is stopped for what the one on its way gets, or that one comes back in vain.
        """
        if self.stopping is None or not any(map(self._on_its_way, entrants)):
            return entrants
        return [one for one in entrants if not one.runs or self.stopping.awaited[one.row]]

    def _on_its_way(self, one: _Entrant) -> bool:
        """Return True for a job that was asked to stop, until it runs again."""
        assert self.stopping is not None
        if one.runs:
            return bool(self.stopping.awaited[one.row])
        jobs = self.placed.view.pending
        lately = self.placed.view.now_s - jobs.stop_requested_s[one.row] < awaited_s(self.placed.rules)
        return bool(jobs.restarts[one.row] > 0 and lately)

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
        jobs, nodes, awaited = placed.view.running, placed.view.nodes, self.stopping.awaited
        may = self.running & (self.stopping.may | awaited) & (jobs.gpus < jobs.most_gpus)
        may &= self._each == 0
        free, names = placed.now.copy(), np.array(list(nodes.name))
        for row in [*np.flatnonzero(may & awaited).tolist(), *np.flatnonzero(may & ~awaited).tolist()]:
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
        """Divide the free GPUs of a node among *entrants*; one from elsewhere that gets no more has none of them."""
        divided = self._shared(node, entrants)
        staying = [at for at, one in enumerate(entrants) if divided[at] == one.least and not self._is_on(one, node)]
        if not staying:
            return divided
        last = staying[-1]
        others = self._divided(node, [*entrants[:last], *entrants[last + 1 :]])
        return [*others[:last], entrants[last].least, *others[last:]]

    def _shared(self, node: int, entrants: list[_Entrant]) -> list[int]:
        """Return a division of the free GPUs of a node, and of those that *entrants* have there, among these."""
        if not entrants:
            return []
        total = int(self.placed.now[node]) + sum(one.least for one in entrants if self._is_on(one, node))
        return self._shares(entrants, total)

    def _is_on(self, one: _Entrant, node: int) -> bool:
        """Return True if a job on one node has that one, or starts there."""
        return not one.runs or node in self._hosts[one.row]

    def _by_nodes(self) -> Iterator[tuple[_Entrant, int]]:
        """Yield the GPUs of jobs that get whole nodes more, from nodes with enough free for one of their shape.

        Where a job waits for one of these nodes, none gets more than it asks for now, and none is stopped.
        """
        placed = self.placed
        for shape, entrants in self._entrants_by_shape().items():
            allowed = np.frombuffer(shape.allowed, dtype=np.bool_)
            awaited = bool((allowed & placed.waiting).any())
            free = allowed & (placed.now >= shape.gpus) & placed.fits(shape.cpus, shape.memory_mib)
            line = self._without_new_stops([one for one in entrants if not (awaited and one.runs)])
            for one in line:
                most = int(placed.view.pending.gpus[one.row]) // shape.gpus if awaited else one.most
                one.most = max(min(one.most, most, one.least + int((free & ~self._own(one)).sum())), one.least)
            total = int(free.sum()) + sum(one.least for one in line)
            for one, nodes in zip(line, self._divided_nodes(shape.gpus, line, total), strict=True):
                taken = np.flatnonzero(free & ~self._own(one))[: nodes - one.least]
                free[taken] = False
                placed.now[taken] -= shape.gpus
                placed.cpus[taken] -= int(np.ceil(shape.cpus))
                placed.memory_mib[taken] -= shape.memory_mib
                one.least *= shape.gpus
                yield one, one.least + len(taken) * shape.gpus

    def _entrants_by_shape(self) -> dict[_Shape, list[_Entrant]]:
        """Return the jobs by nodes that start now, and the running ones that may be stopped, in numbers of nodes."""
        placed, found = self.placed, dict[_Shape, list[_Entrant]]()
        pending, running = placed.view.pending, placed.view.running
        for row, nodes in placed.spread.items():
            each = int(placed.each[row])
            one = _Entrant(row, False, len(nodes), int(pending.most_gpus[row]) // each)
            found.setdefault(self._shape(pending, row, each), []).append(one)
        if self.stopping is not None:
            may = self.running & (self.stopping.may | self.stopping.awaited) & (self._each > 0)
            for row in np.flatnonzero(may & (running.gpus < running.most_gpus)).tolist():
                each = int(self._each[row])
                held, most = int(running.gpus[row]) // each, int(running.most_gpus[row]) // each
                one = _Entrant(row, True, held, most, self._cost_s(row))
                found.setdefault(self._shape(running, row, each), []).append(one)
        return found

    def _shape(self, jobs: JobTable, row: int, each: int) -> _Shape:
        nodes = max(int(jobs.nodes[row]), 1)
        cpus, memory_mib = float(jobs.cpus[row]) / nodes, float(np.nan_to_num(jobs.memory_mib[row])) / nodes
        return _Shape(each, cpus, memory_mib, self.placed.allowed(jobs, row).tobytes())

    def _own(self, one: _Entrant) -> BoolArray:
        """Select the nodes that a job by nodes has, or starts on."""
        own = np.zeros(len(self.placed.view.nodes), dtype=np.bool_)
        own[self._hosts[one.row] if one.runs else self.placed.spread[one.row]] = True
        return own

    def _divided_nodes(self, each: int, entrants: list[_Entrant], total: int) -> list[int]:
        """Divide *total* nodes among *entrants* with *each* GPUs on a node."""
        return self._shares(entrants, total, each) if entrants else []

    def _shares(self, entrants: list[_Entrant], total: int, each: int = 1) -> list[int]:
        """Divide *total* times *each* GPUs among *entrants*."""
        most = np.array([one.most for one in entrants])
        gpus: list[int] = divided_at_a_cost(self._division, self._columns(entrants, each), most, total).tolist()
        return gpus

    def _columns(self, entrants: list[_Entrant], each: int = 1) -> Entrants:
        """Return *entrants* as columns, with *each* GPUs for one of what is divided."""
        works, most = [self._work(one) for one in entrants], max(one.most for one in entrants)
        pairs = list(zip(works, entrants, strict=True))
        return Entrants(
            step_s=np.stack([work.step_s(one.row, most * each)[::each] for work, one in pairs]),
            left=np.array([work.left(one.row) for work, one in pairs]),
            least=np.array([one.least for one in entrants]),
            cost_s=np.array([one.cost_s for one in entrants]),
            fair_s=np.array([self._fair_s(work, one.row) for work, one in pairs]),
            factor=np.array([self._factor(one) for one in entrants]),
        )

    @cached_property
    def _division(self) -> SizeDivision:
        return find_size_division(self.placed.rules.division)

    def _work(self, one: _Entrant) -> RemainingWork:
        return self.placed.running if one.runs else self.placed.pending

    def _fair_s(self, work: RemainingWork, row: int) -> float:
        """Return the seconds of a unit of work of a job on an equal share of all GPUs, as far as it can use that."""
        least, most = int(work.jobs.least_gpus[row]), int(work.jobs.most_gpus[row])
        step_s = work.step_s(row, max(min(self._fair_gpus, most), least))
        return float(step_s[-1] if self._fair_gpus <= most else step_s[least:].min())

    @cached_property
    def _fair_gpus(self) -> int:
        """An equal share of all GPUs of nodes in use, for each job that runs or is pending."""
        view = self.placed.view
        count = int((view.running.gpus > 0).sum()) + int(view.pending.tasks[view.pending.gpus > 0].sum())
        return max(int(view.nodes.gpus[view.nodes.usable].sum()) // max(count, 1), 1)

    def _factor(self, one: _Entrant) -> float:
        """Return the part of its speed-up that a job keeps if it restarts, by Pollux; 1 for one that starts anyway."""
        if not one.runs:
            return 1.0
        view, jobs = self.placed.view, self.placed.view.running
        age_s = np.maximum(view.now_s - jobs.first_submit_s[[one.row]], 1.0)
        return float(restart_factor(age_s, jobs.restarts[[one.row]], one.cost_s)[0])

    @cached_property
    def _each(self) -> IntArray:
        """The GPUs on a node of running jobs by nodes; 0 of the others."""
        return gpus_by_node(self.placed.view.running)

    @cached_property
    def _hosts(self) -> dict[int, list[int]]:
        """The nodes of each running job."""
        found: dict[int, list[int]] = {row: [] for row in range(len(self.placed.view.running))}
        jobs, nodes, _ = self.placed.view.free_gpus.held
        for row, node in zip(jobs.tolist(), nodes.tolist(), strict=True):
            found[row].append(node)
        return found

    def _smaller(self, now: IntArray) -> Iterator[int]:
        """Yield running jobs that come back with fewer GPUs so that others start, which gain more than these lose.

        *now* are the free GPUs of each node before others get more.
        """
        if self.stopping is None:
            return
        placed, jobs = self.placed, self.placed.view.running
        may = self.running & (self.stopping.may | self.stopping.awaited) & (jobs.gpus > self._fewest)
        losses, prices = self._losses(np.flatnonzero(may))
        on = self._by_node(losses)
        for wait in placed.waits[:MOST]:
            if not losses:
                return
            options = []
            for node, some in on.items():
                here = [row for row in some if row in losses]
                if not wait.nodes[node]:
                    continue
                chosen = self._enough(wait.gpus - int(now[node]), here, prices)
                if chosen and in_ms(sum(losses[row] for row in chosen)) < in_ms(wait.gain_s):
                    options.append((in_points(sum(prices[row] for row in chosen)), node, chosen))
            if options:
                _, node, chosen = min(options)
                now[node] += sum(self._given_up(row) for row in chosen) - wait.gpus
                for row in chosen:
                    del losses[row]
                yield from chosen

    def _by_node(self, rows: Iterable[int]) -> dict[int, list[int]]:
        """Return running jobs by the nodes that they are on."""
        found: dict[int, list[int]] = {}
        for row in rows:
            for node in self._hosts[row]:
                found.setdefault(node, []).append(row)
        return found

    def _losses(self, rows: IntArray) -> tuple[dict[int, float], dict[int, float]]:
        """Return by how much later each of *rows* ends with its fewest GPUs, and what that is to the division."""
        if not len(rows):
            return {}, {}
        held = self.placed.view.running.gpus
        columns = self._columns([_Entrant(row, True, held[row], held[row], self._cost_s(row)) for row in rows.tolist()])
        losses, prices = (
            dict(zip(rows.tolist(), rule.losses(columns, self._fewest[rows]).tolist(), strict=True))
            for rule in (REMAINING_TIMES, self._division)
        )
        return losses, prices

    def _enough(self, gpus: int, rows: list[int], prices: dict[int, float]) -> list[int]:
        """Return those of *rows* that give up so many GPUs at the least price for each; none if all give too few."""
        chosen, give = [], {row: self._given_up(row) for row in rows}
        for row in sorted(rows, key=lambda row: (in_points(prices[row] / give[row]), row)):
            if gpus <= 0:
                break
            chosen.append(row)
            gpus -= give[row]
        return chosen if gpus <= 0 else []

    def _given_up(self, row: int) -> int:
        """Return the GPUs of a node that a running job gives up if it comes back with the fewest."""
        return int(self._each[row]) or int(self.placed.view.running.gpus[row] - self._fewest[row])

    @cached_property
    def _fewest(self) -> IntArray:
        """The fewest GPUs that each running job accepts, in whole nodes of those by nodes."""
        jobs, each = self.placed.view.running, np.maximum(self._each, 1)
        return np.maximum(-(-jobs.least_gpus // each), 1) * each

    def _cost_s(self, row: int) -> float:
        """Return what a restart costs a running job that is not stopped already."""
        jobs = self.placed.view.running
        if self.stopping is not None and self.stopping.awaited[row]:
            return 0.0
        seen_s = float(jobs.restart_cost_s[row])
        return float(jobs.coldstart_s[row]) + (seen_s if seen_s > 0 else self.placed.rules.restart_s)

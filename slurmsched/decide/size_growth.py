"""The GPUs that pending jobs of several sizes and running ones share, and who comes back with others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..cluster.actions import Action, Resize
from ..cluster.columns import BoolArray
from ..policies.resizing import divided_at_a_cost
from .deadlines.preemption import stop_actions
from .deadlines.stops import Stops
from .size_placement import SizePlacement

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


@dataclass
class Regrowth:
    """What is left on each node, divided among the jobs that start there and running ones that may come back larger."""

    placed: SizePlacement
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
        now, on = placed.now.copy(), self._by_node(losses)
        for wait in placed.waits[:MOST]:
            if not losses:
                return
            options = []
            for node, some in on.items():
                here = [row for row in some if row in losses]
                if wait.nodes[node] and (rows := self._enough(wait.gpus - int(now[node]), here, losses)):
                    options.append((sum(losses[row] for row in rows), node, rows))
            if options and min(options)[0] < wait.start_s:
                _, node, rows = min(options)
                now[node] += sum(int(jobs.gpus[row] - jobs.least_gpus[row]) for row in rows) - wait.gpus
                for row in rows:
                    del losses[row]
                yield from rows

    def _by_node(self, rows: Iterable[int]) -> dict[int, list[int]]:
        """Return running jobs by the one node that each is on."""
        jobs, found = self.placed.view.running, dict[int, list[int]]()
        place = {name: at for at, name in enumerate(self.placed.view.nodes.name)}
        for row in rows:
            if (node := place.get(jobs.node_list[row])) is not None:
                found.setdefault(node, []).append(row)
        return found

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

"""A modelled Slurm whose users change their own jobs while it runs, as scontrol lets them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slurmsched.cluster.actions import Action
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.cluster.state import ClusterState
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.engine.job_state import COMPLETED, PENDING, RUNNING
from slurmsched.simulator.machine.event_loop import reordered, requeue
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmctld import begin_at
from slurmsched.slurm.port import ActionResult

HOLD, RELEASE, BEGIN, NICE = "hold", "release", "begin", "nice"


@dataclass(frozen=True, order=True)
class Act:
    """What the owner of a job does to it at a moment."""

    at_s: float
    job_id: int
    verb: str
    value: float = 0.0


@dataclass
class Owners:
    """What the owners of jobs do: acts with a time, and answers to what they see."""

    acts: list[Act] = field(default_factory=list)
    not_before_s: dict[int, float] = field(default_factory=dict)
    """Jobs that are requeued and held whenever they start before a time: tickets, whose work comes later."""
    impatient: frozenset[int] = frozenset()  #: jobs whose begin times their owner takes back as soon as they are set
    after: dict[int, int] = field(default_factory=dict)  #: jobs that depend on the end of another one

    def __post_init__(self) -> None:
        heapq.heapify(self.acts)

    @property
    def next_s(self) -> float:
        """The time of the next act; infinite without one."""
        return self.acts[0].at_s if self.acts else math.inf


@dataclass
class OwnedCluster(SimulatedCluster):
    """The modelled Slurm with its users."""

    owners: Owners = field(default_factory=Owners)
    ahead_s: float = 0.0  #: LINE_AHEAD_S of its job_submit.lua: no new job begins sooner, nor by its owner
    done: int = 0  #: acts so far

    def __post_init__(self) -> None:
        super().__post_init__()
        for job in self.owners.after:
            self.model.wishes.barred[self._rows[job]] = True
        if self.ahead_s:
            for row, submit_s in enumerate(self.jobs.submit_s.tolist()):
                begin_at(self.model, row, submit_s + self.ahead_s)

    def submitted_as(self, row: int, begin_s: float, held: bool) -> None:
        """Let a job that is not submitted yet have a begin time of its owner, or be held from the start."""
        if held:
            self.model.wishes.held[row], begin_s = True, math.inf
        if begin_s > self.model.stage.life.begin_s[row]:
            begin_at(self.model, row, begin_s)

    def advance(self, until_s: float) -> None:
        """Advance time to *until_s*, with what owners do until then."""
        while self.owners.acts and self.owners.next_s <= until_s:
            act = heapq.heappop(self.owners.acts)
            super().advance(max(act.at_s, self.now_s))
            self._answer()
            self._do_own(act)
        super().advance(until_s)
        self._answer()

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Carry out what the daemon asks; then impatient owners take begin times back."""
        answers = super().act(actions)
        life, changed = self.model.stage.life, False
        for row in [row for job in self.owners.impatient for row in self._rows[job]]:
            if life.state[row] == PENDING and life.begin_s[row] > self.now_s + self.ahead_s:
                begin_at(self.model, row, self.now_s + self.ahead_s)
                changed = True
        if changed:
            self.done += 1
            reordered(self.model)
        return answers

    def observe(self) -> ClusterState:
        """Return the state; a job that depends on another one is not eligible, as in Slurm."""
        state = super().observe()
        barred = {job for job in self.owners.after if self.model.wishes.barred[self._rows[job][0]]}
        if not barred:
            return state
        rows = np.isin(state.pending.job_id, list(barred)) & ~(state.pending.eligible_s > self.now_s)
        eligible_s = np.where(rows, np.nan, state.pending.eligible_s)
        return replace(state, pending=state.pending.changed(eligible_s=eligible_s))

    def _answer(self) -> None:
        """Let dependent jobs go whose job has ended, and turn tickets that started before their time."""
        life, changed = self.model.stage.life, False
        for job, before in list(self.owners.after.items()):
            if (life.state[self._rows[before]] == COMPLETED).all():
                del self.owners.after[job]
                for row in self._rows[job]:
                    self.model.wishes.barred[row] = False
                    if life.begin_s[row] <= self.now_s:  # else one that was set meanwhile counts from now on
                        begin_at(self.model, row, self.now_s)
                changed = True
        for job, at_s in self.owners.not_before_s.items():
            for row in self._rows[job]:
                if life.state[row] == RUNNING and self.now_s < at_s:
                    requeue(self.model, row, self.now_s)
                    self.model.wishes.held[row] = True
                    changed = True
        if changed:
            self.done += 1
            reordered(self.model)

    def _do_own(self, act: Act) -> None:
        """Carry out an act of an owner on a job that waits; a job that runs or has ended stays as it is."""
        model = self.model
        for row in self._rows[act.job_id]:
            if model.stage.life.state[row] != PENDING:
                continue
            if act.verb == BEGIN:
                begin_at(model, row, max(act.value, self.now_s + self.ahead_s))
            elif act.verb == NICE:
                model.wishes.nice[row] = int(act.value)
            else:
                model.wishes.held[row] = act.verb == HOLD
                if act.verb == RELEASE and math.isinf(model.stage.life.begin_s[row]):
                    begin_at(model, row, self.now_s)  # submitted held, it becomes eligible now
        self.done += 1
        reordered(model)


@dataclass
class OwnedDriver(CycleDriver):
    """The cycles beside it: the first one after each act, or before."""

    cluster: OwnedCluster
    late_falls: Mapping[int, float] = field(default_factory=dict)
    """The part of the fall of their loss that came lately, as jobs report it; NaN for none."""

    def _observed(self, state: ClusterState) -> None:
        super()._observed(state)
        if not self.late_falls:
            return
        jobs = state.running.joined(state.pending.take(state.pending.restarts > 0))
        falls = np.array([self.late_falls.get(job, math.nan) for job in jobs.job_id.tolist()], dtype=np.float64)
        rows = np.isfinite(falls)
        unknown, nobody = np.full(rows.sum(), np.nan), np.zeros(rows.sum(), dtype=np.bool_)
        self._reports = ProgressTable(
            jobs.job_id[rows], np.ones(rows.sum(), dtype=np.int64), unknown, unknown, falls[rows], nobody, nobody
        )

    def _next_s(self, quiet: bool) -> float:
        at_s = self.cluster.owners.next_s
        beats_s = math.ceil(at_s / self.every_s) * self.every_s if math.isfinite(at_s) else math.inf
        return min(super()._next_s(quiet), max(beats_s, self.cluster.now_s + self.every_s))

    def _glance(self) -> tuple[int, int, int, int]:
        arrived, *others = super()._glance()
        return (arrived + 1_000_000 * self.cluster.done, *others)

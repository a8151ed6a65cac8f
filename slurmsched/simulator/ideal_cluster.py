"""A simulated cluster that carries out plans as they are, at the moment of the decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..cluster.actions import Action, Move, MoveNodes, Preempt, Requeue, Start, job_of
from ..cluster.columns import FloatArray, Labels, places_of
from ..cluster.jobs import JobTable
from ..cluster.nodes import AccountTable
from ..cluster.records.profiles import NodeProfile
from ..cluster.state import ClusterState
from ..policies.selection.resources import CHOSEN, NEXT, NONE, TAKEN
from ..slurm.port import ActionResult
from .engine.calendar import NEVER
from .engine.job_state import ALONE, PENDING, RUNNING, alone
from .engine.keys import Keys
from .gpu_profiles import MeasuredRun
from .machine.controller import controller, with_room_to_log
from .machine.event_loop import begin_on, join, to_decision
from .machine.observation import AT_LIMIT, ran_s
from .machine.pair_speeds import with_pairs
from .machine.starters import preempt
from .simulated_cluster import SimulatedCluster
from .slurmctld.slurmconf import SlurmConf
from .slurmctld.state import MAIN_DUE, MAIN_LAST, NOW, Controller
from .workload.workload import as_submitted


@dataclass
class IdealCluster(SimulatedCluster):
    """The port over a cluster without a scheduler of its own: jobs start and yield by our actions alone.

    Jobs that share are on the same whole GPUs; there are no slots.
    """

    steps: tuple[float, ...] = ()  #: GPU-seconds of attained service at which a decision is made
    logged: bool = False  #: every run is in ``stage.log``
    _number: dict[str, int] = field(init=False, repr=False)
    _paired: set[tuple[int, int]] = field(init=False, repr=False)  #: runs that shared GPUs, by row and restarts
    _undecided: bool = field(init=False, default=False)  #: GPUs came free, or nodes moved, by the last decision

    def __post_init__(self) -> None:
        # A job that does not say on how many nodes it runs has 0 here, and its placement decides.
        self.submitted = replace(as_submitted(self.jobs), nodes=self.jobs.nodes, sensitive=self.jobs.sensitive)
        self._paired = set()
        self._number = {name: at for at, name in enumerate(self.fleet.nodes.name)}
        super().__post_init__()

    def show_spread_speeds(self, speeds: FloatArray) -> None:
        """Show what spreading costs each job from the start."""
        self._table = replace(self._table, spread_speed=speeds)

    def advance_to_decision(self) -> bool:
        """Advance to the next moment with something to decide; False if there is none any more."""
        decides = bool(to_decision(self.model, NEVER))
        self._check()
        return decides

    def decided(self, again_s: float = NEVER) -> None:
        """Wait for the next event or *again_s*; while jobs wait also for the next beat where keys change."""
        self.model = with_room_to_log(self.model)
        model, now_s = self.model, self.now_s
        beats = model.rules.poll_s > 0 and model.rules.repacking
        beat_s = now_s + model.rules.poll_s if beats and model.queue.many[0] else NEVER
        due_s = now_s if self._undecided else min(again_s if again_s > now_s else NEVER, beat_s)
        self._undecided = False
        model.clock[MAIN_DUE], model.clock[MAIN_LAST] = due_s, now_s

    def observe(self) -> ClusterState:
        """Return all jobs and nodes; priority is the order of submission, since there is no Slurm to set another."""
        state = super().observe()
        pending, running = self._as_ordered(state.pending), self._as_ordered(state.running)
        limits = self.fleet.account_gpus
        accounts = AccountTable(Labels.of(limits), np.array([*limits.values()], dtype=np.int64))
        return replace(state, pending=pending, running=running, accounts=accounts)

    def act(self, actions: Sequence[Action]) -> list[ActionResult]:
        """Carry out each action; the queue needs no order, since nobody but we starts jobs."""
        answers = [ActionResult(action, self._do(action)) for action in actions]
        self._rewrite()
        self._check()
        return answers

    def _index(self) -> None:
        super()._index()
        self._ids = np.array(list(self._rows), dtype=np.int64)
        self._first_rows = np.array([rows[0] for rows in self._rows.values()], dtype=np.int64)

    def _as_ordered(self, jobs: JobTable) -> JobTable:
        rows = self._first_rows[places_of(jobs.job_id, self._ids)]
        reason = jobs.reason.renamed(  # decisions see to the limits
            "None" if text == AT_LIMIT else text for text in jobs.reason.names
        )
        life = self.model.stage.life
        return jobs.changed(
            pace_s=np.where(life.state[rows] == RUNNING, 1.0 / life.speed[rows], np.nan),  # a second at full speed
            priority=len(self.jobs) - rows,
            ran_s=ran_s(self.model, rows),
            reason=reason,
            beside=np.where(life.partner == ALONE, 0, self.jobs.job_id[life.partner])[rows],
            guest_gpus=life.guests[rows],
        )

    def _profiles(self, runs: Iterable[MeasuredRun]) -> list[NodeProfile]:
        """Return what the nodes measured of *runs*; nothing of those that shared GPUs."""
        return super()._profiles(run for run in runs if (run.row, run.restart) not in self._paired)

    def _made(self) -> Controller:
        rules = self.conf.rules._replace(direct=True, requeue_delay_s=0.0)
        conf = SlurmConf(rules, launch_s=self.conf.launch_s, release_s=self.conf.release_s)
        keys = Keys(np.zeros((len(self.steps) + 1, len(self.jobs))), np.zeros(len(self.jobs)), np.array(self.steps))
        pace = with_pairs(self.pace or alone(self.jobs), self.jobs, self.fleet.sharing, self.unmeasured)
        model = controller(self.jobs, self.fleet, conf, outages=self.outages, pace=pace, given=keys, logged=self.logged)
        model.stage.life.keeps_work[:] = self._table.ckpt
        return model

    def _do(self, action: Action) -> str | None:
        row = self._rows.get(job_of(action), [-1])[0]
        state = self.model.stage.life.state[row] if row >= 0 else None
        now_s = float(self.model.clock[NOW])
        match action:
            case Start(beside=host) if host and state == PENDING:
                return self._join(row, host)
            case Start(nodes=nodes) if state == PENDING:
                begin_on(self.model, row, self._placed(nodes), now_s)
            case Preempt() if state == RUNNING:
                preempt(self.model, row, now_s)
            case Move(nodes=nodes) if state == RUNNING:
                preempt(self.model, row, now_s)
                begin_on(self.model, row, self._placed(nodes), now_s)
            case Start() | Preempt() | Move():
                return f"Job is in another state for job {job_of(action)}"
            case _:
                refused = super()._do(action)
                self._undecided |= refused is None and isinstance(action, Requeue | MoveNodes)
                return refused
        return None

    def _join(self, row: int, job_id: int) -> str | None:
        """Start a job on the GPUs of another; both run at the speed of their pair."""
        stage, host = self.model.stage, self._rows.get(job_id, [-1])[0]
        if host < 0 or not self._may_join(row, host):
            return f"Job cannot run beside job {job_id} for job {self.jobs.job_id[row]}"
        join(self.model, row, host, float(self.model.clock[NOW]))
        self._paired |= {(one, int(stage.life.restarts[one])) for one in (row, host)}
        return None

    def _rewrite(self) -> None:
        """Carry out the gathered changes of partitions, which bind nobody but decisions here."""
        if self._edits:
            self._table = self._edits.apply(self._table)
            self.jobs = replace(self.jobs, partition=self._table.partition)

    def _may_join(self, row: int, host: int) -> bool:
        """Return True if *host* runs on GPUs of its own on one node, enough of them without a second job."""
        stage = self.model.stage
        life, gpus = stage.life, stage.requests.gpus
        is_host = life.state[host] == RUNNING and life.partner[host] == ALONE
        has_room = gpus[row] <= gpus[host] - life.guests[host]
        return bool(is_host and has_room and stage.held.links[NEXT, stage.held.first[host]] == NONE)

    def _placed(self, nodes: str) -> int:
        """Write the nodes of a start where the event loop expects those that it found; return their number."""
        pairs = [part.rpartition(":") for part in nodes.split(",")]
        room = self.model.stage.resources.room
        room[CHOSEN, : len(pairs)] = [self._number[name] for name, _, _ in pairs]
        room[TAKEN, : len(pairs)] = [int(gpus) for _, _, gpus in pairs]
        return len(pairs)

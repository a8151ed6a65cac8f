"""A simulated cluster that carries out plans as they are, at the moment of the decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..cluster.actions import Action, Preempt, Start, job_of
from ..cluster.columns import Labels
from ..cluster.jobs import JobTable
from ..cluster.nodes import AccountTable
from ..cluster.state import ClusterState
from ..policies.selection.resources import CHOSEN, TAKEN
from ..slurm.port import ActionResult
from .engine.calendar import NEVER
from .engine.job_state import PENDING, RUNNING
from .fast.loops import Keys
from .machine.controller import controller
from .machine.event_loop import advance, begin_on, preempt
from .machine.observation import AT_LIMIT, ran_s
from .simulated_cluster import SimulatedCluster
from .slurmctld.slurmconf import SlurmConf
from .slurmctld.slurmctld import MAIN_DUE, MAIN_LAST, NOW, Controller
from .workload.workload import as_submitted


@dataclass
class IdealCluster(SimulatedCluster):
    """The port over a cluster without a scheduler of its own: jobs start and yield by our actions alone."""

    steps: tuple[float, ...] = ()  #: GPU-seconds of attained service at which a decision is made
    _number: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A job that does not say on how many nodes it runs has 0 here, and its placement decides.
        self.submitted = replace(as_submitted(self.jobs), nodes=self.jobs.nodes, sensitive=self.jobs.sensitive)
        self._number = {name: at for at, name in enumerate(self.fleet.nodes.name)}
        super().__post_init__()

    def advance_to_decision(self) -> bool:
        """Advance to the next moment with something to decide; False if there is none any more."""
        decides = bool(advance(self.model, NEVER))
        self._check()
        return decides

    def decided(self) -> None:
        """Wait for the next event, or for the next beat while jobs wait and keys change with time."""
        model, now_s = self.model, self.now_s
        waits = model.rules.poll_s > 0 and model.rules.repacking and model.queue.many[0]
        model.clock[MAIN_DUE], model.clock[MAIN_LAST] = now_s + model.rules.poll_s if waits else NEVER, now_s

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

    def _as_ordered(self, jobs: JobTable) -> JobTable:
        rows = np.array([self._rows[job][0] for job in jobs.job_id.tolist()], dtype=np.int64)
        reason = Labels.of("None" if text == AT_LIMIT else text for text in jobs.reason)  # decisions see to the limits
        return replace(jobs, priority=len(self.jobs) - rows, ran_s=ran_s(self.model, rows), reason=reason)

    def _made(self) -> Controller:
        rules = self.conf.rules._replace(direct=True, asked_each_time=True, backfilling=False, requeue_delay_s=0.0)
        conf = SlurmConf(rules, launch_s=self.conf.launch_s, release_s=self.conf.release_s)
        keys = Keys(np.zeros((len(self.steps) + 1, len(self.jobs))), np.zeros(len(self.jobs)), np.array(self.steps))
        return controller(self.jobs, self.fleet, conf, outages=self.outages, pace=self.pace, given=keys)

    def _do(self, action: Action) -> str | None:
        row = self._rows.get(job_of(action), [-1])[0]
        state = self.model.stage.life.state[row] if row >= 0 else None
        now_s = float(self.model.clock[NOW])
        match action:
            case Start(nodes=nodes) if state == PENDING:
                begin_on(self.model, row, self._placed(nodes), now_s)
            case Preempt() if state == RUNNING:
                preempt(self.model, row, now_s)
            case Start() | Preempt():
                return f"Job is in another state for job {job_of(action)}"
            case _:
                return super()._do(action)
        return None

    def _placed(self, nodes: str) -> int:
        """Write the nodes of a start where the event loop expects those that it found; return their number."""
        pairs = [part.rpartition(":") for part in nodes.split(",")]
        room = self.model.stage.resources.room
        room[CHOSEN, : len(pairs)] = [self._number[name] for name, _, _ in pairs]
        room[TAKEN, : len(pairs)] = [int(gpus) for _, _, gpus in pairs]
        return len(pairs)

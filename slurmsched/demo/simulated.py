"""The course of the demonstration in virtual time, on a modelled Slurm: no root, no Slurm, seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..cluster.columns import FloatArray
from ..cluster.records.outcomes import OutcomeTable
from ..cycle import CycleReport
from ..decide.rules import Rules
from ..explain import explain
from ..explain.why import why
from ..models.runtime.baseline import RuntimeModel
from ..simulator.cycle_driver import CycleDriver, Watch
from ..simulator.engine.job_state import COMPLETED
from ..simulator.simulated_cluster import SimulatedCluster
from .lab_burst import GPUS, NODES, Say
from .modelled import blockers, lab_model
from .operator_program import EVERY_S, ORDERING, policy
from .show import FULL, Shown, Size
from .summary import BurstSummary
from .workload import Submission, bursts

SUBMIT_S = 0.02
"""The approximate duration of one sbatch."""

LAUNCH_S, RELEASE_S = 0.05, 0.01
"""The overheads of a start and an end on the lab's nodes, approximately as `make bench` measures them."""


class SimulatedDemo:
    """A simulated demonstration of *size*; *say* gets progress messages."""

    def __init__(self, size: Size = FULL, print_line: Say = lambda line: None) -> None:
        self._size, self._print = size, print_line
        self._earlier, self._measured = bursts(size.jobs, size.longest_s)

    def run(self) -> Shown:
        """Run all of it. Leaves nothing behind."""
        self._print("Simulated: slurmctld is a model, time is virtual; the cycle that steers it is the daemon's own.")
        self._print("1/3 history: an earlier burst, on twice the GPUs since it is not measured")
        history = simulated_history(self._earlier)
        self._print("2/3 the measured burst under stock Slurm: multifactor priorities and backfill")
        stock = SimulatedBurst(self._measured)
        stock.cluster.advance(np.inf)
        self._print("3/3 the same burst with slurmsched in act mode, ordering by GPUs x forecast runtime")
        steered = SimulatedBurst(self._measured)
        questions = _Questions(steered)
        steered.steer(history, ORDERING, questions.ask_when_due)
        return Shown(
            self._size.jobs,
            len(history),
            BurstSummary.of(stock.outcomes()),
            BurstSummary.of(steered.outcomes()),
            questions.job_id,
            questions.why,
            questions.explain,
            simulated=True,
        )


def simulated_history(earlier: Sequence[Submission], from_s: float = 0.0) -> OutcomeTable:
    """Return sacct's records, in whole seconds, of an earlier burst on a modelled lab of twice the GPUs.

    The burst begins at the whole second *from_s*.
    """
    cluster = lab_model(earlier, _one_by_one(len(earlier), from_s), 2 * GPUS, LAUNCH_S, RELEASE_S)
    cluster.advance(np.inf)
    exact = cluster.outcomes(-np.inf, np.inf)
    whole = {name: np.floor(getattr(exact, name)) for name in ("first_submit_s", "eligible_s", "started_s", "ended_s")}
    return replace(exact, runtime_s=whole["ended_s"] - whole["started_s"], **whole)


class SimulatedBurst:
    """A modelled lab whose GPUs are busy when a burst arrives, as `lab_burst.occupy` makes them.

    *submit_s* holds the submission times, first of the jobs that keep the GPUs busy; by default they come in sequence.
    """

    def __init__(
        self,
        burst: Sequence[Submission],
        submit_s: FloatArray | None = None,
        launch_s: float = LAUNCH_S,
        release_s: float = RELEASE_S,
    ) -> None:
        jobs = (*blockers(NODES, GPUS), *burst)
        times_s = _one_by_one(len(jobs)) if submit_s is None else submit_s
        self.cluster: SimulatedCluster = lab_model(jobs, times_s, GPUS, launch_s, release_s)

    @property
    def ended(self) -> int:
        """The number of ended jobs of the burst."""
        return int(np.count_nonzero(self.cluster.model.stage.life.state[NODES:] == COMPLETED))

    @property
    def jobs(self) -> int:
        """The number of jobs of the burst."""
        return len(self.cluster.jobs) - NODES

    def steer(self, history: OutcomeTable, ordering: str, watch: Watch = lambda report: None) -> None:
        """Run to the end under the daemon's cycles, with the demo's settings; *watch* gets the report of each."""
        model = RuntimeModel.fit(history)
        self.cluster.advance(float(self.cluster.jobs.submit_s[0]))
        CycleDriver(self.cluster, policy(ordering), model, every_s=EVERY_S, learns=False, watch=watch).run()

    def outcomes(self) -> OutcomeTable:
        """Return the outcomes of the burst."""
        all_of_it = self.cluster.outcomes(-np.inf, np.inf)
        return all_of_it.take(all_of_it.job_id > NODES)


def _one_by_one(jobs: int, from_s: float = 0.0) -> FloatArray:
    """Return the submission times of jobs that are submitted one after the other."""
    return np.asarray(from_s + SUBMIT_S * np.arange(jobs), dtype=np.float64)


class _Questions:
    """The queries after a quarter of the burst, about a job that still has long to wait."""

    def __init__(self, burst: SimulatedBurst) -> None:
        self._burst = burst
        self.job_id = 0
        self.why = self.explain = ""

    def ask_when_due(self, report: CycleReport) -> None:
        """Query once, about the job three quarters down the queue."""
        if self.job_id or self._burst.ended < self._burst.jobs // 4:
            return
        view, plan = report.view, report.plan
        waiting = [row.job_id for row in explain.queue(view, plan) if row.rank]
        if not waiting:
            return
        self.job_id = waiting[len(waiting) * 3 // 4]
        rules = Rules()
        told = why(view, plan, rules, self.job_id)
        self.why = f"Reason: {told.reason}\nTime: {told.time}\nYou can: {told.advice}"
        self.explain = "\n".join(explain.explain(view, plan, rules, self.job_id).sentences)

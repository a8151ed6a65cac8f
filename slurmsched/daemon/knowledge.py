"""What the daemon knows of jobs and nodes beside what Slurm shows: each part fills its columns of an observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..clock import Clock
from ..cluster.filling import Knowing, with_columns
from ..cluster.kind_speeds import KindSpeeds
from ..cluster.node_loads import NodeLoads
from ..cluster.node_ranges import NodeRanges
from ..cluster.power_saving import ResumeTimes
from ..cluster.records.progress import ProgressTable
from ..cluster.records.solved_starts import SolvedStarts
from ..cluster.restart_costs import RestartCosts
from ..cluster.state import ClusterState
from ..cluster.stranded_gpus import StrandedGpus
from ..cycle import Surroundings
from ..decide.fragmented_waits import FragmentedWaits
from .job_placements import JobPlacements
from .progress_book import ProgressBook
from .sharing_context import SharingContext
from .solver_service import SolverService
from .usage_service import UsageService


@dataclass(frozen=True, kw_only=True)
class Knowledge(Surroundings):
    """The parts around each cycle of a daemon that know something, and learn from what it sees."""

    progressed: Callable[[str], None]  #: called with each phase of a cycle as it begins
    clock: Clock
    resumes: ResumeTimes
    sharing: SharingContext
    loads: NodeLoads
    usage: UsageService
    reports: ProgressBook
    solver: SolverService
    speeds: KindSpeeds = field(default_factory=KindSpeeds)
    restarts: RestartCosts = field(default_factory=RestartCosts)
    ranges: NodeRanges = field(default_factory=NodeRanges)
    placements: JobPlacements = field(default_factory=JobPlacements)
    stranded: StrandedGpus = field(default_factory=StrandedGpus)
    fragmented: FragmentedWaits = field(default_factory=FragmentedWaits)

    def entering(self, phase: str) -> None:
        """Report that a phase of the cycle begins."""
        self.progressed(phase)

    def observed(self, state: ClusterState) -> None:
        """Learn from what Slurm shows."""
        self.placements.observe(state.running)
        self.placements.observe(state.ended)
        self.placements.note_scan(self.clock.now())
        self.reports.observe(state)
        self.speeds.observe(self.reports.filled(state))
        self.stranded.observe(state, self.clock.now())
        self.fragmented.observe(state, self.clock.now())

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with what is known of its jobs and nodes beside what Slurm shows."""
        parts: tuple[Knowing, ...] = (
            *(self.resumes, self.sharing, self.loads, self.usage.history, self.speeds, self.restarts),
            *(self.reports, self.ranges),
        )
        return with_columns(state, [part.columns(state) for part in parts])

    def solved(self) -> SolvedStarts:
        """Return the latest answer of the solver."""
        return self.solver.latest()

    def progress(self) -> ProgressTable:
        """Return what running jobs reported, and those that wait again."""
        return self.reports.table()

    def let_end(self, job_ids: Sequence[int]) -> None:
        """Answer the reports of these jobs, and of no others, with a stop."""
        self.reports.let_end(job_ids)

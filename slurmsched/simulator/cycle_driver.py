"""slurmsched's own cycle beside a modelled Slurm, in virtual time."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from ..child_process import ChildFailed
from ..clock import ManualClock
from ..cluster.actions import MoveNodes, MovePartition, Requeue
from ..cluster.filling import with_columns
from ..cluster.kind_speeds import KindSpeeds
from ..cluster.records.progress import NO_PROGRESS, ProgressTable
from ..cluster.records.solved_starts import NO_SOLVED_STARTS, SolvedStarts
from ..cluster.restart_costs import RestartCosts
from ..cluster.state import ClusterState
from ..cycle import CycleContext, CycleReport, Surroundings, run_cycle
from ..db.memory import Memory
from ..db.records.gpu_usage import EVERY_S as PROFILES_EVERY_S
from ..db.store import Store
from ..db.tracking.node_moves import STEP_S
from ..decide.deadlines.solving import problem_after, solver_limit_s
from ..decide.policy import Policy
from ..decide.present_load import busy_share, follows_load, under_load
from ..decide.rules import (
    AdmissionRules,
    Composition,
    DeadlineRules,
    LeaseRules,
    MigrationRules,
    ProfilingRules,
    ResizingRules,
    RightsizingRules,
    Rules,
    SharingRules,
    SteeringRules,
    as_planned,
)
from ..models.arrival_counter import ArrivalCounter
from ..models.arrivals import STEP_S as ARRIVALS_STEP_S
from ..models.port import Model
from ..models.registry import shipped
from ..models.sharing.share_scores import scores_of
from ..models.sharing.sharing_model import SharingModel
from ..policies.admission import find_admission
from ..policies.contract import PLACEMENTS, PREEMPTIONS, SELECTIONS, SHARINGS, Ordering
from ..policies.deadlines.lease_solver import LeaseSolver
from ..policies.deadlines.milp_solver import check_installed
from ..policies.selection.leases import Leases
from ..powers import next_change_s
from ..slurm.write.budget import Budget
from ..slurm.write.writer import Writer
from .engine.calendar import NEVER
from .gpu_profiles import first_profile_s
from .ideal_cluster import IdealCluster
from .pace_reports import pace_reports
from .setup import EVERY_S
from .simulated_cluster import SimulatedCluster
from .slurmctld.state import ARRIVED, BACKFILL_DUE, CALC_DUE, MAIN_DUE
from .volatile_store import VolatileStore

logger = logging.getLogger(__name__)

ANSWER_S = 1.0  #: virtual time until an answer of the solver arrives

IDLE_CYCLES = 100
"""Cycles in a row without any change, with no event ahead, after which the run ends."""

MEASURING = frozenset({"profile", MovePartition.power, Requeue.power, MoveNodes.power})
"""The powers that measure new jobs on nodes of their own."""

Watch = Callable[[CycleReport], None]


def whole_queue(
    ordering: Ordering,
    admission: AdmissionRules | None = None,
    lease: LeaseRules | None = None,
    *,
    steering: SteeringRules | None = None,
    resizing: ResizingRules | None = None,
    rightsizing: RightsizingRules | None = None,
    migration: MigrationRules | None = None,
) -> Policy:
    """Return a policy that applies *ordering* to the whole queue.

    It holds the jobs that *admission* keeps out, and stops those that had their *lease*. The other rules are those of
    types, numbers of GPUs, CPUs and memory, and overloaded nodes; None leaves these to jobs.
    """
    powers = {"order"} if admission is None else {"order", *find_admission(admission.part).powers}
    if lease is not None:
        powers |= PREEMPTIONS.find(lease.part).powers
    powers |= {"steer"} if steering is not None else set()
    powers |= {"resize", "requeue", "hold"} if resizing is not None else set()
    powers |= {"rightsize"} if rightsizing is not None else set()
    powers |= {"migrate", "requeue", "hold"} if migration is not None else set()
    rules = Rules(
        powers=frozenset(powers),
        scope="queue",
        admission=admission,
        lease=lease,
        steering=steering,
        resizing=resizing,
        rightsizing=rightsizing,
        migration=migration,
    )
    return Policy(ordering, rules)


def composed(
    ordering: Ordering,
    composition: Composition,
    sharing: SharingRules | None = None,
    profiling: ProfilingRules | None = None,
    measuring: frozenset[str] = MEASURING,
    admission: AdmissionRules | None = None,
) -> Policy:
    """Return a policy that starts jobs itself, in *ordering*, on a cluster that carries plans out as they are.

    *measuring* are the powers of *profiling*.
    """
    selection = SELECTIONS.find(composition.selection)
    powers = selection.powers
    if sharing is not None:
        powers |= SHARINGS.find(sharing.rule).powers
    if profiling is not None:
        powers |= measuring
    leases = selection.function.terms if isinstance(selection.function, Leases) else None
    deadlines = None if leases is None else DeadlineRules(reserve=leases.reserve, lead_s=0.0, leases=leases)
    rules = Rules(
        powers=powers,
        scope="queue",
        starvation_s=math.inf,
        executor=as_planned(composition),
        admission=admission,
        sharing=sharing,
        profiling=profiling,
        deadlines=deadlines,
    )
    return Policy(ordering, rules)


@dataclass
class CycleDriver(Surroundings):
    """The cycles of a daemon in act mode, every *every_s* seconds of virtual time, with a real write budget."""

    cluster: SimulatedCluster
    policy: Policy
    model: Model
    every_s: float = EVERY_S
    writes_per_s: float = 20.0  #: updates to slurmctld, sustained
    writes_burst: int = 100  #: updates in one go
    store: Store | None = None  #: with tables; None discards the records of decisions
    learns: bool = False
    spacing_s: float = 0.0  #: least time to the next cycle after one that had nothing to write
    arrivals: ArrivalCounter | None = None  #: of the load that the rules follow; None keeps them as they are
    watch: Watch = lambda report: None
    began: Callable[[str], None] = lambda phase: None  #: called with each phase of a cycle as it begins
    slowdowns_known: bool = False  #: the cluster shows what spreading costs each job; else it is measured
    context: CycleContext = field(init=False)
    _clock: ManualClock = field(init=False, default_factory=ManualClock)
    _cycles: int = field(init=False, default=0)
    _delivered_s: float = field(init=False, default=-math.inf)  #: until when nodes delivered first profiles
    _ended_s: float = field(init=False, default=-math.inf)  #: when runs ended last
    _change_s: float = field(init=False, default=-math.inf)  #: when the next decision may differ by time alone
    _load_s: float = field(init=False, default=math.inf)  #: when the rules may change with the load
    _next_move_s: float = field(init=False, default=-math.inf)  #: when nodes may move again after the last move
    _kind_speeds: KindSpeeds = field(init=False, default_factory=KindSpeeds)
    _restart_costs: RestartCosts = field(init=False, default_factory=RestartCosts)
    _solver: LeaseSolver = field(init=False, default_factory=LeaseSolver)
    _solved: SolvedStarts = field(init=False, default=NO_SOLVED_STARTS)
    _reports: ProgressTable = field(init=False, default=NO_PROGRESS)
    _whole_policy: Policy = field(init=False)  #: with its speed curve, before it follows the load
    _store: Store = field(init=False)
    _name: str = field(init=False)

    def __post_init__(self) -> None:
        if solver_limit_s(self.policy.rules):
            check_installed()
        facts = self.cluster.facts()
        self._store, self._name = self.store or VolatileStore.blank(), facts.cluster
        self._whole_policy = self._with_curve(self.policy).at_site(facts.config)
        self.context = CycleContext(
            cluster=self.cluster,
            memory=Memory(self._store, cluster=self._name, monotonic=self._clock.monotonic),
            model=self.model,
            policy=self._whole_policy,
            writer=Writer(self.cluster, self.budget()),
            clock=self._clock,
            learns=self.learns,
            beside=self,
        )

    def budget(self) -> Budget:
        """Return the write budget of a daemon."""
        return Budget(self.writes_per_s, self.writes_burst)

    def run(self) -> None:
        """Run to the end of all jobs, or until nothing more can happen.

        Cycles are skipped while nothing changed since the last one, that had nothing left to write, and no decision
        changes by time alone.
        """
        with closing(self._solver):
            self._run()

    def _run(self) -> None:
        observed, quiet, idle, again_s = (-1, -1, -1, -1), False, 0, -np.inf
        while not self.cluster.drained and idle < IDLE_CYCLES:
            now_s = self._next_s(quiet)
            self.cluster.advance(now_s)
            if now_s == NEVER:
                return
            looks = self._glance()
            unchanged = now_s < self._change_s and (looks == observed or now_s < again_s)
            forecast = now_s >= self._load_s
            if quiet and unchanged and not self._load_changes(now_s):
                # Without this a job that can never start would be waited for from forecast to forecast, without end.
                idle += forecast and looks == observed and self._event_s() == NEVER
                continue
            report = self.cycle(now_s)
            idle = idle + 1 if looks == observed and self._event_s() == NEVER else 0
            observed, quiet = self._glance(), not report.actions and not report.deferred and not report.refused
            again_s = now_s + self.spacing_s

    def cycle(self, now_s: float) -> CycleReport:
        """Run one cycle, now."""
        self._cycles += 1
        self._clock.now_s = now_s
        if self._reads_profiles:
            self._store.add_profiles(self._name, self.cluster.first_profiles(self._delivered_s))
            self._delivered_s = now_s
        self._follow_load(now_s)
        report = run_cycle(self.context, self._cycles, now_s, "act")
        policy = self.context.policy
        self._change_s = next_change_s(report.view, report.plan, policy.ordering, policy.rules)
        self._note_load(report)
        if any(isinstance(action, MoveNodes) for action in report.plan.actions):
            self._next_move_s = now_s + STEP_S
        if self._next_move_s > now_s:
            self._change_s = min(self._change_s, self._next_move_s)
        self._solve(report)
        if self._reads_profiles:
            self._store.add_profiles(self._name, self.cluster.profiles(report.ended))
            self._change_s = min(self._change_s, self._next_profiles_s(report))
        self.watch(report)
        return report

    def _follow_load(self, now_s: float) -> None:
        """Decide by the policy under the present load, where its rules follow that."""
        if self.arrivals is not None and follows_load(self.policy.rules):
            self.context.policy = self._under_load(self.arrivals, now_s)

    def _under_load(self, arrivals: ArrivalCounter, now_s: float) -> Policy:
        """Return the policy under the load of now; the next forecast of arrivals may change it."""
        self._load_s = (now_s // ARRIVALS_STEP_S + 1) * ARRIVALS_STEP_S
        busy = busy_share(self.cluster.nodes, self.policy.rules)
        return under_load(self._whole_policy, arrivals.outlooks(now_s), busy)

    def _load_changes(self, now_s: float) -> bool:
        """Return True if the next forecast of arrivals is due, and the policy under it is another one."""
        if self.arrivals is None or now_s < self._load_s:
            return False
        return self._under_load(self.arrivals, now_s) != self.context.policy

    def _note_load(self, report: CycleReport) -> None:
        """Count the arrivals of a cycle."""
        if self.arrivals is not None and follows_load(self.policy.rules):
            self.arrivals.observe(report.view, report.ended)

    def _solve(self, report: CycleReport) -> None:
        """Solve the problem that a cycle leaves, for the cycles after it; without an answer the last one stays."""
        request = problem_after(report.view, report.plan, self.policy.rules)
        if request is None:
            return
        try:
            solved = self._solver.solve(request, solver_limit_s(self.policy.rules))
        except ChildFailed as error:
            logger.warning("the solver gave no answer: %s", error)
            return
        if solved is None:
            return
        if not np.isin(solved.job_id, self._solved.job_id).all():
            self._change_s = min(self._change_s, report.now_s + ANSWER_S)
        self._solved = solved

    def _next_profiles_s(self, report: CycleReport) -> float:
        """Return the time by which waiting jobs may know more: from runs that ended, or from unknown running jobs."""
        if len(report.ended):
            self._ended_s = report.now_s
        if not len(report.view.pending):
            return math.inf
        running = report.view.running
        first_s = first_profile_s(running.started_s, running.coldstart_s)[~running.measured]
        read_s = np.append(first_s, self._ended_s) + PROFILES_EVERY_S
        return float(np.min(read_s[read_s > report.now_s], initial=math.inf))

    def entering(self, phase: str) -> None:
        """Report that a phase of the cycle begins."""
        self.began(phase)

    def solved(self) -> SolvedStarts:
        """Return the latest answer of the solver."""
        return self._solved

    def progress(self) -> ProgressTable:
        """Return what jobs report of their pace."""
        return self._reports

    def observed(self, state: ClusterState) -> None:
        """Note the pace of jobs, and the speeds of their kinds."""
        if self.policy.rules.migration is not None:
            self._reports = pace_reports(state)
        if self._measures_slowdowns:
            self._kind_speeds.observe(state)

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with the share scores of jobs, where jobs share, and with what spreads and restarts cost."""
        columns = [self._kind_speeds.of_spread(state)] if self._measures_slowdowns else []
        columns += [self._restart_costs.columns(state)] if self.policy.rules.resizing is not None else []
        columns += [scores_of(state, _shipped_scores())] if self._shares else []
        return with_columns(state, columns)

    def _with_curve(self, policy: Policy) -> Policy:
        """Return *policy* with the speed curve that comes with slurmsched, unless it has another one."""
        rules = policy.rules.sharing
        if rules is None or not self._shares or rules.curve != SharingRules.curve:
            return policy
        sharing = replace(rules, curve=_shipped_scores().speeds.knots())
        return replace(policy, rules=replace(policy.rules, sharing=sharing))

    @property
    def _reads_profiles(self) -> bool:
        """True if decisions depend on what jobs do with their GPUs."""
        return self._shares or self.policy.rules.profiling is not None

    @property
    def _measures_slowdowns(self) -> bool:
        """True if placing jobs depends on how fast others were when spread, and the cluster does not show it."""
        parts = self.policy.rules.executor.starts_by
        return parts is not None and PLACEMENTS.find(parts.placement).measured and not self.slowdowns_known

    @property
    def _moves_running(self) -> bool:
        """True if running jobs may be stopped for their own sake: to leave a node, or to come back with more GPUs."""
        return self.policy.rules.migration is not None or self.policy.rules.resizing is not None

    @property
    def _shares(self) -> bool:
        return self.policy.rules.sharing is not None and self.policy.rules.sharing.makes_pairs

    def _next_s(self, quiet: bool) -> float:
        """Return the time of the next cycle.

        With an empty queue, that is the first beat after the next arrival, unless running jobs may be stopped without a
        waiting one; with nothing to write, after the next event.
        """
        model, now_s, event_s = self.cluster.model, self.cluster.now_s, -math.inf
        waiting = bool(model.queue.many[0])
        if not waiting and not (self._moves_running and model.stage.running.many[0]):
            now_s = max(now_s, self._arrival_s())
        elif quiet:
            loops_s = min(float(model.clock[MAIN_DUE]), float(model.clock[BACKFILL_DUE])) if waiting else NEVER
            event_s = min(self._event_s(), loops_s, self._change_s, self._load_s)
        if NEVER in (now_s, event_s):
            return NEVER
        event_s = min(event_s, float(model.clock[CALC_DUE]))
        beat = math.floor(now_s / self.every_s) + 1
        return max(beat, math.ceil(max(event_s, now_s) / self.every_s)) * self.every_s

    def _arrival_s(self) -> float:
        model = self.cluster.model
        row = int(model.clock[ARRIVED])
        return NEVER if row == len(self.cluster.jobs) else float(model.stage.life.submit_s[row])

    def _event_s(self) -> float:
        """Return the time of the next event, not counting Slurm's loops."""
        calendar = self.cluster.model.stage.calendar
        return min(self._arrival_s(), float(calendar.at_s[0]) if calendar.many[0] else NEVER)

    def _glance(self) -> tuple[int, int, int, int]:
        """Return numbers that change when a job arrives, starts or ends."""
        model, stage = self.cluster.model, self.cluster.model.stage
        waiting, running = int(model.queue.many[0]), int(stage.running.many[0])
        return int(model.clock[ARRIVED]), waiting, running, int(np.sum(stage.life.restarts))


@dataclass
class IdealDriver(CycleDriver):
    """The cycles beside a cluster that carries plans out as they are: one at each event, without a write budget."""

    cluster: IdealCluster

    def budget(self) -> Budget:
        """Return a budget that bounds nothing."""
        return Budget(1e9, 10**9)

    def _run(self) -> None:
        while self.cluster.advance_to_decision():
            self.cycle(self.cluster.now_s)
            self.cluster.decided(self._change_s)


@cache
def _shipped_scores() -> SharingModel:
    """Return the model of share scores that comes with slurmsched."""
    return shipped().read_as(SharingModel.of_document)

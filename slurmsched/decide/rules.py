"""Rules of decisions: the settings that decide() reads, as one value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from ..cluster.actions import POWERS
from ..cluster.columns import BoolArray
from ..cluster.jobs import JobTable
from ..cluster.nodes import QosTable
from ..cluster.records.faults import Instability
from ..cluster.records.node_loans import LentNodes
from ..errors import ConfigError
from ..policies.contract import SHARINGS
from ..policies.deadlines.lease_terms import LeaseTerms
from ..policies.deadlines.value_steps import SOFT_STEPS
from ..policies.sharing_candidates import OFF, PackingLimits
from .points_cap import NO_WEIGHTS, PriorityWeights, natural_cap

Scope = Literal["points", "qos", "queue"]


@dataclass(frozen=True, kw_only=True)
class StopTerms:
    """How running jobs are asked to stop: the same for promises, leases, overloaded nodes and sizes."""

    stop_s: float = 120.0  #: time to save the work before the requeue
    stop_signal: str = "URG"  #: the signal of a stop request
    asks_a_day: int = 4  #: most stop requests to a job within a day


@dataclass(frozen=True, kw_only=True)
class RestartedTerms(StopTerms):
    """The same where plans count what it costs to go on from saved work."""

    restart_s: float = 60.0  #: planned cost of resuming a job of one GPU after a stop
    restart_doubling_s: float = 0.0  #: further cost for each doubling of its GPUs


@dataclass(frozen=True)
class DeadlineRules(RestartedTerms):
    """Rules of promises to jobs with deadlines."""

    margin: float = 0.9  #: the share of such runs that end within the planned runtime
    reserve: float = 0.05  #: share of the GPUs left out of new promises
    foreseen: float = 1.0  #: part of what smaller jobs asked for in the last day that promises leave to such jobs
    long_s: float = 14_400.0  #: planned runtime above which a job is long
    long_share: float = 1.0  #: largest share of the GPUs of long jobs without a promise while promised ones wait
    lead_s: float = 120.0  #: planned time from first place in the order to the start
    hold_s: float = 30.0  #: one delay of a job that blocks a promise
    hold_most_s: float = 3_600.0  #: the limit on the sum of its delays
    user_gpu_hours: float = 0.0  #: most promised to one user in a window; 0 for no limit
    account_gpu_hours: float = 0.0  #: most promised to one account in a window; 0 for no limit
    window_s: float = 604_800.0
    user_gpus: int = 0  #: most GPUs for which a user requests deadlines in an interval; 0 for no limit
    interval_s: float = 3_600.0
    user_share: float = 1.0  #: largest share of GPU time until any moment promised to one user; 1 for no limit
    exempt: tuple[str, ...] = ()  #: users and accounts without a quota
    soft_steps: tuple[tuple[float, float], ...] = SOFT_STEPS
    yields: bool = False  #: running jobs with ckpt are asked to stop for promises
    preemption: str = "least-loss"  #: the part of the policy that chooses them
    lease_s: float = 300.0  #: minimum runtime before a stop request, and between two of them
    promised_lease_s: float = 300.0  #: the same of a job with a promise
    slack_s: float = 0.0  #: promised jobs run so as to end this long before their time where they can
    restart_s: float = 0.0
    again_s: float = 0.0  #: a refused request is answered again after each such time; 0 for never
    solver_s: float = 0.0  #: seconds for the solver after a cycle; 0 for none
    answers: bool = True  #: new requests are answered; otherwise they wait for their answer
    leases: LeaseTerms | None = None  #: of a cluster without Slurm, where leases end at once

    @property
    def terms(self) -> LeaseTerms:
        """The terms of plans; on Slurm they count in leases of jobs without a promise."""
        if self.leases is not None:
            return self.leases
        lengths = {"beat_s": self.lease_s, "lease_s": self.lease_s, "slack_s": self.slack_s, "solver_s": self.solver_s}
        return LeaseTerms(
            reserve=self.reserve,
            foreseen=self.foreseen,
            last_s=0.0,  # ``again_s`` asks refused jobs again
            restart_s=self.restart_s,
            restart_doubling_s=self.restart_doubling_s,
            **lengths,
        )


@dataclass(frozen=True)
class LeaseRules(RestartedTerms):
    """Rules of leases: a running job with ckpt that had its lease yields to jobs that come before it in the order."""

    part: str  #: the part of the policy that chooses them, with the length of a lease
    lease_s: float  #: minimum runtime before a stop request, and between two of them
    lead_s: float = 120.0  #: as in ``DeadlineRules``


@dataclass(frozen=True)
class ProfilingRules:
    """Rules of measuring new jobs in a profiling partition first (Lucid section 3.2)."""

    partition: str  #: the profiling partition
    n_max: int = 8  #: most GPUs of a measured job (N_prof)
    n_least: int = 1  #: N_prof in a burst
    t_s: float = 200.0  #: longest measuring time (T_prof)
    t_least_s: float = 60.0  #: T_prof in a burst
    wait_s: float = 600.0  #: a job that waited longer is not measured first any more
    home: str = ""  #: the partition that lends nodes and borrows them; empty for none
    nodes_most: int = 2  #: most nodes that the profiling partition has beyond its own
    pressure: float = 0.0  #: of new jobs, now; see ``under``
    part: str = "new-jobs"  #: the part of the policy that chooses the jobs and the nodes

    def under(self, pressure: float) -> ProfilingRules:
        """Return these rules under a *pressure* of new jobs, from 0 for none to 1 for a burst."""
        n_max = self.n_max + round(pressure * (min(self.n_least, self.n_max) - self.n_max))
        t_s = self.t_s + pressure * (min(self.t_least_s, self.t_s) - self.t_s)
        return replace(self, n_max=n_max, t_s=t_s, pressure=pressure)


@dataclass(frozen=True)
class SharingRules:
    """Rules of sharing GPUs; see ``policies.sharing_candidates.PackingLimits``."""

    partition: str = "shared"  #: the partition of nodes on which GPUs are shared; empty where they are on all nodes
    capacity: int = 2  #: the largest sum of share scores on a GPU, now
    memory_mib: float = 0.0  #: GPU memory that two jobs may use together
    other_users: bool = False
    wait_s: float = 30.0  #: delay of the start of a job that is being changed
    patience_s: float = 300.0  #: time it then waits to start before it gets its own GPUs back
    failed: tuple[tuple[str, ...], ...] = ()  #: kinds of jobs that failed together
    evict: bool = True  #: stop one of two jobs with an unstable joint load, if it has ckpt
    unstable: tuple[Instability, ...] = ()  #: the latest such pairs, newest first
    rule: str = "indolent"  #: who joins whom: a name in ``SHARINGS``, with its parameters
    wide: bool = True  #: a job may join on some of the GPUs of a wider one
    links: tuple[tuple[float, ...], ...] = ()  #: GB/s between the GPUs of a node of the partition; empty if unknown
    curve: tuple[tuple[float, float], ...] = PackingLimits.curve  #: speed of two jobs by the sum of their utilisations
    accounts: tuple[str, ...] = ()  #: whose jobs share; empty for all
    optin: bool = False  #: only jobs with ``pack`` share
    kept: tuple[tuple[str, float], ...] = ()  #: kinds of jobs that kept less than the curve says, and the part of it
    least_speed: float = PackingLimits.least_speed  #: what two jobs must be expected to keep, as the mean of both
    least_speed_each: float = PackingLimits.least_speed_each  #: and each of them
    margin: float = PackingLimits.margin  #: by which the expected mean must exceed ``least_speed``
    apart_s: float | None = None  #: the cost of giving a guest GPUs of its own, where plans happen as they are

    @property
    def makes_pairs(self) -> bool:
        """True unless no jobs share now."""
        return self.capacity != OFF and SHARINGS.find(self.rule).pairs_jobs

    def packing(self, demand: float = 0.0) -> PackingLimits:
        """Return the limits on pairs of jobs, where *demand* jobs wait per GPU of the cluster."""
        return PackingLimits(
            self.capacity,
            self.memory_mib,
            self.other_users,
            failed=frozenset(frozenset(kinds) for kinds in self.failed),
            wide=self.wide,
            curve=self.curve,
            least_speed=self.least_speed,
            least_speed_each=self.least_speed_each,
            demand=demand,
            margin=self.margin,
        )


@dataclass(frozen=True)
class AdmissionRules:
    """Rules of the jobs that wait outside; on Slurm each does so under a hold that expires by itself."""

    part: str  #: the part of the policy that admits jobs, as ``find_admission`` takes it
    hold_s: float = 30.0  #: a hold with less time left is renewed; 0 makes no holds
    interactive_gpu_hours: float = 2.0  #: for which interactive jobs of a user pass the line within a day


@dataclass(frozen=True)
class SteeringRules:
    """Rules of steering: untyped jobs go to the type of GPU on which they end soonest."""

    patience_s: float = 86_400.0  #: a job is let go when its type is full after this time
    again_s: float = 14_400.0  #: and not steered again before this time is over
    least_gain: float = 1.1  #: least speed on its fastest type over that on its slowest one


@dataclass(frozen=True)
class MigrationRules(RestartedTerms):
    """Rules of migration: a running job with ckpt leaves an overloaded node where that gains more than it costs."""

    overload: float = 0.9  #: the part of its CPUs, memory or GPUs above which a node is overloaded
    for_s: float = 600.0  #: the loads of nodes in a view are the lowest of so long
    every_s: float = 3_600.0  #: the shortest time between two requests to a job, and the longest that it is kept off
    patience_s: float = 600.0  #: a job that waits so long after it left a node may go back


@dataclass(frozen=True)
class RightsizingRules:
    """Rules of right-sizing: waiting jobs ask for the CPUs and the memory that they use."""

    accounts: tuple[str, ...] = ()  #: whose jobs are sized by what their kind used; others by their owner's tokens
    margin: float = 0.25  #: beyond what earlier runs used at most, as a part of it
    least_change: float = 0.1  #: the least change that is written, as a part of what Slurm has
    again_s: float = 600.0  #: the least time between two changes of a job
    history: bool = True  #: the use of earlier runs has been read; until then tokens alone give jobs a first size


@dataclass(frozen=True)
class ResizingRules(StopTerms):
    """Rules of sizes: jobs with gpus=A-B and ckpt run on as many GPUs as serve all jobs best."""

    least_s: float = 600.0  #: between two times that a job gets more GPUs, or is stopped for another number
    restart_s: float = 120.0  #: what a restart costs where none was seen yet
    doubling: float = 1.8  #: speed on twice as many GPUs of a job of an unknown kind
    nodes: bool = False  #: change the number of nodes of jobs on several too
    division: str = "optimus"  #: the rule that divides what is free: a key of ``SIZE_DIVISIONS``

    @property
    def lease_s(self) -> float:
        """The minimum runtime before a stop request, and between two of them."""
        return self.least_s

    @property
    def lead_s(self) -> float:
        """The planned time from a stop to the start of another job; none waits for these stops."""
        return 0.0


@dataclass(frozen=True)
class SuspensionRules:
    """Rules of suspension: of two jobs that take turns on GPUs and harm each other, the later one pauses in turns."""

    most_s: float = 300.0  #: for which it is suspended at a time, at most


@dataclass(frozen=True)
class TrialRules:
    """Rules of a trial of the policy."""

    off: bool = False  #: no new change is begun, and those under way are kept and ended
    holdout: float = 0.0  #: share of jobs that keep the place of Slurm's own order, and are not changed
    seed: int = 0  #: which ones


@dataclass(frozen=True)
class Composition:
    """The parts of a policy that choose the jobs to start, where no Slurm does; each by name, with its parameters."""

    selection: str
    placement: str = "consolidate"


@dataclass(frozen=True)
class Executor:
    """What the executor of a plan can do, by default what Slurm or its model can; decisions ask for it by name."""

    starts_by: Composition | None = None  #: the parts that choose the jobs it starts; None where Slurm chooses them
    takes_points: bool = True  #: it orders jobs by their points
    delays_jobs: bool = True  #: jobs wait under begin times, and are seen while they do
    changes_requests: bool = True  #: waiting jobs can ask for other nodes, sizes and numbers of GPUs
    has_slots: bool = True  #: jobs share GPUs through slots that they ask for


def as_planned(parts: Composition) -> Executor:
    """Return the abilities of an executor that carries plans out as they are: it starts the jobs that these name."""
    return Executor(parts, takes_points=False, delays_jobs=False, changes_requests=False, has_slots=False)


@dataclass(frozen=True)
class Rules:
    """Bounds on a Plan; every decision record stores them for replays."""

    powers: frozenset[str] = frozenset()  #: the powers switched on, out of ``POWERS``, whatever the mode
    scope: Scope = "points"
    max_points: int = 1_000_000  #: most points a job can get where scope is points; 0 for the site's own cap
    window: int = 500  #: jobs from the top that get points
    only_partitions: frozenset[str] = field(default_factory=frozenset)  #: empty means all
    starvation_s: float = 604800.0  #: after this wait only jobs that waited longer rank above
    deadlines: DeadlineRules | None = None  #: None if nothing is promised
    sharing: SharingRules | None = None  #: new pairs need power.share; finishing or undoing a change does not
    profiling: ProfilingRules | None = None  #: None if no job is measured first
    most_requeues: int = 0  #: a job that Slurm has requeued so often is asked to stop no more; 0 for no limit
    guests: tuple[str, ...] = ()  #: powers of plug-ins, with their parameters
    stopping: str = "never"  #: the part of the policy that lets jobs with ``stop=`` end early
    executor: Executor = Executor()
    admission: AdmissionRules | None = None  #: None if every job is considered
    lease: LeaseRules | None = None  #: None if running jobs yield to promised ones alone
    steering: SteeringRules | None = None  #: None if no job is sent to a type of GPU
    migration: MigrationRules | None = None  #: None if no job is asked to leave an overloaded node
    rightsizing: RightsizingRules | None = None  #: None if CPUs and memory of jobs stay as they are
    resizing: ResizingRules | None = None  #: None if no job gets another number of GPUs
    suspension: SuspensionRules | None = None  #: None if no job is suspended
    trial: TrialRules | None = None  #: None without a trial of the policy
    waiting: frozenset[str] = frozenset()  #: the powers that sit out this decision, see ``turns``
    loans: tuple[LentNodes, ...] | None = None  #: partitions whose nodes we changed; None while no node may move
    weights: PriorityWeights = NO_WEIGHTS  #: the site's, which its own cap on points follows

    def cap(self, qos: QosTable) -> int:
        """Return the most points a job can get where scope is points, at a site with these QOS; at least 1."""
        return self.max_points or natural_cap(qos, self.weights)

    def may_requeue(self, jobs: JobTable) -> BoolArray:
        """Select the jobs that were requeued less often than the limit."""
        return np.asarray((jobs.restarts < self.most_requeues) | (self.most_requeues == 0), dtype=np.bool_)

    @property
    def asks_a_day(self) -> int:
        """Most stop requests to a job within a day; 0 where none is sent."""
        terms = self.deadlines or self.lease or self.migration or self.resizing
        return 0 if terms is None else terms.asks_a_day

    @property
    def optional_columns(self) -> frozenset[str]:
        """The columns of pending jobs, the loads of nodes, and the limits, that these rules need and no other ones."""
        leaves = self.migration is not None
        needed = {
            "excluded_nodes": leaves or self.steering is not None,
            "node_request": self.rightsizing is not None,
            "node_range": self.resizing is not None,
            "node_loads": leaves,
            "limits": any(
                terms is not None for terms in (self.steering, self.rightsizing, self.resizing, self.sharing)
            ),
        }
        return frozenset(name for name, is_needed in needed.items() if is_needed)

    def __post_init__(self) -> None:
        unknown = self.powers - set(POWERS)
        if unknown:
            raise ValueError(f"no such power: {sorted(unknown)}; there are {', '.join(POWERS)}")
        if self.max_points < 0:
            raise ValueError(f"max_points is {self.max_points}: it is 1 or more, or 0 for the site's own cap")


def read_steps(texts: Sequence[str]) -> tuple[tuple[float, float], ...]:
    """Parse steps of a soft deadline such as ``80@1.1``: per cent of worth at a multiple of its time; ConfigError."""
    steps: list[tuple[float, float]] = []
    for text in texts:
        match = re.fullmatch(r"(\d{1,2})@(\d+(?:\.\d+)?)", text)
        worth, times = (int(match[1]) / 100, float(match[2])) if match else (0.0, 0.0)
        before = steps[-1] if steps else (1.0, 1.0)
        if not (0 < worth < before[0] and times > before[1]):
            raise ConfigError(
                f"deadline.soft_steps: {text!r} is no step; accepted are PERCENT@TIMES such as 80@1.1: 99 to 1 per cent"
                " and falling, with times above 1 and rising"
            )
        steps.append((worth, times))
    return tuple(steps)

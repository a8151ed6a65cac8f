"""A user who games what jobs say and when they wait: his jobs among those of honest users, beside the daemon's cycle.

The cheater has jobs of two hours within some days, one for twelve of the others'; only the time from the moment that
he wants one until it is done counts. Each strategy says what is submitted for a job, and what its owner then does to it
(``owners``). Honest users ask for deadlines, save their work and run on several numbers of GPUs as his honest jobs do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gaming import fresh
from owners import BEGIN, HOLD, NICE, RELEASE, Act, OwnedCluster, OwnedDriver, Owners

from slurmsched.cluster.columns import FloatArray, IntArray, Labels
from slurmsched.cluster.jobs import JobTable, comment_columns
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import AdmissionRules, DeadlineRules, LeaseRules, ResizingRules, Rules, SteeringRules
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.engine.job_state import JobSpeed, alone
from slurmsched.simulator.trace_forecasts import as_outcomes
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.synthetic_users import SyntheticUsers
from slurmsched.simulator.workload.workload import Workload, as_submitted, workload

LENGTH_S, LIMIT_S, GPUS = 7_200.0, 14_400.0, 4
FAST, SLOW, KIND_SPEEDS = "a100", "v100", "a100=1 v100=0.5"
PIECES = 6
EARLY_S = 43_200.0  #: how long before it is wanted a ticket is submitted
DUE_S = 28_800.0  #: honest deadlines, from the submission on
ACCOUNT_USERS = 5
EVERY_S = 60.0
BAIT, OTHERS = -1, -2
HOUR_S = 3600.0
NODES, NODE_GPUS = 4, 8
PEERS = 250


@dataclass(frozen=True)
class Piece:
    """One submission of the cheater."""

    submit_s: float
    job: int = BAIT  #: the number of the job that it is, or is a piece of
    runtime_s: float = LENGTH_S
    limit_s: float = LIMIT_S
    gpus: int = GPUS
    name: str = "train"
    user: str = "cheater"
    says: str = ""  #: tokens of its comment beside those of the site
    due_s: float = DUE_S  #: the deadline that it asks for, from its submission on
    held: bool = False  #: submitted held
    begin_s: float = -math.inf
    het: bool = False
    interactive: bool = False
    array: int = 0  #: the number of its array among those of the cheater; 0 for none
    chained: bool = False  #: depends on the piece before
    acts: tuple[tuple[float, str, float], ...] = ()
    ticket_s: float = -math.inf  #: before this it is requeued and held as often as it starts
    impatient: bool = False  #: its owner takes back each begin time that is set for it
    report: float = math.nan  #: of the fall of its loss the part that it says came lately


Strategy = Callable[[int, float], list[Piece]]
"""What is submitted for a job of that number and moment."""


def honest(number: int, at_s: float) -> list[Piece]:
    return [Piece(at_s, number)]


def says(text: str, **details: Any) -> Strategy:
    return lambda number, at_s: [Piece(at_s, number, says=text, **details)]


def in_time(number: int, at_s: float, **details: Any) -> list[Piece]:
    """A chain of short jobs with limits hardly longer than they are."""
    piece_s = LENGTH_S / PIECES
    return [
        Piece(at_s, number, piece_s, 1.1 * piece_s, name=f"part_{n}", chained=n > 0, **details) for n in range(PIECES)
    ]


def at_a_prompt(number: int, at_s: float) -> list[Piece]:
    """A chain of short interactive jobs, each of which fits into a small allowance."""
    return in_time(number, at_s, interactive=True)


def in_width(number: int, at_s: float, array: bool = False) -> list[Piece]:
    """A job on each GPU in place of one on four."""
    return [Piece(at_s, number, gpus=1, array=number + 1 if array else 0) for _ in range(GPUS)]


def held_for_long(number: int, at_s: float) -> list[Piece]:
    """Submitted long before it is wanted, and held at once."""
    acts = (at_s - EARLY_S + 1, HOLD, 0.0), (at_s, RELEASE, 0.0)
    return [Piece(at_s - EARLY_S, number, ticket_s=at_s, acts=acts)]


def submitted_held(number: int, at_s: float) -> list[Piece]:
    return [Piece(at_s - EARLY_S, number, held=True, acts=((at_s, RELEASE, 0.0),))]


def ran_and_held(number: int, at_s: float) -> list[Piece]:
    """Submitted long before it is wanted; held after it ran for moments, and released when it is wanted."""
    return [Piece(at_s - EARLY_S, number, ticket_s=at_s, acts=((at_s, RELEASE, 0.0),))]


def held_and_released(number: int, at_s: float) -> list[Piece]:
    """Held and released by turns until it is wanted."""
    turns = np.arange(at_s - EARLY_S + 60, at_s - 600, 1_200.0)
    acts = [((turn, HOLD, 0.0), (turn + 900.0, RELEASE, 0.0)) for turn in turns.tolist()]
    return [
        Piece(
            at_s - EARLY_S, number, ticket_s=at_s, acts=(*(act for pair in acts for act in pair), (at_s, RELEASE, 0.0))
        )
    ]


def let_go_by_moments(number: int, at_s: float) -> list[Piece]:
    """Held, and let go for a moment again and again, to start where GPUs are free just then."""
    turns = at_s + 600.0 * np.arange(1, 145)
    acts = [((turn, RELEASE, 0.0), (turn + 5.0, HOLD, 0.0)) for turn in turns.tolist()]
    last = float(turns[-1]) + 600.0, RELEASE, 0.0
    return [Piece(at_s, number, acts=((at_s + 1, HOLD, 0.0), *(act for pair in acts for act in pair), last))]


def begins_later(number: int, at_s: float) -> list[Piece]:
    return [Piece(at_s - EARLY_S, number, begin_s=at_s)]


def begin_moved(number: int, at_s: float) -> list[Piece]:
    """A begin time far ahead, which its owner takes back when the job is wanted."""
    return [Piece(at_s - EARLY_S, number, begin_s=at_s + 10 * EARLY_S, acts=((at_s, BEGIN, at_s),))]


def begin_just_ahead(number: int, at_s: float) -> list[Piece]:
    """Begins in moments, again and again."""
    moments = at_s + 300.0 * np.arange(1, 60)
    return [
        Piece(
            at_s, number, begin_s=at_s + 20.0, acts=tuple((moment, BEGIN, moment + 5.0) for moment in moments.tolist())
        )
    ]


def due_when_it_begins(number: int, at_s: float) -> list[Piece]:
    """Submitted early with a begin time, so that its deadline is near when it begins."""
    return [Piece(at_s - DUE_S + 1.3 * LENGTH_S, number, begin_s=at_s)]


def impatient(number: int, at_s: float) -> list[Piece]:
    return [Piece(at_s, number, impatient=True)]


def nice_for_a_while(number: int, at_s: float) -> list[Piece]:
    return [Piece(at_s - EARLY_S, number, begin_s=at_s, acts=((at_s - EARLY_S + 1, NICE, 100.0), (at_s, NICE, 0.0)))]


BAIT_S, BAITS, AHEAD_S = 12.0, 5, HOUR_S


def baits(at_s: float, name: str, count: int = BAITS, **details: Any) -> list[Piece]:
    """Short runs under a name, which have ended before the job is wanted unless they wait for long."""
    return [Piece(at_s - AHEAD_S + 60.0 * n, BAIT, BAIT_S, name=name, **details) for n in range(count)]


def rotated_names(number: int, at_s: float) -> list[Piece]:
    return [Piece(at_s, number, name=fresh(number))]


def bait_under_one_name(number: int, at_s: float) -> list[Piece]:
    return [*baits(at_s, "train"), Piece(at_s, number)]


def bait_under_fresh_names(number: int, at_s: float) -> list[Piece]:
    return [*baits(at_s, fresh(number)), Piece(at_s, number, name=fresh(number))]


def short_and_long_limits(number: int, at_s: float) -> list[Piece]:
    name, limit_s = fresh(number), LENGTH_S + 60.0 * (number + 1)
    return [
        *baits(at_s, name, limit_s=120.0),
        *baits(at_s + 300.0, name, limit_s=limit_s),
        Piece(at_s, number, name=name, limit_s=limit_s),
    ]


def array_of_baits(number: int, at_s: float) -> list[Piece]:
    short = baits(at_s, "sweep", 30, array=number + 1, gpus=1)
    return [*(replace(piece, submit_s=at_s - AHEAD_S) for piece in short), Piece(at_s, number, name="sweep")]


def alternating(number: int, at_s: float) -> list[Piece]:
    return bait_under_fresh_names(number, at_s) if number % 2 else honest(number, at_s)


def colluding_pair(number: int, at_s: float) -> list[Piece]:
    users = ("cheater", "partner")
    one, other, name = users[number % 2], users[1 - number % 2], fresh(number // 2)
    return [
        *baits(at_s, name, user=other),
        *baits(at_s + 300.0, name, 3, user=one),
        Piece(at_s, number, name=name, user=one),
    ]


BAITING: Mapping[str, Strategy] = {
    "rotated names": rotated_names,
    "bait under one name": bait_under_one_name,
    "bait under fresh names": bait_under_fresh_names,
    "short and long limits": short_and_long_limits,
    "split jobs": in_time,
    "arrays": array_of_baits,
    "alternating": alternating,
    "colluding pair": colluding_pair,
}

LYING: Mapping[str, Strategy] = {
    "pace too fast": says("iterations=100,pace=1"),
    "pace too slow": says("iterations=100,pace=7200"),
    "pace, and all done": says("iterations=1000000,pace=7.2,done=999990"),
    "few iterations": says("iterations=1"),
    "reports of progress": says("iterations=1000", report=1.0),
    "urgent": says("urgency=10"),
    "near deadlines": says("", due_s=1.1 * LENGTH_S),
    "deadlines in minutes": says("", due_s=240.0),
    "pieces with tiny limits": lambda number, at_s: in_time(number, at_s, due_s=LENGTH_S),
    "a job on each GPU": in_width,
    "an array on GPUs": lambda number, at_s: in_width(number, at_s, array=True),
    "held for long": held_for_long,
    "submitted held": submitted_held,
    "ran and held": ran_and_held,
    "held by turns": held_and_released,
    "let go by moments": let_go_by_moments,
    "begins later": begins_later,
    "begin moved": begin_moved,
    "begins in moments": begin_just_ahead,
    "due when it begins": due_when_it_begins,
    "begin taken back": impatient,
    "nice for a while": nice_for_a_while,
    "off": says("off"),
    "heterogeneous": says("", het=True),
    "interactive": says("", interactive=True),
    "interactive pieces": at_a_prompt,
}


@dataclass(frozen=True, eq=False)
class Site:
    """Honest users, what ran before, and how it is decided."""

    jobs: Workload
    history: Workload
    fleet: ClusterSpec
    wanted: int  #: jobs of the cheater

    def moments(self, seed: int) -> FloatArray:
        """Return when the cheater wants his jobs: with a job of each part of the others', busy times more often."""
        place = np.random.default_rng(seed).uniform(0.1, 0.9, self.wanted)
        rows = ((np.arange(self.wanted) + place) * (len(self.jobs) / self.wanted)).astype(np.int64)
        return self.jobs.submit_s[rows]


def site(seed: int, peers: int = PEERS, load: float = 0.95) -> Site:
    """Return a site with nearly all of its GPUs in use; half of its jobs are its past."""
    spec = SyntheticSpec(
        jobs=2 * peers,
        cluster_gpus=NODES * NODE_GPUS,
        load=load,
        seed=seed,
        habits=SyntheticUsers(users=40),
        gpu_mix=((1, 0.6), (2, 0.1), (4, 0.2), (8, 0.1)),
        longest_s=86_400.0,
    )
    every = synthetic(spec)
    groups = [f"group{code % ACCOUNT_USERS}" for code in range(len(every.user.names))]
    every = replace(every, account=Labels(every.user.codes, tuple(groups)).renamed(groups))
    jobs = every.take(slice(peers, None))
    return Site(jobs, every.take(slice(0, peers)), ClusterSpec.of(NODES, NODE_GPUS), peers // 12)


@dataclass(frozen=True)
class Way:
    """How a site decides, and what honest jobs say."""

    policy: Policy
    deadlines: bool = False
    restarts: bool = False  #: jobs save their work; half of them run on half or twice as many GPUs
    types: bool = False
    ahead_s: float = 0.0  #: LINE_AHEAD_S of its job_submit.lua
    load: float = 0.95  #: of the others, on GPUs of the fastest type

    def site(self, seed: int, peers: int = PEERS) -> Site:
        """Return a site on which this way is tried."""
        return site(seed, peers, self.load)


def ways() -> dict[str, Way]:
    order = {"powers": frozenset({"order"}), "scope": "queue", "starvation_s": 28_800.0}
    promises = {"powers": frozenset({"order", "hold", "comment"}), "deadlines": DeadlineRules()}
    line = {"powers": frozenset({"order", "hold"}), "admission": AdmissionRules("load:0.8", hold_s=2 * EVERY_S)}
    full = {**line, "admission": AdmissionRules("load:1.2", hold_s=2 * EVERY_S)}
    changes = {"powers": frozenset({"order", "hold", "requeue", "steer", "resize"})}
    leases = {"powers": frozenset({"order", "requeue"}), "lease": LeaseRules("lease 20m", 1_200.0)}
    every = {"steering": SteeringRules(), "resizing": ResizingRules(), "lease": LeaseRules("lease 20m", 1_200.0)}
    return {
        "sjf": Way(Policy(find_ordering("sjf"), Rules(**order))),
        "deadlines": Way(Policy(find_ordering("sjf"), Rules(**{**order, **promises})), deadlines=True),
        "line": Way(Policy(find_ordering("sjf"), Rules(**{**order, **line})), ahead_s=3 * EVERY_S),
        "line without job_submit.lua": Way(Policy(find_ordering("sjf"), Rules(**{**order, **line}))),
        "line above 1": Way(Policy(find_ordering("sjf"), Rules(**{**order, **full})), ahead_s=3 * EVERY_S),
        "mlfs-h": Way(Policy(find_ordering("mlfs-h"), Rules(**{**order, **leases})), restarts=True),
        "wfq": Way(Policy(find_ordering("wfq"), Rules(**order))),
        "powers": Way(
            Policy(find_ordering("sjf"), Rules(**{**order, **changes, **every})), restarts=True, types=True, load=0.72
        ),
    }


@dataclass(frozen=True, eq=False)
class Lot:
    """All jobs of a replay as Slurm gets them, and what their owners do."""

    jobs: Workload
    submitted: JobTable
    job: IntArray  #: of each row the number of the cheater's job, BAIT for his others, OTHERS for the rest
    pieces: Mapping[int, Piece]  #: those of the cheater, by row


def lot(of: Site, how: Way, strategy: Strategy, seed: int) -> Lot:
    """Return the jobs of *of* with those of a cheater."""
    pieces = [piece for number, at_s in enumerate(of.moments(seed).tolist()) for piece in strategy(number, at_s)]
    count, first = len(pieces), int(of.jobs.job_id.max()) + 1
    theirs = workload(
        count,
        job_id=first + np.arange(count),
        **{name: np.array([getattr(piece, name) for piece in pieces]) for name in ("submit_s", "runtime_s", "gpus")},
        time_limit_s=np.array([piece.limit_s for piece in pieces]),
        nodes=np.ones(count, dtype=np.int64),
        user=Labels.of([piece.user for piece in pieces]),
        name=Labels.of([piece.name for piece in pieces]),
        account=Labels.of(["group0"] * count),
        partition=Labels(np.full(count, of.jobs.partition.codes[0]), of.jobs.partition.names),
    )
    both = of.jobs.joined(theirs)
    comments = [*_asked(of, how), *(_tokens(how, piece) for piece in pieces)]
    job = np.concatenate([np.full(len(of.jobs), OTHERS), [piece.job for piece in pieces]])
    order = np.argsort(both.submit_s, kind="stable")
    jobs = replace(both.take(order), ckpt=np.full(len(order), how.restarts))
    place = np.argsort(order, kind="stable")
    by_row = dict(zip(place[len(of.jobs) :].tolist(), pieces, strict=True))
    return Lot(jobs, _submitted(jobs, Labels.of(comments).take(order), how, by_row), job[order], by_row)


def owners(of: Lot) -> Owners:
    """Return what the cheater does to his jobs."""
    job_id, rows = of.submitted.job_id.tolist(), of.pieces
    by_name = {id(piece): row for row, piece in rows.items()}
    ordered = sorted(rows, key=lambda row: job_id[row])
    before = dict(zip(ordered[1:], ordered, strict=False))
    assert len(by_name) == len(rows), "pieces are values of their own"
    return Owners(
        [Act(at_s, job_id[row], *act) for row, piece in rows.items() for at_s, *act in piece.acts],
        {job_id[row]: piece.ticket_s for row, piece in rows.items() if piece.ticket_s > 0},
        frozenset(job_id[row] for row, piece in rows.items() if piece.impatient),
        {job_id[row]: job_id[before[row]] for row, piece in rows.items() if piece.chained},
    )


def _asked(of: Site, how: Way) -> list[str]:
    """Return the tokens of honest users: every third asks for a deadline."""
    random = np.random.default_rng(7)
    asks = how.deadlines & (random.random(len(of.jobs)) < 1 / 3)
    limit_s = of.jobs.time_limit_s
    due_s = np.where(np.isfinite(limit_s), limit_s, of.jobs.runtime_s) * random.uniform(1.5, 6.0, len(of.jobs))
    ranges = how.restarts & (random.random(len(of.jobs)) < 0.5)
    texts = []
    for deadline, until_s, sized, gpus in zip(asks, due_s, ranges, of.jobs.gpus.tolist(), strict=True):
        tokens = [f"deadline=+{int(until_s // 60) + 1}m"] if deadline else []
        tokens += [f"gpus={max(gpus // 2, 1)}-{min(2 * gpus, NODE_GPUS)}"] if sized else []
        tokens += ["ckpt"] if how.restarts else []
        texts.append(f"slurmsched:{','.join(tokens)}" if tokens else "")
    return texts


def _tokens(how: Way, piece: Piece) -> str:
    tokens = [f"deadline=+{max(int(piece.due_s // 60), 1)}m"] if how.deadlines and piece.job != BAIT else []
    tokens += [f"gpus={GPUS // 2}-{2 * GPUS}"] if how.restarts and piece.gpus == GPUS and not piece.array else []
    tokens += ["ckpt"] if how.restarts else []
    tokens += [piece.says] if piece.says else []
    return f"slurmsched:{','.join(tokens)}" if tokens else ""


def _submitted(jobs: Workload, comment: Labels, how: Way, pieces: Mapping[int, Piece]) -> JobTable:
    """Return *jobs* with what their owners say, and with what the cheater does at their submission."""
    table = as_submitted(jobs).changed(**comment_columns(comment), comment=comment)
    if how.types:
        table = table.changed(type_speeds=Labels(np.zeros(len(jobs), dtype=np.int64), (KIND_SPEEDS,)))
    asks = np.array([since == "submit" for since in table.deadline_since])
    table = table.changed(deadline_s=np.where(asks, jobs.submit_s + table.deadline_at_s, np.inf))
    het, array, task = table.het_job_id.copy(), table.array_job_id.copy(), table.task_id.copy()
    interactive, reason, tasks = table.interactive.copy(), list(table.reason), dict[int, list[int]]()
    for row, piece in sorted(pieces.items()):
        het[row] = table.job_id[row] if piece.het else 0
        interactive[row] = piece.interactive
        reason[row] = "Dependency" if piece.chained else reason[row]
        if piece.array:
            theirs = tasks.setdefault(piece.array, [])
            theirs.append(row)
            array[row], task[row] = table.job_id[theirs[0]], len(theirs) - 1
    return table.changed(
        het_job_id=het, array_job_id=array, task_id=task, interactive=interactive, reason=Labels.of(reason)
    )


def _typed(fleet: ClusterSpec) -> ClusterSpec:
    """Return *fleet* with half of its nodes of a slower type."""
    half = len(fleet.nodes) // 2
    return replace(fleet, nodes=replace(fleet.nodes, gpu_type=Labels.of([FAST] * half + [SLOW] * half)))


def _pace(jobs: Workload, fleet: ClusterSpec) -> JobSpeed:
    kinds = np.zeros(len(jobs), dtype=np.int64)
    slow = np.array([kind == SLOW for kind in fleet.nodes.gpu_type]).astype(np.int64)
    return alone(jobs)._replace(type_kind=kinds, by_type=np.array([[1.0, 0.5]]), node_type=slow)


@dataclass(frozen=True)
class Waits:
    """Mean wait of the cheater's jobs and of all others', in hours."""

    cheater_h: float
    others_h: float


def waits(of: Site, how: Way, strategy: Strategy, seed: int, check: bool = False) -> Waits:
    """Run the daemon's cycle beside the modelled Slurm until all have ended."""
    every = lot(of, how, strategy, seed)
    fleet = _typed(of.fleet) if how.types else of.fleet
    cluster = OwnedCluster(
        every.jobs,
        fleet,
        submitted=every.submitted,
        pace=_pace(every.jobs, fleet) if how.types else None,
        owners=owners(every),
        ahead_s=how.ahead_s,
        checked=check,
    )
    for row, piece in every.pieces.items():
        cluster.submitted_as(row, piece.begin_s, piece.held)
    driver = OwnedDriver(cluster, how.policy, RuntimeModel.fit(as_outcomes(of.history)), every_s=EVERY_S, learns=True)
    driver.late_falls = {
        int(every.submitted.job_id[row]): piece.report
        for row, piece in every.pieces.items()
        if np.isfinite(piece.report)
    }
    driver.run()
    life = cluster.model.stage.life
    assert np.isfinite(life.ended_s).all(), "a job never ended"
    theirs, others, done_s = every.job >= 0, every.job == OTHERS, np.zeros(of.wanted)
    np.maximum.at(done_s, every.job[theirs], life.ended_s[theirs])
    waited_s = life.first_s[others] - every.jobs.submit_s[others]
    return Waits(float((done_s - of.moments(seed) - LENGTH_S).mean()) / HOUR_S, float(waited_s.mean()) / HOUR_S)

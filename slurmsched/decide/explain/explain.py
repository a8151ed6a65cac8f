"""Explanations of the place of a job: sentences about one view and its plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...cluster.exclusions import sent_to
from ...cluster.jobs import JobState
from ...cluster.plan import Plan, Standing
from ...cluster.state import View
from ...cluster.text.plural import count
from ...models.runtime.point_predictors import Reason
from ..deadlines.gpu_availability import gpus_in_use
from ..deadlines.preemption import stop_words
from ..ordering.greedy_fit import free_gpus
from ..ordering.ranking import base_priority, queueing_s, waited_s
from ..phrasing import spell
from ..request_words import request_words
from .deadlines import promise_words
from .eta import delayed_jobs
from .obstacles import obstacle


@dataclass(frozen=True)
class Why:
    """The reasons why a job is not running, with the figures behind them."""

    job_id: int
    known: bool  #: false if Slurm listed no such job in that cycle
    state: str
    standing: str
    rank: int | None  #: 1 is next; None if not ranked
    ahead: int
    ahead_gpus: int
    free_gpus: int
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Term:
    """A term of a job's priority: its name, value and text."""

    name: str
    value: float
    text: str


@dataclass(frozen=True)
class Explanation:
    """Forecast, rank and each term of the priority of one job."""

    job_id: int
    known: bool
    rank: int | None
    forecast_s: float | None
    low_s: float | None
    high_s: float | None
    source: str
    terms: tuple[Term, ...]
    sentences: tuple[str, ...]
    factors: tuple[Reason, ...] = ()  #: the factors of a trained model's forecast


@dataclass(frozen=True)
class QueueRow:
    """A pending job in ``slurmsched queue``."""

    job_id: int
    tasks: int
    rank: int | None
    standing: str
    user: str
    name: str
    partition: str
    gpus: int
    forecast_s: float
    waited_s: float  #: NaN while it does not queue
    points: int  #: our points at present
    wanted_points: int  #: our points in the wanted order
    runs: bool


HIDDEN = "(private)"
"""The placeholder in a view for a text that its reader may not see; it may stand for several users."""

Figures = tuple[float | None, float | None, float | None]

LEFT_ALONE = {
    Standing.OWNER_SAID_OFF: "its owner said slurmsched:off in the comment, so it has Slurm's own place",
    Standing.HELD_BY_USER: "its owner holds it; 'scontrol release {job}' lets it queue",
    Standing.HELD_BY_ADMIN: "an administrator holds it; ask them, or see 'scontrol show job {job}'",
    Standing.PRIORITY_FIXED: "its priority was set by hand, which overrides ours; 'scontrol release {job}' undoes that",
    Standing.NICE_SET: "it was given a nice value, which overrides our order; nice=0 undoes that",
    Standing.WAITS_FOR_DEPENDENCY: "it waits for the jobs it depends on ({dependency})",
    Standing.WAITS_FOR_BEGIN: "its begin time has not come",
    Standing.LIMIT_BLOCKED: "a limit of its account, QOS, array or licences blocks it (Slurm says {reason}), and "
    "until that ends it is not placed ahead of jobs that could run",
    Standing.IN_RESERVATION: "it belongs to a reservation ({reservation}), whose nodes are not shared with the queue",
    Standing.HETEROGENEOUS: "it is part of a heterogeneous job, whose components only Slurm can place together",
    Standing.OUT_OF_SCOPE: "its partition ({partition}) is not one that order.partitions names",
    Standing.PARTITION_CLOSED: "its partition ({partition}) takes no jobs now",
    Standing.CANNOT_RUN: "Slurm says it cannot run now: {reason}",
    Standing.SHARES: "it is on its way to GPUs that it shares with another job",
    Standing.OUTSIDE: "it waits outside, under a hold that ends by itself, until policy.admission lets it in",
}


def why(view: View, plan: Plan, job_id: int) -> Why:
    """Explain why *job_id* is not running: jobs ahead, obstacles, and changes that would help."""
    row = view.pending.row_of(job_id)
    if row is None:
        return _why_not_pending(view, plan, job_id)
    jobs = view.pending
    what = Standing(int(plan.jobs.standing[row]))
    rank = int(plan.jobs.rank[row])
    ahead = np.flatnonzero((plan.jobs.rank >= 0) & (plan.jobs.rank < rank))
    may_use = view.nodes.with_gpus_for(jobs.partition[row], jobs.gpu_type[row] or sent_to(jobs.steered[row]))
    free = free_gpus(view.nodes, may_use)
    sentences, kept = [_introduction(view, row)], obstacle(view, row)
    if kept and what in (Standing.RANKED, Standing.CANNOT_RUN):
        sentences.append(kept)
    elif what != Standing.RANKED:
        fields = {name: getattr(jobs, name)[row] for name in ("reason", "partition", "reservation", "dependency")}
        alone = _begin(view, row) if what == Standing.WAITS_FOR_BEGIN else LEFT_ALONE[what]
        sentences.append(f"We leave it alone: {alone.format(job=job_id, **fields)}.")
    else:
        sentences += _place(view, plan, row, ahead)
        sentences += _room(view, plan, row, ahead, may_use)
    sentences += promise_words(view, plan, int(jobs.job_id[row]))
    return Why(
        job_id=job_id,
        known=True,
        state="pending",
        standing=what.name.lower(),
        rank=rank + 1 if rank >= 0 else None,
        ahead=len(ahead),
        ahead_gpus=int((jobs.gpus * jobs.tasks)[ahead].sum()),
        free_gpus=free,
        sentences=tuple(sentences),
    )


def _begin(view: View, row: int) -> str:
    """Return the reason of a wait for a begin time, with the time left and whether a requeue set it."""
    jobs = view.pending
    left_s = float(jobs.eligible_s[row]) - view.now_s
    if not left_s > 0:
        return LEFT_ALONE[Standing.WAITS_FOR_BEGIN]
    if jobs.restarts[row]:
        return f"it was requeued, and Slurm lets a requeued job wait before it starts again: in {spell(left_s)}"
    return f"{LEFT_ALONE[Standing.WAITS_FOR_BEGIN]}; it comes in {spell(left_s)}"


def _why_not_pending(view: View, plan: Plan, job_id: int) -> Why:
    row = view.running.row_of(job_id)
    if row is None:
        text = (
            f"Slurm lists no pending or running job {job_id}. If it ended, 'slurmsched story {job_id}' has its history;"
            " else there never was one, or slurmsched did not run then."
        )
        return Why(job_id, False, "unknown", "", None, 0, 0, free_gpus(view.nodes), (text,))
    jobs, forecast = view.running, view.forecast_running
    state = JobState(int(jobs.state[row])).name.lower()
    ran_s = view.now_s - float(jobs.started_s[row])
    text = f"Job {job_id} is {state} on {jobs.node_list[row] or 'its nodes'}"
    if ran_s >= 0:
        text += (
            f" and has run for {spell(ran_s)} of about {spell(float(forecast.runtime_s[row]))} ({forecast.source[row]})"
        )
    sentences = (text + ".", *promise_words(view, plan, job_id), *stop_words(view, row))
    return Why(job_id, True, state, "", None, 0, 0, free_gpus(view.nodes), sentences)


def _introduction(view: View, row: int) -> str:
    jobs = view.pending
    tasks = f", {jobs.tasks[row]} tasks of an array" if jobs.tasks[row] > 1 else ""
    waited = spell(float(waited_s(jobs, view.now_s)[row]))
    return (
        f"Job {jobs.job_id[row]} of {jobs.user[row]} asks for {request_words(jobs, row)}{tasks} in "
        f"{jobs.partition[row]} and has waited {waited}."
    )


def _place(view: View, plan: Plan, row: int, ahead: IntArray) -> list[str]:
    """Return sentences about the rank of a pending row and the jobs ahead of it."""
    jobs = view.pending
    total = int((plan.jobs.rank >= 0).sum())
    if not len(ahead):
        sentences = [f"It is next of {count(total, 'job')} in the order."]
    else:
        users, counts = np.unique(jobs.user.codes[ahead], return_counts=True)
        most = int(np.argmax(counts))
        name = jobs.user.names[int(users[most])]
        theirs = f", {counts[most]} of them {name}'s" if name != HIDDEN else ""
        gpus = count(int((jobs.gpus * jobs.tasks)[ahead].sum()), "GPU")
        stand = "stands" if len(ahead) == 1 else "stand"
        place = f"it is number {len(ahead) + 1} of {total}"
        sentences = [f"{count(len(ahead), 'job')} asking for {gpus} {stand} ahead of it{theirs}; {place}."]
    if plan.jobs.starving[row]:
        sentences.append("It has waited longer than policy.starvation_s: only jobs that waited longer stand ahead.")
    if plan.jobs.capped[row]:
        sentences.append(
            "Its place would take more points than order.max_points allows, so Slurm's own factors (QOS, fair share, "
            "age) still count in part."
        )
    return sentences


def _room(view: View, plan: Plan, row: int, ahead: IntArray, may_use: BoolArray) -> list[str]:
    """Return sentences about free GPUs for a pending row on nodes that it *may_use*, and changes that would help."""
    gpus, free = int(view.pending.gpus[row]), free_gpus(view.nodes, may_use)
    free_words = f"{count(free, 'GPU')} of {view.pending.partition[row]} are free"
    if plan.jobs.runs[row]:
        return [f"{free_words} and it fits behind those ahead: Slurm should start it at its next pass."]
    sentences = [f"{free_words} now."]
    if delayed_jobs(view, plan)[row]:
        so_far = f", {spell(float(view.pending.delayed_s[row]))} so far" if view.pending.delayed_s[row] else ""
        return [*sentences, f"We delay its start for promised jobs, by deadline.hold_most_s at most{so_far}."]
    first_s = _room_for(view, gpus, free, may_use)
    if gpus > int(view.nodes.gpus[may_use].sum()):
        sentences.append("More GPUs than the nodes that are up have: it cannot start before nodes come back.")
    elif gpus > free and np.isfinite(first_s):
        sentences.append(
            f"By the forecasts of the running jobs, GPUs for it alone become free in about {spell(first_s)}."
        )
    sentences += _what_would_help(view, plan, row, ahead, free)
    return sentences


def _what_would_help(view: View, plan: Plan, row: int, ahead: IntArray, free: int) -> list[str]:
    gpus = int(view.pending.gpus[row])
    same = view.pending.partition.codes == view.pending.partition.codes[row]
    spare = free - int((view.pending.gpus * view.pending.tasks)[plan.jobs.runs & same].sum())
    if 0 < spare < gpus:
        return [
            f"{count(spare, 'GPU')} stay free behind the jobs that start next: a request of that size could start now."
        ]
    if len(ahead) and not plan.jobs.starving[row]:
        runtime_s = float(view.forecast.rank_s[row])
        if (view.forecast.rank_s[ahead] < runtime_s).all():
            by_limit = runtime_s >= view.pending.time_limit_s[row]
            return [
                f"All of those have a shorter forecast than its {spell(runtime_s)} ({view.forecast.source[row]})"
                + ("; a shorter --time, where it is true, would lower that." if by_limit else ".")
            ]
    return []


def _room_for(view: View, gpus: int, free: int, may_use: BoolArray) -> float:
    """Return seconds until *gpus* are free on some nodes, by the forecasts of running jobs; infinite if never.

    No new starts are taken into account.
    """
    jobs, nodes, held = gpus_in_use(view)
    inside = np.bincount(jobs[may_use[nodes]], held[may_use[nodes]], len(view.running))
    left_s = np.maximum(view.running.started_s + view.forecast_running.runtime_s - view.now_s, 0.0)
    soonest = np.argsort(left_s, kind="stable")
    enough = np.flatnonzero(free + np.cumsum(inside[soonest]) >= gpus)
    return float(left_s[soonest[enough[0]]]) if len(enough) else float("inf")


def explain(view: View, plan: Plan, job_id: int) -> Explanation:
    """Explain the terms of the place of *job_id*."""
    row = view.pending.row_of(job_id)
    if row is None:
        reply = _why_not_pending(view, plan, job_id)
        at = view.running.row_of(job_id)
        figures = _forecast_figures(
            view.forecast_running.runtime_s, view.forecast_running.low_s, view.forecast_running.high_s, at
        )
        return Explanation(job_id, reply.known, None, *figures, "", (), reply.sentences)
    jobs, forecast = view.pending, view.forecast
    rank = int(plan.jobs.rank[row])
    terms, floor_s = _terms(view, plan, row), forecast.floor_s[row]
    figures = _forecast_figures(forecast.runtime_s, forecast.low_s, forecast.high_s, row)
    place = (
        f"Rank {rank + 1} of {int((plan.jobs.rank >= 0).sum())}."
        if rank >= 0
        else f"Not ranked: {_left_alone(plan, row)}."
    )
    sentences = [
        f"Job {job_id}: forecast {spell(forecast.runtime_s[row])}, 80 % between {spell(forecast.low_s[row])} and "
        f"{spell(forecast.high_s[row])} ({forecast.source[row]}).",
        *([f"It is ranked as if it took {spell(floor_s)}."] if floor_s > forecast.runtime_s[row] else []),
        place,
        f"Priority {jobs.priority[row]} = "
        + (" + ".join(f"{t.text} {t.value:g}" for t in terms if t.value) or "0")
        + ".",
    ]
    if words := promise_words(view, plan, int(jobs.job_id[row])):
        sentences += [*words, f"'slurmsched deadline {job_id} --chart' draws the plan behind that."]
    if plan.jobs.points[row] != jobs.site_points[row]:
        sentences.append(f"It should have {plan.jobs.points[row]} points of ours and has {jobs.site_points[row]}.")
    return Explanation(
        job_id, True, rank + 1 if rank >= 0 else None, *figures, forecast.source[row], terms, tuple(sentences)
    )


def _left_alone(plan: Plan, row: int) -> str:
    return Standing(int(plan.jobs.standing[row])).name.lower().replace("_", " ")


def _terms(view: View, plan: Plan, row: int) -> tuple[Term, ...]:
    jobs = view.pending
    named = {
        "age": jobs.age_points,
        "fair share": jobs.fairshare_points,
        "job size": jobs.size_points,
        "partition": jobs.partition_points,
        "QOS": jobs.qos_points,
        "TRES": jobs.tres_points,
        "nice": -jobs.nice,
        "slurmsched": jobs.site_points,
    }
    terms = [Term(name.replace(" ", "_").lower(), float(column[row]), name) for name, column in named.items()]
    rest = float(base_priority(jobs)[row] + jobs.site_points[row]) - sum(term.value for term in terms)
    listed = any(term.value for term in terms if term.name not in ("nice", "slurmsched"))
    return (*terms, Term("other", rest, "other" if listed else "factors that sprio does not list for it"))


def _forecast_figures(runtime_s: FloatArray, low_s: FloatArray, high_s: FloatArray, row: int | None) -> Figures:
    if row is None:
        return (None, None, None)
    return (float(runtime_s[row]), float(low_s[row]), float(high_s[row]))


def queue(view: View, plan: Plan) -> tuple[QueueRow, ...]:
    """Return every pending job, ranked ones first, in order."""
    jobs = view.pending
    rank = np.where(plan.jobs.rank < 0, np.iinfo(np.int64).max, plan.jobs.rank)
    waited = queueing_s(jobs, view.now_s)
    return tuple(
        QueueRow(
            job_id=int(jobs.job_id[row]),
            tasks=int(jobs.tasks[row]),
            rank=int(plan.jobs.rank[row]) + 1 if plan.jobs.rank[row] >= 0 else None,
            standing=Standing(int(plan.jobs.standing[row])).name.lower(),
            user=jobs.user[row],
            name=jobs.name[row],
            partition=jobs.partition[row],
            gpus=int(jobs.gpus[row]),
            forecast_s=float(view.forecast.runtime_s[row]),
            waited_s=float(waited[row]),
            points=int(jobs.site_points[row]),
            wanted_points=int(plan.jobs.points[row]),
            runs=bool(plan.jobs.runs[row]),
        )
        for row in np.lexsort((-jobs.priority, rank)).tolist()
    )

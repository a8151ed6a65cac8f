"""Why a job does not run: the reason, the time and what can be done, then what else there is to know. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import powers
from ..cluster.columns import IntArray
from ..cluster.gpu_amounts import asked_words
from ..cluster.jobs import JobState, JobTable
from ..cluster.may_have import Allowances
from ..cluster.plan import Plan, Standing
from ..cluster.reasons import reason_of
from ..cluster.records.predictions import PredictionKind
from ..cluster.state import View
from ..cluster.text.plural import count, gpus_of_type
from ..cluster.ties import in_ms
from ..decide.deadlines.preemption import stop_words
from ..decide.ordering.greedy_fit import free_gpus
from ..decide.ordering.ranking import queueing_s
from ..decide.phrasing import HIDDEN, spell
from ..decide.request_words import request_words
from ..decide.rules import Rules
from .causes import Cause, cause_of, turn_words
from .eta import Eta
from .given_back import given_back_words
from .queue_place import Place, place_of, what_puts_ahead
from .requeues import requeue_words
from .reserved_nodes import unread_words
from .unclear_requests import unclear_requests

SOON_S = 60.0
"""Within this, Slurm's own estimate of a start is its next pass."""

CANNOT_RUN = PredictionKind.CANNOT_RUN.name.lower()

SHOWN = 5  #: jobs named as those that hold what a job waits for


@dataclass(frozen=True)
class Why:
    """The reason why a job is not running, when it should start, what its owner can do, and the figures behind them."""

    job_id: int
    known: bool  #: false if Slurm listed no such job in that cycle
    state: str
    standing: str
    slurm_reason: str
    reason: str
    time: str
    advice: str
    rank: int | None  #: its place in the order in force among those that compete for its nodes, 1 is next
    ahead: int
    ahead_gpus: int
    free_gpus: int  #: on the nodes that it may use
    blockers: tuple[int, ...] = ()  #: the jobs that it waits for, as far as its reader may see them
    details: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it, the three lines first."""
        return (self.reason, self.time, self.advice, *self.details)


@dataclass(frozen=True)
class Circumstances:
    """What is known about an answer beside the decision."""

    order_off: str = ""  #: why our order is not in force; empty where it is
    eta: Eta | None = None  #: the prediction for the job
    no_eta: str = "it is not predicted"  #: why there is none
    more: tuple[str, ...] = ()  #: details about the daemon


NOTHING_BESIDE = Circumstances()


def why(view: View, plan: Plan, rules: Rules, job_id: int, beside: Circumstances = NOTHING_BESIDE) -> Why:
    """Explain why *job_id* is not running."""
    row = view.pending.row_of(job_id)
    if row is None:
        return _not_pending(view, plan, rules, job_id, beside)
    jobs, off = view.pending, beside.order_off
    place, kept = place_of(view, plan, row, off), cause_of(view, plan, rules, row)
    cause = kept or _beside(turn_words(view, row), _queued(view, plan, row, place, off))
    together, unread = _together(view, row), unread_words(view)
    unread += " " if unread else ""
    promised, offered = powers.in_brief(view, plan, job_id)
    return Why(
        job_id=job_id,
        known=True,
        state="pending",
        standing=Standing(int(plan.jobs.standing[row])).name.lower(),
        slurm_reason=jobs.reason[row],
        reason=f"{unread}{_unclear(view, row)}{_not_counted(beside)}{together}{cause.reason}",
        time=" ".join((*_time(view, row, beside, cause, kept is not None), *promised)),
        advice=" ".join((cause.advice, *offered, *_comment_words(jobs.comment_problem[row]))),
        rank=len(place.ahead) + 1,
        ahead=len(place.ahead),
        ahead_gpus=_gpus_of(view, place.ahead),
        free_gpus=place.free_gpus,
        blockers=cause.blockers,
        details=(*_details(view, plan, rules, row, place, off), *beside.more),
    )


def _unclear(view: View, row: int) -> str:
    """Return what is not understood of the request for GPUs; empty where nothing is."""
    found = unclear_requests(view.pending.take(np.array([row]))).get(0)
    return f"{found[0]} " if found else ""


def _not_counted(beside: Circumstances) -> str:
    """Return what of limits the predicted time leaves out; empty where nothing is."""
    doubts = () if beside.eta is None else beside.eta.doubts
    return f"Its time does not count {', nor '.join(doubts)}. " if doubts else ""


def _together(view: View, row: int) -> str:
    """Return a sentence about the components of a heterogeneous job, which start together; empty for another job."""
    leader = int(view.pending.het_job_id[row])
    if not leader:
        return ""
    many = int((view.pending.het_job_id == leader).sum())
    return f"It is one of {many} components of heterogeneous job {leader}, which start together. "


def _not_pending(view: View, plan: Plan, rules: Rules, job_id: int, beside: Circumstances) -> Why:
    jobs, row, free = view.running, view.running.row_of(job_id), free_gpus(view.nodes)
    if row is None:
        return Why(
            job_id=job_id,
            known=False,
            state="unknown",
            standing="",
            slurm_reason="",
            reason=f"Slurm lists no pending or running job {job_id}.",
            time="If it ended, or was submitted a moment ago, the next cycle may know more.",
            advice=f"'slurmsched story {job_id}' has the history of jobs that ended while slurmsched ran.",
            rank=None,
            ahead=0,
            ahead_gpus=0,
            free_gpus=free,
        )
    state = JobState(int(jobs.state[row])).name.lower()
    began = float(jobs.started_s[row]) <= view.now_s
    since = f" and has run for {spell(float(view.this_s[row]))}" if began else ""
    if jobs.state[row] == JobState.CONFIGURING:
        since = ": they get ready, and it runs when all of them are"
    return Why(
        job_id=job_id,
        known=True,
        state=state,
        standing="",
        slurm_reason=jobs.reason[row],
        reason=f"Job {job_id} is {state} on {jobs.node_list[row] or 'its nodes'}{since}.",
        time=_end(view, row),
        advice=" ".join(("Nothing is needed.", *_comment_words(jobs.comment_problem[row]))),
        rank=None,
        ahead=0,
        ahead_gpus=0,
        free_gpus=free,
        details=(
            *stop_words(view, row),
            *requeue_words(jobs, row, rules),
            *power_words(view, plan, rules, job_id),
            *beside.more,
        ),
    )


def _end(view: View, row: int) -> str:
    """Return a sentence about the end of a running job."""
    left_s, high_s = float(view.remaining.median_s[row]), float(view.remaining.high_s[row])
    source = view.forecast_running.source[row]
    if view.running.state[row] == JobState.SUSPENDED and not view.running.suspended_by_us[row]:
        return f"It needs about {spell(left_s)} more once it goes on ({source})."
    by = f", within {spell(high_s)} nine times in ten" if np.isfinite(high_s) else ""
    return f"It should be done in about {spell(left_s)}{by} ({source})."


def _comment_words(problem: str) -> tuple[str, ...]:
    return (f"An option in its comment is not understood and has no effect: {problem}.",) if problem else ()


def _beside(said: Cause, queued: Cause) -> Cause:
    """Return Slurm's own reason for a wait with the place of the job in the queue."""
    if not said.reason:
        return queued
    advice = queued.advice if said.advice.startswith("Nothing") else said.advice
    return replace(queued, reason=f"{said.reason} {queued.reason}", advice=advice)


def _queued(view: View, plan: Plan, row: int, place: Place, off: str) -> Cause:
    """Return the cause of a job that waits for its turn and for free nodes, or for what only Slurm knows."""
    jobs = view.pending
    reason = reason_of(jobs.reason[row])
    asks, free = f"it asks for {request_words(jobs, row)}", _free_words(view, row, place)
    if not place.nodes.any():
        return Cause(
            "None of the nodes that it may use takes jobs now: they are down or drained.",
            f"'sinfo -R' has the reasons; 'scontrol show job {jobs.job_id[row]}' has the nodes that it asks for.",
        )
    if len(place.ahead):
        return Cause(
            f"{_ahead_words(view, plan, row, place, off)} {free}, and {asks}.{_apart(place)}",
            _turn_advice(view, plan, row, place, off),
            _named(view.pending.take(place.ahead), range(len(place.ahead))),
        )
    first = f"It is the first of {place.among}" if place.among > 1 else "No other job waits"
    if place.fits and _slurm_starts_it(view, row):
        return Cause(
            f"{first} for its nodes in the order in force, and they have room for it: Slurm should start it at its "
            f"next pass{_power_words(view, row, place)}.",
            "Nothing is needed.",
        )
    holders = _soonest(view, place)
    if place.fits and not reason.plain:  # room is not what it waits for
        return Cause(f"{first} for its nodes in the order in force.", "Nothing: it starts when Slurm lets it.")
    if place.apart:
        waits = "and it waits until enough free nodes lie together"
        return Cause(
            f"{first} for its nodes in the order in force, {waits}: {place.apart}.",
            _apart_advice(view, row),
            _named(view.running, holders),
        )
    known = place.fits and not reason.unseen
    unless = f"Slurm's reason is {reason.word}" if known else f"{free}, and {asks}"
    return Cause(
        f"{first} for its nodes in the order in force, and it waits until they have room: {unless}.",
        _size_advice(view, row, place) or "Nothing: it starts when enough of them is free.",
        _named(view.running, holders),
    )


def _apart(place: Place) -> str:
    """Return a sentence about free nodes that do not lie together; empty where they do."""
    return f" {place.apart[:1].upper()}{place.apart[1:]}." if place.apart else ""


def _apart_advice(view: View, row: int) -> str:
    """Return what the owner of a job can do whose free nodes do not lie together."""
    if "switches" in view.pending.topology_request[row]:
        return f"'scontrol update jobid={view.pending.job_id[row]} switches=0' lets it have any."
    return "Nothing: it starts when enough of them lie together; a job on fewer nodes may start sooner."


def _free_words(view: View, row: int, place: Place) -> str:
    """Return how many GPUs of the nodes of a place are free; their cores for a job that asks for no GPUs."""
    nodes, kind = view.nodes, view.pending.gpu_type[row]
    if view.pending.gpus[row]:
        of, left = nodes.gpus_of(kind), nodes.free_gpus_of(kind)
    else:
        of, left = nodes.cpus, np.maximum(nodes.cpus - nodes.cpus_used, 0)
    free = int(left[place.nodes].sum())
    what = gpus_of_type(free, kind, view.gpu_parts) if view.pending.gpus[row] else count(free, "core")
    return f"{what} of {int(of[place.nodes].sum())} on them {'is' if free == 1 else 'are'} free"


def _power_words(view: View, row: int, place: Place) -> str:
    """Return that the nodes with room for a job power up first, and how long that takes; empty where one is up."""
    nodes = view.nodes
    jobs = view.pending
    room = nodes.free_gpus_of(jobs.gpu_type[row]) > 0 if jobs.gpus[row] else nodes.cpus > nodes.cpus_used
    ready_s = nodes.ready_s[place.nodes & room]
    if not len(ready_s) or ready_s.min() <= 0:
        return ""
    return f", and it runs once they have powered up, after about {spell(float(ready_s.min()))}"


def _slurm_starts_it(view: View, row: int) -> bool:
    """Report whether Slurm's own plan does not contradict a start at its next pass."""
    return reason_of(view.pending.reason[row]).plain and not view.pending.slurm_start_s[row] > view.now_s + SOON_S


def _ahead_words(view: View, plan: Plan, row: int, place: Place, off: str) -> str:
    """Return a sentence about the competing jobs ahead of a pending row, and what puts them there."""
    jobs, ahead = view.pending, place.ahead
    users, counts = np.unique(jobs.user.codes[ahead], return_counts=True)
    most = int(np.argmax(counts))
    name = jobs.user.names[int(users[most])]
    all_of, some = "", ""
    if name != HIDDEN and len(users) == 1:
        all_of = f" of {name}"
    elif name != HIDDEN:
        some = f", {counts[most]} of them {name}'s,"
    asked = asked_words(jobs, ahead, view.gpu_parts)
    stand = "stands" if len(ahead) == 1 else "stand"
    whose = "Slurm's order" if off else "the order in force"
    factor = what_puts_ahead(view, plan, row, ahead, off)
    mostly = "mostly " if len(ahead) > 1 else ""
    because = f", {mostly}by {factor}" if factor else ", by job id at equal priority"
    these = f"{count(len(ahead), 'job')}{all_of} for the same nodes, asking for {asked}{some or ','}"
    return f"{these} {stand} ahead of it in {whose}{because}."


def _turn_advice(view: View, plan: Plan, row: int, place: Place, off: str) -> str:
    """Return what would bring the turn of a job nearer."""
    if fitting := _size_advice(view, row, place):
        return fitting
    runtime_s, limit_s = float(view.forecast.rank_s[row]), float(view.pending.time_limit_s[row])
    if not off and (view.forecast.rank_s[place.ahead] < runtime_s).all() and runtime_s >= limit_s:
        return (
            f"All of those have a shorter forecast than its {spell(runtime_s)}: a shorter --time, where it is true, "
            "would lower that."
        )
    return (
        "Nothing: it starts when its turn comes; a shorter --time, where it is true, may let it start between others."
    )


def _size_advice(view: View, row: int, place: Place) -> str:
    """Return the size of a request that fits on a node now, with as much for each GPU or core as it asks for.

    Empty where that is no help.
    """
    jobs, nodes = view.pending, view.nodes
    may = Allowances(nodes, view.partitions).everywhere(jobs.partition[row])
    cores = np.where(place.nodes, np.minimum(nodes.cpus - nodes.cpus_used, may.cpus), 0)
    memory_mib = np.minimum(nodes.memory_mib - nodes.memory_used_mib, may.memory_mib)
    gpus, cpus = int(jobs.gpus[row]), max(1, int(jobs.cpus[row]))
    asked, needed_mib = gpus or cpus, float(np.nan_to_num(jobs.memory_mib[row]))
    free = np.minimum(nodes.free_gpus_of(jobs.gpu_type[row]) if gpus else cores, cores * asked // cpus)
    if needed_mib > 0:
        free = np.minimum(free, np.floor(memory_mib * asked / needed_mib))
    most = int(free.max(initial=0))
    if place.fits or jobs.exclusive[row] or not 0 < most < asked:
        return ""
    before = ", with a --time short enough to end before the jobs ahead start," if len(place.ahead) else ""
    size = gpus_of_type(most, jobs.gpu_type[row], view.gpu_parts) if gpus else count(most, "core")
    return f"A request of at most {size}{before} could start now."


def _soonest(view: View, place: Place) -> list[int]:
    """Return the running jobs on the nodes of a place, by their forecast ends."""
    held = view.free_gpus.held
    rows = np.unique(held.job[place.nodes[held.node]])
    return [int(row) for row in rows[np.argsort(in_ms(view.remaining.median_s[rows]), kind="stable")]]


def _named(jobs: JobTable, rows: Sequence[int]) -> tuple[int, ...]:
    """Return the ids of the first of *rows* whose owners the reader may see."""
    shown = [row for row in rows if jobs.user[row] != HIDDEN]
    return tuple(int(jobs.job_id[row]) for row in shown[:SHOWN])


def _gpus_of(view: View, rows: IntArray) -> int:
    return int((view.pending.gpus * view.pending.tasks)[rows].sum())


def _time(view: View, row: int, beside: Circumstances, cause: Cause, kept: bool) -> Iterator[str]:
    """Yield sentences about the start: by the predictions, and Slurm's own estimate where there is none.

    Where the prediction only says again why the job is *kept* from running, it is left out; it may be older than that.
    """
    eta, slurm_s = beside.eta, float(view.pending.slurm_start_s[row])
    if eta is not None and eta.start_s is not None:
        yield f"It should start {_in(eta.start_s - view.now_s)}{_by(eta, view.now_s)}{_done(eta, view.now_s)}."
        return
    said = eta is not None and bool(cause.reason and eta.notes) and eta.notes[0].startswith(cause.reason)
    if said or (kept and eta is not None and eta.kind == CANNOT_RUN):
        yield "No time: it starts only after that has changed."
        return
    yield f"No time: {beside.no_eta}." if eta is None else (eta.notes[0] if eta.notes else "No time is predicted.")
    if np.isfinite(slurm_s) and slurm_s > view.now_s:
        yield f"Slurm itself says in {spell(slurm_s - view.now_s)}."


def _in(seconds: float) -> str:
    return f"in about {spell(seconds)}" if seconds > 1 else "now"


def _by(eta: Eta, now_s: float) -> str:
    if not eta.start_by_s or eta.start_s is None or eta.start_by_s <= max(eta.start_s, now_s) + 1:
        return ""
    often = "nine times in ten" if eta.start_basis else "by a guess that nothing here has tested yet"
    return f", within {spell(eta.start_by_s - now_s)} {often}"


def _done(eta: Eta, now_s: float) -> str:
    return f", and be done in about {spell(eta.finish_s - now_s)}" if eta.finish_s is not None else ""


def _details(view: View, plan: Plan, rules: Rules, row: int, place: Place, off: str) -> Iterator[str]:
    """Yield what else there is to know: the job, our order, promises and powers."""
    jobs = view.pending
    tasks = f", {jobs.tasks[row]} tasks of an array" if jobs.tasks[row] > 1 else ""
    waited = float(queueing_s(jobs, view.now_s)[row])
    since = f" and has waited {spell(waited)}" if np.isfinite(waited) else ""
    yield (
        f"Job {jobs.job_id[row]} of {jobs.user[row]} asks for {request_words(jobs, row)}{tasks} in "
        f"{jobs.partition[row]}{since}."
    )
    yield from requeue_words(jobs, row, rules)
    yield from power_words(view, plan, rules, int(jobs.job_id[row]))
    yield from _our_order(view, plan, row, off)


def power_words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield what the powers do to a job, each in its own words."""
    yield from given_back_words(view, plan, rules, job_id)
    yield from powers.words(view, plan, rules, job_id)


ALONE = {
    Standing.OWNER_SAID_OFF: "its owner said slurmsched:off in the comment, so it has Slurm's own place",
    Standing.PRIORITY_FIXED: "its priority was set by hand, which overrides ours; 'scontrol release {job}' undoes that",
    Standing.NICE_SET: "it was given a nice value, which overrides our order; nice=0 undoes that",
    Standing.LIMIT_BLOCKED: "a limit blocks it, and until that ends it is not placed ahead of jobs that could run",
    Standing.HETEROGENEOUS: "it is part of a heterogeneous job, whose components only Slurm can place together",
    Standing.OUT_OF_SCOPE: "its partition ({partition}) is not one that order.partitions names",
}
"""Why we do not order a job that others could be ordered with."""


def _our_order(view: View, plan: Plan, row: int, off: str) -> Iterator[str]:
    """Yield the place of a job in our order: what it would be where that is not in force."""
    standing, rank = Standing(int(plan.jobs.standing[row])), int(plan.jobs.rank[row])
    if standing in ALONE:
        fields = {"job": int(view.pending.job_id[row]), "partition": view.pending.partition[row]}
        yield f"We do not order it: {ALONE[standing].format(**fields)}."
    if rank < 0:
        return
    total = int((plan.jobs.rank >= 0).sum())
    if off:
        yield f"Our order is not in force ({off}); in it, it would be number {rank + 1} of {total}."
    else:
        yield f"In our order it is number {rank + 1} of {total}, over all nodes."
    if plan.jobs.starving[row]:
        yield "It has waited longer than policy.starvation_s: in our order only jobs that waited longer stand ahead."
    if plan.jobs.capped[row] and not off:
        yield (
            "Its place in our order would take more points than order.max_points allows, so Slurm's own factors (QOS, "
            "fair share, age) still count in part."
        )
    points = int(view.pending.site_points[row])
    if off and points:
        yield f"It still has {count(points, 'point')} of ours."

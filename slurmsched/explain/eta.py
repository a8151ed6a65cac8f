"""Predicted start and finish times for users: figures, their basis, and the reason if there are none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..cluster.actions import Hold
from ..cluster.columns import BoolArray, IntArray, Labels
from ..cluster.nodes import HIDDEN_NODES
from ..cluster.plan import Plan, Standing
from ..cluster.reasons import reason_of
from ..cluster.records.predictions import PredictionKind, PredictionTable
from ..cluster.records.promises import SAME_S
from ..cluster.state import View
from ..cluster.text.plural import count
from ..decide.admission import in_order
from ..decide.phrasing import spell
from ..decide.rules import Rules
from ..decide.unshown_nodes import NOT_SHOWN
from ..models.completion.moments import as_of
from ..models.requests.suggestions import Suggestion
from ..powers import halt_words
from .components import DIFFERENT_NODES
from .reserved_nodes import UNREAD_RESERVATION, unread_words
from .unclear_requests import BEGINS

SKEW_S = 30.0
"""Smallest difference of clocks that is reported, in seconds."""


@dataclass(frozen=True)
class Coverage:
    """The coverage of recent predictions on this cluster."""

    days: float
    finishes: int  #: predicted jobs that ended in that time
    done_by: float  #: the share of those that ended by their predicted 90 % bound
    starts: int
    started_by: float  #: the share of *starts* by their predicted 90 % bound
    delays: bool = False  #: counts predictions made while we delayed jobs for promises, else the others


@dataclass(frozen=True)
class LivePredictions:
    """The latest predictions, or the reason why there are none; the daemon answers from them."""

    table: PredictionTable | None = None
    coverage: Coverage | None = None
    trouble: str = ""  #: why the last attempt failed, or why none is made; empty where neither is so

    @property
    def why_none(self) -> str:
        """The reason why there is no table, for who asks."""
        return self.trouble or "the daemon is still starting: nothing is predicted yet; ask again in a moment"


@dataclass(frozen=True)
class Eta:
    """The answer for one job. Times are Unix seconds, None if unknown; *notes* then give the reason."""

    job_id: int
    user: str
    partition: str
    gpus: int
    tasks: int
    kind: str  #: a PredictionKind in lower case, or unknown
    as_of_s: float
    start_s: float | None = None
    start_from_s: float | None = None
    start_by_s: float | None = None
    finish_s: float | None = None
    finish_from_s: float | None = None
    finish_by_s: float | None = None
    slurm_start_s: float | None = None
    runtime_s: float | None = None
    rank: int | None = None  #: 1 is next
    ahead: int | None = None
    start_basis: int = 0
    finish_basis: int = 0
    derivation: str = ""
    notes: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()  #: what the times leave out, parts of the request above all
    doubts: tuple[str, ...] = ()  #: those of them that are about limits
    suggestion: Suggestion | None = None  #: what covers most runs like a new job


Row = Mapping[str, Any]
"""A row of a PredictionTable as plain values by name."""

_FIGURES = ("job_id", "user", "partition", "gpus", "tasks", "start_basis", "finish_basis")
_TIMES = (
    "start_s",
    "start_from_s",
    "start_by_s",
    "finish_s",
    "finish_from_s",
    "finish_by_s",
    "slurm_start_s",
    "runtime_s",
)

_WHY_NONE = {
    PredictionKind.HELD: "It is held: its start can be predicted once it is released ('scontrol release {job}').",
    PredictionKind.DEPENDENT: "It waits for other jobs; its place in the queue counts only after they have ended.",
    PredictionKind.RESERVED: "It asks for a reservation that is not played forward: one of several for a job on "
    "several nodes or with parts of nodes, one of parts of several nodes of which Slurm shows only the sum, or one "
    "that is not shown. Slurm starts it when the nodes are free for it.",
    PredictionKind.LIMITED: "Slurm's reason is {reason}: the queue does not show when that ends.",
    PredictionKind.HETEROGENEOUS: "It is part of a heterogeneous job, of which a part cannot start as it is, or whose "
    "parts would have room one after the other and not together, so there is no time.",
    PredictionKind.PARTITION_DOWN: "Its partition ({partition}) takes no jobs now, and it is not known when it will.",
    PredictionKind.CANNOT_RUN: "No nodes of its partition ({partition}) could ever hold it as they are now.",
    PredictionKind.NO_ROOM: "The nodes that could hold it do not become free within the prediction.",
    PredictionKind.SUSPENDED: "It is suspended, and it is not known when it continues.",
    PredictionKind.UNPLACED: "It may be spread over nodes in a way that is not played forward, so there is no time; "
    "'squeue --start -j {job}' has Slurm's own.",
    PredictionKind.BEYOND: "It stands so far back in a long queue that it was not played forward.",
}
_OBSTRUCTED = (PredictionKind.CANNOT_RUN, PredictionKind.NO_ROOM, PredictionKind.UNPLACED)
_UNEXPLAINED = "what may keep it from any start"
"""The part of a job's wait that its times leave out, if idle nodes or those that are left do not explain it."""

_UNREAD = "a reservation of the cluster, which could not be read"

_BESIDE = {
    PredictionKind.ARRAY: "It is an array: the times are those of the first of its {tasks} to start.",
    PredictionKind.LEFT_ALONE: "We do not order it ('slurmsched why {job}' says why): the times go by Slurm's own "
    "place for it.",
    PredictionKind.NO_HISTORY: "No run like it is known: the times take it to need its whole time limit, and it may "
    "well be done sooner.",
}


def etas(table: PredictionTable, now_s: float, rows: list[int]) -> list[Eta]:
    """Return the answers for *rows* of *table* at *now_s*.

    An end that has passed is not told, nor a finish of one job in ten before the start of half of them.
    """
    some = table.take(np.array(rows, dtype=np.int64))
    late = {f"late_{name}": getattr(some, name) < now_s for name in ("start_by_s", "finish_by_s")}
    late["late_start_by_s"] &= some.kind != PredictionKind.RUNNING
    shown = as_of(some, now_s)
    columns: dict[str, Any] = {f.name: getattr(shown, f.name) for f in fields(shown)} | late
    for name in ("start_by_s", "finish_by_s"):
        columns[name] = np.where(late[f"late_{name}"], np.nan, columns[name])
    columns["finish_from_s"] = np.where(shown.finish_from_s < shown.start_s, np.nan, shown.finish_from_s)
    lists = [list(c) if isinstance(c, Labels) else c.tolist() for c in columns.values()]
    return [_eta(dict(zip(columns, values, strict=True))) for values in zip(*lists, strict=True)]


def unpredicted(job_id: int, user: str, partition: str, gpus: int, as_of_s: float) -> Eta:
    """Return the answer for a job that was submitted or started after the latest predictions."""
    note = "It came or started after the latest predictions were made: ask again in a moment."
    return Eta(job_id, user, partition, gpus, 1, "new", as_of_s, notes=(note,))


def doubts_by_job(table: PredictionTable) -> dict[int, tuple[str, ...]]:
    """Return what of limits the times of *table* leave out, by the id of each job for which that is anything."""
    rows = np.flatnonzero(table.doubts.nonempty() & table.has_value).tolist()
    return {int(table.job_id[row]): tuple(table.doubts[row].splitlines()) for row in rows}


def unknown(job_id: int, as_of_s: float) -> Eta:
    """Return the answer for a job that is neither pending nor running."""
    note = f"Slurm listed no pending or running job {job_id} in that cycle; 'slurmsched story {job_id}' knows more."
    return Eta(job_id, "", "", 0, 0, "unknown", as_of_s, notes=(note,))


def eta_of(table: PredictionTable, view: View, job_id: int, now_s: float) -> Eta:
    """Return the answer for *job_id* as *view* shows it, from predictions that may be older than that."""
    waits, runs = view.pending.row_of(job_id), view.running.row_of(job_id)
    jobs, at = (view.running, runs) if waits is None else (view.pending, waits)
    if at is None:
        return unknown(job_id, now_s)
    row = table.row_of(job_id)
    if row is not None and abs(table.first_submit_s[row] - jobs.first_submit_s[at]) > SAME_S:
        row = None  # of another job with the same id
    # A job may have come, or started, since the predictions were made.
    if row is None or (waits is None and table.kind[row] not in (PredictionKind.RUNNING, PredictionKind.SUSPENDED)):
        return unpredicted(job_id, jobs.user[at], jobs.partition[at], int(jobs.gpus[at]), now_s)
    return etas(table, now_s, [row])[0]


def with_halts_told(answer: Eta, view: View, rules: Rules) -> Eta:
    """Return *answer* with what powers that stop jobs in place do to this one, and when the stopped one goes on."""
    words = () if answer.kind == "new" else tuple(halt_words(view, rules, answer.job_id))
    return replace(answer, notes=(*answer.notes, *words)) if words else answer


def coverage_words(coverage: Coverage | None) -> str:
    """Return a sentence about the reliability of the times, from past predictions."""
    meanwhile = " while jobs were delayed for promises, as now," if coverage is not None and coverage.delays else ""
    if coverage is None or not coverage.finishes:
        return f"No prediction made here{meanwhile} has come true or failed yet: how far to trust these is not known."
    return (
        f"Of the {count(coverage.finishes, 'job')} predicted here{meanwhile} that ended in the last {coverage.days:g} "
        f"days, {coverage.done_by:.0%} were done by the time said for nine in ten."
    )


def delayed_jobs(view: View, plan: Plan) -> BoolArray:
    """Select pending jobs that the plan delays for promises."""
    held = np.isin(view.pending.job_id, [wish.job_id for wish in plan.actions if isinstance(wish, Hold)])
    return np.asarray(held & (plan.jobs.standing != Standing.OUTSIDE))


def admitted_last(view: View, plan: Plan) -> tuple[View, IntArray]:
    """Return the view without the holds of jobs outside, and ranks that put these behind all others, in their order."""
    jobs, rank = view.pending, plan.jobs.rank
    outside = in_order(jobs, np.flatnonzero(plan.jobs.standing == Standing.OUTSIDE))
    if not len(outside):
        return view, rank
    rank, eligible_s = rank.copy(), jobs.eligible_s.copy()
    rank[outside] = rank.max(initial=-1) + 1 + np.arange(len(outside))
    eligible_s[outside] = np.minimum(eligible_s[outside], view.now_s)
    return view.changed(pending=jobs.changed(eligible_s=eligible_s)), rank


def _eta(row: Row) -> Eta:
    kind, ranked, doubts = PredictionKind(row["kind"]), row["rank"] >= 0, tuple(row["doubts"].splitlines())
    figures: dict[str, Any] = {name: row[name] for name in _FIGURES} | {
        name: _finite_or_none(row[name]) for name in _TIMES
    }
    return Eta(
        **figures,
        kind=kind.name.lower(),
        as_of_s=row["made_s"],
        rank=row["rank"] + 1 if ranked else None,
        ahead=row["ahead"] if ranked else None,
        derivation=_derivation(row, kind) if kind.has_value else "",
        not_understood=(*_left_out(row["obstacle"]), *doubts) if kind.has_value else (),
        doubts=doubts if kind.has_value else (),
        notes=tuple(_notes(row, kind)),
    )


def unread(view: View) -> tuple[str, ...]:
    """Return what was not read of the cluster that may keep a new job from starting when it should."""
    return (_UNREAD,) if unread_words(view) else ()


def _left_out(obstacle: str) -> Iterator[str]:
    """Yield what the times of a job leave out."""
    if UNREAD_RESERVATION in obstacle:
        yield _UNREAD
    if other := obstacle.replace(UNREAD_RESERVATION, "").strip():
        if other.startswith(NOT_SHOWN):
            yield HIDDEN_NODES
        elif other.startswith(DIFFERENT_NODES):
            yield "that the components of a heterogeneous job get different nodes"
        else:
            yield "its request for GPUs, as Slurm counts it" if other.startswith(BEGINS) else _UNEXPLAINED


def _derivation(row: Row, kind: PredictionKind) -> str:
    if kind is PredictionKind.RUNNING:
        return f"it still needs {spell(row['finish_s'] - row['made_s'])} ({row['source']})"
    needs = f"{spell(row['runtime_s'])} from start to end ({row['source']})"
    ahead, unit = row["ahead"], "GPU" if row["gpus"] else "core"
    before = (
        f"{count(ahead, 'job')} ahead of it {_work(row['ahead_gpu_s'], unit)}" if ahead else "no job is ahead of it"
    )
    running = _work(row["running_gpu_s"], unit)
    text = f"what runs on its nodes still needs {running}, {before}, and it needs {needs}"
    return f"{text}, after about {spell(row['power_s'])} to power up its nodes" if row["power_s"] else text


def _notes(row: Row, kind: PredictionKind) -> Iterator[str]:
    if row["obstacle"] and (kind.has_value or kind in _OBSTRUCTED):
        yield row["obstacle"]
    elif text := (_WHY_NONE.get(kind) or _BESIDE.get(kind)):
        yield text.format(
            job=row["job_id"],
            reason=reason_of(row["reason"] or "").word or "it may not start",
            partition=row["partition"],
            tasks=count(row["tasks"], "waiting task"),
        )
    if not kind.has_value:
        return
    ahead_s = row["first_submit_s"] - row["made_s"]
    if ahead_s > SKEW_S:
        yield f"Slurm's clock is {spell(ahead_s)} ahead of this machine's: the times may be off by as much."
    if row["late_finish_by_s"] or row["late_start_by_s"]:
        yield "It is already later than nine in ten such jobs were: the history cannot predict it any further."
    if not row["finish_basis"] and kind is not PredictionKind.RUNNING:
        yield "The interval is not calibrated yet: it rests on the forecast of the runtime alone."


def _work(work_s: float, unit: str) -> str:
    """Return work, the time of one *unit* (a GPU or a core), in words."""
    if not math.isfinite(work_s):
        return f"an unknown number of {unit}-hours"
    if work_s < 60.0:
        return f"less than a {unit}-minute"
    if work_s < 3600.0:
        return count(round(work_s / 60), f"{unit}-minute")
    shown = f"{work_s / 3600:.3g}" if work_s < 3.6e6 else f"{work_s / 3600:,.0f}"
    return f"{shown} {unit}-hour" if shown == "1" else f"{shown} {unit}-hours"


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

"""The terms of the place of a job, and the queue: one view and its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import IntArray
from ..cluster.forecast import Forecast
from ..cluster.jobs import JobTable
from ..cluster.plan import Plan, Standing
from ..cluster.records.predictions import PredictionTable
from ..cluster.state import View
from ..decide.ordering.ranking import base_priority, queueing_s
from ..decide.phrasing import spell
from ..decide.rules import Rules
from ..models.runtime.point_predictors import Reason
from .forecast import factor_words
from .why import NOTHING_BESIDE, Circumstances, Why, power_words, why


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
    reason: str = ""  #: why it does not run, as in ``why``
    advice: str = ""  #: what its owner can do, as in ``why``
    factors: tuple[Reason, ...] = ()  #: the factors of a trained model's forecast


@dataclass(frozen=True)
class QueueRow:
    """A pending job in ``slurmsched queue``."""

    job_id: int
    tasks: int
    rank: int | None
    standing: str
    reason: str  #: Slurm's
    user: str
    name: str
    partition: str
    gpus: int
    slices: bool  #: its GPUs are slices, by their type
    forecast_s: float
    waited_s: float  #: NaN while it does not queue
    points: int  #: our points at present
    wanted_points: int  #: our points in the wanted order
    runs: bool
    doubts: tuple[str, ...] = ()  #: what of limits its predicted time leaves out


Figures = tuple[float | None, float | None, float | None]


def explain(
    view: View,
    plan: Plan,
    rules: Rules,
    job_id: int,
    beside: Circumstances = NOTHING_BESIDE,
    *,
    score: str = "",
    reasons: Sequence[Reason] = (),
    more: Iterable[str] = (),
) -> Explanation:
    """Explain the terms of the place of *job_id*, with *more* sentences.

    *score* is the derivation of its share, *reasons* are those of its forecast, where a model has them.
    """
    told, row = why(view, plan, rules, job_id, beside), view.pending.row_of(job_id)
    at = view.running.row_of(job_id)
    words = factor_words(reasons, runs=at is not None)
    factors = tuple(reasons) if words else ()
    last = (*([f"Share score: {score}."] if score else []), *more)
    if row is None:
        figures = _forecast_figures(view.forecast_running, at)
        first, *others = told.sentences
        lines = (first, *([words] if words else []), *others, *last)
        return Explanation(job_id, told.known, None, *figures, "", (), lines, told.reason, told.advice, factors)
    terms, rank = _terms(view, plan, row), int(plan.jobs.rank[row])
    sentences = (
        _forecast_words(view, row),
        *([words] if words else []),
        *_place_words(view, plan, row, told, terms, beside.order_off),
        *power_words(view, plan, rules, job_id),
        *last,
    )
    figures, source = _forecast_figures(view.forecast, row), view.forecast.source[row]
    ours = rank + 1 if rank >= 0 else None
    return Explanation(job_id, True, ours, *figures, source, terms, sentences, told.reason, told.advice, factors)


def _forecast_words(view: View, row: int) -> str:
    forecast = view.forecast
    return (
        f"Job {view.pending.job_id[row]}: forecast {spell(forecast.runtime_s[row])}, 80 % between "
        f"{spell(forecast.low_s[row])} and {spell(forecast.high_s[row])} ({forecast.source[row]})."
    )


def _place_words(view: View, plan: Plan, row: int, told: Why, terms: Sequence[Term], off: str) -> Iterator[str]:
    """Yield the place of a pending job: its rank, the terms of its priority and its points."""
    jobs, floor_s = view.pending, view.forecast.floor_s[row]
    if floor_s > view.forecast.runtime_s[row]:
        yield f"It is ranked as if it took {spell(floor_s)}."
    yield told.reason
    yield _rank_words(plan, int(plan.jobs.rank[row]), off)
    yield f"Priority {jobs.priority[row]} = {' + '.join(f'{t.text} {t.value:g}' for t in terms if t.value) or '0'}."
    if not off and plan.jobs.points[row] != jobs.site_points[row]:
        yield f"It should have {plan.jobs.points[row]} points of ours and has {jobs.site_points[row]}."


def _rank_words(plan: Plan, rank: int, off: str) -> str:
    total = int((plan.jobs.rank >= 0).sum())
    if rank < 0:
        return "It has no place in our order."
    if off:
        return f"Our order is not in force ({off}): its place there would be {rank + 1} of {total}."
    return f"Its place in our order is {rank + 1} of {total}."


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
    words = "rounding" if abs(rest) < len(terms) else "other"  # sprio rounds each term
    return (*terms, Term("other", rest, words if listed else "factors that sprio does not list for it"))


def _forecast_figures(forecast: Forecast, row: int | None) -> Figures:
    if row is None:
        return (None, None, None)
    return (float(forecast.runtime_s[row]), float(forecast.low_s[row]), float(forecast.high_s[row]))


def chosen_rows(jobs: JobTable | PredictionTable, filters: Mapping[str, str]) -> IntArray:
    """Return the rows of *jobs* of a user, partition and account, as far as *filters* names these."""
    keep = np.ones(len(jobs), dtype=np.bool_)
    for name, wanted in filters.items():
        column = getattr(jobs, name)
        keep &= column.map([wanted in text.split(",") for text in column.names], np.bool_)
    return np.flatnonzero(keep)


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
            reason=jobs.reason[row],
            user=jobs.user[row],
            name=jobs.name[row],
            partition=jobs.partition[row],
            gpus=int(jobs.gpus[row]),
            slices=view.gpu_parts.is_slice(jobs.gpu_type[row]),
            forecast_s=float(view.forecast.runtime_s[row]),
            waited_s=float(waited[row]),
            points=int(jobs.site_points[row]),
            wanted_points=int(plan.jobs.points[row]),
            runs=bool(plan.jobs.runs[row]),
        )
        for row in np.lexsort((-jobs.priority, rank)).tolist()
    )

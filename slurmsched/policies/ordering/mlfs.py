"""MLFS's order of training jobs by urgency, progress, deadline, remaining and waiting time (CoNEXT'20, section 3.3.1).

As printed the priority adds one over a time, one over another, and a third time, so that its order depends on their
unit. The default form adds logarithms instead. What a job says of itself, its deadline, urgency, graph and progress,
moves it only among the jobs of its own account, unless the admin lets it count among all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.jobs import JobTable
from ...cluster.records.progress import rows_of
from ...cluster.state import View
from ...cluster.text.task_graph import TaskGraph, read_graph
from ...cluster.ties import in_points, point_of
from ...errors import ConfigError
from ..contract import ORDERINGS, Ordering

UNITS_S = {"s": 1.0, "min": 60.0, "h": 3600.0}
FORMS = ("log", "rank", "max", "printed")
DAGS = ("none", "path", "sum")
SCOPES = ("account", "all")

LEAST_LEFT = 0.05
"""Part of its forecast that a job is expected to run on once it has outrun that."""

LATE_S = 60.0
"""A deadline that has passed counts as so far away in the form ``printed`` and those that scale its terms."""

MOST_S = 3.2e7
"""The remaining time of a job without a forecast: a year, so that it comes behind all others."""

NEUTRAL_URGENCY = 5.0
"""The urgency of a job that says none: the middle of 0 to 10."""


_ROOTS = np.linspace(0.0, 1.0, 201)
_LATE_FALLS, _LEFT = _ROOTS**3 / (1 + _ROOTS + _ROOTS**2 + _ROOTS**3), _ROOTS**4


@dataclass(frozen=True)
class Terms:
    """What the priority of each pending job is made of, in the units of the paper's (2) and (4)."""

    left_s: FloatArray  #: forecast runtime that is left
    slack_s: FloatArray  #: time until the deadline; infinite without one
    waited_s: FloatArray
    urgency: FloatArray  #: 0..10
    iteration: FloatArray  #: I, 1 before any report
    late_fall: FloatArray  #: loss reduction of late over that of all time; 1 where unknown
    loss_left: FloatArray  #: part of the reducible loss that is still to lose, 1 before any report
    gpus: FloatArray
    graph: Labels

    @classmethod
    def of(cls, view: View, *, silent: bool = False) -> Terms:
        """Read the terms of the pending jobs; *silent* ones have said nothing of themselves."""
        jobs = view.pending
        forecast_s = view.forecast.rank_s
        left_s = np.maximum(forecast_s - jobs.ran_s, LEAST_LEFT * forecast_s)
        waited_s = np.maximum(np.nan_to_num(view.now_s - jobs.came_s - jobs.ran_s), 0.0)
        ones = np.ones(len(jobs))
        terms = cls(
            np.clip(np.nan_to_num(left_s, nan=MOST_S), 1.0, MOST_S),
            np.full(len(jobs), np.inf),
            waited_s,
            NEUTRAL_URGENCY * ones,
            ones,
            ones,
            ones,
            np.maximum(jobs.gpus, 1).astype(np.float64),
            Labels(np.zeros(len(jobs), dtype=np.int64), ("",)),
        )
        return terms if silent else terms._as_said(view)

    def _as_said(self, view: View) -> Terms:
        jobs, progress = view.pending, view.progress
        iteration, late, left = np.ones((3, len(jobs)))
        rows, reported = rows_of(progress, jobs.job_id)
        iteration[reported] = np.maximum(progress.iteration[rows] + 1, 1)
        falls = np.clip(progress.late_fall[rows], 0.0, 1.0)
        late[reported] = np.where(np.isnan(falls), 1.0, falls)
        left[reported] = np.where(np.isnan(falls), 1.0, loss_left(falls))
        return replace(
            self,
            slack_s=np.where(np.isnan(jobs.deadline_s), np.inf, jobs.deadline_s - view.now_s),
            urgency=np.where(np.isnan(jobs.urgency), NEUTRAL_URGENCY, jobs.urgency),
            iteration=iteration,
            late_fall=late,
            loss_left=left,
            graph=jobs.graph,
        )


def loss_left(late_fall: FloatArray) -> FloatArray:
    """Return the part of its reducible loss that a job still has, from that of its fall that came in the last quarter.

    An exponential curve that is at u^4 fell by u^3 (1 - u) in that quarter and by 1 - u^4 in all. At least 1e-6.
    """
    return np.asarray(np.maximum(np.interp(late_fall, _LATE_FALLS, _LEFT), 1e-6))


@dataclass(frozen=True)
class MlfsPriority:
    """The key of ``mlfs-h``; ConfigError for parameters that make no sense."""

    form: str = "log"  #: of the terms: logarithms, ranks, each over its largest, or as printed
    unit: str = "h"  #: of times in the form ``printed``
    dag: str = "none"  #: what (3) and (5) add for the tasks behind the first: nothing, the longest path, all paths
    across: str = "account"  #: the jobs among which what a job says of itself moves it
    alpha: float = 0.3  #: weight of what training says, (2), against times, (4)
    gamma: float = 0.8  #: weight of a task's children against its own
    deadline: float = 0.3
    left: float = 0.3
    waiting: float = 0.35
    late: float = 1.5  #: of a deadline that has passed; this and what follows in the form ``log``
    urgency: float = 1.0
    gain: float = 0.05  #: of the loss still to lose
    gpus: float = 1.0  #: of the logarithm of the GPUs; the only weight that may be negative

    def __post_init__(self) -> None:
        for name, accepted in (("form", FORMS), ("unit", tuple(UNITS_S)), ("dag", DAGS), ("across", SCOPES)):
            if getattr(self, name) not in accepted:
                raise ConfigError(f"mlfs-h: {name}={getattr(self, name)}: accepted are {', '.join(accepted)}")
        weights = [abs(self.gpus), *(getattr(self, f.name) for f in fields(self) if f.name not in (*_WORDS, "gpus"))]
        if not all(0 <= weight < np.inf for weight in weights) or self.alpha > 1 or self.gamma >= 1:
            raise ConfigError(
                "mlfs-h: accepted are weights from 0 on (gpus from below 0 too), alpha up to 1 and gamma below 1"
            )

    @property
    def selection(self) -> str:
        """The selection that belongs to it: the paper's forms order a queue, the logarithms also let jobs yield."""
        return "preemptive" if self.form == "log" else "backfill"

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        if self.across == "all":
            return self._key(Terms.of(view))
        return bounded(view, self._key)

    def _key(self, terms: Terms) -> FloatArray:
        return sum_of(self._parts(terms))

    def parts(self, view: View) -> dict[str, FloatArray]:
        """Return what adds up to the key of each pending job among those of its account, by name."""
        return self._parts(Terms.of(view))

    def _parts(self, terms: Terms) -> dict[str, FloatArray]:
        if self.form == "log":
            return {
                "remaining time": np.log(terms.left_s),
                "GPUs": self.gpus * np.log(terms.gpus),
                "deadline passed": np.where(terms.slack_s < 0, self.late, 0.0),
                "urgency": -self.urgency * terms.urgency / 10,
                "loss still to lose": -self.gain * np.log(terms.loss_left),
            }
        unit_s, paths = UNITS_S[self.unit], self._paths(terms)
        parts = {
            "training": terms.urgency / terms.iteration * terms.late_fall / terms.gpus,
            "deadline": unit_s / np.maximum(terms.slack_s, LATE_S),
            "remaining time": unit_s / terms.left_s,
            "waiting time": terms.waited_s / unit_s,
        }
        if self.form != "printed":
            parts = {name: _scaled(part, self.form) for name, part in parts.items()}
        weights = {
            "training": self.alpha,
            "deadline": (1 - self.alpha) * self.deadline,
            "remaining time": (1 - self.alpha) * self.left,
            "waiting time": (1 - self.alpha) * self.waiting,
        }
        return {name: -weights[name] * part * paths for name, part in parts.items()}

    def _paths(self, terms: Terms) -> FloatArray:
        """Return the factor of (3) and (5) for a first task whose descendants all have its own priority."""
        if self.dag == "none":
            return np.ones(len(terms.gpus))
        factors = [_descendants(read_graph(name), self.gamma, self.dag == "sum") for name in terms.graph.names]
        return terms.graph.map(factors, np.float64)


_WORDS = ("form", "unit", "dag", "across")


def sum_of(parts: Mapping[str, FloatArray]) -> FloatArray:
    """Return the sum of the parts of a key."""
    return np.asarray(np.sum(list(parts.values()), axis=0))


def bounded(view: View, key: Callable[[Terms], FloatArray]) -> FloatArray:
    """Return the *key* of the pending jobs, by which what a job says of itself moves only jobs of its own account.

    Each account has the places that the key gives its jobs as if none had said anything.
    """
    spoken, accounts = in_points(key(Terms.of(view))), view.pending.account
    if len(accounts.names) < 2 or not len(spoken):
        return spoken
    places = _without_ties(in_points(key(Terms.of(view, silent=True))), view.pending)
    return within_accounts(places, spoken, accounts.codes)


def within_accounts(base: FloatArray, key: FloatArray, account: IntArray) -> FloatArray:
    """Return *base* with the keys of each account exchanged among its jobs, which then follow *key*."""
    moved = base.copy()
    places, wanted = np.lexsort((base, account)), np.lexsort((base, key, account))
    moved[wanted] = base[places]
    return moved


def _without_ties(key: FloatArray, jobs: JobTable) -> FloatArray:
    """Return *key* with equal ones apart by the least step, in order of arrival: equal places cannot be exchanged."""
    order = np.lexsort((jobs.job_id, jobs.came_s, key))
    ordered, place = key[order], np.arange(len(key))
    first = np.maximum.accumulate(np.where(np.diff(ordered, prepend=-np.inf) > 0, place, 0))
    apart = np.empty_like(key)
    apart[order] = ordered + (place - first) * point_of(ordered)
    return apart


def _descendants(graph: TaskGraph | None, gamma: float, every_path: bool) -> float:
    """Return the sum of gamma^distance over the paths from the first task to each task, or over the longest path."""
    if graph is None or graph.kind == "replicas":
        return 1.0
    step = gamma * (graph.width if every_path else 1)
    return float(sum(step**at for at in range(graph.depth)))


def _scaled(part: FloatArray, form: str) -> FloatArray:
    """Return a term as a rank from 0 to 1, or over its largest value."""
    if form == "max":
        return np.asarray(part / max(float(np.nanmax(part, initial=0.0)), 1e-12))
    rank = np.unique(part, return_inverse=True)[1].reshape(-1)
    return np.where(np.isnan(part), np.nan, rank / max(int(rank.max(initial=0)), 1))


def tuned(settings: Mapping[str, str]) -> MlfsPriority:
    """Return the priority with *settings*; ConfigError names an invalid one and what is accepted."""
    try:
        values = {name: text if name in _WORDS else float(text) for name, text in settings.items()}
        return MlfsPriority(**values)  # type: ignore[arg-type]  # words and numbers by name
    except (TypeError, ValueError):
        names = ", ".join(f.name for f in fields(MlfsPriority))
        raise ConfigError(
            f"mlfs-h: accepted are words for form, unit, dag, across and numbers for others of {names}"
        ) from None


_DEFAULTS = " ".join(
    f"{f.name}={f.default if f.name in _WORDS else format(f.default, 'g')}" for f in fields(MlfsPriority)
)


ORDERINGS.add(
    Ordering(
        "mlfs-h",
        MlfsPriority(),
        "Least remaining work first, by urgency, progress and whether the deadline has passed (MLFS, CoNEXT'20).",
        changes="with_time",
        selection=MlfsPriority().selection,
        tuned=tuned,
        defaults=_DEFAULTS,
    )
)

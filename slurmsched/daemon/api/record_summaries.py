"""Summaries of recorded data, for users who cannot read the database and the models' directory themselves."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from ...clock import Clock
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.records.profiles import LinkUse
from ...cluster.records.scope import Scope
from ...cluster.text.gpu_types import is_mig
from ...db.records.policy_choices import PolicyChoice
from ...db.store import Store
from ...errors import ModelUnusable
from ...models.artifact import Artifact
from ...models.completion.prediction_accuracy import PredictionAccuracy, accuracy
from ...models.completion.reliability import (
    GroupReliability,
    PredictedWaits,
    ReliabilityPoint,
    by_group,
    points,
    predicted_waits,
    since,
)
from ...models.model_card import span
from ...models.registry import ACTOR, RUNTIME, SHARING, THROUGHPUT, ArtifactRegistry, shipped
from ...report.answer import Report
from ...report.summary import groups_of, summary
from ...report.trial_effects import TrialFacts, trial_facts

DAY_S = 86400.0
BEFORE_S = 30 * DAY_S  #: a recently ended job may have been predicted so long before
KINDS = (RUNTIME, THROUGHPUT, SHARING, ACTOR)
FRESH_S = 60.0  #: how long an answer is reused for the same query
KEPT = 16  #: answers
TRIALS = 5  #: in an answer


class Accuracy(TypedDict):
    """Predictions beside what came."""

    days: float
    rows: Sequence[PredictionAccuracy]
    reliability: Sequence[ReliabilityPoint]
    predicted_waits: Sequence[PredictedWaits]
    reliability_by: Sequence[GroupReliability]


class RunsByGpus(TypedDict):
    """Runs with one number of GPUs."""

    gpus: int
    slices: bool  #: of GPUs, by the type of its nodes
    runs: int
    runtime_p50_s: float
    runtime_p90_s: float
    wait_p50_s: float
    wait_p90_s: float


class HistoryStats(TypedDict):
    """The runs in the database."""

    runs: int
    users: int
    first_ended_s: float | None
    last_ended_s: float | None
    by_gpus: Sequence[RunsByGpus]


class ModelFacts(TypedDict):
    """The data and the scores of a model."""

    kind: str
    data: str
    trained_from_s: float
    trained_until_s: float
    scores: dict[str, float]
    digest: str


class UnusableModel(TypedDict):
    """A model that cannot be used."""

    kind: str
    unusable: str


class ModelWithImportances(ModelFacts):
    """A model, and how much each of its inputs counts."""

    importances: dict[str, dict[str, float]]


class ModelInFull(ModelWithImportances):
    """A model in full."""

    calibration: dict[str, float]
    text: str


class ModelList(TypedDict):
    """The trained models."""

    directory: str
    models: Sequence[ModelFacts | UnusableModel]


class Choice(TypedDict):
    """A choice of an ordering; its author and reason are null for users who may not see them."""

    line: str
    by: str | None
    at_s: float
    reason: str | None
    synthesis: dict[str, Any] | None


class Choices(TypedDict):
    """The choices of an ordering, the latest first."""

    choices: Sequence[Choice]


class Trials(TypedDict):
    """The latest trials of the policy; authors, seeds and accounts are for operators alone."""

    trials: Sequence[TrialFacts]


class LinksUsed(TypedDict):
    """The use of the links between GPUs."""

    rows: Sequence[LinkUse]


class FigureQueries:
    """Answers about accuracy, history, models and choices, from the contents of *records* and *shelf*.

    Each answer is cached for a minute, for all users. None but the report names a user, except the author of a choice.
    """

    def __init__(
        self, records: Callable[[], Store], cluster: Callable[[], str], artifacts: ArtifactRegistry, clock: Clock
    ) -> None:
        self._records, self._cluster, self._artifacts, self._clock = records, cluster, artifacts, clock
        self._answers: OrderedDict[Hashable, tuple[float, Mapping[str, Any]]] = OrderedDict()

    def answer(self, about: str, days: float | None = None, only: str | None = None) -> Mapping[str, Any]:
        """Return the figures *about* the last *days*, or all; only those of the user *only*, where that is given.

        Called from one thread at a time. MemoryUnavailable where the database does not answer.
        """
        return self._fresh((about, days, only), lambda: getattr(self, f"_{about}")(days, only))

    def report(self, span_s: float, of: Scope) -> Mapping[str, Any]:
        """Return the report on the last *span_s* and the jobs *of* a choice; it names users. As ``answer``."""
        return self._fresh(("report", span_s, of), lambda: self._report(span_s, of))

    def _fresh(self, key: Hashable, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the answer of a minute ago at most, or make it."""
        now_s = self._clock.monotonic()
        made_s, body = self._answers.pop(key, (-math.inf, {}))
        if now_s >= made_s + FRESH_S:
            made_s, body = now_s, make()
        self._answers[key] = made_s, body
        while len(self._answers) > KEPT:
            self._answers.popitem(last=False)
        return body

    def _report(self, span_s: float, of: Scope) -> Report:
        until_s, name = self._clock.now(), self._cluster()
        rows = self._records().report_rows(name, until_s - span_s, until_s, of)
        return summary(rows, of, cluster_name=name, since_s=until_s - span_s, until_s=until_s)

    def _accuracy(self, days: float | None, only: str | None) -> Accuracy:
        days, now_s = days or 30.0, self._clock.now()
        since_s = now_s - days * DAY_S
        records, name, before_s = self._records(), self._cluster(), since_s - BEFORE_S
        predicted = records.predictions(name, before_s)
        came = predicted.take(since(predicted, since_s))
        groups = groups_of(came, records.promises(name, before_s), records.held_jobs(name, before_s))
        rows = accuracy(predicted, now_s, (days,))
        by = by_group(came, groups)
        return {
            "days": days,
            "rows": [row for row in rows if only is None or not (row.partition or row.size)],
            "reliability": points(came),
            "predicted_waits": predicted_waits(came),
            "reliability_by": [group for group in by if only is None or group.by == "all"],
        }

    def _links(self, days: float | None, only: str | None) -> LinksUsed:
        since_s = self._clock.now() - (days or 30.0) * DAY_S
        return {"rows": self._records().link_use(self._cluster(), since_s)}

    def _history(self, days: float | None, only: str | None) -> HistoryStats:
        since_s = None if days is None else self._clock.now() - days * DAY_S
        runs = self._records().history(self._cluster(), since_s=since_s)
        if only is not None:
            runs = runs.take(np.array([name == only for name in runs.user], dtype=np.bool_))
        first_s, last_s = (float(runs.ended_s[0]), float(runs.ended_s[-1])) if len(runs) else (None, None)
        return {
            "runs": len(runs),
            "users": len(set(runs.user)),
            "first_ended_s": first_s,
            "last_ended_s": last_s,
            "by_gpus": list(_by_gpus(runs)),
        }

    def _models(self, days: float | None, only: str | None) -> ModelList:
        return {"directory": str(self._artifacts.directory), "models": [self._model(kind) for kind in KINDS]}

    def _model(self, kind: str) -> ModelFacts | UnusableModel:
        try:
            return facts_of(serving_model(self._artifacts, kind))
        except ModelUnusable as error:
            return {"kind": kind, "unusable": str(error)}

    def _choices(self, days: float | None, only: str | None) -> Choices:
        return {"choices": [choice_facts(choice) for choice in self._records().choices(self._cluster())]}

    def _trials(self, days: float | None, only: str | None) -> Trials:
        records, name, now_s = self._records(), self._cluster(), self._clock.now()
        found = records.trials(name, TRIALS)
        return {"trials": [trial_facts(one, records.trial_sums(name, one.started_s), now_s) for one in found]}


def serving_model(artifacts: ArtifactRegistry, kind: str) -> Artifact:
    """Return the model of this *kind* in force; for sharing the shipped one where the site trained none."""
    if kind == SHARING and artifacts.stamp(kind) is None:
        return shipped()
    return artifacts.read(kind)


def facts_of(artifact: Artifact) -> ModelFacts:
    """Return the training data and the scores of a model."""
    return {
        "kind": artifact.kind,
        "data": span(artifact),
        "trained_from_s": artifact.trained_from_s,
        "trained_until_s": artifact.trained_until_s,
        "scores": dict(artifact.scores),
        "digest": artifact.digest,
    }


def _by_gpus(runs: OutcomeTable) -> Iterator[RunsByGpus]:
    started = runs.take(np.isfinite(runs.started_s))
    cut = started.gpu_type.map([is_mig(name) for name in started.gpu_type.names], np.bool_)
    for slices, gpus in sorted({*zip(cut.tolist(), started.gpus.tolist(), strict=True)}):
        these = started.take((started.gpus == gpus) & (cut == slices))
        runtime, wait = np.percentile((these.runtime_s, these.started_s - these.eligible_s), (50, 90), axis=1).T
        yield {
            "gpus": int(gpus),
            "slices": bool(slices),
            "runs": len(these),
            "runtime_p50_s": float(runtime[0]),
            "runtime_p90_s": float(runtime[1]),
            "wait_p50_s": float(wait[0]),
            "wait_p90_s": float(wait[1]),
        }


def choice_facts(choice: PolicyChoice) -> Choice:
    """Return a choice of an ordering, ready for JSON."""
    return {
        "line": choice.line,
        "by": choice.by,
        "at_s": choice.at_s,
        "reason": choice.reason,
        "synthesis": json.loads(choice.synthesis) if choice.synthesis else None,
    }

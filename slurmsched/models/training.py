"""Training of each kind of model, and the comparison with the active one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..cluster.records.outcomes import OutcomeTable
from ..errors import ModelUnusable, TooLittleHistory
from .arrivals import SERIES, Arrivals
from .artifact import Artifact
from .ebm.additive import Boosting
from .registry import RUNTIME, SHARING, THROUGHPUT
from .runtime.estimator import Estimator
from .runtime.history_index import HistoryIndex
from .runtime.model_selection import Profiler, judge
from .runtime.point_predictors import rises_with
from .sharing.pair_measurements import Measured
from .sharing.sharing_model import GpuUse, SharingModel
from .throughput import BOOSTING, LEAST, ThroughputModel
from .training_result import Trained

SEED = 1
DEALS, PARTS = 20, 5  #: repeats, and folds in each, of the cross-validation over configurations
FEWEST = 10  #: configurations to train a sharing model on


def train_runtime(
    history: OutcomeTable,
    serving: Artifact | None = None,
    *,
    interpretable_only: bool = True,
    profiles: Profiler | None = None,
    rising: Sequence[str] = (),
    report: Callable[[str], None] = lambda doing: None,
) -> Trained:
    """Train runtime models and promote the best where it beats the active one and the baseline.

    *profiles* gives the GPU use of runs as known at their submission. A forecast never falls with the columns *rising*;
    an active model that violates this need not be beaten. *report* receives the progress.

    TooLittleHistory where the history is too short, ConfigError where a dependency is not installed.
    """
    current = _estimator(serving, history, profiles)
    if current is not None and not rises_with(current.center, rising):
        current = None
    verdict = judge(
        history, serving=current, interpretable_only=interpretable_only, profiles=profiles, rising=rising, report=report
    )
    scores = {name: asdict(found) for name, found in verdict.scores.items()}
    ours, base = verdict.scores[verdict.chosen].pinball, scores["baseline"]["pinball"]
    summary = f"{verdict.chosen}: pinball loss {ours:.3f}, baseline {base:.3f}; {verdict.why}"
    if not verdict.promoted:
        stays = "the active model is as good" if verdict.beats_baseline else "nothing beats the baseline"
        return Trained(RUNTIME, None, f"{stays} ({summary})", scores)
    model = verdict.model
    scores_of_chosen = {name: value for name, value in scores[verdict.chosen].items() if np.isfinite(value)}
    begin_s = float(HistoryIndex.of(history).runs.first_submit_s.min())
    artifact = Artifact(
        RUNTIME, begin_s, model.trained_until_s, scores_of_chosen | {"baseline_pinball": base}, model.document()
    )
    return Trained(RUNTIME, artifact, f"better ({summary})", scores)


def train_throughput(
    submitted_s: FloatArray,
    gpus: IntArray,
    until_s: float,
    serving: Artifact | None,
    *,
    boosting: Boosting = BOOSTING,
) -> Trained:
    """Train the model of submissions until *until_s*; promote it where it beats the rolling median in a series.

    An active model stays where it does better on two weeks or more of this history that it was not trained on.
    TooLittleHistory for less than four weeks of it.
    """
    arrivals = Arrivals.of(submitted_s, gpus, until_s)
    if len(arrivals) < 2 * LEAST:
        raise TooLittleHistory(
            f"{len(arrivals) / 144:.1f} days of submissions are too few to train on: at least 28 are needed"
        )
    model = ThroughputModel.fit(arrivals, seed=SEED, boosting=boosting)
    scores = {series: {"model": error.model, "median": error.median} for series, error in model.errors.items()}
    summary = ", ".join(f"{name} {row['model']:.3f}, median {row['median']:.3f}" for name, row in scores.items())
    if not any(model.models.values()):
        return Trained(THROUGHPUT, None, f"the rolling median is as good (mean absolute error of {summary})", scores)
    if serving is not None and (before := _unseen(serving, arrivals)) is not None:
        scores["serving"] = before
        if all(before[series] < row for series, row in _errors_of(model).items()):
            return Trained(
                THROUGHPUT, None, f"the active model is better on data that is new to it ({summary})", scores
            )
    figures = {f"{series}_{name}": value for series in SERIES for name, value in scores[series].items()}
    figures = {name: value for name, value in figures.items() if np.isfinite(value)}
    artifact = Artifact(THROUGHPUT, float(arrivals.start_s[0]), until_s, figures, dict(model.document()))
    return Trained(THROUGHPUT, artifact, f"better (mean absolute error of {summary})", scores)


def train_sharing(measured: Measured, now_s: float, serving: Artifact | None, *, deals: int = DEALS) -> Trained:
    """Train on *measured* configurations and pairs; promote the model where it beats the active one.

    Cross-validation in *deals* repeats scores each configuration by models trained without it. The active model scores
    all of them, so one that was trained on these same configurations stays. ValueError for fewer than FEWEST
    configurations.
    """
    use, score = measured.use, measured.score
    if len(use) < FEWEST:
        raise ValueError(f"{len(use)} configurations are too few to train on: at least {FEWEST} are needed")
    right = held_out(use, score, measured.sums, measured.speeds, deals)
    most = float(np.bincount(score).max() / len(score))
    scores = {"trees": {"right": right}, "always the most frequent": {"right": most}}
    model = SharingModel.fit(use, score, measured.sums, measured.speeds, seed=SEED)
    summary = f"right about {right:.0%} of configurations held out, the most frequent score about {most:.0%}"
    better = right > most
    if serving is not None:
        before = float((serving.read_as(SharingModel.of_document).score(use) == score).mean())
        scores["serving"] = {"right": before}
        summary += f", what serves about {before:.0%}"
        better &= right > before
    if not better:
        return Trained(SHARING, None, f"no better ({summary})", scores)
    artifact = Artifact(SHARING, now_s, now_s, {"right_held_out": right, "right_most_frequent": most}, model.document())
    return Trained(SHARING, artifact, f"better ({summary})", scores)


def held_out(use: GpuUse, score: IntArray, sums: FloatArray, speeds: FloatArray, deals: int) -> float:
    """Return the share of configurations whose score is predicted correctly in cross-validation of *deals* repeats."""
    random = np.random.default_rng(SEED)
    right = []
    for _ in range(deals):
        part = random.permutation(len(use)) % PARTS
        for held in range(PARTS):
            model = SharingModel.fit(use.take(part != held), score[part != held], sums, speeds, seed=SEED)
            right.append(model.score(use.take(part == held)) == score[part == held])
    return float(np.concatenate(right).mean())


def _estimator(serving: Artifact | None, history: OutcomeTable, profiles: Profiler | None) -> Estimator | None:
    """Return the active model with the whole history; None where it cannot be read."""
    if serving is None:
        return None
    try:
        return serving.read_as(lambda document: Estimator.of_document(document, history, profiles))
    except ModelUnusable:
        return None


def _errors_of(model: ThroughputModel) -> dict[str, float]:
    return {series: min(error.model, error.median) for series, error in model.errors.items()}


def _unseen(serving: Artifact, arrivals: Arrivals) -> dict[str, float] | None:
    """Return the active model's mean absolute error on steps after its training; None where these are too few."""
    later = arrivals.start_s >= serving.trained_until_s
    if later.sum() < LEAST:
        return None
    try:
        model = serving.read_as(ThroughputModel.of_document)
    except ModelUnusable:
        return None
    return {
        series: float(np.nanmean(np.abs(model.predict(arrivals, series) - getattr(arrivals, series))[later]))
        for series in SERIES
    }

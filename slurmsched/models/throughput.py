"""Forecasts of load: the jobs and GPUs that the next hour's ten-minute steps will request (Lucid section 3.5.2)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from ..cluster.columns import BoolArray, FloatArray
from ..errors import ConfigError, ModelUnusable
from .arrivals import DAY, LAG, REACH, SERIES, STEP_S, WEEK, Arrivals, features, rolling_median
from .ebm.additive import Additive, AdditiveDocument, Boosting
from .registry import THROUGHPUT, ArtifactRegistry

logger = logging.getLogger(__name__)

JUDGED = 4 * WEEK  #: the newest steps, where a model must beat the rolling median; a fifth of a short history
LEAST = 2 * WEEK  #: steps to train on at least, besides those used only for features
PAIRS = 5  #: number of interactions
USUAL = 4 * WEEK  #: steps that define idle and busy on this cluster

BOOSTING = Boosting(
    outer_bags=20,
    max_bins=128,
    max_rounds=2_000,
    early_stopping_rounds=50,
    smoothing_rounds=100,
    min_samples_leaf=50,
)


class ThroughputDocument(TypedDict):
    """A throughput model as JSON; a series without an additive model is forecast by the rolling median."""

    models: dict[str, AdditiveDocument | None]
    errors: dict[str, list[float]]


@dataclass(frozen=True, eq=False)
class ThroughputForecast:
    """The submissions expected in each of the next LAG steps."""

    start_s: FloatArray
    jobs: FloatArray
    gpus: FloatArray


@dataclass(frozen=True)
class LoadOutlook:
    """The load of one series now and in the next hour against the usual one; used by dynamic packing and scaling."""

    now: float  #: mean per step of the last hour
    ahead: float  #: mean per step forecast for the next hour
    rank: float  #: share of the hours of the last four weeks in which less was submitted than now, ties half; 0..1

    def idle(self, below: float = 0.25) -> bool:
        """Return True if the current load is unusually low."""
        return self.rank < below

    def busy(self, above: float = 0.75) -> bool:
        """Return True if the current load is unusually high."""
        return self.rank > above

    def rising(self, by: float = 0.1) -> bool:
        """Return True if the load is forecast to rise by at least this share."""
        return self.ahead > self.now * (1.0 + by)


@dataclass(frozen=True)
class Errors:
    """The mean absolute errors per step on the newest steps, which the models were not trained on."""

    model: float  #: infinite where the history was too short to train
    median: float


@dataclass(frozen=True, eq=False)
class ThroughputModel:
    """A GA2M of the square root of each series, or the rolling median where that is as good. Immutable.

    The square root evens out the spread of counts, so that the mean it learns is close to the median after squaring,
    and the absolute error small.
    """

    models: dict[str, Additive | None]  #: by series
    errors: dict[str, Errors]

    @classmethod
    def fit(cls, history: Arrivals, *, seed: int, boosting: Boosting = BOOSTING) -> Self:
        """Train on *history*. The same history and seed give the same model.

        A series gets a GA2M, trained on everything, if one trained without the newest steps beats the rolling median
        on them.
        """
        judged = min(JUDGED, len(history) // 5)
        split = len(history) - judged
        columns = features(history)
        models: dict[str, Additive | None] = {}
        errors = {}
        for series in SERIES:
            values = getattr(history, series)
            newest = np.arange(len(history)) >= max(split, REACH)
            error = Errors(np.inf, _error(rolling_median(history, series), values, newest))
            if split - REACH >= LEAST:
                predicted = _predicted(_trained(columns, values, ~newest, seed, boosting), columns)
                error = Errors(_error(predicted, values, newest), error.median)
            better = error.model < error.median
            everything = np.ones(len(history), dtype=np.bool_)
            models[series] = _trained(columns, values, everything, seed, boosting) if better else None
            errors[series] = error
        return cls(models, errors)

    def forecast(self, history: Arrivals) -> ThroughputForecast:
        """Forecast the LAG steps after *history*, of which the newest REACH steps are enough.

        A series forecast is never negative, and 0 where the history is too short even for the median.
        """
        recent = history.latest(REACH)
        predicted = {series: self.predict(recent, series, ahead=LAG)[-LAG:] for series in SERIES}
        end_s = float(history.start_s[-1]) + STEP_S if len(history) else 0.0
        start_s = end_s + STEP_S * np.arange(LAG, dtype=np.float64)
        return ThroughputForecast(start_s, *(np.nan_to_num(predicted[series]) for series in SERIES))

    def predict(self, history: Arrivals, series: str, ahead: int = 0) -> FloatArray:
        """Forecast each step of *history* from the steps before it, and the *ahead* steps after it.

        NaN for steps with too little history before them.
        """
        additive = self.models[series]
        median = rolling_median(history, series, ahead)
        if additive is None:
            return median
        columns = features(history, ahead)
        return np.where(_whole(columns), _predicted(additive, columns), median)

    def outlook(self, history: Arrivals, series: str) -> LoadOutlook:
        """Compare the load of *series*, now and in the next hour, with *history*, which should hold four weeks."""
        values = getattr(history.latest(USUAL), series)
        now = float(values[-LAG:].mean()) if len(values) else 0.0
        hours = np.convolve(values, np.full(LAG, 1.0 / LAG), "valid") if len(values) >= LAG else np.zeros(1)
        rank = float((hours < now - 1e-9).mean() + 0.5 * (np.abs(hours - now) <= 1e-9).mean())
        return LoadOutlook(now, float(getattr(self.forecast(history), series).mean()), rank)

    def document(self) -> ThroughputDocument:
        """Return the model as JSON values, without loss; an error that is not finite becomes -1."""
        return {
            "models": {series: None if model is None else model.document() for series, model in self.models.items()},
            "errors": {
                series: [error if np.isfinite(error) else -1.0 for error in (errors.model, errors.median)]
                for series, errors in self.errors.items()
            },
        }

    @classmethod
    def of_document(cls, document: ThroughputDocument) -> Self:
        """Rebuild the model from its `document`. ValueError, KeyError or TypeError where it describes none."""
        read = {series: document["models"][series] for series in SERIES}
        errors = {
            series: Errors(*(error if error >= 0.0 else np.inf for error in document["errors"][series]))
            for series in SERIES
        }
        models = {series: None if model is None else Additive.of_document(model) for series, model in read.items()}
        return cls(models, errors)


def by_median() -> ThroughputModel:
    """Return the forecast for a site without a trained model: the rolling median of each series."""
    return ThroughputModel(dict.fromkeys(SERIES), dict.fromkeys(SERIES, Errors(np.inf, np.inf)))


def active_throughput(artifacts: ArtifactRegistry) -> ThroughputModel:
    """Return the trained model of submissions; the rolling median where there is none, or it is unusable."""
    if artifacts.stamp(THROUGHPUT) is None:
        return by_median()
    try:
        return artifacts.read(THROUGHPUT).read_as(ThroughputModel.of_document)
    except (ModelUnusable, ConfigError) as error:
        logger.warning("arrivals are forecast by their rolling median: %s", error)
        return by_median()


def _trained(
    columns: dict[str, FloatArray], values: FloatArray, rows: BoolArray, seed: int, boosting: Boosting
) -> Additive:
    rows = rows & _whole(columns)
    bags = _bags(int(rows.sum()), boosting.outer_bags, seed)
    chosen = {name: column[rows] for name, column in columns.items()}
    return Additive.fit(chosen, np.sqrt(values[rows]), interactions=PAIRS, seed=seed, bags=bags, boosting=boosting)


def _predicted(model: Additive, columns: dict[str, FloatArray]) -> FloatArray:
    return np.square(np.maximum(0.0, model.predict(columns)))


def _whole(columns: dict[str, FloatArray]) -> BoolArray:
    """Select the rows with enough history before them."""
    whole: BoolArray = ~np.isnan(np.array([*columns.values()])).any(axis=0)
    return whole


def _error(predicted: FloatArray, values: FloatArray, rows: BoolArray) -> float:
    return float(np.abs(predicted[: len(values)] - values)[rows].mean()) if rows.any() else np.inf


def _bags(rows: int, bags: int, seed: int) -> NDArray[np.int8]:
    """Split rows into training rows (1) and early-stopping rows (-1), one column per bag."""
    # Blocks of three days: a single held-out step is too easy, because its neighbours give it away.
    rng = np.random.default_rng(seed)
    block = np.arange(rows) // (3 * DAY)
    blocks = int(block[-1]) + 1
    held_out = max(1, round(0.15 * blocks))
    columns = [np.where(np.isin(block, rng.permutation(blocks)[:held_out]), -1, 1) for _ in range(bags)]
    return np.ascontiguousarray(np.array(columns, dtype=np.int8).T)

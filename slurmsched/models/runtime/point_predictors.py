"""Point predictors, which give the middle of a runtime forecast: the additive model, and the rules it must beat."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.job_kind import printable
from ...errors import MissingExtra
from ..ebm.additive import Additive, Boosting, Columns
from ..ebm.dictionary_column import DictionaryColumn
from .mixture import Mixture
from .model_inputs import LOGARITHMS, WORDS, classes, numbers, rows_of

SEED = 5
TRAINED = 1_000_000  #: latest runs used for training
PAIRS = 5  #: tables of two columns
SEARCHED = 20_000  #: latest runs used to find the pairs
STRETCHES = 40  #: of the history; a user's runs in one stretch are held out together
STOPPED_BY = 0.15  #: share of users' stretches used for early stopping


class LogForecast(NamedTuple):
    """The natural logarithm of each job's runtime in seconds; NaN where there is no forecast."""

    middle: FloatArray  #: the forecast
    base: FloatArray  #: the centre of its interval


class PointPredictor(Protocol):
    """Forecasts the middle from the columns of `model_inputs.inputs`. Immutable."""

    @property
    def kind(self) -> str:
        """The predictor's name among CENTERS."""
        ...

    def log_forecast(self, columns: Columns) -> LogForecast:
        """Forecast each job."""
        ...

    def reasons(self, columns: Columns) -> list[Reason]:
        """Return the terms of the first job's forecast, the weightiest first."""
        ...

    def document(self) -> dict[str, Any]:
        """Return all that was trained as JSON values, without loss."""
        ...


@dataclass(frozen=True)
class Reason:
    """A term of a forecast: it multiplies the runtime by *factor*."""

    words: str
    factor: float


@dataclass(frozen=True)
class Repeat:
    """A repetition of the last runs: the first of *columns* that has a value for the job."""

    kind: str
    columns: tuple[str, ...]

    def log_forecast(self, columns: Columns) -> LogForecast:
        """Return the first column that is not NaN."""
        log = np.full(len(numbers(columns, self.columns[0])), np.nan)
        for name in self.columns:
            log = np.where(np.isnan(log), numbers(columns, name), log)
        return LogForecast(log, log)

    def reasons(self, columns: Columns) -> list[Reason]:
        """Return the chosen column as the only term."""
        for name in self.columns:
            value = float(numbers(columns, name)[0])
            if not np.isnan(value):
                return [Reason(WORDS[name], float(np.exp(value)))]
        return []

    def document(self) -> dict[str, Any]:
        """Return the kind only, since nothing is trained."""
        return {"kind": self.kind}


Fit = Callable[[Columns, FloatArray, IntArray, IntArray], tuple[PointPredictor, LogForecast]]
"""From the columns and log runtime of all runs, the held-out rows and the rows to fit on: returns the predictor trained
on all runs, and the forecasts of the held-out rows by one trained without them."""

LAST_OF_NAME = Repeat("last two of user and name", ("name_last", "user_last", "gpus_usual", "site_usual"))
LAST_OF_USER = Repeat("last two of user", ("user_last", "gpus_usual", "site_usual"))
USER_MEDIAN = Repeat("median of user", ("user_median", "gpus_usual", "site_usual"))
LIMIT = Repeat("requested limit", ("limit", "site_usual"))
REPEATS = {repeat.kind: repeat for repeat in (LAST_OF_NAME, LAST_OF_USER, USER_MEDIAN, LIMIT)}


@dataclass(frozen=True, eq=False)
class Ga2m:
    """The additive model of log runtime (Lucid section 3.5.3), mixed with the last runs where these do better."""

    additive: Additive
    blend: Mixture
    kind: str = "additive"

    def log_forecast(self, columns: Columns) -> LogForecast:
        """Forecast by the mixture, with the interval around the tables alone: bursts of runs barely tell the ends."""
        alone = self.additive.predict(columns)
        return LogForecast(self.blend.mixed(columns, alone), alone)

    def reasons(self, columns: Columns) -> list[Reason]:
        """Return the typical runtime, a factor for each term, and the effect of the last runs."""
        first = rows_of(columns, np.array([0]))
        model = self.additive.predict(first)
        parts = self.additive.contributions(first)[0]
        terms = [
            Reason(" and ".join(_refusal_text(name, first) for name in term.features), float(np.exp(part)))
            for term, part in zip(self.additive.terms, parts.tolist(), strict=True)
        ]
        terms.sort(key=lambda reason: -abs(np.log(reason.factor)))
        found = [Reason("typical runtime", float(np.exp(self.additive.intercept))), *terms]
        part = self.blend.parts.get(int(classes(first)[0]))
        mixed = float(np.exp(self.blend.mixed(first, model)[0] - model[0]))
        if part is not None and mixed != 1.0:
            share = float(self.blend.beside(first, model)[1][0])
            found.insert(1, Reason(f"{share:.0%} of the weight for the {_refusal_text(part.column, first)}", mixed))
        return found

    def document(self) -> dict[str, Any]:
        """Return tables and mixture."""
        return {"kind": self.kind, "additive": self.additive.document(), "blend": self.blend.document()}


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees (LightGBM), for sites that do not require a readable model."""

    text: str  #: as LightGBM writes it
    categories: Mapping[str, tuple[str, ...]]  #: of each column of texts
    names: tuple[str, ...]
    kind: str = "trees"

    def log_forecast(self, columns: Columns) -> LogForecast:
        """Return the sum over all trees."""
        log: FloatArray = np.asarray(self._booster.predict(_matrix(columns, self.names, self.categories)))
        return LogForecast(log, log)

    def reasons(self, columns: Columns) -> list[Reason]:
        """Return the SHAP values of the trees: the typical runtime, and a factor for each column."""
        first = rows_of(columns, np.array([0]))
        matrix = _matrix(first, self.names, self.categories)
        parts = np.asarray(self._booster.predict(matrix, pred_contrib=True))[0]
        terms = [
            Reason(_refusal_text(name, first), float(np.exp(part)))
            for name, part in zip(self.names, parts[:-1].tolist(), strict=True)
        ]
        terms.sort(key=lambda reason: -abs(np.log(reason.factor)))
        return [Reason("typical runtime", float(np.exp(parts[-1]))), *terms]

    def document(self) -> dict[str, Any]:
        """Return LightGBM's own text, and the categories behind its numbers."""
        categories = {name: list(texts) for name, texts in self.categories.items()}
        return {"kind": self.kind, "text": self.text, "categories": categories, "names": list(self.names)}

    @cached_property
    def _booster(self) -> Any:
        return _lightgbm().Booster(model_str=self.text)


def boosting(rows: int) -> Boosting:
    """Choose training parameters: few wide bins for few runs, since habits change; more bags then average the noise."""
    return Boosting(
        outer_bags=4 if rows < 100_000 else 2,
        max_bins=int(np.clip(np.sqrt(rows) / 8, 16, 128)),
        learning_rate=0.1,
        smoothing_rounds=20,
        max_rounds=600,
        early_stopping_rounds=20,
        min_samples_leaf=10,
    )


def fit_ga2m(
    columns: Columns, log_runtime: FloatArray, unseen: IntArray, fitted: IntArray, *, rising: Sequence[str] = ()
) -> tuple[Ga2m, LogForecast]:
    """Train the additive model on all rows; forecast the *unseen* rows by one trained on the *fitted* rows alone.

    The mixture is fitted to those forecasts. Tables never fall with the columns *rising*.
    """
    pairs = _pairs(columns, log_runtime, fitted[-SEARCHED:])
    first = rising_with(_additive(columns, log_runtime, fitted, pairs), rising)
    held_out = rows_of(columns, unseen)
    alone = first.predict(held_out)
    blend = Mixture.fit(held_out, alone, log_runtime[unseen])
    whole = rising_with(_additive(columns, log_runtime, np.arange(len(log_runtime)), pairs), rising)
    return Ga2m(whole, blend), LogForecast(blend.mixed(held_out, alone), alone)


def rising_with(model: Additive, columns: Sequence[str]) -> Additive:
    """Return *model* with tables that never fall with *columns*; columns that it does not use are ignored."""
    looked_at = {feature.name for feature in model.features}
    return model.monotone(*(name for name in columns if name in looked_at))


def rises_with(center: PointPredictor, columns: Sequence[str]) -> bool:
    """Return True if the forecast of *center* never falls with *columns*; False for trees, which cannot be checked."""
    if not columns or isinstance(center, Repeat):
        return True
    if not isinstance(center, Ga2m):
        return False
    risen = rising_with(center.additive, columns)
    return all(
        np.allclose(mine.scores, theirs.scores) for mine, theirs in zip(center.additive.terms, risen.terms, strict=True)
    )


def fit_trees(
    columns: Columns, log_runtime: FloatArray, unseen: IntArray, fitted: IntArray, *, rising: Sequence[str] = ()
) -> tuple[Trees, LogForecast]:
    """Train boosted trees like `fit_ga2m`, with LightGBM's own settings and the squared error of log runtime."""
    first = _trees(rows_of(columns, fitted), log_runtime[fitted], rising)
    return _trees(columns, log_runtime, rising), first.log_forecast(rows_of(columns, unseen))


def _pairs(columns: Columns, log_runtime: FloatArray, rows: IntArray) -> list[tuple[str, str]]:
    """Find the pairs of columns that explain most beyond the sum of both."""
    model = _additive(columns, log_runtime, rows, PAIRS)
    return [(term.features[0], term.features[1]) for term in model.terms if len(term.features) == 2]


def _additive(
    columns: Columns, log_runtime: FloatArray, rows: IntArray, pairs: int | Sequence[tuple[str, str]]
) -> Additive:
    rows = rows[-TRAINED:]
    chosen, how = rows_of(columns, rows), boosting(len(rows))
    bags = stopping_bags(chosen["user"], how.outer_bags)
    return Additive.fit(chosen, log_runtime[rows], seed=SEED, interactions=pairs, bags=bags, boosting=how)


def stopping_bags(users: Labels | FloatArray | DictionaryColumn, bags: int) -> NDArray[np.int8]:
    """Split runs into training (1) and early stopping (-1), shape (runs, bags); runs come in the order they ended.

    A user's runs of one stretch of the history go together: a single run of a burst is predictable from the others.
    """
    if not isinstance(users, Labels):
        raise ValueError("user is a column of texts")
    stretch = np.arange(len(users)) * STRETCHES // max(1, len(users))
    parts, part = np.unique(users.codes * STRETCHES + stretch, return_inverse=True)
    random = np.random.default_rng(SEED)
    held_out = max(1, round(len(parts) * STOPPED_BY))
    held = [np.isin(part, random.permutation(len(parts))[:held_out]) for _ in range(bags)]
    return np.where(np.column_stack(held), -1, 1).astype(np.int8)


def repeating(repeat: Repeat) -> Fit:
    """Return a fit function for a rule that repeats the last runs and trains nothing."""

    def fit(columns: Columns, _: FloatArray, unseen: IntArray, fitted: IntArray) -> tuple[Repeat, LogForecast]:
        return repeat, repeat.log_forecast(rows_of(columns, unseen))

    return fit


def _trees(columns: Columns, log_runtime: FloatArray, rising: Sequence[str]) -> Trees:
    lightgbm = _lightgbm()
    names = tuple(columns)
    categories = {
        name: tuple(sorted({column.names[code] for code in np.unique(column.codes).tolist()}))
        for name, column in columns.items()
        if isinstance(column, Labels)
    }
    data = lightgbm.Dataset(
        _matrix(columns, names, categories), log_runtime, categorical_feature=[names.index(name) for name in categories]
    )
    settings = {"objective": "l2", "verbose": -1, "num_threads": 1, "seed": SEED, "deterministic": True}
    settings["force_col_wise"] = True  # else the faster of two ways is measured, and their sums differ
    if rising:
        settings["monotone_constraints"] = [int(name in rising) for name in names]
    booster = lightgbm.train(settings, data, num_boost_round=100)
    return Trees(booster.model_to_string(), categories, names)


def center_of(document: Mapping[str, Any]) -> PointPredictor:
    """Rebuild the predictor from its `document`. ValueError, KeyError or TypeError where it describes none."""
    kind = document["kind"]
    if kind in REPEATS:
        return REPEATS[kind]
    if kind == "additive":
        return Ga2m(Additive.of_document(document["additive"]), Mixture.of_document(document["blend"]))
    if kind == "trees":
        categories = {name: tuple(texts) for name, texts in document["categories"].items()}
        return Trees(document["text"], categories, tuple(document["names"]))
    raise ValueError(f"{json.dumps(kind)} is no model of runtimes: accepted are additive, trees, {', '.join(REPEATS)}")


def _refusal_text(name: str, columns: Columns) -> str:
    """Return the first job's value of the column in words; a logarithm appears as the time it stands for."""
    column = columns[name]
    value = column[0]
    if isinstance(value, str):
        return f"{WORDS[name]} {printable(value) or 'none'}"
    if np.isnan(value):
        return f"{WORDS[name]}: none"
    return f"{WORDS[name]} {_span(float(np.exp(value))) if name in LOGARITHMS else f'{value:.3g}'}"


def _span(seconds: float) -> str:
    for unit, length_s in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.3g} {unit}"
    return f"{seconds:.3g} s"


def _matrix(columns: Columns, names: tuple[str, ...], categories: Mapping[str, tuple[str, ...]]) -> FloatArray:
    parts = []
    for name in names:
        column = columns[name]
        if isinstance(column, Labels):
            places = {text: float(place) for place, text in enumerate(categories[name])}
            column = column.map([places.get(text, np.nan) for text in column.names], np.float64)
        parts.append(column.numbers() if isinstance(column, DictionaryColumn) else column)
    return np.column_stack(parts)


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtra("boosted trees need LightGBM", "learn") from error
    return lightgbm

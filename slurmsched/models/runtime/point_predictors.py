"""Where the middle of a runtime forecast comes from: the additive model, and what it has to beat."""

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
TRAINED = 1_000_000  #: latest runs that a model is trained on
PAIRS = 5  #: tables of two columns
SEARCHED = 20_000  #: latest runs in which these are looked for
STRETCHES = 40  #: of the history, as far as a user's runs are held out together
STOPPED_BY = 0.15  #: share of users' stretches that tell when to stop training


class LogForecast(NamedTuple):
    """Natural logarithm of the runtime in seconds of each job; NaN where nothing is said."""

    middle: FloatArray  #: the forecast
    base: FloatArray  #: what its interval lies round


class PointPredictor(Protocol):
    """Says the middle of a forecast from the columns of `model_inputs.inputs`. Immutable."""

    @property
    def kind(self) -> str:
        """Its name among CENTERS."""
        ...

    def log_forecast(self, columns: Columns) -> LogForecast:
        """What it says of each job."""
        ...

    def reasons(self, columns: Columns) -> list[Reason]:
        """What the forecast of the first job is made of, the weightiest first."""
        ...

    def document(self) -> dict[str, Any]:
        """All it knows as JSON values, without loss."""
        ...


@dataclass(frozen=True)
class Reason:
    """One term of a forecast: it multiplies the runtime by *factor*."""

    words: str
    factor: float


@dataclass(frozen=True)
class Repeat:
    """Runs like the last ones: the first of *columns* that knows the job."""

    kind: str
    columns: tuple[str, ...]

    def log_forecast(self, columns: Columns) -> LogForecast:
        """The first column that is not NaN."""
        log = np.full(len(numbers(columns, self.columns[0])), np.nan)
        for name in self.columns:
            log = np.where(np.isnan(log), numbers(columns, name), log)
        return LogForecast(log, log)

    def reasons(self, columns: Columns) -> list[Reason]:
        """The column that was taken."""
        for name in self.columns:
            value = float(numbers(columns, name)[0])
            if not np.isnan(value):
                return [Reason(WORDS[name], float(np.exp(value)))]
        return []

    def document(self) -> dict[str, Any]:
        """Nothing but its kind: it has learnt nothing."""
        return {"kind": self.kind}


Fit = Callable[[Columns, FloatArray, IntArray, IntArray], tuple[PointPredictor, LogForecast]]
"""Columns and log runtime of all runs, the rows held out, the rows to fit on: gives the center that knows all runs, and
what one that never saw the held-out rows says of them."""

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
        """The mixture, with an interval round the tables alone: of the ends, the last runs of a burst tell little."""
        alone = self.additive.predict(columns)
        return LogForecast(self.blend.mixed(columns, alone), alone)

    def reasons(self, columns: Columns) -> list[Reason]:
        """The typical runtime, a factor for each term, and what the last runs do to that."""
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
        """Tables and mixture."""
        return {"kind": self.kind, "additive": self.additive.document(), "blend": self.blend.document()}


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees (LightGBM): for sites that do not insist on a model one can read."""

    text: str  #: as LightGBM writes it
    categories: Mapping[str, tuple[str, ...]]  #: of each column of texts
    names: tuple[str, ...]
    kind: str = "trees"

    def log_forecast(self, columns: Columns) -> LogForecast:
        """The sum over all trees."""
        log: FloatArray = np.asarray(self._booster.predict(_matrix(columns, self.names, self.categories)))
        return LogForecast(log, log)

    def reasons(self, columns: Columns) -> list[Reason]:
        """Its own contributions (SHAP values of the trees): the typical runtime, and a factor for each column."""
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
        """LightGBM's own text, and the categories behind its numbers."""
        categories = {name: list(texts) for name, texts in self.categories.items()}
        return {"kind": self.kind, "text": self.text, "categories": categories, "names": list(self.names)}

    @cached_property
    def _booster(self) -> Any:
        return _lightgbm().Booster(model_str=self.text)


def boosting(rows: int) -> Boosting:
    """How to train on so many runs: few wide bins where runs are few, since habits change; many average themselves."""
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
    """The additive model of all rows, and its forecasts of the *unseen* ones by a model of the *fitted* ones alone.

    The mixture is learnt from those forecasts. Tables never fall with the columns *rising*.
    """
    pairs = _pairs(columns, log_runtime, fitted[-SEARCHED:])
    first = rising_with(_additive(columns, log_runtime, fitted, pairs), rising)
    held_out = rows_of(columns, unseen)
    alone = first.predict(held_out)
    blend = Mixture.fit(held_out, alone, log_runtime[unseen])
    whole = rising_with(_additive(columns, log_runtime, np.arange(len(log_runtime)), pairs), rising)
    return Ga2m(whole, blend), LogForecast(blend.mixed(held_out, alone), alone)


def rising_with(model: Additive, columns: Sequence[str]) -> Additive:
    """The *model* whose tables never fall with these *columns*; those that it does not look at count for nothing."""
    looked_at = {feature.name for feature in model.features}
    return model.monotone(*(name for name in columns if name in looked_at))


def rises_with(center: PointPredictor, columns: Sequence[str]) -> bool:
    """Whether what *center* has learnt never falls with these *columns*; of trees nobody knows."""
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
    """The same of boosted trees with LightGBM's own settings and the squared error of log runtime."""
    first = _trees(rows_of(columns, fitted), log_runtime[fitted], rising)
    return _trees(columns, log_runtime, rising), first.log_forecast(rows_of(columns, unseen))


def _pairs(columns: Columns, log_runtime: FloatArray, rows: IntArray) -> list[tuple[str, str]]:
    """The pairs of columns that tell most beyond the sum of both."""
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
    """Which runs train (1) and which tell when to stop (-1), shape (runs, bags); runs come in the order they ended.

    A user's runs of one stretch of the history go together: one of a burst held out is told by its siblings.
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
    """The way to get a model that repeats the last runs and learns nothing."""

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
    if rising:
        settings["monotone_constraints"] = [int(name in rising) for name in names]
    booster = lightgbm.train(settings, data, num_boost_round=100)
    return Trees(booster.model_to_string(), categories, names)


def center_of(document: Mapping[str, Any]) -> PointPredictor:
    """The center that `document` described. ValueError, KeyError or TypeError where it describes none."""
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
    """The column and what the first job has there, in words: a logarithm as the time it stands for."""
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

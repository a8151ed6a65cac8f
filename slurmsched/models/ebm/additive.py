"""Additive models (GA2M): sums of look-up tables, one per feature or pair of features."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from ...cluster.columns import FloatArray, IntArray, Labels
from ...errors import MissingExtra
from .bins import Bins, Continuous, Feature, FeatureDocument, Nominal, feature_of
from .dictionary_column import DictionaryColumn

if TYPE_CHECKING:
    from interpret.glassbox import ExplainableBoostingRegressor

Columns = Mapping[str, FloatArray | Labels | DictionaryColumn]
Link = Literal["identity", "log"]

_LINKS: Mapping[str, Link] = {"identity": "identity", "log": "log"}
_TURNS = 100  # most iterations to make a pair rise with both of its features
_SETTLED = 1e-6  # change of scores below which the iteration ends


class TermDocument(TypedDict):
    """A term as JSON; tables are row by row."""

    features: list[str]
    scores: list[float]
    weights: list[float]


class AdditiveDocument(TypedDict):
    """A model as JSON."""

    link: str
    intercept: float
    features: list[FeatureDocument]
    terms: list[TermDocument]


@dataclass(frozen=True, eq=False)
class AdditiveTerm:
    """The scores that one feature, or a pair, adds: one per bin, with the weight of the training rows in that bin."""

    features: tuple[str, ...]  #: one or two names
    scores: FloatArray  #: as many axes as features
    weights: FloatArray  #: same shape

    @property
    def name(self) -> str:
        """The term's features, joined by `` & ``."""
        return " & ".join(self.features)

    @property
    def importance(self) -> float:
        """The mean absolute score over the training rows."""
        total = self.weights.sum()
        return float((np.abs(self.scores) * self.weights).sum() / total) if total else 0.0


@dataclass(frozen=True)
class Boosting:
    """Training parameters; the defaults suit some 100,000 rows. Names follow interpret where it has them."""

    objective: str = "rmse"  #: or ``poisson_deviance``, ``gamma_deviance``, ``pseudo_huber:delta=1.0``, ``rmse_log``
    outer_bags: int = 8
    max_bins: int = 256
    max_interaction_bins: int = 32
    learning_rate: float = 0.04
    smoothing_rounds: int = 200
    interaction_smoothing_rounds: int = 50
    max_rounds: int = 10_000
    early_stopping_rounds: int = 100
    validation_size: float = 0.15
    min_samples_leaf: int = 4
    max_leaves: int = 3
    n_jobs: int = 1


@dataclass(frozen=True, eq=False)
class Additive:
    """A GA2M (Lou et al. 2013; Lucid section 3.4): prediction = inverse link of (intercept + one score per term)."""

    features: tuple[Feature, ...]
    terms: tuple[AdditiveTerm, ...]
    intercept: float
    link: Link = "identity"
    #: Cached look-ups for all values of a DictionaryColumn: by term (its scores) or feature (its bins in pairs).
    _scores: dict[str, tuple[FloatArray, FloatArray]] = field(default_factory=dict, init=False, repr=False)
    _places: dict[str, tuple[FloatArray, IntArray]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        sizes = {feature.name: feature.sizes for feature in self.features}
        for term in self.terms:
            if len(term.features) not in (1, 2) or not set(term.features) <= set(sizes):
                raise ValueError(f"term {term.name!r} is not of one or two features of the model")
            shape = tuple(sizes[name][len(term.features) - 1] for name in term.features)
            if term.scores.shape != shape or term.weights.shape != shape:
                raise ValueError(f"term {term.name!r} needs tables of shape {shape}")

    @classmethod
    def fit(
        cls,
        columns: Columns,
        target: FloatArray,
        *,
        seed: int,
        interactions: int | Sequence[tuple[str, str]] = 0,
        weights: FloatArray | None = None,
        bags: NDArray[np.int8] | None = None,
        boosting: Boosting | None = None,
    ) -> Self:
        """Train interpret's explainable boosting machine on *columns* (numbers, or texts as Labels).

        NaN and the empty text are missing values; a column that holds nothing else is left out. *interactions* is the
        number of pairs to find, or the pairs. *weights* are above 0. *bags*, shape (rows, outer bags), holds 1 for rows
        to train on, -1 for rows to stop by, 0 for neither; by default they are drawn. The same input gives one model.
        ConfigError where interpret is not installed; ValueError for no rows or a target that is not finite.
        """
        if not len(target) or not np.isfinite(target).all():
            raise ValueError("the target needs at least one row and finite numbers only")
        columns = {name: column for name, column in columns.items() if _known_rows(column).any()}
        coded = {name: _coded(column) for name, column in columns.items()}
        machine = _machine(columns, interactions, boosting or Boosting(), seed, None if bags is None else bags.shape[1])
        with without_vector_units(), warnings.catch_warnings():
            # interpret warns that its own plots leave missing values out; these tables keep their bin.
            warnings.filterwarnings("ignore", "Missing values detected", UserWarning)
            machine.fit({name: codes for name, (codes, _) in coded.items()}, target, sample_weight=weights, bags=bags)
        features = tuple(
            _feature(name, levels, categories)
            for levels, (name, (_, categories)) in zip(machine.bins_, coded.items(), strict=True)
        )
        names = list(columns)
        terms = tuple(
            AdditiveTerm(tuple(names[place] for place in places), scores, counts)
            for places, scores, counts in zip(
                machine.term_features_, machine.term_scores_, machine.bin_weights_, strict=True
            )
        )
        return cls(features, terms, float(machine.intercept_), _LINKS[machine.link_])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the terms."""
        return tuple(term.name for term in self.terms)

    @property
    def importances(self) -> FloatArray:
        """The mean absolute score of each term over the training rows."""
        return np.array([term.importance for term in self.terms])

    def predict(self, columns: Columns) -> FloatArray:
        """Predict each row. *columns* may hold more than the model's features.

        ValueError names a missing feature.
        """
        total = np.full(_rows(columns), self.intercept)
        for part in self._parts(columns):
            total += part
        return np.exp(total) if self.link == "log" else total

    def contributions(self, columns: Columns) -> FloatArray:
        """Return the score of each term (before the link) for each row: shape (rows, terms)."""
        parts = np.empty((_rows(columns), len(self.terms)))
        for place, part in enumerate(self._parts(columns)):
            parts[:, place] = part
        return parts

    def monotone(self, *features: str, increasing: bool = True) -> Self:
        """Return a monotone model, whose prediction never falls (or rises) as any of the continuous *features* grows.

        Their terms, the slices of their pairs and the pairs of two of them are replaced by the closest monotone ones,
        weighted by training rows (isotonic regression); bins of missing values stay. ValueError for a feature that is
        not continuous.
        """
        continuous = {feature.name for feature in self.features if isinstance(feature, Continuous)}
        if others := [name for name in features if name not in continuous]:
            raise ValueError(f"{others[0]} is not a continuous feature of the model")
        terms = tuple(_monotone(term, features, 1.0 if increasing else -1.0) for term in self.terms)
        return replace(self, terms=terms)

    def document(self) -> AdditiveDocument:
        """Return the model as JSON values, without loss."""
        return {
            "link": self.link,
            "intercept": self.intercept,
            "features": [feature.document() for feature in self.features],
            "terms": [
                {
                    "features": list(term.features),
                    "scores": term.scores.ravel().tolist(),
                    "weights": term.weights.ravel().tolist(),
                }
                for term in self.terms
            ],
        }

    @classmethod
    def of_document(cls, document: AdditiveDocument) -> Self:
        """Rebuild the model from its `document`. ValueError, KeyError or TypeError where it describes none."""
        features = tuple(feature_of(feature) for feature in document["features"])
        sizes = {feature.name: feature.sizes for feature in features}
        terms = []
        for term in document["terms"]:
            names = tuple(term["features"])
            shape = tuple(sizes[name][len(names) - 1] for name in names)
            scores, weights = (np.array(term[key], dtype=np.float64).reshape(shape) for key in ("scores", "weights"))
            terms.append(AdditiveTerm(names, scores, weights))
        return cls(features, tuple(terms), float(document["intercept"]), _LINKS[document["link"]])

    def _parts(self, columns: Columns) -> Iterator[FloatArray]:
        """Yield the scores of each term for all rows, term by term."""
        used = {name for term in self.terms for name in term.features}
        if absent := sorted(used - set(columns)):
            raise ValueError(f"the model needs the column {', '.join(absent)}")
        plain: dict[str, Bins] = {}
        for term in self.terms:
            column = columns[term.features[0]]
            if len(term.features) == 2:
                first, second = (self._in_pairs(name, columns, plain) for name in term.features)
                yield term.scores.ravel().take(first * term.scores.shape[1] + second)
            elif isinstance(column, DictionaryColumn):
                yield self._scores_of(term, column.values).take(column.codes)
            else:
                yield term.scores.take(self._bins(term.name, columns, plain).single)

    def _in_pairs(self, name: str, columns: Columns, plain: dict[str, Bins]) -> IntArray:
        column = columns[name]
        if not isinstance(column, DictionaryColumn):
            return self._bins(name, columns, plain).pair
        values, places = self._places.get(name, (None, None))
        if places is None or values is not column.values:
            places = self._by_name[name].bins(column.values).pair
            self._places[name] = column.values, places
        return places.take(column.codes)

    def _scores_of(self, term: AdditiveTerm, values: FloatArray) -> FloatArray:
        before, scores = self._scores.get(term.name, (None, None))
        if scores is None or before is not values:
            scores = term.scores.take(self._by_name[term.name].bins(values).single)
            self._scores[term.name] = values, scores
        return scores

    def _bins(self, name: str, columns: Columns, plain: dict[str, Bins]) -> Bins:
        if name not in plain:
            column = columns[name]
            assert not isinstance(column, DictionaryColumn)
            plain[name] = self._by_name[name].bins(column)
        return plain[name]

    @cached_property
    def _by_name(self) -> dict[str, Feature]:
        return {feature.name: feature for feature in self.features}


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values()))) if columns else 0


def _monotone(term: AdditiveTerm, features: Sequence[str], sign: float) -> AdditiveTerm:
    axes = [axis for axis, name in enumerate(term.features) if name in features]
    if not axes:
        return term
    scores = sign * term.scores
    for axis in axes:
        inner = tuple(slice(1, -1) if at == axis else slice(None) for at in range(scores.ndim))
        scores[inner] = _rising(axis, scores[inner], term.weights[inner])
    if len(axes) == 2:
        inner = (slice(1, -1), slice(1, -1))
        scores[inner] = _rising_both(sign * term.scores[inner], term.weights[inner])
    return replace(term, scores=sign * scores)


def _rising(axis: int, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the closest table that never falls along *axis*."""
    rising, weights = np.moveaxis(values.copy(), axis, -1), np.moveaxis(weights, axis, -1)
    for slice_ in np.ndindex(rising.shape[:-1]):
        rising[slice_] = isotonic(rising[slice_], weights[slice_])
    return np.moveaxis(rising, -1, axis)


def _rising_both(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the closest table that never falls along either axis.

    Making it rise along one axis may make it fall along the other. So both take turns, each on the result of the other
    and on what it removed itself the last time, which comes as close as one likes (Dykstra's projections).
    """
    rising, taken = values, np.zeros((2, *values.shape))
    for _ in range(_TURNS):
        before = rising
        for axis in (0, 1):
            wanted = rising + taken[axis]
            rising = _rising(axis, wanted, weights)
            taken[axis] = wanted - rising
        if np.allclose(rising, before, rtol=0.0, atol=_SETTLED):
            break
    whole: FloatArray = np.maximum.accumulate(np.maximum.accumulate(rising, axis=0), axis=1)  # of what is still missing
    return whole


def isotonic(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the never falling sequence closest to *values* in weighted squares (pool adjacent violators)."""
    # A bin without rows takes part with a tiny weight, so that every mean exists.
    heavy = weights + 1e-9 * max(1.0, float(weights.sum()))
    means: list[float] = []
    masses: list[float] = []
    lengths: list[int] = []
    for value, weight in zip(values.tolist(), heavy.tolist(), strict=True):
        mean, mass, length = value, weight, 1
        while means and means[-1] >= mean:
            below = masses.pop()
            mean = (means.pop() * below + mean * mass) / (below + mass)
            mass += below
            length += lengths.pop()
        means.append(mean)
        masses.append(mass)
        lengths.append(length)
    fit: FloatArray = np.repeat(np.array(means), lengths)
    return fit


def _known_rows(column: FloatArray | Labels | DictionaryColumn) -> NDArray[np.bool_]:
    if isinstance(column, DictionaryColumn):
        column = column.numbers()
    if isinstance(column, Labels):
        has_text: NDArray[np.bool_] = column.map([text != "" for text in column.names], np.bool_)
        return has_text
    return ~np.isnan(column)


def _coded(column: FloatArray | Labels | DictionaryColumn) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Return the column as numbers, and for texts the text of each number; NaN is missing."""
    if isinstance(column, DictionaryColumn):
        return column.numbers(), None
    if not isinstance(column, Labels):
        return np.asarray(column, dtype=np.float64), None
    texts = {column.names[code] for code in np.unique(column.codes).tolist()} - {""}
    categories = tuple(sorted(texts))
    number = {text: float(place) for place, text in enumerate(categories)}
    codes: FloatArray = column.map([number.get(text, np.nan) for text in column.names], np.float64)
    return codes, categories


@contextmanager
def without_vector_units() -> Iterator[None]:
    """Let interpret add up in one order whatever the processor: the width of its vectors changes sums, and so trees."""
    from interpret import develop
    from interpret.utils._native import Native

    before = develop.get_option("acceleration")
    develop.set_option("acceleration", Native.AccelerationFlags_NONE)
    try:
        yield
    finally:
        develop.set_option("acceleration", before)


def _machine(
    columns: Columns, interactions: int | Sequence[tuple[str, str]], boosting: Boosting, seed: int, bags: int | None
) -> ExplainableBoostingRegressor:
    try:
        from interpret.glassbox import ExplainableBoostingRegressor
    except ImportError as error:
        raise MissingExtra("training an additive model needs interpret", "learn") from error
    places = {name: place for place, name in enumerate(columns)}
    pairs: int | list[tuple[int, int]]
    if isinstance(interactions, int):
        pairs = interactions
    else:
        pairs = [(places[first], places[second]) for first, second in interactions if {first, second} <= places.keys()]
    settings = vars(boosting) | ({"outer_bags": bags} if bags is not None else {})
    return ExplainableBoostingRegressor(
        feature_names=list(columns),
        feature_types=["nominal" if isinstance(column, Labels) else "continuous" for column in columns.values()],
        interactions=pairs,
        random_state=seed,
        **settings,
    )


def _feature(name: str, levels: Sequence[FloatArray | dict[str, int]], categories: tuple[str, ...] | None) -> Feature:
    """Return the feature as interpret binned it; a second level, if any, is for pairs."""
    if categories is None:
        return Continuous(name, np.asarray(levels[0]), np.asarray(levels[-1]))
    places = levels[0]
    assert isinstance(places, dict)
    return Nominal(name, tuple(categories[int(float(code))] for code in sorted(places, key=lambda code: places[code])))

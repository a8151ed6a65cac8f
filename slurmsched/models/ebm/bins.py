"""Bins: the mapping from values to rows of a look-up table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import NamedTuple, TypedDict

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels

MISSING = 0  #: bin of a missing value; the last bin of every table is for values never seen in training


class FeatureDocument(TypedDict):
    """A feature as JSON: cut points of a continuous one, categories of a nominal one."""

    name: str
    cuts: list[list[float]] | None
    categories: list[str] | None


class Bins(NamedTuple):
    """The bin of each row of one feature: in the tables of single features, and in those of pairs."""

    single: IntArray
    pair: IntArray


@dataclass(frozen=True, eq=False)
class Continuous:
    """A numeric feature. Bin 0 is missing (NaN); bin *k* + 1 holds the values with *k* cuts at or below them."""

    name: str
    cuts: FloatArray  #: increasing
    pair_cuts: FloatArray  #: increasing; coarser, for the tables of pairs

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of bins in tables of single features and of pairs."""
        return len(self.cuts) + 3, len(self.pair_cuts) + 3

    def bins(self, column: FloatArray | Labels) -> Bins:
        """Return the bins of *column*."""
        if isinstance(column, Labels):
            raise ValueError(f"feature {self.name} was trained on numbers, not on texts")
        # One search over all cut points, then two small tables: the search dominates the cost.
        cuts, single, pair = self._merged
        place = np.searchsorted(cuts, column, side="right")
        missing = np.isnan(column)
        if missing.any():
            place[missing] = len(cuts) + 1
        return Bins(single.take(place), pair.take(place))

    @cached_property
    def _merged(self) -> tuple[FloatArray, IntArray, IntArray]:
        cuts = np.union1d(self.cuts, self.pair_cuts)
        lowest = np.concatenate(([-np.inf], cuts))
        single, pair = (
            np.append(np.searchsorted(own, lowest, side="right") + 1, MISSING) for own in (self.cuts, self.pair_cuts)
        )
        return cuts, single, pair

    def document(self) -> FeatureDocument:
        """Return the feature as JSON."""
        return {"name": self.name, "cuts": [self.cuts.tolist(), self.pair_cuts.tolist()], "categories": None}


@dataclass(frozen=True, eq=False)
class Nominal:
    """A text feature. Bin 0 is missing (the empty text), bin *k* + 1 category *k*, the last bin any other text."""

    name: str
    categories: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of bins in tables of single features and of pairs."""
        return len(self.categories) + 2, len(self.categories) + 2

    def bins(self, column: FloatArray | Labels) -> Bins:
        """Return the bins of *column*."""
        if not isinstance(column, Labels):
            raise ValueError(f"feature {self.name} was trained on texts, not on numbers")
        unseen, numbers = len(self.categories) + 1, self._category_numbers
        of_name = np.fromiter(map(numbers.get, column.names, repeat(unseen)), np.int64, len(column.names))
        bins = of_name.take(column.codes)
        return Bins(bins, bins)

    @cached_property
    def _category_numbers(self) -> dict[str, int]:
        return {"": MISSING} | {category: place for place, category in enumerate(self.categories, 1)}

    def document(self) -> FeatureDocument:
        """Return the feature as JSON."""
        return {"name": self.name, "cuts": None, "categories": list(self.categories)}


Feature = Continuous | Nominal


def feature_of(document: FeatureDocument) -> Feature:
    """Rebuild the feature from its `document`."""
    if (categories := document["categories"]) is not None:
        if not all(isinstance(category, str) for category in categories):
            raise ValueError(f"feature {document['name']} has a category that is no text")
        return Nominal(document["name"], tuple(categories))
    if (levels := document["cuts"]) is None:
        raise ValueError(f"feature {document['name']} has neither cuts nor categories")
    cuts, pair_cuts = (np.array(level, dtype=np.float64) for level in levels)
    return Continuous(document["name"], cuts, pair_cuts)

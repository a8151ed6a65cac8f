"""Forecasts of the runtimes of jobs that have not ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .columns import FloatArray, Labels, Table


@dataclass(frozen=True, eq=False)
class Forecast(Table):
    """Runtime in seconds from start to end, with an 80 % interval; row *i* belongs to job *i*.

    An empty *floor_s* means 0 for every job.
    """

    runtime_s: FloatArray  #: median
    low_s: FloatArray  #: 10 % end sooner
    high_s: FloatArray  #: 10 % end later
    source: Labels  #: the origin of the number, in words: "median of 7 runs of alice/train_#"
    floor_s: FloatArray = field(default_factory=lambda: np.zeros(0))  #: least runtime for the ranking; 0 for most jobs

    def __post_init__(self) -> None:
        """Fill in the floors."""
        if not len(self.floor_s):
            object.__setattr__(self, "floor_s", np.zeros(len(self)))
        super().__post_init__()

    @property
    def rank_s(self) -> FloatArray:
        """The runtime in seconds by which orderings compare jobs; NaN without a forecast."""
        return np.maximum(self.runtime_s, self.floor_s)

    def joined(self, other: Forecast) -> Forecast:
        """Return the rows of this forecast, then those of *other*; the texts of both stay distinct."""
        names = (*self.source.names, *other.source.names)
        source = Labels(np.concatenate([self.source.codes, other.source.codes + len(self.source.names)]), names)
        columns = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("runtime_s", "low_s", "high_s", "floor_s")
        }
        return replace(self, source=source, **columns)

    def in_whole_seconds(self) -> Forecast:
        """Return the forecast rounded to seconds: it is no more exact, and smaller changes need no new record."""
        names = ("runtime_s", "low_s", "high_s", "floor_s")
        return self.changed(**{name: np.rint(getattr(self, name)) for name in names})


def no_forecast(length: int) -> Forecast:
    """Return an empty forecast: NaN for each of *length* jobs."""
    unknown = np.full(length, np.nan)
    return Forecast(unknown, unknown.copy(), unknown.copy(), Labels.of(["no forecast"] * length))

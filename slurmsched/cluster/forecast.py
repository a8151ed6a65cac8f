"""What the models say about jobs that have not ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .columns import FloatArray, Labels, Table


@dataclass(frozen=True, eq=False)
class Forecast(Table):
    """Runtime in seconds from start to end, with an 80 % interval; row *i* belongs to job *i*."""

    runtime_s: FloatArray  #: median
    low_s: FloatArray  #: 10 % end sooner
    high_s: FloatArray  #: 10 % end later
    source: Labels  #: where the number comes from, in words: "median of 7 runs of alice/train_#"

    def in_whole_seconds(self) -> Forecast:
        """The same to the second: no forecast knows more, and what moves by less need not be recorded anew."""
        names = ("runtime_s", "low_s", "high_s")
        return replace(self, **{name: np.rint(getattr(self, name)) for name in names})


def no_forecast(length: int) -> Forecast:
    """A forecast that knows nothing: NaN for each of *length* jobs."""
    unknown = np.full(length, np.nan)
    return Forecast(unknown, unknown.copy(), unknown.copy(), Labels.of(["no forecast"] * length))

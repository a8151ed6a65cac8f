"""Times that jobs ran beside others on their GPUs, with the speed that they kept."""

from __future__ import annotations

import math
from dataclasses import dataclass

SPEED_MOST = 1.1  #: a larger speed beside others is an error of measurement


@dataclass(frozen=True)
class MeasuredTime:
    """A time of one job beside the same others, measured by the iterations that it reported."""

    at_s: float  #: Unix time of its end
    kind: str  #: of the job: USER/NAME-PATTERN
    util: float  #: sum of the GPU utilisations of both alone, 0..2
    speed: float  #: relative to alone, 0..SPEED_MOST

    @property
    def user(self) -> str:
        """The owner of the job."""
        return self.kind.partition("/")[0]

    @classmethod
    def of(cls, at_s: float, details: dict[str, object], least_s: float) -> MeasuredTime | None:
        """Read the details of a story event; None where it measured nothing, or for less than *least_s* seconds."""
        kind, util = details.get("kind"), details.get("util")
        try:
            speed, seconds = (float(str(details.get(name))) for name in ("speed", "seconds"))
        except ValueError:
            return None
        if not isinstance(kind, str) or not isinstance(util, float | int) or not seconds >= least_s:
            return None
        if not (0.0 <= util <= 2.0 and speed > 0.0 and math.isfinite(speed)):
            return None
        return cls(at_s, kind, float(util), min(speed, SPEED_MOST))

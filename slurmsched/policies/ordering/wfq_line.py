"""Weighted fair queueing in one line: ``thresholds=3600,36000,inf weights=0.6,0.3,0.1 zeta=0 delta=0.1 overtake=0``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...errors import ConfigError
from .wfq import Wfq

PARAMETERS = ("thresholds", "weights", "zeta", "delta", "overtake")


def line_of(rules: Wfq) -> str:
    """Format *rules* for ``rules_from``: thresholds exactly, the rest to six digits."""
    thresholds = ",".join(map(_exact, rules.thresholds))
    weights = ",".join(f"{weight:.6g}" for weight in rules.weights)
    rest = f"zeta={rules.zeta:.6g} delta={rules.delta:.6g} overtake={rules.overtake:.6g}"
    return f"thresholds={thresholds} weights={weights} {rest}"


def rules_from(settings: Mapping[str, str], default: Wfq) -> Wfq:
    """Parse *settings*, with *default* for missing parameters; ConfigError describes an invalid one.

    Weights may be any numbers above 0: only their ratios count.
    """
    if unknown := [name for name in settings if name not in PARAMETERS]:
        raise ConfigError(f"wfq: {unknown[0]!r} is no parameter; accepted are {', '.join(PARAMETERS)}")
    thresholds = _numbers("thresholds", settings["thresholds"]) if "thresholds" in settings else default.thresholds
    weights = _shares(_numbers("weights", settings["weights"])) if "weights" in settings else default.weights
    if len(weights) != len(thresholds):
        raise ConfigError(
            f"wfq: {len(thresholds)} thresholds make {len(thresholds)} classes, and there are {len(weights)} weights; "
            "accepted is one weight per threshold, the last of which is inf"
        )
    zeta = _number("zeta", settings["zeta"]) if "zeta" in settings else default.zeta
    delta = _number("delta", settings["delta"]) if "delta" in settings else default.delta
    overtake = _number("overtake", settings["overtake"]) if "overtake" in settings else default.overtake
    return Wfq(thresholds, weights, zeta, delta, overtake)


def _exact(value: float) -> str:
    short = f"{value:.10g}"
    return short if float(short) == value else repr(value)


def _shares(weights: Sequence[float]) -> tuple[float, ...]:
    # Weights that add up to 1 stay as they are, to the last bit: a line must mean the same whenever it is read.
    total = sum(weights)
    if math.isclose(total, 1, rel_tol=1e-6) or not (0 < total < math.inf):
        return tuple(weights)
    return tuple(weight / total for weight in weights)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    return tuple(_number(name, part) for part in text.split(","))


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ConfigError(f"wfq: {name} has {text!r}, which is no number")
    return value

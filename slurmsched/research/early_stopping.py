"""The effect of rules for early ends on measured learning curves: the epochs saved, and the accuracy lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import FloatArray
from ..models.progress.curve_families import predicted_value
from ..models.progress.learning_curve import LearningCurve
from ..simulator.traces.learning_curves import MeasuredCurve

SEEN = (0.1, 0.2, 0.3, 0.5, 0.7)
"""Parts of the epochs from which the highest accuracy is predicted."""

LEAST_EPOCHS = 5  #: seen by a prediction
LOSS_FALL = 0.002  #: of the rule ``stop=loss:0.2%``
CLOSE = 0.005  #: to the highest accuracy, for the best possible end
COVERED = 0.9
LEAST_SCALE = 0.003  #: movement of a curve that does not move


@dataclass(frozen=True)
class RuleEffect:
    """The effect of a rule on curves that it was not chosen on; all figures are fractions."""

    rule: str
    saved: float  #: mean part of the epochs that are not run
    lost_mean: float  #: mean difference between the highest accuracies of the whole and of the shorter run
    lost_over_1pp: float  #: part of the runs that lose more than one percentage point


@dataclass(frozen=True)
class PredictionQuality:
    """How well the highest accuracy of a run is predicted from the first part of its epochs."""

    seen: float
    error: float  #: mean absolute difference of accuracies
    covers_90: float  #: part of the runs within the interval that covers 90 % of those that calibrate
    half_width: float  #: mean half width of that interval, at most 1


@dataclass(frozen=True)
class CurveStudy:
    """All figures about a file of curves."""

    curves: int
    calibrating: int  #: of them, used for intervals alone
    rules: tuple[RuleEffect, ...]
    forecast: tuple[PredictionQuality, ...]


Rule = Callable[[MeasuredCurve], int]
"""A function from a curve to the number of epochs after which training ends."""


def study_curves(curves: Sequence[MeasuredCurve]) -> CurveStudy:
    """Measure the rules of ``stop=`` on the *curves* that do not calibrate, and predictions on all."""
    measured = [curve for curve in curves if not curve.calibrates]
    rules: list[tuple[str, Rule]] = [("opt", _by_accuracy)]
    if not any(np.isnan(curve.loss).any() for curve in measured):
        rules += [("opt, by the loss", _by_loss), ("loss:0.2%", _by_loss_fall)]
    rules.append(("best possible: within half a point", _by_hindsight))
    return CurveStudy(
        len(curves),
        len(curves) - len(measured),
        tuple(_effect(name, measured, rule) for name, rule in rules),
        tuple(_quality(seen, curves) for seen in SEEN),
    )


def _by_accuracy(curve: MeasuredCurve) -> int:
    no_loss = np.full(len(curve.epoch), np.nan)
    return _end(curve, zip(no_loss, curve.accuracy, strict=True), _settled)


def _by_loss(curve: MeasuredCurve) -> int:
    return _end(curve, ((loss, np.nan) for loss in curve.loss), _settled)


def _by_loss_fall(curve: MeasuredCurve) -> int:
    return _end(curve, ((loss, np.nan) for loss in curve.loss), lambda reported, _: reported.loss_fall <= LOSS_FALL)


def _by_hindsight(curve: MeasuredCurve) -> int:
    return int(np.argmax(curve.accuracy >= curve.accuracy.max() - CLOSE)) + 1


def _settled(reported: LearningCurve, end: int) -> bool:
    return reported.settles(end)


def _end(
    curve: MeasuredCurve, reports: Iterable[tuple[float, float]], ends: Callable[[LearningCurve, int], bool]
) -> int:
    """Return the number of epochs that are run if each is reported as (loss, accuracy) and *ends* is asked after it."""
    reported, last = LearningCurve(), int(curve.epoch[-1])
    for number, (epoch, (loss, accuracy)) in enumerate(zip(curve.epoch.tolist(), reports, strict=True), 1):
        reported.add(epoch, float(loss), float(accuracy))
        if ends(reported, last):
            return number
    return len(curve.epoch)


def _effect(name: str, curves: Sequence[MeasuredCurve], rule: Rule) -> RuleEffect:
    ends = [rule(curve) for curve in curves]
    saved = np.array([1 - end / len(curve.epoch) for curve, end in zip(curves, ends, strict=True)])
    lost = np.array(
        [curve.accuracy.max() - curve.accuracy[:end].max() for curve, end in zip(curves, ends, strict=True)]
    )
    return RuleEffect(name, float(saved.mean()), float(lost.mean()), float((lost > 0.01).mean()))


def _quality(seen: float, curves: Sequence[MeasuredCurve]) -> PredictionQuality:
    """Measure predictions from the first part *seen*, with intervals conformal to the curves that calibrate.

    An interval is as wide as the curve lately moved, times a factor that holds for all curves.
    """
    shown = [min(max(LEAST_EPOCHS, round(seen * len(curve.epoch))), len(curve.epoch)) for curve in curves]
    moved = np.array([LEAST_SCALE + _lately_moved(curve, epochs) for curve, epochs in zip(curves, shown, strict=True)])
    errors = np.array(
        [abs(_predicted(curve, epochs) - curve.accuracy.max()) for curve, epochs in zip(curves, shown, strict=True)]
    )
    calibrates = np.array([curve.calibrates for curve in curves])
    known: FloatArray = np.sort((errors / moved)[calibrates])
    rank = int(np.ceil((len(known) + 1) * COVERED))
    half_width = moved[~calibrates] * (known[rank - 1] if rank <= len(known) else np.inf)
    measured = errors[~calibrates]
    return PredictionQuality(
        seen, float(measured.mean()), float((measured <= half_width).mean()), float(np.minimum(half_width, 1).mean())
    )


def _predicted(curve: MeasuredCurve, shown: int) -> float:
    epochs = curve.epoch - curve.epoch[0] + 1.0
    best = np.maximum.accumulate(curve.accuracy[:shown])
    return predicted_value(epochs[:shown], best, float(epochs[-1]))


def _lately_moved(curve: MeasuredCurve, shown: int) -> float:
    """Return the rise of the highest accuracy in the second half of the first *shown* epochs."""
    return float(curve.accuracy[:shown].max() - curve.accuracy[: (shown + 1) // 2].max())

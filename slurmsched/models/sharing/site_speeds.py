"""A site's own speed curve: the active one, corrected by what its jobs kept of their speed beside others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from ...cluster.columns import FloatArray
from ...cluster.records.shared_times import MeasuredTime
from ...errors import TooLittleHistory
from ..artifact import Artifact
from ..registry import SHARING
from ..training_result import Trained
from .sharing_model import SharingModel
from .speed_curve import SpeedCurve

LEAST_S = 120.0  #: time beside others from which the speed that a job kept counts
FEWEST, FEWEST_LATER = 20, 10  #: times to train on, and later ones to test on
LATER = 1.0 / 3.0  #: of the times that are new to the active model are those to test on
KIND_LEAST = 3  #: times of a kind without which nothing is concluded about it
PART_LEAST = 0.05
PRIOR = np.linspace(0.05, 2.0, 40)  #: sums at which the curve of before counts ...
PRIOR_WEIGHT = 0.5  #: ... and as how many times of one job each


def train_speeds(times: Sequence[MeasuredTime], serving: Artifact, *, known_s: float = 0.0) -> Trained:
    """Train on the earlier *times*, oldest first; promote the model where it is nearer to the later ones.

    Every user counts alike, however many times theirs are: nobody moves the curve alone. Of the times after *known_s*,
    of which the active model knows nothing, the last third are tests. TooLittleHistory for too few of either.
    """
    unseen = [one for one in times if one.at_s >= known_s]
    from_s = unseen[int(len(unseen) * (1.0 - LATER))].at_s if unseen else np.inf
    earlier, later = [one for one in times if one.at_s < from_s], [one for one in times if one.at_s >= from_s]
    if len(earlier) < FEWEST or len(later) < FEWEST_LATER:
        raise TooLittleHistory(
            f"{len(earlier)} measured times of jobs beside others, and {len(later)} later ones to test on, are too "
            f"few: at least {FEWEST} and {FEWEST_LATER} are needed"
        )
    active = serving.read_as(SharingModel.of_document)
    model = fitted(earlier, active)
    ours, before = (error(one, later) for one in (model, active))
    scores = {"site": {"error": ours}, "serving": {"error": before}}
    summary = (
        f"mean error {ours:.3f} of the speed that jobs kept at {len(later)} later times, the active model {before:.3f}"
    )
    if not ours < before:
        return Trained(SHARING, None, f"no better ({summary})", scores)
    content = {**serving.model, **fitted(times, active).document()}
    figures = {**serving.scores, "speed_error": ours, "speed_error_before": before, "measured_times": len(times)}
    artifact = Artifact(SHARING, times[0].at_s, times[-1].at_s + 1.0, figures, content)
    return Trained(SHARING, artifact, f"better ({summary})", scores)


def fitted(times: Sequence[MeasuredTime], active: SharingModel) -> SharingModel:
    """Return *active* with the curve of the site, and what kinds of jobs keep of it."""
    prior = active.prior or active.speeds
    sums = np.array([one.util for one in times])
    speeds = np.array([one.speed for one in times])
    curve = SpeedCurve.fit(
        np.concatenate((sums, PRIOR)),
        np.concatenate((speeds, prior.speed(PRIOR))),
        np.concatenate((_weights(times), np.full(len(PRIOR), PRIOR_WEIGHT))),
    )
    return replace(active, speeds=curve, prior=prior, kept=_kept(times, speeds / curve.speed(sums)))


def error(model: SharingModel, times: Sequence[MeasuredTime]) -> float:
    """Return the mean error of the speed that *model* expects at *times*, every user counting alike."""
    expected = model.speeds.speed(np.array([one.util for one in times]))
    parts = np.array([model.kept.get(one.kind, 1.0) for one in times])
    missed = np.abs(expected * parts - np.array([one.speed for one in times]))
    return float(np.average(missed, weights=_weights(times)))


def _weights(times: Sequence[MeasuredTime]) -> FloatArray:
    """Return a weight for each time: all users together weigh as much as there are times, and each the same."""
    users, which = np.unique([one.user for one in times], return_inverse=True)
    return np.asarray(len(times) / len(users) / np.bincount(which)[which], dtype=np.float64)


def _kept(times: Sequence[MeasuredTime], parts: FloatArray) -> Mapping[str, float]:
    """Return what kinds of jobs keep of the curve, by kind; those that keep all of it are left out."""
    of: dict[str, list[float]] = defaultdict(list)
    for one, part in zip(times, parts.tolist(), strict=True):
        of[one.kind].append(part)
    found = {
        kind: max(PART_LEAST, round(median(all_parts), 2))
        for kind, all_parts in sorted(of.items())
        if len(all_parts) >= KIND_LEAST
    }
    return {kind: part for kind, part in found.items() if part < 1.0}

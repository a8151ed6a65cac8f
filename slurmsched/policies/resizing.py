"""The number of GPUs of jobs that can run on several numbers, by Optimus' division of what is free. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from .scaling.goodput import gain
from .scaling.optimus import divided


def step_seconds(known: Mapping[int, float], most: int, doubling: float) -> FloatArray:
    """Return the seconds of a step on 0, 1, ... *most* GPUs, in an arbitrary unit; infinite on 0.

    *known* are speeds by number of GPUs. Between two of them the speed grows by a power of the number. Elsewhere it
    grows *doubling*-fold with twice the number, as it does where nothing is known.
    """
    counts = np.log(np.arange(1, most + 1))
    power = np.log2(doubling)
    if not known:
        return np.concatenate([[np.inf], np.exp(-power * counts)])
    at, speed = np.log(sorted(known)), np.log([known[gpus] for gpus in sorted(known)])
    found = np.interp(counts, at, speed) + power * (np.minimum(counts - at[0], 0.0) + np.maximum(counts - at[-1], 0.0))
    return np.concatenate([[np.inf], np.exp(-found)])


def sample_worth(noise: float, batch: tuple[int, int], own: int, most: int) -> FloatArray:
    """Return what a sample is worth on 0, 1, ... *most* GPUs, over one in the batch of the job's *own* number.

    *batch* are the samples of a step on that number, and the most of a step on more GPUs; *noise* is the gradient noise
    scale. The more samples a step has, the less each is worth: Pollux' statistical efficiency.
    """
    first, largest = batch
    scales = np.clip(np.arange(most + 1) / own, 1.0, largest / first)
    return np.array([gain(1.0, noise / first, scale) / scale for scale in scales.tolist()])


def divided_at_a_cost(
    step_s: FloatArray, left: FloatArray, least: IntArray, most: IntArray, cost_s: FloatArray, total: int
) -> IntArray:
    """Divide *total* GPUs among jobs that have *least* each; more of them cost a job *cost_s* of a restart.

    Each further GPU goes where it shortens the remaining time most (Optimus). A job whose end comes no sooner by more
    than its restart costs keeps what it has, and others get what it would have had.
    """
    rows, most = np.arange(len(left)), np.maximum(most, least)
    while True:
        gpus = divided(step_s, left, most, total, least)
        gain_s = (step_s[rows, least] - step_s[rows, gpus]) * left
        short_s = np.where(gpus > least, cost_s - gain_s, -1.0)
        if not (short_s >= 0).any():
            return gpus
        most[np.argmax(short_s)] = least[np.argmax(short_s)]

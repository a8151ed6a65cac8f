"""Local search: place small best-effort jobs, trying all spreads of the most sensitive ones (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ...cluster.columns import FloatArray, IntArray

MOST = 100_000
"""Maximum number of combinations tried (the paper's \\|S\\|)."""

Spread = tuple[int, ...]  #: GPUs on each node of a job, most first; nodes are anonymous


def spreads(gpus: int, node_gpus: int, most_nodes: int) -> tuple[Spread, ...]:
    """Return all ways to spread *gpus* over up to *most_nodes* nodes, the fewest nodes first."""
    return tuple(sorted(_parts(gpus, min(gpus, node_gpus), most_nodes), key=len))


def potential(gpus: IntArray, speeds: FloatArray, most_nodes: IntArray) -> FloatArray:
    """Return the largest loss of each job from being spread (equation (8)): its GPUs times the loss of speed.

    *speeds* is job x extra nodes: the speed on that many extra nodes, relative to that on the fewest nodes;
    *most_nodes* is the largest number of extra nodes of each job.
    """
    rows = np.arange(len(gpus))
    lost: FloatArray = gpus * (speeds[:, 0] - speeds[rows, np.minimum(most_nodes, speeds.shape[1] - 1)])
    return lost


def placed(gpus: IntArray, speeds: FloatArray, free: IntArray, node_gpus: int, most: int = MOST) -> IntArray:
    """Return GPUs of each job on each node (job x node) with a large sum of GPUs times speed, within *free*.

    Jobs with most ``potential`` are tried in every spread, up to *most* combinations; in each combination the other
    jobs are then placed on as few nodes as possible. A job for which too few GPUs are left gets none. Of equal
    combinations the first one wins.
    """
    extra = _extra(gpus, free, node_gpus)
    order = np.argsort(-potential(gpus, speeds, extra), kind="stable")
    choices: list[tuple[Spread, ...]] = []
    tried = 1
    for job in order:
        ways = spreads(int(gpus[job]), node_gpus, int(np.count_nonzero(free)))
        if not ways or tried * len(ways) > most:
            break
        choices.append(ways)
        tried *= len(ways)
    best, best_reward = np.zeros((len(gpus), len(free)), np.int64), -1.0
    limit = float((gpus * speeds[:, 0]).sum())
    for chosen in product(*choices):
        taken = _tried(order, chosen, gpus, free)
        reward = _reward(taken, gpus, speeds, node_gpus)
        if reward > best_reward:
            best, best_reward = taken, reward
        if best_reward >= limit:
            break
    return best


def _tried(order: IntArray, chosen: tuple[Spread, ...], gpus: IntArray, free: IntArray) -> IntArray:
    """Place jobs in *order*, the first ones spread as *chosen* if that fits, all others quasi-consolidated."""
    left, taken = free.copy(), np.zeros((len(gpus), len(free)), np.int64)
    for place, job in enumerate(order):
        spread = chosen[place] if place < len(chosen) else None
        parts = quasi_consolidated(int(gpus[job]), left) if spread is None else _fitted(spread, left)
        taken[job] = parts
        left -= parts
    return taken


def quasi_consolidated(gpus: int, free: IntArray) -> IntArray:
    """Return GPUs on each node for one job: the fullest node that holds it all, else the emptiest nodes in turn.

    It gets none if fewer than *gpus* are free.
    """
    parts = np.zeros(len(free), np.int64)
    if free.sum() < gpus:
        return parts
    fits = np.flatnonzero(free >= gpus)
    if len(fits):
        parts[fits[np.argmin(free[fits])]] = gpus
        return parts
    for node in np.argsort(-free, kind="stable"):
        parts[node] = min(gpus - int(parts.sum()), int(free[node]))
    return parts


def _fitted(spread: Spread, free: IntArray) -> IntArray:
    """Place *spread*, each part on the fullest node that holds it and has none yet; all or nothing."""
    parts = np.zeros(len(free), np.int64)
    for part in spread:
        fits = np.flatnonzero((free >= part) & (parts == 0))
        if not len(fits):
            return np.zeros(len(free), np.int64)
        parts[fits[np.argmin(free[fits])]] = part
    return parts


def _reward(taken: IntArray, gpus: IntArray, speeds: FloatArray, node_gpus: int) -> float:
    """Return the sum over placed jobs of GPUs times speed (equation (7))."""
    nodes = np.count_nonzero(taken, axis=1)
    extra = np.clip(nodes - -(-gpus // node_gpus), 0, speeds.shape[1] - 1)
    rewards = np.where(nodes > 0, gpus * speeds[np.arange(len(gpus)), extra], 0.0)
    return float(rewards.sum())


def _extra(gpus: IntArray, free: IntArray, node_gpus: int) -> IntArray:
    """Return the largest number of extra nodes over which each job could be spread."""
    return np.maximum(0, np.minimum(gpus, np.count_nonzero(free)) - -(-gpus // node_gpus))


def _parts(gpus: int, largest: int, most: int) -> Iterator[Spread]:
    if gpus == 0:
        yield ()
    elif most > 0:
        for part in range(min(gpus, largest), 0, -1):
            for rest in _parts(gpus - part, part, most - 1):
                yield (part, *rest)

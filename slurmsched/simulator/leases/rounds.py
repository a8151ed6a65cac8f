"""Rounds: at every tick jobs arrive, a policy says who goes first, and whoever fits runs until the next tick."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray
from ...policies.compiled import compiled
from .nodes import Nodes
from .world import LeaseState

_MOMENT_S = 1e-6


class RoundOrder(NamedTuple):
    """What a policy wants of a round: rows of the world, best first."""

    order: IntArray


class RoundPolicy(Protocol):
    """Chooses in each round."""

    def turn(self, world: LeaseState, new: IntArray) -> RoundOrder:
        """Who goes first now, of ``world.rows``; *new* of them have just arrived."""
        ...


def play(world: LeaseState, policy: RoundPolicy, nodes: Nodes | None = None) -> LeaseState:
    """Round after round until every job has ended; the same *world*, at its end.

    With *nodes* jobs that have to move to another one pay for that as for a stop; without, GPUs are one pool.
    """
    rules, next_job, count = world.rules, 0, len(world.submit_s)
    while next_job < count or len(world.rows):
        if not len(world.rows):
            ticks = np.ceil((world.ready_s[next_job] - world.now_s) / rules.tick_s - _MOMENT_S)
            world.now_s += max(0.0, ticks) * rules.tick_s
        arrived = int(np.searchsorted(world.ready_s, world.now_s + _MOMENT_S, side="right"))
        new = np.arange(next_job, arrived)
        new = new[np.isnan(world.end_s[new])]
        next_job = max(next_job, arrived)
        world.rows = np.concatenate([world.rows, new])
        chosen = _chosen(world, policy.turn(world, new))
        if not len(chosen) and len(world.rows) and next_job == count:
            raise RuntimeError("no job may run, and none will arrive")
        if nodes is not None:
            moved = nodes.settle(world, chosen)
            world.stops[moved] += 1
            world.running[moved] = False
        _run(world, chosen)
        world.now_s += rules.tick_s
        world.rows = world.rows[np.isnan(world.end_s[world.rows])]
    return world


def _chosen(world: LeaseState, turn: RoundOrder) -> IntArray:
    """Rows that run in this round."""
    return turn.order[fill(world.gpus[turn.order], world.capacity)]


@compiled
def fill(gpus: IntArray, free: int) -> BoolArray:
    """Which jobs fit into the *free* GPUs, taken in order."""
    fits = np.zeros(len(gpus), np.bool_)
    for place in range(len(gpus)):
        if gpus[place] <= free:
            free -= gpus[place]
            fits[place] = True
    return fits


def _run(world: LeaseState, chosen: IntArray) -> None:
    """Stop who is not among *chosen*, run those until the next tick, and end whoever is done by then."""
    rules = world.rules
    runs = np.zeros(len(world.submit_s), np.bool_)
    runs[chosen] = True
    stopped = world.rows[world.running[world.rows] & ~runs[world.rows]]
    world.stops[stopped] += 1
    world.lease_end_s[stopped] = -np.inf
    world.running[stopped] = False
    begun = chosen[~world.running[chosen]]
    again = begun[world.stops[begun] > 0]
    world.owed_s[again] = resume_cost_s(rules.resume_s, world.gpus[again])
    world.started_s[begun] = np.where(np.isnan(world.started_s[begun]), world.now_s, world.started_s[begun])
    world.running[chosen] = True
    paid_s = np.minimum(world.owed_s[chosen], rules.tick_s)
    needs_s = world.runtime_s[chosen] - world.done_s[chosen]
    works_s = np.minimum(needs_s, rules.tick_s - paid_s)
    ended = (needs_s <= works_s + _MOMENT_S) & (paid_s >= world.owed_s[chosen])
    world.owed_s[chosen] -= paid_s
    world.done_s[chosen] += works_s
    world.end_s[chosen[ended]] = world.now_s + (paid_s + needs_s)[ended]
    world.running[chosen[ended]] = False


def resume_cost_s(single_s: float, gpus: IntArray) -> FloatArray:
    """What going on after a stop costs: on one GPU *single_s*, and again so much for each doubling."""
    return single_s * (1.0 + np.log2(gpus))

"""The event loop of the elastic simulator, and its fork: the same loop on a copy, without those who come later.

At one instant ends come first, then ends of leases, then arrivals. GPUs are shared anew after each. A preemption costs
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import compiled, inner
from .shares import share
from .state import EVENTS, INSIDE, LEASE, NOW, SEEN, ApplicationData, ElasticRules, State


class ElasticResult(NamedTuple):
    """What came of it, to be filled."""

    end_s: FloatArray
    predicted_s: FloatArray  #: the end foreseen at arrival; NaN where nobody asked
    contention: FloatArray  #: mean applications inside, over the events of each one's stay


@compiled
def play(
    data: ApplicationData, rules: ElasticRules, state: State, fork: State, result: ElasticResult, predict: bool
) -> None:
    """Replay all applications; with *predict* each arrival plays the state forward on *fork* to its own end."""
    nobody = len(data.submit_s)
    for row in range(nobody):
        _advance(data, rules, state, data.submit_s[row], nobody, result)
        _arrive(data, rules, state, row)
        if predict:
            _copy(state, fork)
            result.predicted_s[row] = _advance(data, rules, fork, np.inf, row, result)
    _advance(data, rules, state, np.inf, nobody, result)


@inner
def _advance(
    data: ApplicationData, rules: ElasticRules, state: State, until_s: float, target: int, result: ElasticResult
) -> float:
    """Let time pass to *until_s*, or to the end of *target* if there is such a row; the moment reached.

    Only without a target it is the truth, and is written down.
    """
    clock, at, pace, left_s = state.clock, state.at, state.pace, state.left_s
    while True:
        next_s, ends = clock[LEASE], -1
        for place in range(state.running[0]):
            end_s = clock[NOW] + left_s[at[place]] / pace[place]
            if end_s < next_s or (end_s == next_s and ends < 0):
                next_s, ends = end_s, place
        if next_s > until_s or next_s == np.inf:
            if until_s < np.inf:
                _work(left_s, at, pace, state.running[0], until_s - clock[NOW])
                clock[NOW] = until_s
            return float(clock[NOW])
        next_s = max(next_s, clock[NOW])
        _work(left_s, at, pace, state.running[0], next_s - clock[NOW])
        clock[NOW] = next_s
        _count(rules, clock)
        if ends >= 0:
            row = at[ends]
            _leave(data, state, row)
            if row == target:
                return float(next_s)
            if target == len(result.end_s):
                result.end_s[row] = next_s
                result.contention[row] = (clock[SEEN] - state.clock_at_arrival[row]) / (
                    clock[EVENTS] - state.events[row]
                )
        if clock[INSIDE] == 0:
            clock[LEASE] = np.inf
        share(data, rules, state)


@inner
def _work(left_s: FloatArray, at: IntArray, pace: FloatArray, running: int, span_s: float) -> None:
    """Let the *running* first of *at* work for *span_s*."""
    for place in range(running):
        left_s[at[place]] = max(left_s[at[place]] - span_s * pace[place], 0.0)


@inner
def _count(rules: ElasticRules, clock: FloatArray) -> None:
    """Note an event: who is inside sees how many are, and leases begin anew."""
    clock[SEEN] += clock[INSIDE]
    clock[EVENTS] += 1
    clock[LEASE] = clock[NOW] + rules.lease_s


@inner
def _arrive(data: ApplicationData, rules: ElasticRules, state: State, row: int) -> None:
    clock, group = state.clock, data.group[row]
    _count(rules, clock)
    clock[INSIDE] += 1
    state.clock_at_arrival[row], state.events[row] = clock[SEEN] - clock[INSIDE], clock[EVENTS] - 1
    state.left_s[row] = data.service_s[row]
    state.rows[state.first[group] + state.many[group]] = row
    state.many[group] += 1
    state.wanted[group] += data.demand[row]
    share(data, rules, state)


@inner
def _leave(data: ApplicationData, state: State, row: int) -> None:
    """Let *row* leave its class, where those before it move up by one: they are few, as the first have the GPUs."""
    rows, group = state.rows, data.group[row]
    first = state.first[group]
    place = first
    while rows[place] != row:
        place += 1
    while place > first:
        rows[place] = rows[place - 1]
        place -= 1
    state.first[group] = first + 1
    state.many[group] -= 1
    state.wanted[group] -= data.demand[row]
    state.left_s[row] = 0.0
    state.clock[INSIDE] -= 1


@inner
def _copy(state: State, fork: State) -> None:
    """Let *fork* stand where *state* does, with the work left as the policy believes it to be."""
    for at in range(len(state.clock)):  # not by slices, which take seconds to compile
        fork.clock[at] = state.clock[at]
    for group in range(len(state.many)):
        fork.first[group], fork.many[group] = state.first[group], state.many[group]
        fork.wanted[group], fork.served[group] = state.wanted[group], state.served[group]
        for place in range(state.first[group], state.first[group] + state.many[group]):
            row = state.rows[place]
            fork.rows[place] = row
            fork.left_s[row] = state.left_s[row] * state.size_factor[row]
            fork.clock_at_arrival[row], fork.events[row] = state.clock_at_arrival[row], state.events[row]
    fork.running[0] = state.running[0]
    for place in range(state.running[0]):
        fork.at[place], fork.gpus[place], fork.pace[place] = state.at[place], state.gpus[place], state.pace[place]

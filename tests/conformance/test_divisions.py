"""The rules that divide the GPUs among elastic applications."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.research.elastic.divisions import DIVISIONS
from slurmsched.research.elastic.experiment import shares_of
from slurmsched.research.elastic.state import ApplicationData, ElasticRules, State, fresh

MOST = 8


def inside(name: str, demand: list[int], left_s: list[int], gpus: int) -> tuple[ApplicationData, ElasticRules, State]:
    """Applications on linear curves that all came at second 0 and have so much work left, none with GPUs yet."""
    shares, count = shares_of(name), len(demand)
    service_s = np.array(left_s, dtype=float) + 100.0
    group, zeros = shares.wfq.classes(service_s), np.zeros(count, dtype=np.int64)
    linear, size_s = np.arange(MOST + 1.0)[None, :], np.ones(count)
    data = ApplicationData(service_s, np.zeros(count), np.array(demand), zeros, group, size_s, linear)
    weights = np.array(shares.wfq.weights)
    limits = shares.wfq.limits(data.speed)
    rules = ElasticRules(shares.kind, float(gpus), shares.lease_s, weights, limits, shares.wfq.overtake)
    state = fresh(count, group, len(weights), np.ones(count))
    state.clock[:] = 100.0, math.inf, count, 1.0, count
    state.left_s[:] = left_s
    for row in range(count):
        at = group[row]
        state.rows[state.first[at] + state.many[at]] = row
        state.many[at] += 1
        state.wanted[at] += demand[row]
    return data, rules, state


@pytest.mark.parametrize("name", sorted(DIVISIONS))
@examples(30)
@given(
    rows=st.lists(st.tuples(st.integers(1, MOST), st.integers(1, 500_000)), min_size=1, max_size=9),
    gpus=st.integers(1, 20),
)
def test_no_job_gets_more_than_it_can_use_and_no_gpu_is_left_that_a_job_could_use(name, rows, gpus):
    demand, left_s = map(list, zip(*rows, strict=True))
    data, rules, state = inside(name, demand, left_s, gpus)
    DIVISIONS[name](data, rules, state)
    many = int(state.running[0])
    given_gpus = np.bincount(state.at[:many], weights=state.gpus[:many], minlength=len(rows))
    assert (given_gpus <= np.array(demand) + 1e-9).all()
    assert given_gpus.sum() == pytest.approx(min(gpus, sum(demand)))
    assert len(set(state.at[:many].tolist())) == many


@pytest.mark.parametrize(("name", "first"), [("srsf", [0.0, 4.0]), ("fifo", [4.0, 0.0]), ("fair-share", [2.0, 2.0])])
def test_rules_differ_in_the_job_that_gets_the_gpus(name, first):
    data, rules, state = inside(name, [4, 4], [900, 100], 4)
    DIVISIONS[name](data, rules, state)
    many = int(state.running[0])
    assert np.bincount(state.at[:many], weights=state.gpus[:many], minlength=2).tolist() == first

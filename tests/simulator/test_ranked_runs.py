"""Running jobs in heaps by the slopes of their keys: the worst first, and replays as without them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.test_direct import some_jobs

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.policies.contract import ORDERINGS
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.engine.job_state import PENDING, RUNNING
from slurmsched.simulator.engine.ranked_runs import (
    IN_USE,
    JOBS,
    MOST_SLOPES,
    NONE,
    enter_run,
    forget_runs,
    inexact_by,
    no_ranked_runs,
    take_worst,
    worst,
)
from slurmsched.simulator.machine.direct import direct, rules_of, run_direct
from slurmsched.simulator.ordering_keys import keys_of

SLOPES = st.sampled_from([0.0, -1.0, 1.0, -4.0, 8.0, 1.0 + 1e-12])


@examples(60)
@given(data=st.data(), count=st.integers(1, 12))
def test_the_worst_running_job_comes_first_at_any_time(data, count):
    ranked, state = no_ranked_runs(count, count, 1_700_000_000.0), np.full(count, PENDING)
    at, slope, since_s = np.zeros(count), np.zeros(count), np.zeros(count)
    now_s = 1_700_000_000.0
    for _ in range(60):
        now_s += data.draw(st.sampled_from([0.0, 0.5, 100.0]))
        row = data.draw(st.integers(0, count - 1))
        state[row] = RUNNING if data.draw(st.booleans()) else PENDING
        if state[row] == RUNNING:
            at[row], slope[row], since_s[row] = data.draw(st.integers(-50, 1000)), data.draw(SLOPES), now_s
            enter_run(ranked, state, RUNNING, row, at[row], slope[row], now_s)
    keys, taken = at + slope * (now_s - since_s), []
    heap, about = worst(ranked, state, RUNNING, now_s)
    while heap != NONE:
        row = int(ranked.entries[heap, 0] % JOBS)
        assert abs(keys[row] - about) <= inexact_by(ranked, about, now_s)
        taken.append(row)
        take_worst(ranked, heap)
        heap, about = worst(ranked, state, RUNNING, now_s)
    assert sorted(taken) == np.flatnonzero(state == RUNNING).tolist()
    assert (np.diff(keys[taken]) <= 2 * inexact_by(ranked, float(np.abs(keys).max()), now_s)).all()


def test_jobs_of_too_many_slopes_are_not_ranked_until_their_keys_are_others():
    ranked, state = no_ranked_runs(100, 100), np.full(100, RUNNING)
    for row in range(MOST_SLOPES + 1):
        enter_run(ranked, state, RUNNING, row, 0.0, float(row), 0.0)
    assert not ranked.counts[IN_USE]
    forget_runs(ranked)
    assert ranked.counts[IN_USE]
    assert worst(ranked, state, RUNNING, 0.0)[0] == NONE


def test_without_room_runs_are_never_ranked():
    ranked = no_ranked_runs()
    forget_runs(ranked)
    assert not ranked.counts[IN_USE]


@pytest.mark.parametrize("name", ["srtf", "srsf", "las", "tiresias", "fifo"])
@examples(25)
@given(data=st.data(), nodes=st.integers(1, 12), gpus=st.integers(1, 4))
def test_a_replay_is_the_same_without_heaps(name, data, nodes, gpus):
    jobs, ordering = data.draw(some_jobs(nodes * gpus)), ORDERINGS.find(name)
    runtime_s = jobs.runtime_s
    forecast = Forecast(runtime_s, runtime_s, runtime_s, Labels.of(["exact"] * len(jobs)))
    keys, ends = keys_of(jobs, ordering, forecast), []
    for ranked in (True, False):
        model = direct(
            jobs, ClusterSpec.of(nodes, gpus), rules_of("preemptive", 0.0, 10), keys, np.full(len(jobs), 2), logged=True
        )
        assert model.ranked.counts[IN_USE]
        model.ranked.counts[IN_USE] = ranked
        model = run_direct(model)
        life, log = model.stage.life, model.stage.log
        ends.append([life.first_s, life.ended_s, life.restarts, log.row, log.start_s, log.end_s, log.node, log.gpus])
    for one, other in zip(*ends, strict=True):
        assert np.array_equal(one, other)

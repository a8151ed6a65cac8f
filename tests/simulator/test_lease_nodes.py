"""Leases on nodes instead of one pool, and profiling before the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmsched.simulator.leases.nodes import Nodes
from slurmsched.simulator.leases.presets import replay
from slurmsched.simulator.leases.profiling import Profiling
from slurmsched.simulator.leases.rounds import fill
from slurmsched.simulator.workload.workload import workload

MINUTE_S = 60.0


def jobs(*rows):
    """Each is (submit, runtime, GPUs, deadline or None for best effort), in minutes; deadlines from submit on."""
    submit, runtime, gpus, within = zip(*rows, strict=True)
    return workload(
        len(rows),
        submit_s=np.array(submit) * MINUTE_S,
        runtime_s=np.array(runtime) * MINUTE_S,
        gpus=gpus,
        deadline_s=[np.inf if one is None else (at + one) * MINUTE_S for at, one in zip(submit, within, strict=True)],
        best_effort=[one is None for one in within],
    )


def ends_min(outcome):
    return (outcome.world.end_s / MINUTE_S).tolist()


@dataclass
class Standing:
    """As much of a world as nodes look at."""

    gpus: np.ndarray
    slo: np.ndarray
    running: np.ndarray


def test_a_job_with_a_deadline_takes_a_power_of_two_of_gpus():
    asked = jobs((0, 60, 3, 65), (0, 60, 2, None))
    assert ends_min(replay(asked, 5)) == [60, 60]
    assert ends_min(replay(asked, 4, node_gpus=4)) == [60, 120]


def test_a_job_in_the_way_of_a_block_moves_and_pays_for_that():
    asked = jobs((0, 10, 2, None), (0, 60, 2, None), (5, 5, 2, None), (5, 60, 2, None), (10, 30, 4, 30))
    on_nodes = replay(asked, 8, node_gpus=4)
    assert on_nodes.world.end_s[4] == 40 * MINUTE_S
    assert sorted(on_nodes.world.stops.tolist()) == [0, 0, 0, 0, 1]
    assert replay(asked, 8).world.stops.sum() == 0


def test_nodes_that_are_no_power_of_two_are_refused():
    with pytest.raises(ValueError, match="accepted are powers of two"):
        Nodes(2, 6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 4, 8, 16]), st.booleans()), min_size=1, max_size=20),
    st.lists(st.permutations(range(20)), min_size=1, max_size=5),
)
def test_whoever_is_chosen_gets_its_gpus_and_jobs_with_deadlines_get_blocks(rows, orders):
    gpus, slo = (np.array(column) for column in zip(*rows, strict=True))
    world, nodes = Standing(gpus, slo, np.zeros(len(rows), np.bool_)), Nodes(4, 8)
    for order in orders:
        order = np.array([row for row in order if row < len(rows)])
        chosen = order[fill(gpus[order], 32)]
        before = dict(nodes.held)
        moved = nodes.settle(world, chosen)
        assert sum(nodes.held.values()).max() <= 8
        assert {row: int(parts.sum()) for row, parts in nodes.held.items()} == {row: gpus[row] for row in chosen}
        for row in chosen[slo[chosen]].tolist():
            assert np.count_nonzero(nodes.held[row]) == max(1, gpus[row] // 8)
        for row in chosen[world.running[chosen]].tolist():
            assert (row in moved) == bool(np.any(nodes.held[row] != before[row]))
        world.running[:] = False
        world.running[chosen] = True


def test_a_job_that_ends_while_it_is_profiled_never_queues_again():
    outcome = replay(jobs((0, 3, 1, None), (0, 3, 1, None)), 4, profiling=Profiling(fixed=1))
    assert ends_min(outcome) == [3, 6]


def test_a_longer_job_goes_on_from_where_it_was_profiled():
    outcome = replay(jobs((0, 60, 1, None)), 2, profiling=Profiling())
    assert ends_min(outcome) == [60.5]


def test_a_wide_job_is_profiled_on_two_nodes_at_most():
    how = Profiling(node_gpus=4, nodes_most=2, fixed=8)
    outcome = replay(jobs((0, 60, 16, None)), 24, profiling=how)
    assert ends_min(outcome) == [5 + 57.5 + 2.5]


def test_as_many_gpus_are_set_apart_as_the_last_hour_asked_for():
    how = Profiling(node_gpus=1, headroom=1.0)
    submit_s = np.concatenate([np.linspace(0, 3599, 120), [3600.0, 7200.0]])
    assert how.set_apart(submit_s, np.ones(122, np.int64), 64).tolist() == [1, 10, 1, 1]
    assert how.set_apart(submit_s, np.ones(122, np.int64), 6).tolist() == [1, 6, 1, 1]


def test_gpus_that_are_set_apart_run_nobody_else():
    asked = jobs((0, 60, 2, None), (0, 60, 2, None))
    assert ends_min(replay(asked, 4, profiling=Profiling(fixed=2, node_gpus=2)))[1] > 100


def test_a_cluster_too_small_to_profile_its_widest_job_is_refused():
    with pytest.raises(ValueError, match="to profile one job"):
        replay(jobs((0, 60, 4, None)), 4, profiling=Profiling())

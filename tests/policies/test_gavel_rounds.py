"""Rounds of Gavel: each receives what its share says in the end, no job runs twice, and no GPU is idle for nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gavel_states import GavelState
from hypothesis import given
from hypothesis import strategies as st
from training_views import training_view

from examples import examples
from slurmsched.cluster.training import TypeSpeeds
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import SCALINGS
from slurmsched.research.scaling.gavel import chosen, in_pairs
from slurmsched.research.scaling.gavel_programs import ShareProgram, alone, fairness_need

ROUND_S = 360.0


@st.composite
def rounds(draw):
    """What is behind, alone and in pairs, and the free GPUs of each type."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    count, types = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    gpus = 2 ** random.integers(0, 3, count)
    speed = random.uniform(1, 2, (count, types))
    both = in_pairs(alone(speed, gpus), np.arange(count), random.uniform(0.5, 1, (count, count, types)))
    behind = random.random((len(both), types)) * (random.random((len(both), types)) < 0.5)
    return behind, both, random.integers(0, 9, types)


@examples(100)
@given(rounds())
def test_a_job_runs_once_and_no_gpu_is_idle_while_a_job_could_run_on_it(world):
    behind, both, free = world
    runs = chosen(behind, both, free, np.arange(len(free)))
    jobs = [job for row, _ in runs.tolist() for job in (int(both.job[row]), int(both.other[row])) if job >= 0]
    left = free - np.bincount(runs[:, 1], both.gpus[runs[:, 0]], len(free))
    waiting = set(both.job.tolist()) - set(jobs)
    assert len(jobs) == len(set(jobs))
    assert (left >= 0).all()
    for job in waiting:
        assert (left < both.gpus[job]).all()


def test_in_the_long_run_each_job_has_received_its_share():
    state = GavelState(3)
    program = ShareProgram(state.alone, len(state.gpus), state.of_type)
    program.water_filled(fairness_need(state.throughput, state.gpus, state.weight, state.of_type))
    shares, received_s = program.shares, np.zeros_like(program.shares)
    count = 3_000
    for _ in range(count):
        runs = chosen(shares / (received_s + ROUND_S / 2), state.alone, state.of_type, np.arange(3))
        received_s[runs[:, 0], runs[:, 1]] += ROUND_S
    has = (received_s / (count * ROUND_S) * state.throughput).sum(axis=1)
    assert (has >= 0.9 * program.throughput).all()


def view_of(state, plan=None, now_s=0.0, rows=None):
    rows = np.arange(len(state.gpus)) if rows is None else rows
    nodes = [1] * int(state.of_type.sum())
    node_type = np.repeat(np.arange(3), state.of_type)
    speeds = TypeSpeeds(("v100", "p100", "k80"), node_type, state.throughput[rows], state.kind[rows], state.beside)
    view = training_view(nodes, gpus=state.gpus[rows], left=state.left[rows], weight=state.weight[rows], job_id=rows)
    return replace(view, now_s=now_s, round_s=ROUND_S, type_speeds=speeds, plan=plan)


@pytest.mark.parametrize("line", ["gavel-las", "gavel-las pack=yes", "gavel-las-blind", "gavel-ftf", "gavel-makespan"])
def test_a_job_is_on_gpus_of_one_type_and_has_all_it_asks_for_or_none(line):
    state, plan = GavelState(2), None
    for number in range(10):
        view = view_of(state, plan, number * ROUND_S)
        found = SCALINGS.find(line)(view)
        plan = found.plan
        by_type = np.add.reduceat(found.gpus, np.concatenate([[0], np.cumsum(state.of_type)[:-1]]), axis=1)
        assert ((by_type == 0) | (by_type == state.gpus[:, None])).all()
        assert (np.count_nonzero(by_type, axis=1) <= 1).all()
        second = np.zeros(len(state.gpus), np.bool_)
        if found.beside is not None:
            second = found.beside > np.arange(len(state.gpus))
            assert (found.gpus[found.beside >= 0] == found.gpus[found.beside[found.beside >= 0]]).all()
        assert (found.gpus[~second].sum(axis=0) <= view.nodes.gpus).all()


def test_shares_stay_in_use_until_they_can_be_received():
    state = GavelState(1)
    first = SCALINGS.find("gavel-las")(view_of(state, rows=np.arange(5))).plan
    soon = SCALINGS.find("gavel-las")(view_of(state, first, 1_800.0)).plan
    later = SCALINGS.find("gavel-las")(view_of(state, first, 2_160.0)).plan
    assert len(first.job_id) == len(soon.job_id) == 5
    assert len(later.job_id) == 6
    assert len(SCALINGS.find("gavel-las settle_s=0")(view_of(state, first, 360.0)).plan.job_id) == 6


@pytest.mark.parametrize("words", ["pack=perhaps", "settle_s=-1", "settle_s=soon", "fill=yes"])
def test_parameters_that_make_no_sense_are_refused(words):
    with pytest.raises(ConfigError, match="gavel-las: accepted are settle_s=SECONDS from 0 on, and pack=yes or no"):
        SCALINGS.find(f"gavel-las {words}")


def test_pairs_need_to_know_speeds():
    with pytest.raises(ConfigError, match=r"gavel-las-blind: accepted are settle_s=SECONDS from 0 on$"):
        SCALINGS.find("gavel-las-blind pack=yes")

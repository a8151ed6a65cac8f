"""Gavel's linear programs: the optima of other solvers, nothing lent twice, no level at a lower one's cost."""

from __future__ import annotations

import numpy as np
import pytest
from gavel_states import STATES, GavelState
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.research.scaling.gavel_programs import (
    Combinations,
    ShareProgram,
    alone,
    equal_split,
    fairness_need,
    isolated,
    useful,
)

EVERY = range(len(STATES))
CLOSE = 1e-4


def program_of(state, combinations=None):
    return ShareProgram(state.alone if combinations is None else combinations, len(state.gpus), state.of_type)


def need_of(state):
    return fairness_need(state.throughput, state.gpus, state.weight, state.of_type)


@pytest.mark.parametrize("number", EVERY)
def test_max_min_fairness_reaches_the_optimum(number):
    state = GavelState(number)
    assert program_of(state).level(need_of(state)) == pytest.approx(state.facts["las_objective"], rel=CLOSE)


@pytest.mark.parametrize("number", EVERY)
def test_without_speeds_max_min_fairness_divides_gpus_alone(number):
    state = GavelState(number)
    state.throughput = np.ones_like(state.throughput)
    assert program_of(state).level(need_of(state)) == pytest.approx(state.facts["las_agnostic_objective"], rel=CLOSE)


@pytest.mark.parametrize("number", EVERY)
def test_the_makespan_reaches_the_optimum(number):
    state = GavelState(number)
    assert 1 / program_of(state).level(state.left) == pytest.approx(state.facts["makespan_s"], rel=CLOSE)


@pytest.mark.parametrize("number", EVERY)
def test_the_worst_finish_time_ratio_reaches_the_optimum(number):
    state = GavelState(number)
    alone_s = state.left / isolated(state.throughput, state.gpus, state.of_type)
    ratio = program_of(state).finish_time_ratio(state.left, state.since_s, alone_s)
    assert ratio == pytest.approx(state.facts["max_rho"], rel=CLOSE)


@pytest.mark.parametrize("number", [number for number in EVERY if "water_filled" in STATES[number]])
def test_every_job_has_its_level_when_levels_are_filled_like_water(number):
    state = GavelState(number)
    levels = program_of(state).water_filled(need_of(state))
    assert levels == pytest.approx(np.array(state.facts["water_filled"]), rel=1e-3)


@pytest.mark.parametrize("number", [number for number in EVERY if "las_packed_objective" in STATES[number]])
def test_pairs_on_the_same_gpus_reach_the_optimum(number):
    state = GavelState(number)
    found = program_of(state, state.packed).level(need_of(state))
    assert found == pytest.approx(state.facts["las_packed_objective"], rel=CLOSE)


@pytest.mark.parametrize("number", EVERY)
def test_speeds_on_an_equal_split_are_those_of_the_reference(number):
    state = GavelState(number)
    split, lone = state.facts["proportional_throughput"], state.facts["isolated_throughput"]
    assert equal_split(state.throughput, state.of_type) == pytest.approx(split, rel=1e-6)
    assert isolated(state.throughput, state.gpus, state.of_type) == pytest.approx(lone, rel=1e-6)


@st.composite
def packed_states(draw):
    """Jobs with pairs: throughputs, combinations, needs and the GPUs of each type."""
    seed, count, types = draw(st.integers(0, 10_000)), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    random = np.random.default_rng(seed)
    throughput = random.uniform(0.1, 50, (count, types)) * (random.random((count, types)) < 0.9)
    gpus = 2 ** random.integers(0, 3, count)
    first, second = np.triu_indices(count, 1)
    same = gpus[first] == gpus[second]
    first, second = first[same], second[same]
    parts = random.uniform(0, 1.1, (2, len(first), types))
    single = alone(throughput, gpus)
    both = Combinations(
        np.concatenate([single.job, first]),
        np.concatenate([single.other, second]),
        np.concatenate([gpus, gpus[first]]),
        np.concatenate([throughput, throughput[first] * parts[0]]),
        np.concatenate([np.zeros_like(throughput), throughput[second] * parts[1]]),
    )
    return throughput, both, random.uniform(0.5, 2, count), random.integers(1, 6, types)


@examples(60)
@given(packed_states())
def test_no_job_has_more_than_all_its_time_and_no_type_lends_more_gpus_than_it_has(state):
    throughput, combinations, need, of_type = state
    program = ShareProgram(combinations, len(throughput), of_type)
    program.water_filled(need)
    shares = program.shares
    time = np.zeros(len(throughput))
    np.add.at(time, combinations.job, shares.sum(axis=1))
    pair = combinations.other >= 0
    np.add.at(time, combinations.other[pair], shares[pair].sum(axis=1))
    assert (shares >= 0).all()
    assert (time <= 1 + 1e-5).all()
    assert (combinations.gpus @ shares <= of_type + 1e-5).all()


@examples(60)
@given(packed_states())
def test_filling_like_water_begins_with_the_best_level_and_gives_each_job_what_it_says(state):
    throughput, combinations, need, of_type = state
    served = throughput.any(axis=1)
    best = ShareProgram(combinations, len(throughput), of_type).level(need)
    program = ShareProgram(combinations, len(throughput), of_type)
    levels = program.water_filled(need)
    assert np.isinf(levels[~served]).all()
    assert levels.min(initial=np.inf) == pytest.approx(best, rel=1e-5)
    assert (program.throughput[served] >= (levels * need)[served] * (1 - 1e-4)).all()


@examples(60)
@given(packed_states())
def test_leaving_out_pairs_that_might_as_well_take_turns_loses_no_optimum(state):
    throughput, combinations, need, of_type = state
    fewer = useful(combinations, throughput)
    count = len(throughput)
    found = ShareProgram(fewer, count, of_type).level(need)
    assert found == pytest.approx(ShareProgram(combinations, count, of_type).level(need), rel=1e-5)


def test_nobody_needs_anything_where_no_type_can_run_the_job():
    program = ShareProgram(alone(np.zeros((2, 1)), np.array([1, 1])), 2, np.array([4]))
    assert program.level(np.ones(2)) == np.inf
    assert program.finish_time_ratio(np.ones(2), np.zeros(2), np.ones(2)) == 0.0


@pytest.mark.parametrize("number", [number for number in EVERY if "las_packed_objective" in STATES[number]])
def test_no_jobs_share_gpus_where_each_could_have_its_own(number):
    """A makespan binds the last job alone, and has optima in which the others share GPUs for no gain."""
    state = GavelState(number)
    state.of_type = 100 * state.of_type
    program = program_of(state, state.packed)
    level, pair = program.level(state.left), state.packed.other >= 0
    assert program.shares[pair].sum() > 0.1
    program.with_fewest_pairs()
    assert (program.throughput >= level * state.left * (1 - CLOSE)).all()
    assert program.shares[pair].sum() < CLOSE

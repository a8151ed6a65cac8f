"""The ordering gavel: the shares of Gavel's program over kinds of jobs, and the jobs behind them first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, nodes, running_jobs, view
from gavel_states import STATES, GavelState
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.speed_texts import speeds_on, write_relative
from slurmsched.cluster.state import View
from slurmsched.decide.run_set import order_with_running
from slurmsched.explain.order_terms import terms_of
from slurmsched.policies.contract import find_ordering
from slurmsched.research.ordering.time_shares import MOST_GROUPS, TimeShares
from slurmsched.research.scaling.gavel_programs import ShareProgram, alone, fairness_need

gavel, las = find_ordering("gavel"), find_ordering("las")
FOUR_TIMES = "a100=0.25 v100=1"


def seen(count: int, *, kinds=("a100", "v100"), each=2, running=None, **columns) -> View:
    """Pending jobs beside a node of each kind."""
    room = replace(nodes([each] * len(kinds), [each] * len(kinds)), gpu_type=Labels.of(kinds))
    return view(jobs(count, **columns), [600.0] * count, room=room, running=running)


def first(what: View) -> list[int]:
    return what.pending.job_id[np.argsort(gavel(what), kind="stable")].tolist()


@pytest.mark.parametrize("number", range(len(STATES)))
def test_jobs_of_one_kind_as_one_variable_have_the_levels_of_a_program_with_a_variable_for_each(number):
    state = GavelState(number)
    kinds = tuple(f"t{place}" for place in range(len(state.of_type)))
    texts = [write_relative(kinds, row) for row in state.throughput]
    room = replace(nodes(state.of_type.tolist()), gpu_type=Labels.of(kinds))
    what = view(jobs(len(texts), gpus=state.gpus, type_speeds=texts), [600.0] * len(texts), room=room)
    speeds = np.where(state.of_type >= state.gpus[:, None], speeds_on(texts, kinds), 0.0)
    program = ShareProgram(alone(speeds, state.gpus), len(texts), state.of_type)
    need = fairness_need(speeds, state.gpus, np.ones(len(texts)), state.of_type)
    program.water_filled(need)
    shares = TimeShares.of(what)
    assert len(shares.shares) == len(np.unique(np.column_stack([state.gpus, speeds]), axis=0))
    levels = shares.level[shares.group] * need * state.gpus
    can = speeds.any(axis=1)
    assert levels[can] == pytest.approx(program.throughput[can], rel=1e-5)
    lent = np.bincount(shares.group, state.gpus) @ shares.shares
    assert (lent <= state.of_type * (1 + 1e-6)).all()


def test_without_types_it_is_the_least_attained_service_beside_half_a_round():
    what = seen(4, kinds=("", ""), gpus=[1, 2, 4, 1], ran_s=[7200.0, 1800.0, 1200.0, 0.0])
    assert first(what) == [4, 2, 3, 1]
    assert np.argsort(las(what), kind="stable").tolist() == [3, 1, 2, 0]


def test_who_received_less_of_an_equal_share_is_first_and_ties_keep_slurms_order():
    what = seen(6, ran_s=[3600.0, 0.0, 1800.0, 0.0, 7200.0, 0.0], type_speeds=[FOUR_TIMES] * 6)
    assert first(what) == [2, 4, 6, 3, 1, 5]
    key = gavel(what)
    assert key[1] == key[3] == key[5]


def test_time_counts_at_the_speed_of_the_type_where_a_job_runs_or_was_sent_last():
    """An hour on the type that is four times as slow is a quarter of an hour on the fast one."""
    columns = {"type_speeds": [FOUR_TIMES] * 6, "ran_s": [3600.0, 3600.0, 1000.0, 0.0, 0.0, 0.0]}
    what = seen(6, steered=["v100", "a100", "v100", "", "", ""], **columns)
    assert first(what)[3:] == [2, 3, 1]
    ran = running_jobs(2, node_list=["n2", "n1"], type_speeds=[FOUR_TIMES] * 2, ran_s=[3600.0, 3600.0])
    what = seen(4, running=ran, type_speeds=[FOUR_TIMES] * 4)
    order = order_with_running(what, np.arange(4), gavel)
    assert order.tolist()[-2:] == [1, 0], "the one on n1, the slow type, is behind the other"


def test_a_job_that_one_type_alone_is_open_to_has_its_share_there():
    what = seen(4, gpu_type=["a100", "", "", ""], types=["", "v100", "", ""], partition=["gpu", "gpu", "gpu", "none"])
    shares = TimeShares.of(what)
    of = {job: shares.shares[shares.group[job - 1]].tolist() for job in (1, 2, 4)}
    assert of[1][1] == of[2][0] == 0
    assert of[1][0] > 0 < of[2][1]
    assert of[4] == [0, 0]
    assert np.isfinite(gavel(what)).all()


def test_shares_of_jobs_that_are_present_count_those_that_run():
    alone_there = seen(1, gpus=[2])
    crowd = seen(1, gpus=[2], running=running_jobs(9, gpus=[2] * 9))
    assert gavel(crowd)[0] > 3 * gavel(alone_there)[0], "its share is smaller, so the same time is more of it"


def test_a_row_of_an_array_counts_once_for_each_task():
    assert gavel(seen(1, tasks=[10]))[0] == gavel(seen(10))[0]


@given(st.integers(0, 2**32 - 1))
@examples(50)
def test_neither_the_row_of_a_job_nor_the_order_of_nodes_counts(seed):
    random = np.random.default_rng(seed)
    count, kinds = int(random.integers(1, 25)), ("a100", "v100", "k80")
    texts = [write_relative(kinds, random.choice([0.1, 0.5, 1.0], 3)) if random.random() < 0.7 else ""
             for _ in range(count)]  # fmt: skip
    what = seen(
        count,
        kinds=kinds,
        each=int(random.integers(1, 9)),
        gpus=random.integers(0, 9, count),
        type_speeds=texts,
        ran_s=random.choice([0.0, 600.0, 86_400.0], count),
        gpu_type=random.choice(["", "a100", "v100+k80"], count).tolist(),
        steered=random.choice(["", "v100", "a100+k80", "*"], count).tolist(),
        running=running_jobs(int(random.integers(0, 5))),
    )
    key, rows = gavel(what), random.permutation(count)
    assert np.isfinite(key).all()
    assert (gavel(what.take(rows)) == key[rows]).all()
    assert (gavel(replace(what, nodes=what.nodes.take(np.array([2, 0, 1])))) == key).all()


def test_many_kinds_are_made_few_enough():
    random = np.random.default_rng(1)
    texts = [f"a100={speed:.4g} v100=1" for speed in random.uniform(0.05, 1.0, 3000)]
    shares = TimeShares.of(seen(3000, type_speeds=texts))
    assert 2 < len(shares.shares) <= MOST_GROUPS


def test_without_a_node_that_is_up_all_keys_are_finite():
    what = seen(3)
    down = replace(what, nodes=replace(what.nodes, usable=np.zeros(2, dtype=bool)))
    assert np.isfinite(gavel(down)).all()


def test_explain_has_the_share_what_was_received_and_how_far_that_is():
    what = seen(3, gpus=[1, 2, 2], ran_s=[3600.0, 0.0, 0.0], type_speeds=[FOUR_TIMES] * 3, steered=["v100", "", ""])
    (words,) = terms_of(what, gavel, 0)
    assert "By gavel its share of time is " in words
    assert "% on v100. It has received 96 min on a GPU of mean speed." in words

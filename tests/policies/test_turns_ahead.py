"""Promised jobs played forward in turns: who would be late, and that whoever follows the turns keeps what they kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.policies.deadlines.reservations import DeadlineRequests, Room
from slurmsched.policies.deadlines.turns_ahead import TurnsAhead

BEAT_S = 300.0
START_S = 6_000.0


def jobs(*rows) -> DeadlineRequests:
    """Each is (GPUs, seconds that it needs, seconds until it is due, whether it runs, cost of resuming it)."""
    gpus, needs_s, within_s, runs, resume_s = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    return DeadlineRequests(
        gpus=gpus.astype(np.int64),
        needs_s=needs_s.astype(np.float64),
        since_s=np.full(count, START_S),
        due_s=START_S + within_s.astype(np.float64),
        rows=np.ones((count, 1), dtype=np.bool_),
        stoppable=np.ones(count, dtype=np.bool_),
        job_id=np.arange(1, count + 1),
        runs=runs.astype(np.bool_),
        resume_s=resume_s.astype(np.float64),
    )


def turns(held: DeadlineRequests, gpus: int, now_s: float = START_S) -> TurnsAhead:
    beat_s = (now_s // BEAT_S + 1) * BEAT_S
    return TurnsAhead(now_s, beat_s, BEAT_S, Room(np.array([now_s]), np.array([[gpus]])), held)


def test_a_wide_job_and_a_narrow_one_that_fit_by_their_gpu_time_alone_are_not_both_in_time():
    held = jobs((8, 1800, 3300, False, 0), (1, 1500, 2700, False, 0))
    assert turns(held, 9).fewest_late()[0] == 0
    assert turns(held, 8).fewest_late()[0] == 0
    assert turns(replace(held, due_s=held.due_s - 300.0), 8).fewest_late()[0] == 1


def test_a_stop_costs_its_job_the_time_to_be_as_far_again():
    for resume_s, late in ((0, 0), (400, 1)):
        held = jobs((1, 600, 1500, True, resume_s), (1, 600, 700, False, resume_s))
        assert turns(held, 1).fewest_late()[0] == late


def test_a_job_goes_on_where_its_stop_would_make_it_late_though_another_is_due_first():
    held = jobs((1, 450, 1000, True, 600), (1, 300, 900, False, 0))
    fewest, chosen = turns(held, 1).fewest_late()
    assert (fewest, chosen.tolist()) == (0, [True, False])


def test_a_job_that_would_be_late_otherwise_goes_before_earlier_deadlines():
    held = jobs((1, 300, 2000, False, 0), (1, 3000, 3200, False, 0), (1, 300, 1900, False, 0))
    assert turns(held, 2).fewest_late()[0] == 0
    assert turns(held, 2).fewest_late()[1].tolist() == [False, True, True]


def test_a_job_that_is_late_whatever_happens_takes_no_turn_from_others():
    held = jobs((1, 900, 800, False, 0), (1, 600, 700, False, 0))
    fewest, chosen = turns(held, 1).fewest_late()
    assert (fewest, chosen.tolist()) == (0, [False, True])


JOBS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2, 4]),
        st.integers(100, 4000),
        st.integers(0, 6000),
        st.booleans(),
        st.sampled_from([0, 60, 200]),
    ),
    min_size=1,
    max_size=8,
)


@examples(60)
@given(JOBS, st.data())
def test_whoever_follows_the_turns_from_any_moment_keeps_as_many_promises_as_they_said(rows, data):
    gpus, needs_s, spare_s, ran, resume_s = (np.array(column) for column in zip(*rows, strict=True))
    runs = ran & (np.cumsum(np.where(ran, gpus, 0)) <= 4)
    held = jobs(*zip(gpus, needs_s, needs_s + spare_s, runs, resume_s, strict=True))
    now_s, missed, said = START_S, 0, turns(held, 4).fewest_late()[0]
    while len(held):
        plan = turns(held, 4, now_s)
        late, chosen = plan.fewest_late()
        assert missed + late <= said
        assert held.gpus[chosen].sum() <= 4
        whole_s = plan.beat_s - now_s
        step_s = data.draw(st.sampled_from([whole_s, whole_s, 0.5 * whole_s]))
        left_s = held.needs_s - np.where(chosen, step_s, 0.0) + np.where(held.runs & ~chosen, held.resume_s, 0.0)
        now_s += step_s
        held = replace(held, needs_s=left_s, runs=chosen).take(left_s > 1e-6)
        lost = now_s + held.needs_s > held.due_s + 1e-3
        missed += int(lost.sum())
        held = held.take(~lost)
    assert missed <= said

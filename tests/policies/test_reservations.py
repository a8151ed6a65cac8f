"""Starts in free GPUs over time, beside a search of every moment."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.policies.deadlines.reservations import Room

ROWS, LONG_S = 3, 1e6
GPUS = st.integers(-2, 4)
ROOMS = st.lists(st.tuples(st.integers(1, 9), st.tuples(GPUS, GPUS, GPUS)), min_size=1, max_size=90)
JOBS = st.tuples(
    st.lists(st.booleans(), min_size=ROWS, max_size=ROWS),
    st.integers(1, 4),  # GPUs
    st.integers(1, 20),  # seconds
    st.integers(0, 300),  # since
    st.one_of(st.integers(1, 500), st.just(np.inf)),  # due
)


def room_of(stretches):
    lengths, free = zip(*stretches, strict=True)
    begins_s = np.concatenate([[0.0], np.cumsum(lengths)[:-1]])
    return Room(begins_s, np.array(free, dtype=np.int64).T)


def free_at(room, at_s):
    return room.free[:, np.searchsorted(room.begins_s, at_s, side="right") - 1]


def fits(room, rows, gpus, needs_s, start_s):
    """Whole seconds are enough, since all times here are such."""
    last_s = int(min(start_s + needs_s, room.begins_s[-1] + 1))
    return any(rows) and all(
        (free_at(room, at_s)[rows] >= gpus).all() for at_s in range(int(start_s), max(last_s, int(start_s) + 1))
    )


@examples(150)
@given(ROOMS, JOBS)
def test_the_earliest_start_is_the_first_moment_at_which_a_job_fits(stretches, job):
    (rows, gpus, needs_s, since_s, _), room = job, room_of(stretches)
    starts_s = [s for s in range(since_s, int(room.begins_s[-1]) + since_s + 2) if fits(room, rows, gpus, needs_s, s)]
    start_s = room.earliest(np.array(rows), gpus, float(needs_s), float(since_s))
    assert start_s == starts_s[0] if starts_s else np.isnan(start_s)


@examples(150)
@given(ROOMS, JOBS)
def test_the_latest_start_is_the_last_moment_from_which_a_job_ends_in_time(stretches, job):
    (rows, gpus, needs_s, since_s, due_s), room = job, room_of(stretches)
    if np.isinf(due_s):
        endless = any(rows) and (room.free[rows, -1] >= gpus).all()
        due_s = LONG_S if endless else room.begins_s[-1]  # any start is late enough if the last stretch has room
    last_s = int(min(due_s - needs_s, room.begins_s[-1] + since_s + 1))
    starts_s = [s for s in range(since_s, last_s + 1) if fits(room, rows, gpus, needs_s, s)]
    start_s = room.latest(np.array(rows), gpus, float(needs_s), float(since_s), float(due_s))
    if not starts_s:
        assert np.isnan(start_s)
    elif starts_s[-1] == last_s and last_s < due_s - needs_s:
        assert start_s == due_s - needs_s, "the last stretch never ends"
    else:
        assert start_s == starts_s[-1]


@examples(150)
@given(ROOMS, st.tuples(GPUS, GPUS, GPUS), st.integers(0, 400), st.one_of(st.integers(0, 400), st.just(np.inf)))
def test_gpus_are_lost_in_the_interval_alone(stretches, gpus, from_s, lasts_s):
    room, before = room_of(stretches), room_of(stretches)
    until_s = from_s + float(lasts_s)
    room.lose(np.array(gpus), float(from_s), until_s)
    for at_s in range(int(before.begins_s[-1]) + 450):
        lost = np.array(gpus) if from_s <= at_s < until_s else np.zeros(ROWS)
        assert (free_at(room, at_s) == free_at(before, at_s) - lost).all()
    assert (np.diff(room.begins_s) > 0).all()
    assert room.free.shape == (ROWS, len(room.begins_s))

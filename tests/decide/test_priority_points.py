"""Points for an order: strictly falling, within bounds, with the fewest writes."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.decide.ordering.priority_points import MOST_POINTS, Labelling, label


def labelled(base, points, floor=0, cap=MOST_POINTS) -> Labelling:
    return label(np.array(base, dtype=np.int64), np.array(points, dtype=np.int64), floor, cap)


def queues(most: int, jobs: int = 12):
    numbers = st.integers(0, most)
    return st.integers(0, jobs).flatmap(
        lambda count: st.tuples(
            st.lists(numbers, min_size=count, max_size=count),
            st.lists(numbers, min_size=count, max_size=count),
            numbers,
            st.integers(1, 3 * most),
        )
    )


def fewest_writes(base: list[int], points: list[int], floor: int, cap: int) -> int | None:
    """By trying every set of jobs that keep their points; None where no points within the cap give the order."""

    def possible(kept: tuple[int, ...]) -> bool:
        follows = floor
        for row in reversed(range(len(base))):  # the lowest priority that is still above what follows
            if row in kept:
                if base[row] + points[row] <= follows or points[row] > cap:
                    return False
                follows = base[row] + points[row]
            else:
                follows = max(base[row], follows + 1)
                if follows > base[row] + cap:
                    return False
        return True

    rows = range(len(base))
    for writes in range(len(base) + 1):
        if any(possible(kept) for kept in combinations(rows, len(base) - writes)):
            return writes
    return None


@given(queues(6, jobs=7))
@examples(400)
def test_no_points_would_give_the_order_with_fewer_writes(queue):
    base, points, floor, cap = queue
    result = labelled(base, points, floor, cap)
    fewest = fewest_writes(base, points, floor, cap)
    assert (fewest is None) == bool(result.capped.any())
    if fewest is not None:
        assert int((result.points != points).sum()) == fewest


@given(queues(2000, jobs=60))
@examples(300)
def test_priorities_fall_strictly_and_stay_above_those_that_follow(queue):
    base, points, floor, cap = queue
    result = labelled(base, points, floor, cap)
    seen = np.array(base) + result.points
    free = ~result.capped
    assert (np.diff(seen[free]) < 0).all(), "who is not capped stands where it should"
    assert (seen[free] > floor).all()


@given(queues(2000, jobs=60))
@examples(300)
def test_points_stay_between_nothing_and_the_cap(queue):
    base, points, floor, cap = queue
    result = labelled(base, points, floor, cap)
    assert ((result.points >= 0) & (result.points <= cap)).all()


@given(queues(30, jobs=40), st.sampled_from([1, 1000]))
@examples(500)
def test_labelling_again_changes_nothing_capped_or_not(queue, scale):
    base, points, floor, cap = queue
    base = [scale * value for value in base]
    first = labelled(base, points, floor, cap)
    second = labelled(base, first.points, floor, cap)
    assert second.points.tolist() == first.points.tolist()
    assert second.capped.tolist() == first.capped.tolist()


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50), st.data())
@examples(100)
def test_a_job_that_comes_in_between_is_the_only_one_written(base, data):
    settled = [5000 * (len(base) - place) - own for place, own in enumerate(base)]
    at = data.draw(st.integers(0, len(base)))
    new = data.draw(st.integers(0, min(base)))
    result = labelled([*base[:at], new, *base[at:]], [*settled[:at], 0, *settled[at:]])
    assert np.delete(result.points, at).tolist() == settled


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=50), st.data())
@examples(100)
def test_a_job_that_leaves_costs_no_write(base, data):
    settled = labelled(base, [0] * len(base)).points.tolist()
    at = data.draw(st.integers(0, len(base) - 1))
    del base[at], settled[at]
    assert labelled(base, settled).points.tolist() == settled


def test_jobs_that_come_at_the_end_as_others_start_cost_one_write_each():
    points = labelled([0] * 100, [0] * 100).points.tolist()
    for _ in range(200):
        points = points[5:]
        now = labelled([0] * 100, [*points, *[0] * 5]).points.tolist()
        assert now[:95] == points
        points = now


def test_jobs_the_cap_keeps_back_still_stand_in_order_among_themselves():
    base = [0, 0, 0, 10_000]  # three short jobs of an account that had its share, and one of an account that had not
    result = labelled(base, [0] * 4, cap=1000)
    assert result.capped.tolist() == [True, True, True, False]
    seen = np.array(base) + result.points
    assert seen[3] > seen[0] > seen[1] > seen[2]


def test_who_can_reach_nothing_gets_all_the_points_there_are():
    result = labelled([0], [0], floor=500, cap=10)
    assert (result.points.tolist(), result.capped.tolist()) == ([10], [True])


def test_a_job_that_may_not_go_as_high_as_its_neighbours_gap_suggests_still_gets_its_place():
    result = labelled([200, 0, 0, 140], [0, 0, 0, 0], cap=150)
    assert not result.capped.any()
    assert (np.diff(np.array([200, 0, 0, 140]) + result.points) < 0).all()


def test_negative_points_that_somebody_else_gave_are_replaced():
    assert (labelled([5, 5], [-3, -9]).points >= 0).all()


def test_no_jobs_no_points():
    assert len(labelled([], []).points) == 0


@pytest.mark.parametrize(("cap", "limit_s"), [(MOST_POINTS, 0.001), (1000, 0.002)], ids=["free", "capped"])
def test_five_hundred_jobs_take_about_a_millisecond_at_worst(cap, limit_s):
    random = np.random.default_rng(1)
    base, points = random.integers(0, 1500, 500), random.integers(0, 1000, 500)

    def took_s() -> float:
        began_s = time.process_time()
        label(base, points, 0, cap)
        return time.process_time() - began_s

    assert min(took_s() for _ in range(100)) < 2 * limit_s

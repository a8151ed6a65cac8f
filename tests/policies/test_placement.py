"""Placements: a job is placed whole, within what is free, on as few nodes as its placement promises."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.policies.placement import CONSOLIDATE, FIRST_FREE, QUASI, place

NODE = 4
FREE = st.lists(st.integers(0, NODE), min_size=1, max_size=6)


def placed(how, free, gpus):
    """GPUs on each node; None where the job does not start."""
    room = np.array(free)
    nodes, taken = np.zeros((2, len(free)), dtype=np.int64)
    count = place(how, room, NODE, gpus, nodes, taken)
    assert room.tolist() == list(free)
    if not count:
        return None
    on = dict(zip(nodes[:count].tolist(), taken[:count].tolist(), strict=True))
    assert len(on) == count, "each node once"
    assert all(0 < gpus_on <= free[node] for node, gpus_on in on.items())
    assert sum(on.values()) == gpus
    return on


@given(FREE, st.integers(1, 20))
def test_quasi_consolidated_jobs_start_wherever_enough_gpus_are_free_and_are_spread_only_where_they_must(free, gpus):
    quasi, consolidated = placed(QUASI, free, gpus), placed(CONSOLIDATE, free, gpus)
    assert (quasi is None) == (sum(free) < gpus) == (placed(FIRST_FREE, free, gpus) is None)
    if consolidated is not None:
        assert quasi == consolidated
    elif quasi is not None:
        most = sorted(free, reverse=True)
        assert sum(most[: len(quasi) - 1]) < gpus, "no fewer nodes have room"

"""What backfill starts beside a planned job: a real Slurm and the modelled one agree."""

from __future__ import annotations

import pytest

from .conftest import FakeWorld
from .test_slurm_port import fill, pending, running


def test_backfill_keeps_the_whole_node_of_a_planned_job(world):
    """Two of the four GPUs would do for it, and one more is free until then and after; the order alone decides."""
    if isinstance(world, FakeWorld):
        pytest.skip("the fake has no backfill")
    half = world.submit(240, gpus=3, limit_s=300, name="half")
    fill(world, nodes=3)
    world.until(lambda state: running(state, half), "three GPUs of a node taken")
    first = world.submit(30, gpus=2, name="first")
    beyond = world.submit(30, gpus=1, limit_s=600, name="beyond")
    before = world.submit(200, gpus=1, limit_s=60, name="before")
    state = world.until(lambda state: running(state, before), "a job that ends before the planned one starts")
    assert pending(state, first, beyond), "a job that outlasts the planned start shares no node with it"

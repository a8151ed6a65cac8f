"""GPU-hours that jobs wait for GPUs that are free and do not lie together."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.nodes import PartitionTable, QosTable
from slurmsched.cluster.state import ClusterState
from slurmsched.cluster.topology import Topology, Unit
from slurmsched.decide.fragmented_waits import Fragmentation, FragmentedWaits, fragmented_waits
from slurmsched.simulator.cluster_spec import nodes_of

BLOCKS = Topology(
    "block", (tuple(Unit(f"b{at}", tuple(f"n{4 * at + node}" for node in range(1, 5)), 4) for at in range(3)),)
)


def state(used, topology=BLOCKS, **jobs):
    """Three blocks of four nodes of four GPUs with *used* of each, and waiting jobs."""
    nodes = nodes_of(12, 4, gpus_used=np.array(used), cpus_used=np.zeros(12, dtype=np.int64))
    many = len(jobs["gpus"])
    table = {"job_id": np.arange(1, many + 1), "reason": ["Resources"] * many, "priority": [10] * many} | jobs
    waiting, none = job_table(many, **table), job_table(0)
    tables = (table_of(PartitionTable, 0, {}, {}), table_of(QosTable, 0, {}, {}))
    return ClusterState(waiting, none, none, nodes, *tables, topology=topology)


ONE_BUSY_IN_EACH = [4, 0, 0, 0] * 3


@pytest.mark.parametrize(
    ("used", "gpus", "nodes", "over"),
    [
        (ONE_BUSY_IN_EACH, 16, 4, "blocks"),
        (ONE_BUSY_IN_EACH, 12, 3, None),
        (ONE_BUSY_IN_EACH, 48, 12, None),
        ([2] * 12, 4, 1, "nodes"),
        ([2] * 12, 2, 1, None),
        ([1] * 12, 16, 4, "nodes"),
        ([4] * 12, 4, 1, None),
    ],
)
def test_a_job_waits_for_what_is_free_and_does_not_lie_together(used, gpus, nodes, over):
    found = [one.over for one in fragmented_waits(state(used, gpus=[gpus], nodes=[nodes]))]
    assert found == ([over] if over else [])


def test_free_gpus_count_for_the_first_job_that_could_have_them_alone():
    many = state(ONE_BUSY_IN_EACH, gpus=[16, 16, 16], nodes=[4, 4, 4])
    assert [one.row for one in fragmented_waits(many)] == [0, 1], "36 GPUs are free"


@pytest.mark.parametrize("reason", ["Priority", "Dependency", "JobHeldUser", "BeginTime"])
def test_a_job_that_waits_for_something_else_does_not_count(reason):
    assert not list(fragmented_waits(state(ONE_BUSY_IN_EACH, gpus=[16], nodes=[4], reason=[reason])))


def test_hours_count_from_the_second_time_that_a_job_is_seen_so():
    waits = FragmentedWaits()
    for at_s in (0.0, 60.0, 120.0, 5000.0):
        waits.observe(state(ONE_BUSY_IN_EACH, gpus=[16], nodes=[4]), at_s)
    assert waits.table() == (Fragmentation("blocks", pytest.approx(16 * (60 + 60 + 300) / 3600), 1),)
    waits.observe(state(ONE_BUSY_IN_EACH, gpus=[12], nodes=[3]), 5060.0)
    assert waits.table()[0].jobs == 1


def test_gpus_of_another_type_are_not_free_for_a_job():
    there = state([2] * 12, gpus=[4], nodes=[1], gpu_type=Labels.of(["v100"]))
    assert not list(fragmented_waits(there))

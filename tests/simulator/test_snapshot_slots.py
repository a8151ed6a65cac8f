"""A simulation that goes on from a cluster on which jobs share GPUs."""

from __future__ import annotations

import numpy as np

from slurmsched.cluster.actions import Share, StartShared
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.state import View
from slurmsched.foresee.snapshot import resumed
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import workload


def view_of(cluster: SimulatedCluster) -> View:
    state, model = cluster.observe(), RuntimeModel.fit(outcomes_of(()))
    return View(
        cluster.now_s,
        state.pending,
        state.running,
        state.nodes,
        state.partitions,
        state.qos,
        model.forecast(state.pending, cluster.now_s),
        model.forecast(state.running, cluster.now_s),
    )


def test_jobs_keep_their_slots_and_those_on_the_way_get_theirs():
    parts = partition_of("gpu", "n1").joined(partition_of("shared", "n2"))
    nodes = nodes_of(2, 4, partitions=["gpu", "shared"], cpus=np.full(2, 16))
    jobs = workload(
        5,
        job_id=np.arange(1, 6),
        submit_s=np.zeros(5),
        runtime_s=np.full(5, 300.0),
        gpus=[4, 2, 2, 2, 4],
        partition=["gpu"] * 5,
        time_limit_s=np.full(5, 600.0),
    )
    cluster = SimulatedCluster(jobs, ClusterSpec(nodes, parts, ClusterSpec.of(1, 1).qos, shared="shared"))
    cluster.advance(10.0)
    for job in (2, 3, 4):
        cluster.act([Share(job, "gpu", "shared", "n2", "0+3", "", 1e9)])
    cluster.act([StartShared(2, "0+3"), StartShared(3, "0+3")])
    cluster.advance(60.0)
    before = cluster.observe()
    again = resumed(view_of(cluster), {})
    again.validate()
    for name in ("job_id", "per_node", "partition", "node_list", "gpus", "started_s"):
        for table in ("pending", "running"):
            expected, found = (getattr(getattr(state, table), name) for state in (before, again.observe()))
            assert list(found) == list(expected) or np.array_equal(found, expected, equal_nan=True), name
    assert again.observe().nodes.gpus_used.tolist() == [4, 4]
    assert again.act([StartShared(4, "0+3")])[0].refused is None
    again.advance(120.0)
    assert 4 in again.observe().pending.job_id, "both slots are taken"
    again.advance(1e6)
    again.validate()
    assert again.drained
    ran_s = (again.model.stage.life.ended_s - again.model.stage.life.started_s)[1:3]
    assert (ran_s <= 600.0).all(), "what they lose beside each other is in their forecasts"

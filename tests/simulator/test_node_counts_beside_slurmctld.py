"""Numbers of nodes beside a modelled slurmctld: gangs stay whole, and no GPU is given twice."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.text.hostlist import expand
from slurmsched.cycle import CycleReport
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import ResizingRules, Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import Workload, workload

NODES, SIZE = 4, 4


@st.composite
def gangs(draw) -> Workload:
    """Jobs on one node or several, with ranges or without."""
    count = draw(st.integers(1, 10))

    def some(*values):
        return np.array(draw(st.lists(st.sampled_from(values), min_size=count, max_size=count)))

    nodes, each = some(1, 1, 2, 3), some(1, 2, 3, 4)
    gpus, ranged = nodes * each, some(True, True, False)
    return workload(
        count,
        job_id=np.arange(1, count + 1),
        submit_s=np.sort(some(0.0, 10.0, 500.0, 2000.0, 5000.0)),
        runtime_s=some(50.0, 900.0, 4000.0),
        time_limit_s=np.full(count, 9000.0),
        gpus=gpus,
        nodes=nodes,
        cpus=some(1, 2),
        least_gpus=np.where(ranged, np.maximum(gpus // 2, 1), 0),
        most_gpus=np.where(ranged, 2 * gpus, 0),
        ckpt=ranged,
    )


@given(gangs())
@examples(30)
def test_whatever_is_changed_a_gang_has_whole_nodes_and_no_gpu_is_given_twice(jobs):
    resizing = ResizingRules(least_s=300.0, restart_s=20.0, stop_s=30.0, nodes=True)
    rules = Rules(powers=frozenset({"order", "requeue", "hold", "resize"}), scope="queue", resizing=resizing)
    cluster = SimulatedCluster(jobs, ClusterSpec.of(NODES, SIZE), checked=True)
    fifo, each = find_ordering("fifo"), jobs.gpus // np.maximum(jobs.nodes, 1)

    def whole(report: CycleReport) -> None:
        used = np.zeros(NODES, dtype=np.int64)
        running, names = report.view.running, list(report.view.nodes.name)
        for row in range(len(running)):
            at = int(running.job_id[row]) - 1
            on = [int(gpus) for gpus in running.node_gpus[row].split(",")]
            assert sum(on) == running.gpus[row]
            assert len(on) == 1 or set(on) == {int(each[at])}, "as many on each node as its owner asked for"
            assert jobs.nodes[at] > 1 or len(on) == 1, "it stays on one node"
            if jobs.most_gpus[at]:
                assert jobs.least_gpus[at] <= running.gpus[row] <= jobs.most_gpus[at]
            for name, gpus in zip(expand(running.node_list[row]), on, strict=True):
                used[names.index(name)] += gpus
        assert (used <= SIZE).all()

    forecast = forecast_of(jobs, Setup(fifo, "easy"), None)
    CycleDriver(cluster, Policy(fifo, rules), FixedForecast(jobs.job_id, forecast), every_s=10.0, watch=whole).run()
    assert cluster.drained, "every job ends"

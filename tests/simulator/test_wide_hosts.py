"""Jobs that join wider ones on the modelled Slurm, by the daemon's own cycles: which GPUs they get, and with whom."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import trace

from examples import examples
from slurmsched.cluster.text.tres import slots_in
from slurmsched.cycle import CycleReport
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules, SharingRules
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec, Sharing, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.engine.job_state import COMPLETED
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig

LAB = SlurmConf(SlurmctldConfig(batch_sched_delay_s=0.0, bf_interval_s=10.0, bf_resolution_s=1.0))
PAIRS = Sharing(("light",), np.array([[0.9]]))
MEASURED = ((0.0, 30.0, 4, "alice"), (0.0, 30.0, 4, "bob"))  #: runs after which the kinds of both users are known


@dataclass
class SharedGpus:
    """The jobs beside each other in the cycles of a run, checked in each of them."""

    cluster: SimulatedCluster
    other_users: bool
    pairs: set[tuple[int, int]]  #: the wider one first

    def watch(self, report: CycleReport) -> None:
        """Check that jobs on one GPU are two at most, and that one has all GPUs of the other and came first."""
        self.cluster.validate()
        jobs = report.view.running
        there = {
            int(jobs.job_id[row]): (set(slots_in(jobs.per_node[row])), float(jobs.started_s[row]), jobs.user[row])
            for row in np.flatnonzero(jobs.shares).tolist()
        }
        for one, other in combinations(there, 2):
            (mine, mine_s, user), (its, its_s, its_user) = there[one], there[other]
            if not mine & its:
                continue
            assert mine <= its or its <= mine
            assert mine == its or (mine_s <= its_s) == (len(mine) > len(its))
            assert user == its_user or self.other_users
            if mine != its:
                self.pairs.add((one, other) if len(mine) > len(its) else (other, one))
        on_gpus = [gpu for gpus, *_ in there.values() for gpu in gpus]
        assert all(on_gpus.count(gpu) <= 2 for gpu in on_gpus)


def ran(*rows: tuple[float, float, int, str], **rules: object) -> SharedGpus:
    """Run jobs of (submit, runtime, GPUs, user) on n1 with four whole GPUs, and n2 where four are shared."""
    jobs = trace(
        *[row[:3] for row in rows],
        name=["light"] * len(rows),
        work=["light"] * len(rows),
        user=[user for *_, user in rows],
        partition=["gpu"] * len(rows),
        nodes=np.ones(len(rows)),
        time_limit_s=[2 * runtime_s for _, runtime_s, *_ in rows],
        gpu_util=np.full(len(rows), 0.1),
        memory_util=np.full(len(rows), 0.05),
        gpu_memory_mib=np.full(len(rows), 3000.0),
    )
    parts = partition_of("gpu", "n1").joined(partition_of("shared", "n2"))
    nodes = nodes_of(2, 4, partitions=["gpu", "shared"], cpus=np.full(2, 32))
    fleet = ClusterSpec(nodes, parts, ClusterSpec.of(1, 1).qos, sharing=PAIRS, shared="shared")
    cluster = SimulatedCluster(jobs, fleet, LAB, checked=True)
    sharing = SharingRules(**({"memory_mib": 20_000.0, "wait_s": 10.0} | rules))
    policy = Policy(find_ordering("fifo"), Rules(powers=frozenset({"order", "share"}), scope="queue", sharing=sharing))
    forecast = FixedForecast(jobs.job_id, forecast_of(jobs, Setup.of("sjf"), None))
    shared = SharedGpus(cluster, sharing.other_users, set())
    CycleDriver(cluster, policy, forecast, every_s=5.0, watch=shared.watch).run()
    assert (cluster.model.stage.life.state == COMPLETED).all()
    return shared


#: A job that holds the whole GPUs, and then one that comes first to the shared ones.
BUSY = (*MEASURED, (1.0, 2000.0, 4, "alice"), (100.0, 400.0, 4, "alice"))


def test_jobs_join_a_wider_one_on_some_of_its_gpus_and_go_on_when_it_ends():
    guests = [(200.0, 500.0, gpus, "alice") for gpus in (1, 2, 1)]
    shared = ran(*BUSY, *guests)
    assert shared.pairs == {(4, 5), (4, 6), (4, 7)}
    life = shared.cluster.model.stage.life
    beside_s = life.ended_s[3] - life.started_s[4:]
    assert (life.ended_s - life.started_s)[4:] == pytest.approx(500.0 + 0.1 * beside_s), "at full speed after its end"
    assert (beside_s < 500.0).all()
    assert ran(*BUSY, *guests, wide=False).pairs == set()


def test_jobs_of_another_user_join_a_wider_one_only_where_users_may_share():
    guests = [(200.0, 300.0, 2, "bob")]
    assert ran(*BUSY, *guests, other_users=True).pairs == {(4, 5)}
    assert ran(*BUSY, *guests).pairs == set()


@examples(15)
@given(
    st.lists(
        st.tuples(
            st.integers(60, 400).map(float),
            st.integers(50, 600).map(float),
            st.sampled_from([1, 1, 2, 3, 4]),
            st.sampled_from(["alice", "alice", "bob"]),
        ),
        min_size=4,
        max_size=14,
    ),
    st.booleans(),
)
def test_in_any_queue_a_gpu_has_two_jobs_at_most_and_a_guest_only_gpus_of_one_host_that_came_first(rows, other_users):
    ran(*BUSY[:3], *sorted(rows), other_users=other_users)

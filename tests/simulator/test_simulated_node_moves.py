"""The modelled Slurm carries out the moves of nodes that decide() returns, and a record of them replays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulator.worlds import trace

from slurmsched.cluster.actions import MoveNodes
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.records.node_loans import members
from slurmsched.db.store import Store
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import ProfilingRules, Rules
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.simulated_cluster import SimulatedCluster

RULES = Rules(powers=frozenset({"nodes"}), profiling=ProfilingRules("profile", home="gpu", t_s=200.0))
MODEL = RuntimeModel.fit(outcomes_of(()))
OWN = {"gpu": ("n2", "n3"), "profile": ("n1",)}


@pytest.fixture
def store():
    made = Store("sqlite://")
    made.upgrade()
    yield made
    made.close()


def lists(cluster):
    return {name: members(cluster.observe().partitions, name) for name in ("gpu", "profile")}


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not kept"])
def test_a_job_starts_on_the_node_that_came_for_the_held_one_and_the_nodes_go_back_after(store, kept):
    spec = ClusterSpec.of(3, 4)
    fleet = replace(
        spec,
        nodes=nodes_of(3, 4, partitions=Labels.of(["profile", "gpu", "gpu"])),
        partitions=partition_of("profile", "n1", tier=np.array([2])).joined(partition_of("gpu", "n[2-3]")),
    )
    jobs = trace((0.0, 1000.0, 4), (10.0, 100.0, 4), partition=["profile"] * 2)
    cluster = SimulatedCluster(jobs, fleet)
    policy = Policy(find_ordering("fifo"), RULES)
    reports = []
    driver = CycleDriver(cluster, policy, MODEL, store=store if kept else None, watch=reports.append)
    placed = set()
    for now_s in range(30, 1500, 30):
        cluster.advance(float(now_s))
        driver.cycle(float(now_s))
        running = cluster.observe().running
        placed |= set(zip(running.job_id.tolist(), running.node_list, strict=True))
    assert placed == {(1, "n1"), (2, "n2")}
    assert lists(cluster) == OWN
    moves = {report.now_s: report for report in reports if report.actions.get("MoveNodes")}
    assert [list(report.actions) for report in moves.values()] == [["MoveNodes"]] * len(moves)
    assert list(moves)[:2] == [210.0, 270.0], "the first after T_prof, the next a minute later"
    texts = [
        action.text for report in moves.values() for action in report.plan.actions if isinstance(action, MoveNodes)
    ]
    assert texts == [
        "profile=n[1-2] gpu=n3",
        "profile=n2 gpu=n[1,3]",
        "profile=n[1-2] gpu=n3",
        "profile=n1 gpu=n[2-3]",
    ]
    assert store.loans("simulation") == ()
    for report in reports if kept else ():
        record = store.decision(report.number)
        again = Policy.from_json(record.settings_json)
        plan = decide(record.view, again.ordering, again.rules)
        assert list(differences(record.plan, plan, record.view.pending)) == []

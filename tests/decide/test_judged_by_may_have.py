"""No power brings a job where Slurm would never let it have what it asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, nodes, partitions, running_jobs, view
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.actions import AskToStop, Resize, Steer
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.node_request import NodeRequest, read_request
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.decide.rules import MigrationRules, ResizingRules, RightsizingRules, Rules, SteeringRules
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

FIFO = find_ordering("fifo")
STEER = Rules(powers=frozenset({"steer"}), steering=SteeringRules(least_gain=1.1))
RIGHTSIZE = Rules(powers=frozenset({"rightsize"}), rightsizing=RightsizingRules(again_s=0.0))
RESIZE = Rules(powers=frozenset({"resize"}), resizing=ResizingRules(restart_s=120.0))
MIGRATE = Rules(powers=frozenset({"migrate", "requeue"}), migration=MigrationRules(overload=0.9, restart_s=1.0))


def room(cpus=(8, 8), memory_mib=(16_000, 16_000), used=(0, 0), types=("a100", "v100"), **more):
    """Two nodes with what jobs may have of them."""
    made = nodes((4, 4), used)
    return replace(
        made,
        cpus=np.array(cpus),
        memory_mib=np.array(memory_mib, dtype=np.float64),
        gpu_type=Labels.of(types),
        **{name: np.array(values) for name, values in more.items()},
    )


def actions(pending, rules, nodes_now, *, running=None, **limits):
    """What is done where all partitions have these *limits*; nothing is refused, for none is wished."""
    seen = view(pending, running=running, room=nodes_now)
    long_s = np.full(len(seen.running), 72_000.0)
    seen = replace(seen, forecast_running=replace(seen.forecast_running, runtime_s=long_s))
    seen = replace(seen, progress=slowed_down(seen.running))
    all_have = {name: np.full(len(seen.partitions), most) for name, most in limits.items()}
    plan = decide(replace(seen, partitions=partitions().changed(**all_have)), FIFO, rules)
    assert not plan.refusals
    return list(plan.actions)


def slowed_down(running):
    """Reports of running jobs: an iteration takes half as long again as at its best."""
    many = len(running)
    flags, unknown = np.zeros((2, many), dtype=np.bool_), np.full(many, np.nan)
    return ProgressTable(running.job_id, np.full(many, 5), *(unknown,) * 3, *flags, np.full(many, 1.5))


def sized(cpus, memory_mib, comment, **columns):
    request = str(NodeRequest(cpus, cpus, cpus, memory_mib, per_cpu=False))
    asked = {"cpus": [cpus], "memory_mib": [float(memory_mib)], "node_request": [request], "ntasks": [1]}
    return jobs(1, comment=[comment], **({"gpus": [4]} | asked | columns))


def asked_for(found):
    """CPUs and memory on a node by the one change of these, if there is one."""
    for wish in found:
        after = read_request(wish.after)
        return after.node_cpus(1), after.node_memory_mib(1)
    return None


@pytest.mark.parametrize(
    ("asked", "limits", "sent"),
    [
        ({"memory_mib": [12_000.0]}, {}, True),
        ({"memory_mib": [12_001.0]}, {}, False),
        ({"cpus": [6]}, {}, True),
        ({"cpus": [7]}, {}, False),
        ({"cpus": [2], "memory_mib": [6_000.0]}, {"cpu_memory_mib": 1_000.0}, True),
        ({"cpus": [2], "memory_mib": [6_001.0]}, {"cpu_memory_mib": 1_000.0}, False),
    ],
)
def test_a_job_is_sent_to_a_type_only_where_it_may_have_what_it_asks_for(asked, limits, sent):
    pending = jobs(1, type_speeds=["a100=1 v100=0.25"], **asked)
    wishes = actions(pending, STEER, room(cpus=(6, 8), memory_mib=(12_000, 16_000)), **limits)
    assert wishes == ([Steer(1, "a100", "n2")] if sent else [])


@pytest.mark.parametrize("limits", [{"node_cpus": 4}, {"node_memory_mib": 9_000.0}])
def test_a_job_that_no_partition_lets_run_is_sent_nowhere(limits):
    pending = jobs(1, type_speeds=["a100=1 v100=0.25"], cpus=[5], memory_mib=[9_001.0])
    assert actions(pending, STEER, room(), **limits) == []


@pytest.mark.parametrize(
    ("limits", "cpus", "given_to"),
    [
        ({}, (8, 8), (8, 4_000)),
        ({"node_cpus": 5}, (8, 8), (5, 4_000)),
        ({"node_cpus": 2}, (8, 8), None),
        ({}, (6, 6), (6, 4_000)),
        ({}, (5, 3), (5, 4_000)),
        ({"node_cpus": 1}, (8, 8), None),
    ],
)
def test_a_job_gets_no_more_cpus_than_a_partition_or_a_node_lets_it_have(limits, cpus, given_to):
    pending = sized(2, 4_000, "slurmsched:cpus=2-8,mem=4000")
    assert asked_for(actions(pending, RIGHTSIZE, room(cpus=cpus), **limits)) == given_to


@pytest.mark.parametrize(("most_mib", "given_to"), [(5_000.0, (2, 5_000)), (9_000.0, (2, 9_000)), (0.0, (2, 15_000))])
def test_a_job_gets_no_more_memory_than_a_partition_lets_it_have(most_mib, given_to):
    pending = sized(2, 4_000, "slurmsched:cpus=2,mem=4000M-15000M")
    assert asked_for(actions(pending, RIGHTSIZE, room(), node_memory_mib=most_mib)) == given_to


def test_a_job_gets_no_more_memory_than_slurm_gives_with_its_cpus():
    pending = sized(4, 4_000, "slurmsched:cpus=4,mem=4000M-15000M")
    assert asked_for(actions(pending, RIGHTSIZE, room(), cpu_memory_mib=2_000.0)) == (4, 8_000)


def test_a_job_keeps_the_cpus_that_slurm_charges_for_its_memory():
    pending = sized(6, 12_000, "slurmsched:cpus=1-6,mem=9000M-12000M", gpus=[1])
    used = room(used=(4, 4), cpus_used=(8, 8), memory_used_mib=(16_000.0, 16_000.0))
    assert asked_for(actions(pending, RIGHTSIZE, used, cpu_memory_mib=2_000.0)) == (5, 9_000)
    assert asked_for(actions(pending, RIGHTSIZE, used)) == (2, 9_000)


@pytest.mark.parametrize("limits", [{"node_cpus": 4}, {"node_memory_mib": 7_000.0}, {"cpu_memory_mib": 800.0}])
def test_a_job_that_may_not_have_its_cpus_or_memory_there_gets_no_other_number_of_gpus(limits):
    pending = jobs(1, gpus=[2], cpus=[5], memory_mib=[8_000.0], comment=["slurmsched:gpus=2-4,ckpt"])
    assert [one for one in actions(pending, RESIZE, room(types=("", ""))) if isinstance(one, Resize)]
    assert not actions(pending, RESIZE, room(types=("", "")), **limits)


def test_a_job_grows_only_on_nodes_that_may_give_it_the_rest():
    pending = jobs(1, gpus=[2], cpus=[7], comment=["slurmsched:gpus=2-8,ckpt"])
    uneven = replace(room(types=("", ""), cpus=(8, 6)), gpus=np.array([3, 8]))
    assert [one.gpus for one in actions(pending, RESIZE, uneven) if isinstance(one, Resize)] == [3]


@pytest.mark.parametrize("limits", [{"node_cpus": 3}, {"node_memory_mib": 8_999.0}])
def test_a_job_leaves_an_overloaded_node_only_for_one_that_may_hold_it(limits):
    running = running_jobs(1, ckpt=[True], gpus=[1], cpus=[4], memory_mib=[9_000.0])
    loads = {"cpu_load": (12.0, 1.0), "free_memory_mib": (15_000.0, 15_000.0)}
    busy = room(types=("", ""), **loads)
    assert actions(jobs(0), MIGRATE, busy, running=running) == [AskToStop(901, "URG", "n1")]
    assert actions(jobs(0), MIGRATE, busy, running=running, **limits) == []


LIMIT = st.sampled_from([0, 1, 2, 3, 5, 8, 12])


@given(
    st.tuples(st.integers(1, 8), st.integers(1, 16)),
    st.tuples(st.integers(1, 8), st.integers(1, 16)),
    st.tuples(st.integers(1, 8), st.integers(1, 8)),
    st.tuples(LIMIT, LIMIT, LIMIT),
    st.sampled_from(["gpu", "gpu,fast"]),
)
def test_whatever_limits_there_are_a_size_is_one_that_the_job_may_have(own, best, cpus, limits, partition):
    pending = sized(own[0], own[1] * 1000, f"slurmsched:cpus=1-{best[0]},mem=1G-{best[1]}G", partition=[partition])
    node_cpus, node_mib, cpu_mib = limits
    for one in actions(
        pending,
        RIGHTSIZE,
        room(cpus=cpus),
        node_cpus=node_cpus,
        node_memory_mib=node_mib * 1e3,
        cpu_memory_mib=cpu_mib * 1e3,
    ):
        after = read_request(one.after)
        assert after.cpus <= min(max(cpus), node_cpus or 8)
        assert after.memory_mib <= min(16_000, node_mib * 1e3 or np.inf)
        assert after.memory_mib <= (cpu_mib * 1e3 or np.inf) * after.cpus

"""A job that a change of ours keeps from starting gets its own back, and that change is not repeated.

The reasons and priorities are those that a real Slurm 22.05.8 showed after each of these changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from views import NOW_S, forecast, jobs, nodes, running_jobs, view

from slurmsched.cluster.actions import AskToStop, Avoid, MovePartition, Resize, RestoreSize, Rightsize, Steer, Unsteer
from slurmsched.cluster.avoided import Avoided
from slurmsched.cluster.node_request import NodeRequest
from slurmsched.cluster.plan import Standing
from slurmsched.decide.not_repeated import REST_S
from slurmsched.decide.rules import ProfilingRules, ResizingRules, RightsizingRules, Rules, SteeringRules
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

FIFO = find_ordering("fifo")
POWERS = frozenset({"order", "steer", "rightsize", "resize", "requeue"})
RULES = Rules(
    powers=POWERS,
    steering=SteeringRules(),
    rightsizing=RightsizingRules(accounts=("astro",)),
    resizing=ResizingRules(),
)
BLOCKED = [
    ("BadConstraints", 0),  # nodes that are left lack what it asks for; CPUs beyond MaxCPUsPerNode or CPUEfctv
    ("MaxMemPerLimit", 500),  # memory beyond MaxMemPerNode
    ("PartitionNodeLimit", 500),
    ("QOSMinGRES", 100),
    ("QOSMaxCpuPerJobLimit", 100),
    ("QOSMaxCpuPerNode", 100),
    ("AssocMaxCpuPerJobLimit", 100),
    ("AssocMaxCpuPerNode", 100),
]
GROUPS = ["QOSGrpGRES", "QOSMaxGRESPerUser", "MaxMemoryPerAccount", "AssocGrpGRES", "AssocGrpGRESMinutes"]


def request(cpus, memory_mib):
    return str(NodeRequest(cpus, cpus, cpus, memory_mib, False))


OURS = {
    "steer": {"excluded_nodes": ["n[3-4]"], "steered": ["v100"], "steered_s": [NOW_S - 60.0]},
    "rightsize": {
        "node_request": [request(2, 4000)], "own_request": [request(6, 12_000)], "sized_s": [NOW_S - 60.0],
    },
    "resize": {
        "own_gpus": [2], "gpus": [4], "resized_s": [NOW_S - 60.0], "per_node": ["gres:gpu:4"],
        "comment": ["slurmsched:gpus=2-4,ckpt"],
    },
    "partition": {"own_partition": ["gpu,profile"]},
}  # fmt: skip
BACK = {
    "steer": Unsteer(1, "n[3-4]"),
    "rightsize": RestoreSize(1, request(2, 4000), request(6, 12_000)),
    "resize": Resize(1, 2, 4, 2),
    "partition": MovePartition(1, "gpu,profile", "gpu,profile"),
}
GIVEN = MovePartition | Steer | Unsteer | Rightsize | RestoreSize | Resize


def seen_with(reason, priority, *changes, room=None, **columns):
    ours = {name: value for change in changes for name, value in OURS[change].items()}
    usual = {"gpus": [1], "nodes": [1], "cpus": [2], "memory_mib": [4000], "account": ["astro"]}
    pending = jobs(1, **(usual | {"reason": [reason], "priority": [priority]} | ours | columns))
    return view(pending, room=nodes((4, 4), (4, 4)) if room is None else room)


def changes_of(seen, rules=RULES):
    plan = decide(seen, FIFO, rules)
    assert not plan.refusals
    return [action for action in plan.actions if isinstance(action, GIVEN)], plan


def noted(plan):
    return [action for action in plan.actions if isinstance(action, Avoid)]


@pytest.mark.parametrize("change", OURS)
@pytest.mark.parametrize(("reason", "priority"), BLOCKED)
def test_a_job_that_slurm_does_not_start_with_our_change_gets_its_own_back(reason, priority, change):
    found, plan = changes_of(seen_with(reason, priority, change))
    assert found == [BACK[change]]
    (note,) = noted(plan)
    assert note.changes == change
    assert note.reason == reason


def test_all_that_is_ours_goes_back_at_once():
    found, plan = changes_of(seen_with("BadConstraints", 0, *OURS))
    assert set(found) == set(BACK.values())
    assert noted(plan)[0].changes == "steer+rightsize+resize+partition"


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin"])
def test_a_hold_of_a_person_is_no_reason(reason):
    assert not noted(changes_of(seen_with(reason, 0, "rightsize"))[1])


def test_points_alone_are_no_change_of_its_request():
    found, plan = changes_of(seen_with("BadConstraints", 0, site_points=[50]))
    assert not found
    assert not noted(plan)


def test_a_job_of_several_partitions_is_blocked_only_if_slurm_took_its_priority():
    several = {"partition": ["gpu,other"]}
    assert not noted(changes_of(seen_with("MaxMemPerLimit", 500, "rightsize", **several))[1])
    assert noted(changes_of(seen_with("BadConstraints", 0, "rightsize", **several))[1])


@pytest.mark.parametrize("reason", GROUPS)
def test_for_limits_of_groups_only_what_was_enlarged_goes_back(reason):
    assert not noted(changes_of(seen_with(reason, 100, "rightsize"))[1]), "it was made smaller"
    larger = {"node_request": [request(6, 12_000)], "own_request": [request(2, 4000)]}
    assert changes_of(seen_with(reason, 100, "rightsize", **larger))[0] == [
        RestoreSize(1, request(6, 12_000), request(2, 4000))
    ]
    assert changes_of(seen_with(reason, 100, "resize"))[0] == [BACK["resize"]]
    fewer = {"own_gpus": [4], "gpus": [2], "per_node": ["gres:gpu:2"]}
    assert not noted(changes_of(seen_with(reason, 100, "resize", **fewer))[1]), "it was made smaller"


def remembered(plan, *changes, at_s=NOW_S, **columns):
    """What later cycles see of the job once it has its own back."""
    (note,) = noted(plan)
    text = str(Avoided(note.changes, at_s, note.request, note.limits, note.reason))
    ours = {"own_request": [""], "own_gpus": [0], "sized_s": [1.0], "resized_s": [1.0], "avoided": [text]}
    own = {"rightsize": {"node_request": [request(6, 12_000)], "cpus": [6], "memory_mib": [12_000]},
           "resize": {"gpus": [2], "per_node": ["gres:gpu:2"]}}  # fmt: skip
    given = {name: value for change in changes for name, value in own[change].items()}
    use = {"used_cpus": [0.5], "used_memory_mib": [900.0]}
    return seen_with("Resources", 500, *changes, **(ours | given | use | columns))


def test_the_change_is_not_repeated_until_its_request_or_the_limits_change():
    plan = changes_of(seen_with("MaxMemPerLimit", 500, "rightsize"))[1]
    again = remembered(plan, "rightsize")
    assert changes_of(again)[0] == []
    assert any(isinstance(a, Rightsize) for a in changes_of(remembered(plan, "rightsize", qos=["high"]))[0])
    lower = replace(again.partitions, node_memory_mib=np.full(len(again.partitions), 30_000.0))
    assert any(isinstance(a, Rightsize) for a in changes_of(replace(again, partitions=lower))[0])


def test_a_job_that_does_not_start_in_its_own_partition_alone_waits_in_both_for_good():
    rules = replace(RULES, powers=POWERS | {"partition"}, profiling=ProfilingRules(partition="profile"))
    both = {"partition": ["gpu,profile"], "measured": [True]}
    assert changes_of(seen_with("Resources", 5, **both), rules)[0] == [MovePartition(1, "gpu", "gpu,profile")]
    back, plan = changes_of(seen_with("PartitionTimeLimit", 5, "partition"), rules)
    assert back == [BACK["partition"]]
    note = str(Avoided("partition", NOW_S, noted(plan)[0].request, noted(plan)[0].limits, "PartitionTimeLimit"))
    again = seen_with("Resources", 5, **both, avoided=[note])
    assert changes_of(again, rules)[0] == []
    said = " ".join(why(again, changes_of(again, rules)[1], rules, 1).details)
    assert "We had changed its partitions, Slurm did not start it so (PartitionTimeLimit), and we gave" in said


def test_for_a_limit_that_others_use_up_it_is_not_repeated_for_a_while():
    plan = changes_of(seen_with("QOSMaxGRESPerUser", 100, "resize"))[1]
    rules, free = replace(RULES, rightsizing=None), {"room": nodes((4, 4), (0, 0))}
    sooner, later = (remembered(plan, "resize", at_s=NOW_S - REST_S + more_s, **free) for more_s in (60.0, -60.0))
    assert changes_of(sooner, rules)[0] == []
    assert any(isinstance(a, Resize) for a in changes_of(later, rules)[0])


def test_a_running_job_is_not_stopped_to_grow_into_a_limit_again():
    plan = changes_of(seen_with("QOSMaxGRESPerUser", 100, "resize"))[1]
    text = remembered(plan, "resize").pending.avoided[0]
    room = nodes((4,), (2,))
    usual = {
        "gpus": [2],
        "node_list": [room.name[0]],
        "comment": ["slurmsched:gpus=2-4,ckpt"],
        "started_s": [NOW_S - 10_000.0],
    }
    usual |= {"account": ["astro"], "per_node": ["gres:gpu:2"], "runtime_s": 1e6}
    runtime = usual.pop("runtime_s")
    stops = []
    for avoided in ("", text):
        running = running_jobs(1, **usual, avoided=[avoided], time_limit_s=[runtime])
        seen = view(jobs(0), running=running, room=room)
        seen = replace(seen, forecast_running=forecast([runtime]))
        stops.append([a for a in decide(seen, FIFO, RULES).actions if isinstance(a, AskToStop)])
    assert len(stops[0]) == 1
    assert stops[1] == []


def test_a_write_that_slurm_took_in_half_goes_back_whatever_the_reason():
    half = {"node_request": [""], "own_request": [request(6, 12_000)], "half_written": ["rightsize"]}
    found, plan = changes_of(seen_with("Resources", 500, "rightsize", **half))
    assert found == [RestoreSize(1, "", request(6, 12_000))]
    assert noted(plan)[0].reason == "half-taken"


def test_why_says_that_it_was_us_and_that_no_administrator_holds_it():
    seen = seen_with("BadConstraints", 0, "rightsize")
    plan = changes_of(seen)[1]
    assert plan.jobs.standing[0] == Standing.CANNOT_RUN
    said = why(seen, plan, RULES, 1)
    assert "We changed its CPUs and memory" in said.reason
    assert "BadConstraints" in said.reason
    assert "dministrator" not in " ".join(said.sentences)
    after = remembered(plan, "rightsize")
    words = " ".join(why(after, changes_of(after)[1], RULES, 1).details)
    assert "We had changed its CPUs and memory, Slurm did not start it so (BadConstraints), and we gave" in words

"""What keeps a waiting job from any start, and what is only said to be possible, rule by rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, nodes, view

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.nodes import NodeTable
from slurmsched.cluster.records.predictions import PredictionKind, prediction_table
from slurmsched.cluster.state import View
from slurmsched.decide.rules import Rules
from slurmsched.explain.causes import cause_of
from slurmsched.explain.eta import etas
from slurmsched.explain.obstacles import cannot_run, obstacle, obstacles
from slurmsched.explain.unexplained_waits import LOOKED_AT, SETTLED_S, unexplained
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide


def away(*states: str, **columns: object) -> NodeTable:
    """Return nodes of four GPUs in these states; those that are drained or down take no jobs."""
    usable = [not ("drain" in state or "down" in state) for state in states]
    return nodes((4,) * len(states)).changed(state=Labels.of(states), usable=np.array(usable), **columns)


def test_of_a_job_in_one_partition_slurms_reason_says_that_it_cannot_run():
    seen = view(jobs(1, reason=["PartitionNodeLimit"]))
    assert "Slurm says PartitionNodeLimit: its number of nodes" in cannot_run(seen)[0].why


def test_of_a_job_in_several_partitions_a_reason_that_is_of_one_of_them_says_nothing():
    several = {"partition": ["gpu,fast"], "reason": ["BadConstraints"]}
    assert cannot_run(view(jobs(1, **several))) == {}
    assert "Slurm says BadConstraints" in cannot_run(view(jobs(1, priority=[0], **several)))[0].why, "given up"


def test_what_we_count_goes_before_slurms_word():
    seen = view(jobs(1, gpus=[9], per_node=["gres:gpu:9"], reason=["BadConstraints"]))
    assert "has 9 GPUs (the most is 4)" in cannot_run(seen)[0].why
    assert obstacle(seen, 0)[0].startswith("It cannot run as it is: no node of partition gpu has 9 GPUs")


def test_of_a_job_that_waits_and_for_which_slurm_has_a_start_we_do_not_say_that_it_cannot_run():
    """Nodes and limits may have changed since we read them: nodes of a cloud that are not shown, for example."""
    asks = {"gpus": [9], "per_node": ["gres:gpu:9"], "eligible_s": [NOW_S - 60]}
    for reason, starts_s, can in (
        ("Resources", NOW_S + 60, True),
        ("Priority", np.nan, False),
        ("BadConstraints", NOW_S + 60, False),
    ):
        seen = view(jobs(1, reason=[reason], started_s=[starts_s], **asks))
        assert (cannot_run(seen) == {}) == can, (reason, starts_s)


def test_where_nodes_are_not_shown_too_few_of_those_that_are_is_no_reason():
    seen = view(jobs(1, nodes=[2]), room=away("idle", "drained"))
    assert obstacle(seen, 0)[0].startswith("Too few of the nodes")
    parts = seen.partitions.changed(unshown=Labels.of(["c[1-2]"] * len(seen.partitions)))
    assert obstacle(replace(seen, partitions=parts), 0)[0].startswith("Slurm does not show c[1-2]")


def test_a_job_that_asks_for_drained_nodes_is_told_which_why_and_since_when():
    room = away(
        "idle",
        "drained",
        down_reason=Labels.of(["", "bad fan"]),
        down_by=Labels.of(["", "ops"]),
        down_since_s=np.array([np.nan, NOW_S - 3600]),
    )
    seen = view(jobs(2, required_nodes=["n2", ""]), room=room)
    what, helps = obstacle(seen, 0)
    assert what == "It asks for a node that takes no jobs: n2 is drained for 60 min (bad fan, by ops)."
    assert "or without them: 'scontrol update jobid=1 reqnodelist='." in helps
    assert list(obstacles(seen)) == [0], "the other one has a node"


def test_a_job_that_needs_more_nodes_than_are_left_is_told_of_three_of_the_others():
    seen = view(jobs(1, nodes=[2]), room=away("idle", *["down"] * 5))
    assert obstacle(seen, 0)[0] == (
        "Too few of the nodes that it may use take jobs: n2 is down; n3 is down; n4 is down, and 2 more."
    )


def test_nodes_that_power_saving_switched_off_keep_no_job_from_its_start():
    room = away("idle", "idle+powered_down")
    seen = view(jobs(1, nodes=[2]), room=replace(room, usable=np.array([True, True])))
    assert obstacles(seen) == {}


WAITS = {"eligible_s": [NOW_S - SETTLED_S], "reason": ["Resources"]}


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"reason": ["None"]},
        {"reason": ["ReqNodeNotAvail, UnavailableNodes:n1"]},
        {"reason": ["PartitionNodeLimit"], "partition": ["gpu,fast"]},
    ],
)
def test_a_job_that_slurm_leaves_beside_idle_nodes_which_could_hold_it_is_said_to_be_in_doubt(columns):
    what, helps = unexplained(view(jobs(1, **(WAITS | columns))))[0]
    assert what.startswith("It may never start as it is")
    assert "scontrol show job 1" in helps


@pytest.mark.parametrize(
    "columns",
    [
        {"reason": ["Priority"]},
        {"reason": ["ReqNodeNotAvail, May be reserved for other job"]},
        {"reason": ["QOSGrpGRES"]},
        {"eligible_s": [NOW_S - SETTLED_S + 1]},
        {"started_s": [NOW_S + 600.0]},
        {"gpus": [5], "per_node": ["gres:gpu:5"]},
        {"priority": [0]},
        {"dependency": ["afterok:7"]},
        {"licences": ["matlab"]},
        {"reservation": ["course"]},
        {"het_job_id": [1]},
    ],
)
def test_a_job_that_waits_for_something_else_than_nodes_is_not_in_doubt(columns):
    assert unexplained(view(jobs(1, **(WAITS | columns)))) == {}


def test_nodes_in_use_and_those_that_slurm_plans_with_explain_a_wait():
    busy = nodes((4, 4), used=(1, 1))
    planned = nodes((4, 4)).changed(state=Labels.of(["idle+planned"] * 2))
    two = jobs(2, **{name: values * 2 for name, values in WAITS.items()})
    assert [unexplained(view(two, room=room)) for room in (busy, planned)] == [{}, {}]


def test_nodes_that_slurm_can_plan_with_for_this_job_alone_explain_no_wait():
    planned = nodes((4, 4)).changed(state=Labels.of(["idle+planned"] * 2))
    assert len(unexplained(view(jobs(1, **WAITS), room=planned))) == 1
    two = jobs(2, partition=["gpu", "fast,gpu"], **{name: values * 2 for name, values in WAITS.items()})
    assert unexplained(view(two, room=planned)) == {}


def test_behind_more_jobs_than_slurm_looks_at_a_job_without_a_reason_is_not_in_doubt():
    many = LOOKED_AT + 1
    queue = jobs(many, reason=["None"] * many, eligible_s=np.full(many, NOW_S - SETTLED_S))
    assert unexplained(view(queue)) == {}
    assert len(unexplained(view(queue.take(np.arange(LOOKED_AT))))) == LOOKED_AT


def caused(seen: View) -> str:
    found = cause_of(seen, decide(seen, find_ordering("fifo"), Rules()), Rules(), 0)
    return "" if found is None else found.reason


def test_the_doubt_is_the_first_sentence_of_why_and_what_is_certain_goes_before_it():
    assert caused(view(jobs(1, **WAITS))).startswith("It may never start as it is")
    never = WAITS | {"gpus": [5], "per_node": ["gres:gpu:5"]}
    assert caused(view(jobs(1, **never))).startswith("It cannot run as it is")


def test_a_job_that_can_run_in_none_of_its_partitions_is_told_so_whatever_slurm_says_of_one_of_them():
    columns = {"reason": ["PartitionNodeLimit"], "partition": ["gpu,fast"], "gpus": [5], "per_node": ["gres:gpu:5"]}
    seen = view(jobs(1, **columns))
    assert caused(replace(seen, nodes=seen.nodes.changed(partitions=Labels.of(["gpu,fast"] * 2)))).startswith(
        "It cannot run as it is: no node of partition gpu has 5 GPUs (the most is 4); no node of partition fast has"
    )


def test_a_drained_node_is_no_obstacle_to_a_job_that_nodes_which_are_not_shown_may_take():
    seen = view(jobs(2, required_nodes=["", "n1"]), room=away("drained", "drained"))
    assert obstacle(seen, 0)[0].startswith("Too few of the nodes that it may use take jobs: n1 is drained")
    hidden = Labels.of("c[1-2]" if name == "gpu" else "" for name in seen.partitions.name)
    beside = replace(seen, partitions=seen.partitions.changed(unshown=hidden))
    assert obstacle(beside, 0)[0].startswith("Slurm does not show c[1-2] of its partition while they are switched off")
    assert obstacle(beside, 1)[0].startswith("It asks for a node that takes no jobs: n1 is drained")


def test_where_no_node_is_shown_at_all_an_operator_would_see_them():
    hidden = view(jobs(1), room=nodes(()))
    hidden = replace(hidden, partitions=hidden.partitions.changed(unshown=Labels.of(["n[1-2]"] * 3)))
    what, helps = obstacle(hidden, 0)
    assert what == "Slurm does not show n[1-2] of its partition to slurmsched, and may start it there at any time."
    assert "only operators see nodes" in helps


def test_a_time_for_a_job_in_doubt_says_first_that_the_doubt_is_not_counted():
    times = {
        "start_s": [NOW_S, NOW_S],
        "finish_s": [NOW_S + 60, NOW_S + 60],
        "kind": [int(PredictionKind.PREDICTED)] * 2,
    }
    in_doubt, plain = etas(prediction_table(2, obstacle=["It may never start as it is.", ""], **times), NOW_S, [0, 1])
    assert in_doubt.not_understood == ("what may keep it from any start",)
    assert in_doubt.notes[0] == "It may never start as it is."
    assert plain.not_understood == ()

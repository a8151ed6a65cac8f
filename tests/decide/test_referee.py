"""Every hard rule, in both of its answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import ALL_POWERS, jobs, nodes, partitions, running_jobs, view

from slurmsched.cluster.actions import (
    ACTIONS,
    AskToStop,
    Hold,
    Move,
    MoveNodes,
    MovePartition,
    NodeChange,
    Preempt,
    Rank,
    Release,
    Requeue,
    Resize,
    RestoreSize,
    Resume,
    Rightsize,
    SetAdminComment,
    Share,
    Start,
    Steer,
    Suspend,
    Unsteer,
)
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.exclusions import ANY_TYPE
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.promises import NO_PROMISES, PromiseState, promise_table
from slurmsched.decide.referee import (
    LIMIT_RULES,
    MOVE_RULES,
    NODE_RULES,
    PAIR_RULES,
    RULES,
    SIZE_RULES,
    UNKNOWN_JOB,
    judge,
)
from slurmsched.decide.rules import AdmissionRules, DeadlineRules, RightsizingRules, Rules, SharingRules

TO_FOUR, SIZES = Resize(1, 4, 2, 2), "slurmsched:gpus=2-4"
TO_A100, OFF_N2 = Steer(1, "a100", "n2"), Steer(1, ANY_TYPE, "n2")
LEAVES = AskToStop(901, "URG", "n1")
ALL = Rules(powers=ALL_POWERS, deadlines=DeadlineRules(asks_a_day=4), most_requeues=9)
PENDING = [Rank(1, 5), Hold(1, 9.0), Release(1), MovePartition(1, "fast"), TO_A100]
RUNNING = [Requeue(901), AskToStop(901, "URG"), LEAVES, SetAdminComment(901, "slurmsched:met")]


A100 = replace(nodes(), gpu_type=Labels.of(["a100", "a100"]))


def verdict(action, rules=ALL, promises=NO_PROMISES, *, room=None, limits=None, **columns) -> str | None:
    """The rule that stands against *action* on a job with *columns*, None if it may be done.

    All partitions have these *limits*.
    """
    ours = {"held_by_us": [True], "ckpt": [True]} | {name: [value] for name, value in columns.items()}
    seen = replace(view(jobs(1, **ours), running=running_jobs(1, **ours), room=room), promises=promises)
    all_have = {name: np.full(len(seen.partitions), most) for name, most in (limits or {}).items()}
    seen = replace(seen, partitions=partitions().changed(**all_have))
    allowed, refusals = judge([action], seen, rules)
    assert len(allowed) + len(refusals) == 1
    return refusals[0].rule if refusals else None


@pytest.mark.parametrize("action", [*PENDING, *RUNNING], ids=repr)
def test_with_every_power_and_consent_each_action_may_be_done(action):
    assert verdict(action) is None


def test_an_interactive_job_may_be_held_in_a_line_alone():
    line = replace(ALL, admission=AdmissionRules("load:1"))
    assert verdict(Hold(1, 1.0), line, interactive=True) is None
    assert verdict(MovePartition(1, "x"), line, interactive=True) == "not_interactive"


def test_a_job_that_we_suspended_may_be_resumed_whatever_is_on():
    for rules in (ALL, Rules()):
        assert verdict(Resume(901), rules, state=JobState.SUSPENDED, suspended_s=5.0) is None
        assert verdict(Resume(901), rules, state=JobState.SUSPENDED) == "suspension_is_ours"


def test_a_single_job_that_shares_gpus_may_be_suspended():
    assert verdict(Suspend(901), shares=True) is None
    assert verdict(Suspend(901)) == "gpus_are_shared"
    assert verdict(Suspend(901), shares=True, array_job_id=7) == "job_is_single"
    assert verdict(Suspend(901), shares=True, het_job_id=7) == "job_is_single"
    assert verdict(Suspend(901), Rules(), shares=True) == "power_is_on"


@pytest.mark.parametrize(
    ("action", "columns", "rule"),
    [
        (Rank(77, 1), {}, "job_is_known"),
        (Rank(1, 1), {"off": True}, "owner_did_not_opt_out"),
        (Hold(1, 1.0), {"off": True}, "owner_did_not_opt_out"),
        (Hold(1, 1.0), {"interactive": True}, "not_interactive"),
        (MovePartition(1, "x"), {"off": True}, "owner_did_not_opt_out"),
        (MovePartition(1, "x"), {"interactive": True}, "not_interactive"),
        (MovePartition(1, "x", "x"), {"own_partition": "y"}, "partitions_are_ours"),
        (TO_A100, {"off": True}, "owner_did_not_opt_out"),
        (TO_A100, {"interactive": True}, "not_interactive"),
        (TO_A100, {"gpu_type": "a100"}, "type_is_open"),
        (TO_A100, {"excluded_nodes": "n2"}, "nodes_are_open"),
        (TO_A100, {"required_nodes": "n1"}, "nodes_are_open"),
        (TO_A100, {"features": "ib"}, "nodes_are_open"),
        (TO_A100, {"reservation": "class"}, "nodes_are_open"),
        (TO_A100, {"comment": "slurmsched:types=v100+h100"}, "type_is_accepted"),
        (OFF_N2, {"excluded_nodes": "n1"}, "nodes_are_open"),
        (OFF_N2, {"off": True}, "owner_did_not_opt_out"),
        (Steer(901, "a100", "n2"), {}, "job_is_pending"),
        (Unsteer(1), {"excluded_nodes": "n2"}, "exclusion_is_ours"),
        (TO_FOUR, {"comment": SIZES, "off": True}, "owner_did_not_opt_out"),
        (TO_FOUR, {"comment": SIZES, "interactive": True}, "not_interactive"),
        (TO_FOUR, {"comment": SIZES, "ckpt": False}, "owner_agreed_to_restarts"),
        (TO_FOUR, {"comment": SIZES, "requeueable": False}, "owner_agreed_to_restarts"),
        (TO_FOUR, {}, "gpus_are_agreed"),
        (TO_FOUR, {"comment": "slurmsched:gpus=1-3"}, "gpus_are_agreed"),
        (TO_FOUR, {"comment": "slurmsched:gpus=5-8"}, "gpus_are_agreed"),
        (TO_FOUR, {"comment": SIZES, "nodes": 2}, "gpus_are_plain"),
        (TO_FOUR, {"comment": SIZES, "node_range": "1-2"}, "gpus_are_plain"),
        (TO_FOUR, {"comment": SIZES, "per_task": True}, "gpus_are_plain"),
        (TO_FOUR, {"comment": SIZES, "per_gpu": True}, "gpus_are_plain"),
        (TO_FOUR, {"comment": SIZES, "shares": True}, "gpus_are_plain"),
        (Resize(901, 4, 2, 2), {"comment": SIZES}, "job_is_pending"),
        (Resize(1, 2, 4, 2), {"comment": SIZES}, "gpus_are_its_own"),
        (Release(1), {"held_by_us": False}, "hold_is_ours"),
        (Requeue(901), {"off": True}, "owner_did_not_opt_out"),
        (Requeue(901), {"interactive": True}, "not_interactive"),
        (Requeue(901), {"ckpt": False}, "owner_consented"),
        (Requeue(901), {"requeueable": False}, "owner_consented"),
        (AskToStop(901, "URG"), {"off": True}, "owner_did_not_opt_out"),
        (AskToStop(901, "URG"), {"interactive": True}, "not_interactive"),
        (AskToStop(901, "URG"), {"ckpt": False}, "owner_consented"),
        (AskToStop(901, "URG"), {"stop_requests": 4}, "not_asked_too_often"),
        (LEAVES, {"ckpt": False}, "owner_consented"),
        (LEAVES, {"stop_requests": 4}, "not_asked_too_often"),
        (AskToStop(901, "URG"), {"restarts": 9}, "not_requeued_too_often"),
        (LEAVES, {"restarts": 9}, "not_requeued_too_often"),
        (Requeue(901), {"restarts": 9}, "not_requeued_too_often"),
        (AskToStop(1, "URG"), {}, "job_is_running"),
        (SetAdminComment(901, "slurmsched:x"), {"off": True}, "owner_did_not_opt_out"),
        (Suspend(901), {"off": True}, "owner_did_not_opt_out"),
        (Suspend(901), {"interactive": True}, "not_interactive"),
        (Rank(901, 1), {}, "job_is_pending"),
        (Hold(901, 1.0), {}, "job_is_pending"),
        (Release(901), {}, "job_is_pending"),
        (Requeue(1), {}, "job_is_running"),
        (Suspend(1), {}, "job_is_running"),
        (Resume(901), {}, "job_is_suspended"),
        (Requeue(901), {"state": JobState.COMPLETING}, "job_is_running"),
    ],
    ids=str,
)
def test_what_stands_against_an_action_is_told_by_the_name_of_its_rule(action, columns, rule):
    assert verdict(action, **columns) == rule


@pytest.mark.parametrize("action", [*PENDING, *RUNNING], ids=repr)
def test_without_its_power_no_action_may_be_done(action):
    others = ALL_POWERS - {action.power} - ({"requeue"} if isinstance(action, Release) else set())
    assert verdict(action, Rules(powers=others)) in {"power_is_on", "a_holding_power_is_on"}


GPU, FAST = NodeChange("gpu", "n1", "n1", "n1"), NodeChange("fast", "n2", "n2", "n[1-2]")
MOVES = {
    "lending_is_on": MoveNodes((replace(GPU, after="n[1-2]"), FAST)),
    "partition_is_known": MoveNodes((GPU, replace(FAST, partition="nowhere"))),
    "partition_keeps_nodes": MoveNodes((replace(GPU, after=""), FAST)),
    "partitions_are_apart": MoveNodes((replace(GPU, own="n[1-2]"), FAST)),
    "node_is_known": MoveNodes((GPU, replace(FAST, after="n[1-3]"))),
    "node_keeps_partition": MoveNodes((GPU, replace(FAST, after="n1"))),
    "promised_job_keeps_nodes": MoveNodes(
        (NodeChange("gpu", "n[1-2]", "n[1-2]", "n1"), NodeChange("fast", "n3", "", "n2"))
    ),
}
PROMISED = promise_table(1, job_id=[1], state=[PromiseState.OPEN])


@pytest.mark.parametrize("rule", MOVES)
def test_what_stands_against_a_move_of_nodes_is_told_by_the_name_of_its_rule(rule):
    others = Rules(powers=ALL_POWERS - {"nodes"}) if rule == "lending_is_on" else ALL
    assert verdict(MOVES[rule], others, PROMISED if rule == "promised_job_keeps_nodes" else NO_PROMISES) == rule
    assert len(MOVES) == len(MOVE_RULES)


def test_a_move_of_nodes_may_be_made_and_all_nodes_may_go_back_without_the_power():
    assert verdict(MoveNodes((GPU, FAST))) is None
    back = MoveNodes((replace(GPU, before="n[1-2]"), replace(FAST, after="n2")))
    assert verdict(back, Rules()) is None
    common = MoveNodes((replace(GPU, own="n[1-2]", after="n[1-2]"), replace(FAST, after="n2")))
    assert verdict(common, Rules()) is None


GUEST = {"gpus": [2, 2, 1], "nopack": [False, False, False]}
HOST = {"gpus": [2, 2], "node_list": ["n1", "n2"], "beside": [0, 0], "guest_gpus": [0, 0]}
SIMULATED = Rules(powers=frozenset({"start", "preempt", "share"}))
STARTS = {
    "sharing_is_on": (Start(1, "n1:2", 901), {}, {}, Rules(powers=frozenset({"start"}))),
    "host_is_running": (Start(1, "n1:2", 903), {}, {}, SIMULATED),
    "host_is_alone": (Start(1, "n1:2", 901), {}, {"beside": [902, 0]}, SIMULATED),
    "host_has_open_gpus": (Start(1, "n1:2", 901), {}, {"guest_gpus": [2, 0]}, SIMULATED),
    "host_has_as_many_gpus": (Start(3, "n1:1", 901), {}, {}, SIMULATED),
    "host_is_on_one_node": (Start(1, "n1:2", 901), {}, {"node_list": ["n[1-2]", "n2"]}, SIMULATED),
    "owners_let_share": (Start(1, "n1:2", 901), {"nopack": [True, False, False]}, {}, SIMULATED),
}


def judged(starts, waiting, running, rules=SIMULATED):
    return judge(starts, view(jobs(3, **GUEST | waiting), running=running_jobs(2, **HOST | running)), rules)


@pytest.mark.parametrize("rule", STARTS)
def test_what_stands_against_a_start_beside_a_running_job_is_told_by_the_name_of_its_rule(rule):
    start, waiting, running, rules = STARTS[rule]
    allowed, refusals = judged([start], waiting, running, rules)
    assert (allowed, [refusal.rule for refusal in refusals]) == ([], [rule])
    assert {*STARTS} == {one.__name__ for one in PAIR_RULES}


def test_a_suspended_job_has_no_guest_and_one_whose_owner_said_off_neither():
    for running, rule in (
        ({"state": [JobState.SUSPENDED, JobState.RUNNING]}, "host_is_running"),
        ({"off": [True, False]}, "owners_let_share"),
    ):
        assert [refusal.rule for refusal in judged([Start(1, "n1:2", 901)], {}, running)[1]] == [rule]


def test_of_two_jobs_that_would_join_the_same_one_the_first_may():
    first, second, third = Start(1, "n1:2", 901), Start(2, "n1:2", 901), Start(2, "n2:2", 902)
    allowed, refusals = judged([Start(3, "n1:1", 901), first, second, third], {}, {})
    assert allowed == [first, third]
    assert [refusal.rule for refusal in refusals] == ["host_has_as_many_gpus", "host_has_open_gpus"]


def test_several_jobs_join_a_wide_one_until_each_of_its_gpus_has_two():
    starts = [Start(1, "n1:2", 901), Start(3, "n1:1", 901), Start(2, "n1:2", 901)]
    wide = replace(SIMULATED, sharing=SharingRules(wide=True))
    allowed, refusals = judged(starts, {}, {"gpus": [4, 2]}, wide)
    assert allowed == starts[:2]
    assert [refusal.detail for refusal in refusals] == ["1 of the GPUs of job 901 are without a second job, it has 2"]


def test_a_job_that_shares_is_not_preempted():
    for shares in ({"beside": [0, 7]}, {"guest_gpus": [0, 2]}):
        allowed, refusals = judged([Preempt(901), Preempt(902)], {}, shares)
        assert allowed == [Preempt(901)]
        assert [refusal.rule for refusal in refusals] == ["job_is_alone"]


def test_a_job_with_guests_is_not_moved_and_a_guest_may_be():
    moves = [Move(901, "n2:2"), Move(902, "n2:2")]
    allowed, refusals = judged(moves, {}, {"guest_gpus": [2, 0], "beside": [0, 901]})
    assert allowed == moves[1:]
    assert [refusal.rule for refusal in refusals] == ["job_has_no_guest"]


def test_nodes_leave_the_partition_of_a_promised_job_if_the_job_may_run_there_too_or_waits_no_more():
    move = MOVES["promised_job_keeps_nodes"]
    assert verdict(move, promises=PROMISED, partition="gpu,fast") is None
    assert verdict(move, promises=replace(PROMISED, state=np.array([PromiseState.MET]))) is None
    assert verdict(move, promises=replace(PROMISED, job_id=np.array([901]))) is None
    back = MoveNodes((NodeChange("gpu", "n1", "n[1-2]", "n1"), NodeChange("fast", "n2", "", "n2")))
    assert verdict(back, promises=PROMISED) is None


def test_giving_back_is_allowed_on_a_job_whose_owner_opted_out_later():
    assert verdict(Rank(1, 0), off=True) is None
    assert verdict(Release(1), off=True) is None


def test_to_be_kept_off_nodes_a_job_needs_no_open_type_and_its_owner_has_named_no_node():
    assert verdict(OFF_N2, gpu_type="a100", room=A100) is None
    assert verdict(OFF_N2, comment="slurmsched:types=v100+h100") is None


@pytest.mark.parametrize(("action", "rule"), [(OFF_N2, "power_is_on"), (LEAVES, "migration_is_on")], ids=repr)
def test_without_power_migrate_no_job_is_asked_to_leave_its_nodes_or_kept_off_them(action, rule):
    assert verdict(action, replace(ALL, powers=ALL_POWERS - {"migrate"})) == rule


def test_a_job_that_we_steered_is_sent_elsewhere_or_let_go_and_the_latter_without_the_power_too():
    ours = {"excluded_nodes": "n2", "steered": "a100"}
    assert verdict(Steer(1, "v100", "n1"), **ours) is None
    assert verdict(Unsteer(1), Rules(), **ours) is None
    assert verdict(Unsteer(1), off=True, **ours) is None


OWN, LESS = "cpus=6,task=6,node=6,mem=12000Mn", "cpus=2,task=2,node=2,mem=4000Mn"
SIZE = Rightsize(1, OWN, OWN, LESS)
LISTED = replace(ALL, rightsizing=RightsizingRules(accounts=("astro",)))
ASKS = {"node_request": OWN, "cpus": 6, "memory_mib": 12_000.0}


@pytest.mark.parametrize(
    ("action", "columns", "rule"),
    [
        (SIZE, {}, None),
        (SIZE, {"account": "bio"}, "sizing_is_wanted"),
        (SIZE, {"account": "bio", "comment": "slurmsched:cpus=1-6,mem=1G-12G"}, None),
        (SIZE, {"off": True}, "owner_did_not_opt_out"),
        (SIZE, {"interactive": True}, "not_interactive"),
        (SIZE, {"node_request": ""}, "nobody_else_sized_it"),
        (SIZE, {"node_request": LESS}, "nobody_else_sized_it"),
        (SIZE, {"request_changed": True}, "nobody_else_sized_it"),
        (SIZE, {"exclusive": True}, "size_is_its_own"),
        (SIZE, {"per_gpu": True}, "size_is_its_own"),
        (SIZE, {"reservation": "course"}, "size_is_its_own"),
        (SIZE, {"restarts": 1}, "size_is_its_own"),
        (replace(SIZE, after="cpus=1,task=1,node=1,mem=4000Mn"), {}, "share_is_kept"),
        (replace(SIZE, after="cpus=2,task=2,node=2,mem=3999Mn"), {}, "share_is_kept"),
        (replace(SIZE, after="cpus=3,task=3,node=3,mem=4000Mn"), {"comment": "slurmsched:cpus=4-6"}, "share_is_kept"),
        (replace(SIZE, after="cpus=7,task=7,node=7,mem=12000Mn"), {}, "best_is_kept"),
        (replace(SIZE, after="cpus=6,task=6,node=6,mem=12001Mn"), {}, "best_is_kept"),
        (replace(SIZE, after="cpus=7,task=7,node=7,mem=12000Mn"), {"comment": "slurmsched:cpus=4-8"}, None),
        (replace(SIZE, after="cpus=9,task=9,node=9,mem=12000Mn"), {"comment": "slurmsched:cpus=4-9"}, "nodes_have_it"),
        (SIZE, {"state": JobState.RUNNING}, "job_is_pending"),
    ],
)
def test_cpus_and_memory_are_changed_within_bounds_alone(action, columns, rule):
    assert verdict(action, LISTED, **(ASKS | columns)) == rule
    assert verdict(action, replace(LISTED, powers=frozenset()), **(ASKS | columns)) == "power_is_on"


LITTLE = replace(nodes(), cpus=np.array([6, 8]), memory_mib=np.array([12_000.0, 16_000.0]))
"""n1 keeps two CPUs and 4,000 MiB for itself."""
TO_SHARED = Share(1, "gpu", "gpu", "n1", "0+1", "", 9.0)
WIDE = replace(SIZE, after="cpus=7,task=7,node=7,mem=12000Mn")


@pytest.mark.parametrize(
    ("action", "limits", "columns", "rule"),
    [
        (OFF_N2, {}, {"cpus": 6}, None),
        (OFF_N2, {}, {"cpus": 7}, "nodes_are_left"),
        (OFF_N2, {}, {"memory_mib": 12_001.0}, "nodes_are_left"),
        (OFF_N2, {"node_cpus": 4}, {"cpus": 5}, "nodes_are_left"),
        (OFF_N2, {"node_memory_mib": 9_000.0}, {"memory_mib": 9_001.0}, "nodes_are_left"),
        (OFF_N2, {"cpu_memory_mib": 1_000.0}, {"memory_mib": 6_001.0}, "nodes_are_left"),
        (TO_A100, {}, {"memory_mib": 12_001.0}, "nodes_are_left"),
        (WIDE, {"node_cpus": 6}, {"comment": "slurmsched:cpus=4-8"}, "nodes_have_it"),
        (WIDE, {"node_cpus": 7}, {"comment": "slurmsched:cpus=4-8"}, None),
        (replace(SIZE, after=LESS), {"node_memory_mib": 3_999.0}, {}, "nodes_have_it"),
        (replace(SIZE, after=LESS), {"cpu_memory_mib": 2_000.0}, {}, None),
        (replace(SIZE, after=LESS), {"cpu_memory_mib": 1_999.0}, {}, "nodes_have_it"),
        (TO_FOUR, {}, {"comment": SIZES}, None),
        (TO_FOUR, {}, {"comment": SIZES, "cpus": 9}, "nodes_have_the_gpus"),
        (TO_FOUR, {}, {"comment": SIZES, "cpus": 8}, None),
        (TO_FOUR, {}, {"comment": SIZES, "cpus": 7, "steered": "a100", "excluded_nodes": "n2"}, "nodes_have_the_gpus"),
        (TO_FOUR, {"node_cpus": 4}, {"comment": SIZES, "cpus": 5}, "nodes_have_the_gpus"),
        (replace(TO_FOUR, gpus=5), {}, {"comment": "slurmsched:gpus=2-5"}, "nodes_have_the_gpus"),
        (TO_SHARED, {}, {"cpus": 6, "memory_mib": 12_000.0}, None),
        (TO_SHARED, {}, {"cpus": 7}, "shared_node_has_it"),
        (TO_SHARED, {"node_memory_mib": 9_000.0}, {"memory_mib": 9_001.0}, "shared_node_has_it"),
    ],
    ids=str,
)
def test_nothing_is_written_with_which_slurm_would_never_start_a_job(action, limits, columns, rule):
    wide = isinstance(action, Rightsize)
    asked = ASKS if wide else {}
    assert verdict(action, LISTED if wide else ALL, room=LITTLE, limits=limits, **(asked | columns)) == rule


def test_a_job_gets_its_own_cpus_and_memory_back_without_the_power_too_and_only_from_us():
    ours = {"node_request": LESS, "own_request": OWN}
    back = RestoreSize(1, LESS, OWN)
    assert verdict(back, Rules(), **ours) is None
    assert verdict(back, off=True, **ours) is None
    assert verdict(back, node_request=LESS) == "size_is_ours"
    assert verdict(replace(back, own=LESS), **ours) == "size_is_ours"
    assert verdict(replace(back, before=OWN), **ours) == "size_is_ours"


def test_another_number_of_gpus_needs_the_power_and_the_own_number_neither_that_nor_consent():
    assert verdict(TO_FOUR, comment=SIZES) is None
    assert verdict(TO_FOUR, Rules(powers=ALL_POWERS - {"resize"}), comment=SIZES) == "resizing_is_on"
    back = Resize(1, 2, 4, 2)
    assert verdict(back, Rules(), own_gpus=2) is None
    assert verdict(back, Rules(), own_gpus=2, off=True, ckpt=False) is None
    assert verdict(back, own_gpus=3) == "gpus_are_its_own"


def test_every_kind_of_action_has_rules_and_every_rule_speaks_in_words():
    assert {*RULES, MoveNodes} == set(ACTIONS.values())
    for rules in (*RULES.values(), PAIR_RULES, SIZE_RULES, LIMIT_RULES, NODE_RULES.values(), MOVE_RULES):
        assert rules
        assert all(rule.__doc__ for rule in rules)


def test_the_names_of_rules_are_those_that_records_metrics_and_scripts_know():
    rules = {
        *MOVE_RULES,
        *PAIR_RULES,
        *SIZE_RULES,
        *LIMIT_RULES,
        *NODE_RULES.values(),
        *(rule for rules in RULES.values() for rule in rules),
    }
    assert sorted(rule.__name__ for rule in rules) == [
        "a_holding_power_is_on",
        "best_is_kept",
        "exclusion_is_ours",
        "gpus_are_agreed",
        "gpus_are_its_own",
        "gpus_are_plain",
        "gpus_are_shared",
        "hold_is_ours",
        "host_has_as_many_gpus",
        "host_has_open_gpus",
        "host_is_alone",
        "host_is_on_one_node",
        "host_is_running",
        "job_has_no_guest",
        "job_is_alone",
        "job_is_pending",
        "job_is_running",
        "job_is_single",
        "job_is_suspended",
        "lending_is_on",
        "limits_are_kept",
        "limits_are_known",
        "migration_is_on",
        "nobody_else_sized_it",
        "node_is_known",
        "node_keeps_partition",
        "nodes_are_left",
        "nodes_are_open",
        "nodes_have_it",
        "nodes_have_the_gpus",
        "not_asked_too_often",
        "not_interactive",
        "not_requeued_too_often",
        "owner_agreed_to_restarts",
        "owner_consented",
        "owner_did_not_opt_out",
        "owner_wants_an_early_end",
        "owners_let_share",
        "partition_is_known",
        "partition_keeps_nodes",
        "partitions_are_apart",
        "partitions_are_ours",
        "power_is_on",
        "promised_job_keeps_nodes",
        "resizing_is_on",
        "share_is_kept",
        "shared_node_has_it",
        "sharing_is_on",
        "size_is_its_own",
        "size_is_ours",
        "sizing_is_wanted",
        "suspension_is_ours",
        "token_is_ours",
        "type_is_accepted",
        "type_is_open",
    ]
    assert verdict(Rank(12345, 1)) == UNKNOWN_JOB == "job_is_known"


def test_every_kind_of_action_has_a_switch():
    assert {kind.power for kind in ACTIONS.values()} <= ALL_POWERS | {"start", "preempt"}, "those are simulated alone"
    assert verdict(Rank(1, 1), Rules()) == "power_is_on", "nothing is on unless an admin said so"


def test_an_unknown_power_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"no such power: \['fly'\]; there are order, hold"):
        Rules(powers=frozenset({"fly"}))

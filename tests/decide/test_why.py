"""Why a job does not run: three lines that are so, then what else there is to know."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, nodes, partitions, running_jobs, view

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.state import View
from slurmsched.daemon.api.privacy import hide_other_users
from slurmsched.decide.rules import Rules
from slurmsched.explain.eta import Eta
from slurmsched.explain.explain import explain
from slurmsched.explain.queue_place import order_is_off
from slurmsched.explain.why import NOTHING_BESIDE, Circumstances, Why, why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

SJF = find_ordering("sjf")
ADVISE = Circumstances("daemon.mode is advise")


def decided(seen: View, **rules: object) -> Plan:
    return decide(seen, SJF, Rules(**({"scope": "queue"} | rules)))


def told(seen: View, job_id: int = 1, beside: Circumstances = NOTHING_BESIDE, **rules: object) -> Why:
    return why(seen, decided(seen, **rules), Rules(**rules), job_id, beside)


def three(**columns: object) -> View:
    """Three jobs, the first one with the longest forecast, on four GPUs that are in use."""
    return view(jobs(3, **columns), [900.0, 60.0, 120.0], room=nodes((4,), (4,)))


def test_with_our_order_in_force_the_jobs_ahead_are_those_that_our_points_put_there():
    answer = told(three(user=["alice", "bob", "bob"], gpus=[1, 2, 4]))
    assert (answer.rank, answer.ahead, answer.ahead_gpus, answer.free_gpus) == (3, 2, 6, 0)
    assert answer.reason == (
        "2 jobs of bob for the same nodes, asking for 6 GPUs, stand ahead of it in the order in force, mostly by "
        "our order. 0 GPUs of 4 on them are free, and it asks for 1 GPU."
    )
    assert answer.blockers == (2, 3)
    assert "In our order it is number 3 of 3" in " ".join(answer.details)


def test_with_our_order_off_slurms_own_priorities_count_and_ours_comes_last_as_would():
    seen = three(priority=[3000, 2000, 1000], qos_points=[2000, 1000, 0], site_points=[0, 0, 7])
    first, last = told(seen, 1, ADVISE), told(seen, 3, ADVISE)
    assert "ahead of it" not in first.reason, "ours would have it last"
    assert "2 jobs of alice for the same nodes" in last.reason
    assert "stand ahead of it in Slurm's order, mostly by QOS." in last.reason
    assert "would be number 2 of 3" in last.details[-2]
    assert "Our order is not in force (daemon.mode is advise)" in last.details[-2]
    assert last.details[-1] == "It still has 7 points of ours."
    assert not any("would" in line for line in (last.reason, last.time, last.advice))


@pytest.mark.parametrize(
    ("columns", "factor"),
    [
        ({"fairshare_points": [0, 500, 500]}, "mostly by fair share"),
        ({"age_points": [10, 500, 500]}, "mostly by age"),
        ({"size_points": [10, 500, 20]}, "mostly by job size"),
        ({"nice": [50, 0, 0]}, "mostly by nice"),
        ({"partition": ["gpu", "fast", "fast"]}, "mostly by partition tier"),
        ({}, "by job id at equal priority"),
    ],
)
def test_the_factor_that_puts_others_ahead_in_slurms_order_is_named(columns, factor):
    ids = {} if columns else {"job_id": [9, 1, 2]}
    priority = [1000, 2000, 2000] if columns else [1000] * 3
    seen = three(priority=priority, **columns, **ids)
    if "partition" in columns:
        both = replace(seen.nodes, partitions=seen.nodes.partitions.renamed(["gpu,fast"]))
        seen = replace(seen, nodes=both)
    assert factor in told(seen, int(seen.pending.job_id[0]), ADVISE).reason


def test_capped_points_leave_those_ahead_whom_slurms_factors_put_there():
    seen = view(jobs(2, priority=[1000, 9000], qos_points=[0, 8000]), [60.0, 600.0], room=nodes((4,), (4,)))
    answer = told(seen, 1, scope="points", max_points=10)
    assert "1 job of alice for the same nodes" in answer.reason
    assert "the order in force, by QOS." in answer.reason
    assert "order.max_points allows" in " ".join(answer.details)


@pytest.mark.parametrize(
    ("other", "why_not"),
    [
        ({"partition": ["gpu", "fast"]}, "other partition"),
        ({"required_nodes": ["n1", "n2"]}, "other nodes"),
        ({"reason": ["Priority", "JobHeldUser"], "priority": [1000, 0]}, "held"),
        ({"reason": ["Priority", "QOSMaxJobsPerUserLimit"]}, "limited"),
        ({"reason": ["Priority", "Dependency"], "dependency": ["", "afterok:1"]}, "dependent"),
        ({"reason": ["Priority", "BeginTime"], "eligible_s": [NOW_S - 9, NOW_S + 300]}, "not due"),
    ],
)
def test_only_jobs_that_compete_for_the_same_nodes_now_stand_ahead(other, why_not):
    room = nodes((4, 4), (4, 4))
    room = replace(room, partitions=Labels.of(["gpu", "fast"])) if "partition" in other else room
    seen = view(jobs(2, **({"priority": [1000, 9000]} | other)), [60.0, 60.0], room=room)
    assert told(seen, 1, ADVISE).ahead == 0, why_not
    assert told(view(jobs(2, priority=[1000, 9000]), room=room), 1, ADVISE).ahead == 1


def test_a_start_at_the_next_pass_is_said_only_where_order_room_and_slurms_plan_say_so():
    soon = "Slurm should start it at its next pass"
    assert soon in told(view(jobs(1))).reason
    assert soon not in told(view(jobs(1, started_s=[NOW_S + 3600]))).reason, "Slurm's own start is later"
    assert soon not in told(view(jobs(1), room=nodes((4,), (4,)))).reason, "no room"
    two = view(jobs(2, priority=[1000, 2000]))
    assert soon not in told(two, 1, ADVISE).reason, "another one is ahead"
    assert soon not in told(view(jobs(1, reason=["ReqNodeNotAvail, Reserved for maintenance"]))).reason
    spread = view(jobs(1, gpus=[4], nodes=[1]), room=nodes((4, 4), (2, 2)))
    assert soon not in told(spread).reason, "four GPUs are free, on no single node"


def test_the_time_is_the_predictions_and_slurms_own_estimate_where_there_is_none():
    predicted = Eta(1, "alice", "gpu", 1, 1, "predicted", NOW_S, NOW_S + 720, None, NOW_S + 2400, NOW_S + 7200)
    for basis, often in ((60, "nine times in ten"), (0, "by a guess that nothing here has tested yet")):
        beside = Circumstances(eta=replace(predicted, start_basis=basis))
        assert told(view(jobs(1)), 1, beside).time == (
            f"It should start in about 12 min, within 40 min {often}, and be done in about 2 h."
        )
    seen = view(jobs(1, started_s=[NOW_S + 7200]))
    assert told(seen, 1, Circumstances(no_eta="predictions are off")).time == (
        "No time: predictions are off. Slurm itself says in 2 h."
    )


def test_a_job_without_gpus_is_told_of_cores_and_memory():
    room = replace(nodes((0,)), cpus_used=np.array([6]))
    seen = view(jobs(2, gpus=[0, 0], cpus=[4, 8], memory_mib=[8192.0, 0.0], priority=[1000, 2000]), room=room)
    answer = told(seen, 1, ADVISE)
    assert "1 job of alice for the same nodes, asking for 8 cores," in answer.reason
    assert "2 cores of 8 on them are free, and it asks for 4 cores and 8 GiB of memory." in answer.reason
    assert "A request of at most 2 cores" in answer.advice
    assert "GPU" not in answer.reason + answer.advice


def test_a_component_of_a_heterogeneous_job_is_told_of_the_others_and_does_not_stand_behind_them():
    seen = view(jobs(3, het_job_id=[1, 1, 0], gpus=[4, 1, 1], priority=[9, 9, 20]), room=nodes((4, 4), (4, 4)))
    answer = told(seen, 2, ADVISE)
    assert answer.reason.startswith("It is one of 2 components of heterogeneous job 1, which start together. 1 job of")
    assert answer.ahead == 1


def test_a_smaller_request_that_fits_is_told_with_what_it_needs():
    seen = view(jobs(2, gpus=[4, 4], priority=[1000, 2000]), room=nodes((4,), (2,)))
    assert told(seen, 1, ADVISE).advice == (
        "A request of at most 2 GPUs, with a --time short enough to end before the jobs ahead start, could start now."
    )


@pytest.mark.parametrize(
    ("columns", "most"),
    [
        ({"cpus": [64, 1], "memory_mib": [64 * 1024.0, 0.0]}, "8 cores"),
        ({"cpus": [64, 1], "memory_mib": [64 * 4096.0, 0.0]}, "4 cores"),
        ({"cpus": [64, 1], "memory_mib": [64 * 4096.0, 0.0], "exclusive": [True, False]}, ""),
        ({"gpus": [8, 1], "cpus": [32, 1], "memory_mib": [32768.0, 0.0]}, "2 GPUs"),
        ({"gpus": [8, 1], "cpus": [8, 1], "memory_mib": [8 * 9000.0, 0.0]}, "1 GPU"),
        ({"gpus": [8, 1], "cpus": [8, 1], "memory_mib": [8 * 17000.0, 0.0]}, ""),
    ],
)
def test_it_is_told_only_with_the_cores_and_the_memory_that_the_job_asks_for_each_of_them(columns, most):
    full = np.array([0] + [1] * 9)
    room = replace(nodes((4,) * 10), cpus=np.full(10, 8), cpus_used=8 * full, memory_mib=np.full(10, 65536.0))
    room = replace(room, memory_used_mib=np.full(10, 49152.0))
    seen = view(jobs(2, **({"gpus": [0, 0]} | columns), priority=[1000, 2000]), room=room)
    advice = told(seen, 1, ADVISE).advice
    assert (f"at most {most}," in advice) if most else ("A request of" not in advice)


@pytest.mark.parametrize(
    ("columns", "reason", "advice"),
    [
        ({"reason": ["JobHeldUser"], "priority": [0]}, "Its owner holds it.", "'scontrol release 1'"),
        ({"reason": ["JobHeldAdmin"], "priority": [0]}, "An administrator holds it.", "Ask an administrator"),
        (
            {"reason": ["launch failed requeued held"], "priority": [0]},
            "Its last start failed on the node",
            "'scontrol release 1' lets it try again",
        ),
        (
            {"reason": ["DependencyNeverSatisfied"], "dependency": ["afterok:7(failed)"]},
            "It depends on afterok:7(failed), and that can no longer come true",
            "'scancel 1' ends it; 'scontrol update jobid=1 dependency=' lets it run",
        ),
        (
            {"reason": ["Dependency"], "dependency": ["afterok:901(unfulfilled)"]},
            "It waits until job 901 has ended well (it runs, for about",
            "'scontrol update jobid=1 dependency='",
        ),
        (
            {"reason": ["Dependency"], "dependency": ["afterburstbuffer:901(unfulfilled),afterdusk:901"]},
            "It waits until job 901 has ended and its burst buffers are written out (it runs, for about",
            "'scontrol update jobid=1 dependency='",
        ),
        ({"reason": ["PartitionDown"]}, "Its partition (gpu) is down", "partition=NAME"),
        ({"reason": ["PartitionInactive"]}, "Its partition (gpu) is inactive", "partition=NAME"),
        (
            {"reason": ["BeginTime"], "eligible_s": [NOW_S + 300]},
            "Its begin time has not come: it comes in 5 min.",
            "starttime=now",
        ),
        (
            {"reason": ["BeginTime"], "eligible_s": [NOW_S + 300], "restarts": [1]},
            "It was requeued, and Slurm lets a requeued job wait before it starts again: 5 min more.",
            "Nothing is needed",
        ),
        (
            {"reason": ["BadConstraints"], "priority": [0]},
            "No nodes fit what it asks for",
            "scontrol update jobid=1 ...",
        ),
        ({"reason": ["Reservation"], "reservation": ["later"]}, "reservation later", "scontrol show reservation later"),
        ({"reason": ["PartitionNodeLimit"], "nodes": [2]}, "It asks for 2 nodes", "numnodes=N"),
    ],
)
def test_each_reason_of_slurm_has_its_sentence_and_what_can_be_done(columns, reason, advice):
    seen = view(jobs(1, **columns), running=running_jobs(1, started_s=[NOW_S - 300]))
    answer = told(seen)
    assert reason in answer.reason
    assert advice in answer.advice
    assert explain(seen, decided(seen), Rules(), 1).reason == answer.reason, "explain agrees"


def test_a_time_limit_above_the_partitions_is_told_with_the_longest_one():
    seen = view(jobs(1, reason=["PartitionTimeLimit"], time_limit_s=[7200.0]))
    seen = replace(seen, partitions=replace(partitions(), max_time_s=np.full(len(partitions()), 300.0)))
    answer = told(seen)
    assert "its time limit of 02:00:00 is longer than the 00:05:00 that partition gpu allows" in answer.reason
    assert "timelimit=00:05:00" in answer.advice
    never = Eta(1, "alice", "gpu", 1, 1, "cannot_run", NOW_S, notes=(f"{answer.reason} {answer.advice}",))
    assert told(seen, 1, Circumstances(eta=never)).time == "No time: it starts only after that has changed."


def test_a_prediction_older_than_the_change_that_lets_a_job_run_says_itself_why_it_saw_no_start():
    older = "No node of its partition has 8 GPUs."
    never = Eta(1, "alice", "gpu", 1, 1, "cannot_run", NOW_S, notes=(older,))
    assert told(view(jobs(1)), 1, Circumstances(eta=never)).time == older


def test_a_reason_that_nobody_knows_is_said_with_slurms_word():
    answer = told(view(jobs(1, reason=["SomethingNew"])))
    place = "No other job waits for its nodes in the order in force."
    assert answer.reason == f"It waits, and Slurm says: SomethingNew. {place}"


def test_a_malformed_token_is_told_whatever_the_job_waits_for():
    for columns in ({}, {"reason": ["JobHeldUser"], "priority": [0]}):
        advice = told(view(jobs(1, comment=["slurmsched:ckptt"], **columns))).advice
        assert "An option in its comment is not understood and has no effect: slurmsched: 'ckptt'" in advice
        assert "did you mean ckpt?" in advice
    running = running_jobs(1, comment=["slurmsched:ckptt"])
    assert "did you mean ckpt?" in told(view(jobs(0), running=running), 901).advice


def test_a_running_job_tells_where_how_long_and_until_when():
    seen = view(jobs(0), running=running_jobs(1))
    answer = told(seen, 901)
    assert (answer.known, answer.state, answer.rank) == (True, "running", None)
    assert answer.reason == "Job 901 is running on n1 and has run for 10 min."
    assert answer.time == "It should be done in about 1 s, within 10 min nine times in ten (median of 7 runs)."
    explained = explain(seen, decided(seen), Rules(), 901)
    assert (explained.forecast_s, explained.rank, explained.terms) == (600.0, None, ())


def test_an_unknown_job_is_not_invented():
    seen = view(jobs(0), running=jobs(0), room=nodes(()))
    answer = told(seen, 7)
    assert not answer.known
    assert "story 7" in answer.advice
    assert explain(seen, decided(seen), Rules(), 7).forecast_s is None


def test_without_nodes_that_take_jobs_a_job_cannot_start():
    assert told(view(jobs(1), room=nodes(()))).reason == "It cannot run as it is: partition gpu has no nodes."
    away = told(view(jobs(1), room=nodes((4,), usable=False)))
    assert away.reason.startswith("Too few of the nodes that it may use take jobs: n1 is")
    assert "returned it to service" in away.advice


def test_a_task_of_an_array_finds_the_row_of_its_array():
    seen = view(jobs(1, job_id=[40], array_job_id=[40], tasks=[5]))
    assert "5 tasks of an array" in told(seen, 40).details[0]


def test_a_starving_job_is_told_so():
    seen = view(jobs(2, eligible_s=[NOW_S - 700_000, NOW_S]))
    assert "only jobs that waited longer stand ahead" in " ".join(told(seen, 1).details)


def test_braces_and_markup_in_texts_of_users_pass_through_unchanged():
    hostile = "{job} [red]%s\n\x1b[31m"
    seen = view(jobs(1, reason=["Dependency"], user=[hostile], dependency=[hostile]))
    assert " ".join(told(seen).sentences).count(hostile) == 2


def test_a_veiled_view_names_nobody_else():
    pending = jobs(3, user=["alice", "secret_bob", "secret_bob"], name=["mine", "secret_x", "secret_y"])
    running = running_jobs(1, user=["secret_carol"], name=["secret_z"])
    seen = view(pending, [900.0, 60.0, 60.0], running=running, room=nodes((4,), (4,)))
    plan, veiled = decided(seen), hide_other_users(seen, "alice")
    for job_id in (1, 2, 3, 901):
        answers = [why(veiled, plan, Rules(), job_id), explain(veiled, plan, Rules(), job_id)]
        assert "secret" not in json.dumps([asdict(answer) for answer in answers])
    answer = why(veiled, plan, Rules(), 1)
    assert "2 jobs for the same nodes, asking for 2 GPUs, stand ahead of it" in answer.reason
    assert answer.blockers == (), "only counts, and the asker's own jobs"


def test_whether_our_order_is_in_force_follows_from_mode_and_powers():
    assert order_is_off("act", "", {"order"}) == ""
    assert order_is_off("act", "", {"hold"}) == "power.order is off"
    assert order_is_off("observe", "paused by root", {"order"}) == "paused by root"


def test_requeues_are_counted_and_the_limit_on_them_is_said():
    rules = Rules(most_requeues=3)
    for restarts, ckpt, words in (
        (0, True, None),
        (1, True, "It was queued again 1 time so far."),
        (3, True, "It was queued again 3 times so far, and is asked to stop no more (stop.most_requeues = 3)."),
        (3, False, "It was queued again 3 times so far."),
    ):
        columns = {"restarts": [restarts], "ckpt": [ckpt]}
        seen = view(jobs(1, **columns), running=running_jobs(1, **columns))
        plan = decide(seen, SJF, rules)
        for job in (1, 901):
            found = [line for line in why(seen, plan, rules, job).details if "queued again" in line]
            assert found == ([words] if words else []), job


def test_a_begin_time_that_squeue_shows_as_the_start_is_not_called_slurms_estimate():
    held = {"reason": ["BeginTime"], "eligible_s": [NOW_S + 40], "started_s": [NOW_S + 40]}
    for columns, said in ((held, False), ({"started_s": [NOW_S + 40]}, True)):
        assert ("Slurm itself says in 40 s." in told(view(jobs(1, **columns))).time) == said


KEPT = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


def test_of_nodes_that_slurm_calls_down_or_kept_for_others_it_says_which_is_so():
    seen = view(jobs(2, reason=[KEPT, "Priority"], partition=["gpu", "gpu"]), [900.0, 60.0], room=nodes((4, 4), (4, 4)))
    assert told(seen).reason.startswith("1 job of alice for the same nodes"), "they are in use, and nothing else"
    drained = {"usable": np.array([True, False]), "state": Labels.of(["mixed", "drained"])}
    out = told(replace(seen, nodes=seen.nodes.changed(**drained, down_reason=Labels.of(["", "fan"]))))
    assert out.reason.startswith("Of the nodes that it may use some take no jobs: n2 is drained (fan). ")
    assert out.advice.startswith("'sinfo -R' says which nodes are out of service")
    both = seen.nodes.changed(partitions=Labels.of(["gpu,fast"] * 2))
    above = replace(seen, nodes=both, pending=seen.pending.changed(partition=Labels.of(["gpu", "fast"])))
    assert told(above).reason.startswith("Jobs in fast, of a higher tier, come first on its nodes. ")

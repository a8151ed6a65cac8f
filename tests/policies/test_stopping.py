"""Early ends by consent: who may end, what decide() makes of it, and what the cycle does with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, nodes, running_jobs, view

from slurmsched.cluster.actions import End
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.decide.rules import Rules
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.stopping import overload_degree
from slurmsched.powers import decide

FIFO = find_ordering("fifo")
RULES = Rules(powers=frozenset({"stop"}), stopping="owner-rule")


def progress(*rows):
    """Rows of (job, accuracy, fall of the loss, told already), and perhaps whether its curve has settled."""
    job_id, accuracy, fall, told, settled = zip(*((*row, False)[:5] for row in rows), strict=True)
    flags = (np.array(column, dtype=np.bool_) for column in (told, settled))
    unknown = np.full(len(rows), np.nan)
    return ProgressTable(np.array(job_id), np.full(len(rows), 5), np.array(accuracy), np.array(fall), unknown, *flags)


def ends(*comments, reports, rules=RULES, **columns):
    running = running_jobs(len(comments), job_id=np.arange(11, 11 + len(comments)), comment=list(comments), **columns)
    plan = decide(replace(view(jobs(0), running=running), progress=progress(*reports)), FIFO, rules)
    return [action.job_id for action in plan.actions if isinstance(action, End)], plan.refusals


NAN = float("nan")


@pytest.mark.parametrize(
    ("comment", "accuracy", "fall", "ended"),
    [
        ("slurmsched:stop=acc:0.9", 0.9, NAN, True),
        ("slurmsched:stop=acc:0.9", 0.89, NAN, False),
        ("slurmsched:stop=acc:0.9", NAN, 0.0, False),
        ("slurmsched:stop=loss:0.2%", NAN, 0.002, True),
        ("slurmsched:stop=loss:0.2%", 1.0, 0.0021, False),
        ("slurmsched:stop=loss:0.2%", NAN, NAN, False),
        ("slurmsched:stop=opt", 1.0, 0.0, False),
        ("slurmsched:stop=never", 1.0, 0.0, False),
        ("", 1.0, 0.0, False),
        ("slurmsched:stop=acc:0.9,off", 1.0, 0.0, False),
    ],
)
def test_a_job_may_end_when_it_has_what_its_owner_asked_for(comment, accuracy, fall, ended):
    assert (ends(comment, reports=[(11, accuracy, fall, False)])[0] == [11]) is ended


def test_a_job_may_end_when_its_curve_has_settled_if_its_owner_leaves_the_moment_open():
    settled = [(11, 0.5, NAN, False, True), (12, 1.0, 0.0, False, False), (13, 0.5, NAN, False, True)]
    comments = ("slurmsched:stop=opt", "slurmsched:stop=opt", "slurmsched:stop=acc:0.9")
    assert ends(*comments, reports=settled)[0] == [11]


def test_reports_of_other_jobs_change_nothing_and_a_permission_is_renewed_in_each_cycle():
    three = ["slurmsched:stop=acc:0.9"] * 3
    assert ends(*three, reports=[(12, 1.0, NAN, False), (99, 1.0, NAN, False), (13, 1.0, NAN, True)])[0] == [12, 13]
    assert ends("slurmsched:stop=never", reports=[(11, 1.0, NAN, True)])[0] == []


def test_without_the_power_or_under_never_nobody_ends():
    report = [(11, 1.0, NAN, False)]
    asked, refusals = ends("slurmsched:stop=acc:0.9", reports=report, rules=Rules(stopping="owner-rule"))
    assert asked == []
    assert [refusal.rule for refusal in refusals] == ["power_is_on"]
    assert ends("slurmsched:stop=acc:0.9", reports=report, rules=Rules(powers=frozenset({"stop"})))[0] == []


CONTROL = replace(RULES, stopping="mlf-c")
WAITING = 9  #: GPUs, one more than the two nodes of a view have


@pytest.mark.parametrize(
    ("comment", "accuracy", "settled", "alone", "overloaded"),
    [
        ("slurmsched:stop=never,busy=acc:0.9", 0.9, False, False, True),
        ("slurmsched:stop=never,busy=acc:0.9", 0.89, True, False, False),
        ("slurmsched:stop=never,busy=opt", 0.5, True, False, True),
        ("slurmsched:stop=opt,busy=acc:0.9", 0.9, False, False, True),
        ("slurmsched:stop=opt,busy=acc:0.9", 0.5, True, False, False),
        ("slurmsched:stop=opt,busy=acc:0.9", 0.9, True, True, True),
        ("slurmsched:stop=acc:0.95", 0.94, True, False, False),
        ("slurmsched:stop=acc:0.95", 0.95, True, True, True),
        ("slurmsched:busy=acc:0.9,off", 1.0, True, False, False),
        ("", 1.0, True, False, False),
    ],
)
def test_on_an_overloaded_cluster_a_job_may_end_by_the_rule_that_its_owner_allows_then(
    comment, accuracy, settled, alone, overloaded
):
    running = running_jobs(1, job_id=[11], comment=[comment])
    for waiting, ends_now in ((0, alone), (1, overloaded)):
        seen = replace(view(jobs(waiting, gpus=[WAITING] * waiting), running=running))
        seen = replace(seen, progress=progress((11, accuracy, NAN, False, settled)))
        ended = [action.job_id for action in decide(seen, FIFO, CONTROL).actions if isinstance(action, End)]
        assert (ended == [11]) is ends_now


def test_nodes_whose_resources_are_used_overload_the_cluster_without_a_queue():
    running = running_jobs(1, job_id=[11], comment=["slurmsched:busy=acc:0.5"])
    for used, ends_now in ((7, False), (8, True)):
        room = replace(nodes((4, 4)), cpus_used=np.array([used, used], dtype=np.int64))
        seen = replace(view(jobs(0), running=running, room=room), progress=progress((11, 0.6, NAN, False)))
        assert any(isinstance(action, End) for action in decide(seen, FIFO, CONTROL).actions) is ends_now


def test_whole_gpus_of_jobs_that_were_never_measured_overload_no_node():
    room = nodes((4, 4), (4, 4))
    idle = view(jobs(0), running=running_jobs(1, gpus=[8]), room=room)
    busy = replace(idle, running=replace(idle.running, gpu_util=np.array([0.95])))
    assert (overload_degree(idle), overload_degree(busy)) == (0.0, pytest.approx(0.95))

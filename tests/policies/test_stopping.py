"""Early ends by consent: who may end, what decide() makes of it, and what the cycle does with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, running_jobs, view

from slurmsched.cluster.actions import End
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.decide.engine import decide
from slurmsched.decide.rules import Rules
from slurmsched.policies.contract import find_ordering

FIFO = find_ordering("fifo")
RULES = Rules(powers=frozenset({"stop"}), stopping="owner-rule")


def progress(*rows):
    """Rows of (job, accuracy, fall of the loss, told already), and perhaps whether its curve has settled."""
    job_id, accuracy, fall, told, settled = zip(*((*row, False)[:5] for row in rows), strict=True)
    flags = (np.array(column, dtype=np.bool_) for column in (told, settled))
    return ProgressTable(np.array(job_id), np.full(len(rows), 5), np.array(accuracy), np.array(fall), *flags)


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

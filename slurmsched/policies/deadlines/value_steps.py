"""Steps of deadlines: the moments until which the end of a job is worth something."""

from __future__ import annotations

from collections.abc import Sequence

from ...cluster.comment_columns import soft_steps
from ...cluster.jobs import JobTable, deadline_of

SOFT_STEPS = ((0.8, 1.1), (0.5, 1.2), (0.2, 1.5))
"""Default steps (worth, times) of a soft deadline; times multiply its time from the first submit."""


def steps_of(jobs: JobTable, row: int, usual: Sequence[tuple[float, float]] = SOFT_STEPS) -> list[tuple[float, float]]:
    """Return (moment, worth) steps, the deadline itself first (worth 1.0); a soft deadline without steps gets *usual*.

    A step in local time is a distance on the wall clock from the deadline, without a daylight-saving change between.
    """
    deadline_s, first_submit_s = float(jobs.deadline_s[row]), float(jobs.first_submit_s[row])
    deadline, own = deadline_of(jobs, row), soft_steps(jobs.steps[row])
    steps = [(deadline_s, 1.0)]
    if deadline is None or not jobs.soft[row]:
        return steps
    if not own:
        ahead_s = deadline_s - first_submit_s
        return steps + [(first_submit_s + times * ahead_s, value) for value, times in usual]
    for step in own:
        if step.by.since == deadline.since:
            steps.append((deadline_s + step.by.at_s - deadline.at_s, step.value))
        elif step.by.since == "submit":
            steps.append((first_submit_s + step.by.at_s, step.value))
        elif step.by.since == "epoch":
            steps.append((float(step.by.at_s), step.value))
    return steps

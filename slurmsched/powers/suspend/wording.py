"""Explanations of suspension for ``why``, ``explain`` and ``eta``: who pauses for whom, and when it goes on."""

from __future__ import annotations

from collections.abc import Iterator

from ...cluster.actions import Resume, Suspend, job_of
from ...cluster.jobs import JobState
from ...cluster.plan import Plan
from ...cluster.state import View
from ...decide.phrasing import spell
from ...decide.rules import Rules
from .pauses import company, ends_s, harms


def suspension_words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield sentences about a running job that is suspended, shall be, or runs in place of one that is."""
    row = view.running.row_of(job_id)
    if row is None:
        return
    if any(isinstance(wish, Resume) and job_of(wish) == job_id for wish in plan.actions):
        yield "We suspended it, and it goes on now."
        return
    yield from pause_words(view, rules, job_id)
    if rules.suspension is None or view.running.state[row] != JobState.RUNNING:
        return
    begins = {job_of(wish) for wish in plan.actions if isinstance(wish, Suspend)}
    for guest, host, why in harms(view, rules):
        if row not in (guest, host):
            continue
        other = view.running.job_id[host if row == guest else guest]
        who, rested_s = ("it" if row == guest else f"job {other}"), float(view.running.rested_s[guest])
        if int(view.running.job_id[guest]) in begins:
            most = spell(rules.suspension.most_s)
            yield f"It takes turns with job {other}, and {why}: {who} is suspended now, for {most} at most."
        elif rested_s > view.now_s:
            again = spell(rested_s - view.now_s)
            yield f"It takes turns with job {other}, and {why}: {who} may be suspended again in {again}."
        else:
            yield f"It takes turns with job {other}, and {why}: {who} may not be suspended."


def pause_words(view: View, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield sentences about suspensions of the job itself, that are in force or to come, or of one on its GPUs."""
    jobs = view.running
    row = jobs.row_of(job_id)
    if row is None:
        return
    if jobs.state[row] == JobState.SUSPENDED and not jobs.suspended_by_us[row]:
        yield "It was suspended by others, who alone resume it: we resume only what we suspended."
    pairs = company(jobs) if jobs.suspended_by_us.any() else []
    for guest, host in pairs:
        if row not in (guest, host) or not jobs.suspended_by_us[guest]:
            continue
        since, until = spell(view.now_s - float(jobs.suspended_s[guest])), _until(view, rules, guest)
        if row == guest:
            yield (
                f"We suspended it {since} ago for job {jobs.job_id[host]} on the same GPUs, since they harm each other"
                f" in turns. It goes on {until}, or when that job ends."
            )
        else:
            yield (
                f"Job {jobs.job_id[guest]} on its GPUs was suspended {since} ago, so that it runs alone meanwhile. That"
                f" job goes on {until}."
            )
    if (halts_s := float(jobs.halts_s[row])) > 0:
        runs_s = float(view.run_left.median_s[row])
        yield f"Until its end it runs for about {spell(runs_s)}, and is suspended for about {spell(halts_s)} in all."


def _until(view: View, rules: Rules, row: int) -> str:
    if rules.suspension is None:
        return "now"
    left_s = float(ends_s(view, rules.suspension)[row]) - view.now_s
    return f"in {spell(left_s)} at the latest" if left_s > 0 else "now"

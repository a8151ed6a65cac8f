"""Answers about deadlines: promised or not, the latest start, and changes that would help."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.forecast import Forecast
from ..cluster.jobs import JobTable, deadline_of
from ..cluster.plan import Plan, Standing
from ..cluster.reasons import ReasonKind, reason_of
from ..cluster.records.promises import SAME_S, PromiseTable
from ..cluster.state import View
from ..cluster.text.plural import count
from ..decide.deadlines.promises import promise
from ..decide.deadlines.stops import stops
from ..decide.ordering.eligibility import standing
from ..decide.rules import Rules
from ..powers.deadlines.wording import sentences, state_word
from .obstacles import why_never


@dataclass(frozen=True)
class DeadlineAnswer:
    """The answer to one job, in words, with the figures behind them; times are Unix seconds."""

    job_id: int
    known: bool  #: false if neither Slurm nor slurmsched has such a job
    answer: str  #: promised, in doubt, refused, met, broken, withdrawn, lost, or unasked where there is no answer
    deadline_s: float | None = None
    promised_s: float | None = None  #: the deadline, or a later step of a soft one
    worth: float | None = None  #: of ending by then, 1 for the deadline itself
    needs_s: float | None = None  #: the runtime that counts against quotas
    start_by_s: float | None = None  #: by when it must start; None unless it waits
    slack_s: float | None = None  #: how long that is from now
    earliest_s: float | None = None  #: the earliest end that could be promised when it asked
    announced_s: float | None = None  #: when its owner was told that the promise may not be kept
    user: str = ""
    sentences: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()  #: parts of the request that the answer leaves out


def deadline(view: View, plan: Plan, job_id: int) -> DeadlineAnswer:
    """Return the promise to *job_id* and its outcome."""
    place = plan.promises.last_of(job_id, view.first_submit_s(job_id))
    row, running = view.pending.row_of(job_id), view.running.row_of(job_id)
    if place is not None:
        return _answered(plan.promises, place, view)
    if row is None and running is None:
        text = f"Slurm listed no pending or running job {job_id} in that cycle, and no recent request has that id."
        return DeadlineAnswer(job_id, False, "unasked", sentences=(text,))
    jobs, at = (view.pending, row) if row is not None else (view.running, running)
    return DeadlineAnswer(job_id, True, "unasked", sentences=(_unasked(jobs, at or 0, plan, row),))


def deadlines(view: View, plan: Plan) -> tuple[DeadlineAnswer, ...]:
    """Return the latest answer to each pending or running job, the earliest latest start first."""
    table = plan.promises
    here = dict(
        pair
        for jobs in (view.running, view.pending)
        for pair in zip(jobs.job_id.tolist(), jobs.first_submit_s.tolist(), strict=True)
    )
    submits = zip(table.job_id.tolist(), table.first_submit_s.tolist(), strict=True)
    last = {job: place for place, (job, at_s) in enumerate(submits) if job in here and abs(here[job] - at_s) <= SAME_S}
    answers = [_answered(table, place, view) for place in last.values()]
    return tuple(sorted(answers, key=lambda one: (one.start_by_s or math.inf, one.promised_s or math.inf, one.job_id)))


def check(view: View, plan: Plan, job: JobTable, forecast: Forecast, rules: Rules) -> DeadlineAnswer:
    """Return the answer that *job*, a table of one row, would get if submitted now; it creates no promise."""
    job_id = int(job.job_id[0])
    if rules.deadlines is None:
        return DeadlineAnswer(
            job_id, True, "unasked", sentences=("Nothing is promised here: deadline.enabled is off.",)
        )
    if not np.isfinite(job.deadline_s[0]):
        text = "It says no deadline: add one to its --comment, such as slurmsched:deadline=+6h."
        return DeadlineAnswer(job_id, True, "unasked", sentences=(text,))
    if job.reservation[0] or reason_of(job.reason[0]).kind is ReasonKind.HELD_BY_USER:
        why = "a request with a reservation" if job.reservation[0] else "a held job"
        text = f"No promise for its deadline: no time can be told for {why}."
        return DeadlineAnswer(job_id, True, "refused", deadline_s=float(job.deadline_s[0]), sentences=(text,))
    beside = replace(
        view, pending=view.pending.joined(job), forecast=view.forecast.joined(forecast), promises=plan.promises
    )
    if never := why_never(beside, len(view.pending)):
        text = f"No promise for its deadline. {' '.join(never)}"
        return DeadlineAnswer(job_id, True, "refused", deadline_s=float(job.deadline_s[0]), sentences=(text,))
    alone = Standing(int(standing(job, view.partitions, rules.only_partitions)[0]))
    if alone is not Standing.RANKED:
        text = f"No promise for its deadline: we leave such a job alone ({_left_alone(alone)})."
        return DeadlineAnswer(job_id, True, "refused", deadline_s=float(job.deadline_s[0]), sentences=(text,))
    standings = np.append(plan.jobs.standing, int(Standing.RANKED))
    stopping = stops(beside, rules)
    asking = (plan.jobs.standing == Standing.RANKED) & np.isfinite(view.pending.deadline_s)
    before = asking & ~np.isin(view.pending.job_id, plan.promises.job_id)
    standings[:-1][before] = Standing.OUTSIDE  # else they might take the turn
    table = promise(beside, standings, rules.deadlines, "order" in rules.powers, stopping).table
    told = _answered(table, len(table) - 1, beside)
    if not before.any():
        return told
    waits = int(before.sum())
    text = f"{count(waits, 'request')} that came before {'waits' if waits == 1 else 'wait'} for an answer."
    return replace(told, sentences=(*told.sentences, text))


def _answered(table: PromiseTable, place: int, view: View) -> DeadlineAnswer:
    start_by_s = _known(table.start_by_s[place])
    return DeadlineAnswer(
        job_id=int(table.job_id[place]),
        known=True,
        answer=state_word(table, place),
        deadline_s=float(table.deadline_s[place]),
        promised_s=_known(table.promised_s[place]),
        worth=float(table.worth[place]),
        needs_s=_known(table.needs_s[place]),
        start_by_s=start_by_s,
        slack_s=None if start_by_s is None else start_by_s - view.now_s,
        earliest_s=_known(table.earliest_s[place]),
        announced_s=_known(table.announced_s[place]),
        user=table.user[place],
        sentences=tuple(sentences(table, place, view)),
    )


def _left_alone(why: Standing) -> str:
    return why.name.lower().replace("_", " ")


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _unasked(jobs: JobTable, at: int, plan: Plan, row: int | None) -> str:
    """Return the reason why a pending or running job has no answer."""
    job_id, deadline, problem = int(jobs.job_id[at]), deadline_of(jobs, at), jobs.comment_problem[at]
    if math.isfinite(jobs.deadline_s[at]):
        if row is None:
            return f"Job {job_id} runs, and nothing was promised to it before it started."
        found = Standing(int(plan.jobs.standing[row]))
        if found is not Standing.RANKED:
            words = _left_alone(found)
            return f"Job {job_id} has no answer while we leave it alone ({words}); see 'slurmsched why {job_id}'."
        return (
            f"Job {job_id} has no answer: deadline.enabled is off, or it waits for its turn in one of the next cycles."
        )
    if deadline is not None:
        return (
            f"The deadline {deadline} of job {job_id} means no single moment: that local time happens twice or "
            "never (daylight saving). Add the offset from UTC."
        )
    return f"Job {job_id} asks for no deadline" + (f": {problem}." if problem else " in its comment.")

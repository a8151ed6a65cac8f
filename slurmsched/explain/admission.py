"""Explanations of admission for ``why``: the bound that keeps a job outside, and the jobs in line before it."""

from __future__ import annotations

import numpy as np

from ..cluster.jobs import JobTable
from ..cluster.plan import Plan, Standing
from ..cluster.state import View
from ..cluster.text.plural import count
from ..decide.admission import Scope, in_order, scopes
from ..decide.interactive import HOUR_S, interactive_queue
from ..decide.rules import Rules
from ..policies.admission import LoadBound, find_admission


def admission_words(view: View, plan: Plan, rules: Rules, row: int) -> str:
    """Return a sentence with the figures of the bound that keeps the pending *row* outside; empty where none does."""
    if rules.admission is None or plan.jobs.standing[row] != Standing.OUTSIDE:
        return ""
    for scope in scopes(view, rules, plan.jobs.standing, plan.jobs.starving):
        if row in scope.rows:
            return _words(scope, view.pending, row, rules.admission.part) + _interactive_words(view, rules, row)
    return ""


def _interactive_words(view: View, rules: Rules, row: int) -> str:
    """Return why the allowance of its user does not let an interactive job pass; empty for any other job."""
    queue = interactive_queue(view, rules)
    found = np.flatnonzero(queue.rows == row)
    if not len(found):
        return ""
    used_h, asked_h, most_h = queue.used_s[found[0]] / HOUR_S, queue.asked_s[found[0]] / HOUR_S, queue.most_s / HOUR_S
    asks = f"asks for {asked_h:.3g} by its time limit" if np.isfinite(asked_h) else "sets no bound on what it asks for"
    return (
        f" Interactive jobs of a user pass this line for {most_h:g} GPU-hours a day (policy.interactive_gpu_hours): "
        f"{view.pending.user[row]} has {used_h:.3g}, and this job {asks}."
    )


def _words(scope: Scope, jobs: JobTable, row: int, line: str) -> str:
    before = int(np.flatnonzero(in_order(jobs, scope.rows[~scope.inside]) == row)[0])
    place = f"{count(before, 'job')} came before it" if before else "it is the first in line"
    admits, inside = find_admission(line).function, scope.view.running.joined(scope.view.pending.take(scope.inside))
    if not isinstance(admits, LoadBound):
        return f"Outside: {line} does not let it in; {place}."
    requested = int((inside.gpus * inside.tasks).sum())
    return f"Outside: {requested} of {scope.gpus} x {admits.load:g} GPUs are asked for; {place}."

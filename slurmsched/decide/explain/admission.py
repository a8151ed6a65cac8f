"""Explanations of admission for ``why``: the bound that keeps a job outside, and the jobs in line before it."""

from __future__ import annotations

import numpy as np

from ...cluster.jobs import JobTable
from ...cluster.plan import Plan, Standing
from ...cluster.state import View
from ...cluster.text.plural import count
from ...policies.admission import LoadBound, find_admission
from ..admission import Scope, in_order, scopes
from ..rules import Rules


def admission_words(view: View, plan: Plan, rules: Rules, row: int) -> str:
    """Return a sentence with the figures of the bound that keeps the pending *row* outside; empty where none does."""
    if rules.admission is None or plan.jobs.standing[row] != Standing.OUTSIDE:
        return ""
    for scope in scopes(view, rules, plan.jobs.standing, plan.jobs.starving):
        if row in scope.rows:
            return _words(scope, view.pending, row, rules.admission.part)
    return ""


def _words(scope: Scope, jobs: JobTable, row: int, line: str) -> str:
    before = int(np.flatnonzero(in_order(jobs, scope.rows[~scope.inside]) == row)[0])
    place = f"{count(before, 'job')} came before it" if before else "it is the first in line"
    admits, inside = find_admission(line).function, scope.view.running.joined(scope.view.pending.take(scope.inside))
    if not isinstance(admits, LoadBound):
        return f"Outside: {line} does not let it in; {place}."
    requested = int((inside.gpus * inside.tasks).sum())
    return f"Outside: {requested} of {scope.gpus} x {admits.load:g} GPUs are asked for; {place}."

"""Explanations of changes that kept a job from starting, for ``why`` and ``explain``."""

from __future__ import annotations

from collections.abc import Iterator

from ..cluster.actions import Avoid
from ..cluster.avoided import HALF_TAKEN
from ..cluster.plan import Plan
from ..cluster.state import View
from ..decide.not_repeated import MOVE, RESIZE, RIGHTSIZE, STEER, notes_in_force
from ..decide.rules import Rules

_CHANGED = {
    STEER: "the nodes that it excludes",
    RIGHTSIZE: "its CPUs and memory",
    RESIZE: "its number of GPUs",
    MOVE: "its partitions",
}
_UNTIL = "until its request or the limits change"


def given_back_words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield a sentence about changes of a job that we gave back, and do not repeat."""
    for jobs in (view.pending, view.running):
        row = jobs.row_of(job_id)
        if row is not None:
            for note in notes_in_force(view, jobs, row):
                happened = _happened(note.reason, "did")
                yield f"We had changed {_what(note.changes)}, {happened}, and we gave its own back; not again {_UNTIL}."


def giving_back(plan: Plan, job_id: int) -> str:
    """Return a sentence about changes that go back in this cycle; empty where there are none."""
    for action in plan.actions:
        if isinstance(action, Avoid) and action.job_id == job_id:
            happened = _happened(action.reason, "does")
            return f"We changed {_what(action.changes)}, {happened}; we give its own back, not to change it {_UNTIL}."
    return ""


def _what(changes: str) -> str:
    return " and ".join(_CHANGED.get(change, change) for change in changes.split("+"))


def _happened(reason: str, verb: str) -> str:
    if reason == HALF_TAKEN:
        return "Slurm took over only a part of that"
    return f"Slurm {verb} not start it so ({reason})"

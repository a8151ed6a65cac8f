"""Explanations of migration for ``why`` and ``explain``: overloaded nodes, and why a job leaves them or stays."""

from __future__ import annotations

from collections.abc import Iterator

from ...cluster.actions import AskToStop, Steer
from ...cluster.exclusions import sent_to
from ...cluster.plan import Plan
from ...cluster.state import View
from ...cluster.text.hostlist import expanded, fold
from ...decide.excluded_nodes import kept_off
from ...decide.node_use import RESOURCES, NodeUse
from ...decide.phrasing import spell
from ...decide.rules import MigrationRules, Rules
from .leaving import Gains, reason_to_stay


def migration_words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield sentences about what migration does to a job."""
    pending, running = view.pending.row_of(job_id), view.running.row_of(job_id)
    if pending is not None:
        yield from _of_pending(view, plan, rules, pending)
    elif running is not None and rules.migration is not None:
        yield from _of_running(view, plan, rules, rules.migration, running)


def _of_pending(view: View, plan: Plan, rules: Rules, row: int) -> Iterator[str]:
    jobs, terms = view.pending, rules.migration
    left, job = jobs.left_nodes[row], int(jobs.job_id[row])
    excluded = set(expanded(jobs.excluded_nodes[row])) if jobs.steered[row] else set[str]()
    off = kept_off(view, terms).get(row)
    if terms is not None and off is not None:
        ends_s = min(float(jobs.left_s[row]) + terms.every_s, float(jobs.submitted_s[row]) + terms.patience_s)
        writes = any(isinstance(action, Steer) and action.job_id == job for action in plan.actions)
        what = "We keep it off" if off <= excluded else "We exclude" if writes else "It shall be kept off"
        yield f"It left {left}, overloaded then. {what} {fold(sorted(off))} for another {spell(ends_s - view.now_s)}."
    elif set(expanded(left)) & excluded and not sent_to(jobs.steered[row]):
        yield f"We kept it off {fold(sorted(excluded))}, and let it go there again."


def _of_running(view: View, plan: Plan, rules: Rules, terms: MigrationRules, row: int) -> Iterator[str]:
    nodes, job = NodeUse(view, terms.overload), int(view.running.job_id[row])
    if not len(nodes.left_by(row)):
        return
    for at in nodes.left_by(row).tolist():
        parts = zip(RESOURCES, nodes.parts[at].tolist(), nodes.overloaded[at].tolist(), strict=True)
        uses = ", ".join(f"{part:.0%} of its {name}" for name, part, over in parts if over)
        yield f"Its node {view.nodes.name[at]} is overloaded: {uses} are in use."
    gains = Gains(view, terms, nodes)
    gain = f"it would gain {spell(float(gains.gain_s[row]))}, and to stop costs {spell(float(gains.cost_s[row]))}"
    if any(isinstance(action, AskToStop) and action.job_id == job and action.leaves for action in plan.actions):
        yield f"We ask it to save its work and go on elsewhere: {gain}."
    else:
        yield f"It stays there: {reason_to_stay(view, rules, plan.jobs.standing, row) or gain}."

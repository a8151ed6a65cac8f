"""Explanations of steering for ``why`` and ``explain``: the type of GPU to which a job is sent, and why."""

from __future__ import annotations

from collections.abc import Iterator

from ...cluster.actions import Steer, Unsteer
from ...cluster.exclusions import ANY_TYPE, sent_to
from ...cluster.plan import Plan
from ...cluster.speed_texts import read_speeds
from ...cluster.state import View
from ...decide.phrasing import spell
from ...decide.rules import Rules, SteeringRules


def steering_words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield sentences about what steering does to a pending job."""
    row = view.pending.row_of(job_id)
    if row is not None:
        yield from _words(view, plan, row, rules.steering)


def _words(view: View, plan: Plan, row: int, rules: SteeringRules | None) -> Iterator[str]:
    jobs = view.pending
    job, steered, accepted = int(jobs.job_id[row]), jobs.steered[row], jobs.types[row]
    for action in plan.actions:
        if isinstance(action, Steer) and action.job_id == job and action.types != ANY_TYPE:
            gain = _gain(view, row, action.types)
            yield f"We send it to {_types(action.types)}, by excluding {action.excluded}.{gain}"
            return
        if isinstance(action, Unsteer) and action.job_id == job and sent_to(steered):
            yield f"We sent it to {_types(steered)}, and let it go to GPUs of any type again."
            return
    if sent_to(steered):
        gain, left = _gain(view, row, steered), ""
        if rules is not None and steered != accepted:
            left_s = max(float(jobs.steered_s[row]), float(jobs.submitted_s[row])) + rules.patience_s - view.now_s
            left = f" If these stay full for another {spell(left_s)}, it is let go."
        yield f"We sent it to {_types(steered)}, by excluding {jobs.excluded_nodes[row]}.{gain}{left}"
    elif rules is None or steered:
        return
    elif jobs.excluded_nodes[row]:
        yield "It excludes nodes, and not by us: we send it to no type of GPU."
    elif jobs.steered_s[row] > 0 and (rest_s := float(jobs.steered_s[row]) + rules.again_s - view.now_s) > 0:
        yield f"We let it go to GPUs of any type, and send it to no type again for {spell(rest_s)}."


def _types(types: str) -> str:
    return f"GPUs of type {types.replace('+', ' or ')}"


def _gain(view: View, row: int, types: str) -> str:
    """Return a sentence about the known speeds of a job, empty where there are none."""
    speeds = read_speeds(view.pending.type_speeds[row])
    here = max((speeds[name] for name in types.split("+") if name in speeds), default=0.0)
    others = [(name, speed) for name, speed in speeds.items() if name not in types.split("+")]
    if not here or not others:
        return ""
    compared = ", ".join(f"{here / speed:.2g} times as fast as on {name}" for name, speed in others)
    return f" Jobs of its kind are {compared}."

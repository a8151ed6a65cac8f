"""Turns: for how long guests of shared GPUs will still be suspended, played forward. Pure.

The pairs stay as they are: nobody joins, and a guest is suspended again and again until it or its host ends. What the
two lose of their speed while both run is part of their forecasts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...cluster.jobs import JobState
from ...cluster.outlook.remaining import Remaining
from ...cluster.state import View
from ...decide.rules import Rules
from .pauses import LEAST_S, agreed, company, harms


def coming_suspensions(view: View, rules: Rules) -> Remaining | None:
    """Return for how long each running job will still be suspended in all, by each bound of ``run_left``."""
    terms, left = rules.suspension, view.run_left
    guests = _guests(view, rules) if terms is not None and view.running.shares.any() else []
    if terms is None or not guests:
        return None
    columns = []
    for left_s in (left.low_s, left.median_s, left.high_s):
        column_s = np.zeros(len(view.running))
        for one in guests:
            host_s = max(float(left_s[host]) for host in one.hosts)
            column_s[one.row] = suspended_s(float(left_s[one.row]), host_s, terms.most_s, one.since_s, one.rest_s)
        columns.append(column_s)
    return Remaining(*columns)


class _Guest(NamedTuple):
    row: int
    hosts: list[int]  #: those that run, by row
    since_s: float | None  #: for how long we have it suspended; None if it runs
    rest_s: float  #: for how long it runs before it may be suspended; infinite if it never may again


def _guests(view: View, rules: Rules) -> list[_Guest]:
    """Return the guests that we have suspended, or may suspend, each with the hosts that run."""
    jobs, pairs = view.running, company(view.running)
    runs, ours = jobs.state == JobState.RUNNING, jobs.suspended_by_us & ~jobs.off
    may = agreed(view) & ~np.isin(np.arange(len(jobs)), [host for _, host in pairs])
    harming = {harm.guest for harm in harms(view, rules)}
    hosts: dict[int, list[int]] = {}
    for guest, host in pairs:
        if runs[host] and (ours[guest] or (guest in harming and may[guest])):
            hosts.setdefault(guest, []).append(host)
    return [
        _Guest(
            row,
            its,
            view.now_s - float(jobs.suspended_s[row]) if ours[row] else None,
            max(float(jobs.rested_s[row]) - view.now_s, 0.0) if may[row] else math.inf,
        )
        for row, its in hosts.items()
    ]


def suspended_s(left_s: float, host_s: float, most_s: float, since_s: float | None, rest_s: float) -> float:
    """Return for how long a guest that still runs for *left_s* is suspended from now on, before it or its host ends.

    The host ends in *host_s*, and may never. The guest has been suspended for *since_s*, or runs (None) and may not be
    suspended for another *rest_s*. It is suspended for *most_s* at a time, and then runs as long as it was suspended;
    for ever after the first suspension if *rest_s* is infinite.
    """
    if math.isinf(left_s) and math.isinf(host_s):
        return math.inf
    at_s = total_s = 0.0
    if since_s is not None:
        total_s = at_s = min(max(min(most_s, left_s) - since_s, 0.0), host_s)
        rest_s = rest_s if math.isinf(rest_s) else since_s + total_s
    while True:
        left_s, at_s = left_s - rest_s, at_s + rest_s
        pause_s = min(most_s, left_s, host_s - at_s)
        if not (min(most_s, left_s) >= LEAST_S and pause_s > 0):
            return total_s
        turns = 1
        if pause_s == most_s:  # as many whole turns at once as there is time for
            turns = max(math.floor(min(left_s / most_s - 1, (host_s - at_s) / (2 * most_s))), 1)
        total_s += turns * pause_s
        at_s += pause_s + (turns - 1) * 2 * most_s
        left_s -= (turns - 1) * most_s
        rest_s = pause_s

"""Pauses: which guests of shared GPUs are suspended for their hosts, and until when. Pure.

Of two jobs on one GPU the guest is the one that started later. Slurm has two slots for each GPU, so a suspended guest
keeps its own, and its memory: the GPU's time is all that its host gets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from ...cluster.actions import Resume, Suspend
from ...cluster.columns import BoolArray, FloatArray
from ...cluster.job_kind import kind_of
from ...cluster.jobs import JobState, JobTable
from ...cluster.records.progress import rows_of
from ...cluster.state import View
from ...decide.rules import Rules, SharingRules, SuspensionRules
from ...decide.sharing.pair_eviction import rows_of_pair
from ...decide.sharing.shared_nodes import gpus_of_all, pairs_on, token_of

LEAST_S = 10.0
"""A shorter suspension is not begun: it gains nobody anything."""


class Harm(NamedTuple):
    """Two jobs that harm each other on their GPUs, by row of the running jobs, and how it was seen."""

    guest: int
    host: int
    why: str


def company(jobs: JobTable) -> list[tuple[int, int]]:
    """Return the guest and the host of each pair of jobs on one GPU, by row, sorted; suspended jobs keep theirs."""
    rows = np.flatnonzero(jobs.shares & np.isin(jobs.state, (JobState.RUNNING, JobState.SUSPENDED)))
    of, gpus = gpus_of_all(jobs, rows)
    some = zip(*(rows[side].tolist() for side in pairs_on(jobs.node_list.codes[rows], of, gpus)), strict=True)
    return sorted({_guest_first(jobs, one, other) for one, other in some})


def _guest_first(jobs: JobTable, one: int, other: int) -> tuple[int, int]:
    def came(row: int) -> tuple[float, int]:
        return float(np.nan_to_num(jobs.started_s[row], nan=np.inf)), int(jobs.job_id[row])

    return (one, other) if came(one) > came(other) else (other, one)


def harms(view: View, rules: Rules) -> list[Harm]:
    """Return the pairs that take turns on GPUs, run, and harm each other, where a requeue cannot end it."""
    jobs, sharing = view.running, rules.sharing
    if sharing is None or not jobs.shares.any():
        return []
    runs = jobs.state == JobState.RUNNING
    pairs = [pair for pair in company(jobs) if runs[list(pair)].all() and _in_turns(jobs, pair)]
    pairs = [pair for pair in pairs if not jobs.ckpt[list(pair)].any()]
    whys = ((guest, host, _why(view, guest, host, sharing)) for guest, host in pairs)
    return [Harm(guest, host, why) for guest, host, why in whys if why]


def _in_turns(jobs: JobTable, pair: tuple[int, int]) -> bool:
    """Return True if one of a pair has no MPS: then the GPU runs one of the two at a time."""
    return any(token is not None and token.turns for token in (token_of(jobs, row) for row in pair))


def _why(view: View, guest: int, host: int, sharing: SharingRules) -> str:
    for instability in sharing.unstable:
        if {guest, host} <= set(rows_of_pair(view, instability)):
            return f"their load on the same GPUs is unstable ({instability.why})"
    speeds = [(row, _measured_speed(view, row, other, sharing)) for row, other in ((host, guest), (guest, host))]
    for row, speed in speeds:
        if speed < sharing.least_speed_each:
            job, least = view.running.job_id[row], sharing.least_speed_each
            return f"job {job} keeps {speed:.2f} of its speed there, less than {least:g}"
    return ""


def _measured_speed(view: View, row: int, other: int, sharing: SharingRules) -> float:
    """Return the lowest speed of a job beside another one by its own reports and those of its kind; 1 without any.

    The curve alone, which no job of this site was measured for, suspends nobody.
    """
    jobs, speed = view.running, 1.0
    shown, known = rows_of(view.progress, jobs.job_id[row : row + 1])
    if known[0] and view.progress.slowdown[shown[0]] > 1.0:
        speed = float(1.0 / view.progress.slowdown[shown[0]])
    kept = dict(sharing.kept).get(kind_of(jobs.user[row], jobs.name[row]))
    if kept is not None and jobs.measured[row] and jobs.measured[other]:
        util_sum = np.array([jobs.gpu_util[row] + jobs.gpu_util[other]])
        speed = min(speed, kept * float(sharing.packing().pair_speed(util_sum)[0]))
    return speed


def suspend_wishes(view: View, rules: Rules, busy: Collection[int]) -> list[Suspend]:
    """Return suspensions of guests that may be suspended now; jobs in *busy* have another action already."""
    if rules.suspension is None:
        return []
    jobs, may = view.running, _may(view, rules.suspension)
    found = harms(view, rules)
    hosts = {host for _, host in company(jobs)} if found else set()
    guests = (
        harm.guest
        for harm in found
        if may[harm.guest]
        and harm.guest not in hosts
        and not {int(jobs.job_id[harm.guest]), int(jobs.job_id[harm.host])} & set(busy)
    )
    return [Suspend(int(jobs.job_id[row])) for row in dict.fromkeys(guests)]


def _may(view: View, terms: SuspensionRules) -> BoolArray:
    """Select running jobs that may be suspended now: those that ran as long as they were suspended last."""
    rested = view.running.rested_s <= view.now_s
    return np.asarray(agreed(view) & rested & (_most_s(view, terms) >= LEAST_S))


def agreed(view: View) -> BoolArray:
    """Select running jobs that may be suspended at some time."""
    jobs = view.running
    promised = np.isin(jobs.job_id, view.promises.job_id[view.promises.open])
    single = (jobs.array_job_id == 0) & (jobs.het_job_id == 0)
    return np.asarray(single & ~jobs.interactive & ~jobs.off & ~promised)


def resume_wishes(view: View, rules: Rules) -> list[Resume]:
    """Return the ends of our suspensions: in time, or once nobody runs on the job's GPUs, or its owner said off."""
    jobs = view.running
    rows = np.flatnonzero(jobs.suspended_by_us)
    if not len(rows):
        return []
    terms = rules.suspension
    over = jobs.off.copy() if terms is not None else np.ones(len(jobs), dtype=np.bool_)
    if terms is not None:
        over |= ends_s(view, terms) <= view.now_s
        over |= ~np.isin(np.arange(len(jobs)), list(_accompanied(jobs)))
    return [Resume(int(jobs.job_id[row])) for row in rows[over[rows]].tolist()]


def _accompanied(jobs: JobTable) -> Iterator[int]:
    """Yield the rows of jobs on whose GPUs another one runs."""
    for pair in company(jobs):
        for one, other in (pair, pair[::-1]):
            if jobs.state[other] == JobState.RUNNING:
                yield one


def ends_s(view: View, terms: SuspensionRules) -> FloatArray:
    """Return the times at which our suspensions of running jobs end at the latest."""
    return np.asarray(view.running.suspended_s + _most_s(view, terms))


def _most_s(view: View, terms: SuspensionRules) -> FloatArray:
    """Return for how long each running job may be suspended: no longer than it still needs itself."""
    return np.asarray(np.minimum(terms.most_s, view.run_left.median_s))

"""Quotas: limits on promises to users and accounts."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.state import View
from ...cluster.text.plural import count
from ...cluster.ties import in_ms, in_points
from ...policies.deadlines.reservations import DeadlineRequests
from ..rules import DeadlineRules
from .gpu_availability import GpuAvailability

HOUR_S = 3600.0


class Quotas:
    """The usage that counts against quotas of users and accounts: the answers of *table*, and those added later.

    *held* are the requests of the pending *rows* that have a promise.
    """

    def __init__(
        self,
        view: View,
        table: PromiseTable,
        rules: DeadlineRules,
        availability: GpuAvailability,
        rows: IntArray,
        held: DeadlineRequests,
    ) -> None:
        self._jobs, self._now_s, self._rules, self._availability = view.pending, view.now_s, rules, availability
        self._requested: Counter[str] = Counter()
        self._hours: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._waiting: dict[str, _Waiting] = {}
        gpus, hours = asked_gpus(view, table, rules).tolist(), held_hours(view, table, rules).tolist()
        for user, account, gpus_asked, held_h in zip(table.user, table.account, gpus, hours, strict=True):
            self._requested[user] += gpus_asked
            self._hours["user", user] += held_h
            self._hours["account", account] += held_h
        users = self._jobs.user.codes[rows]
        for code in np.unique(users).tolist():
            mine = np.flatnonzero(users == code)
            self._waiting[self._jobs.user.names[code]] = _Waiting(rows[mine], held.take(mine))

    def share_of_user(self, row: int) -> str:
        """Count a request of a pending *row*; return the violated quota as a sentence, empty if none is."""
        user, gpus, most = self._jobs.user[row], int(self._jobs.gpus[row]), self._rules.user_gpus
        requested = self._requested[user]
        self._requested[user] += gpus
        if self._exempt(row) or not most or requested + gpus <= most:
            return ""
        return (
            f"{user} has asked deadlines for {count(requested, 'GPU')} lately, and may for {most} in "
            f"{self._rules.interval_s:g} s (deadline.user_gpus)"
        )

    def refusal(self, row: int, request: DeadlineRequests) -> str:
        """Return the quota that a promise to a pending *row* would violate, as a sentence; empty if none."""
        if self._exempt(row):
            return ""
        rules, user, account = self._rules, self._jobs.user[row], self._jobs.account[row]
        hours = self._gpu_hours(row)
        for key, who, limit in (
            (("user", user), user, rules.user_gpu_hours),
            (("account", account), account and f"account {account}", rules.account_gpu_hours),
        ):
            if limit and who and in_points(self._hours[key] + hours) > in_points(limit):
                return (
                    f"{who} has been promised {self._hours[key]:.4g} GPU-hours, this one asks for {hours:.4g} more, "
                    f"and the quota is {limit:g} (deadline.{key[0]}_gpu_hours)"
                )
        waiting = self._waiting.get(user)
        if (
            rules.user_share < 1
            and waiting
            and waiting.above(self._availability.most(row) * rules.user_share, request, self._now_s)
        ):
            return (
                f"{user} has been promised {rules.user_share:.0%} of the GPUs' time until then, which is the most for "
                "one user (deadline.user_share)"
            )
        return ""

    def add(self, row: int, request: DeadlineRequests) -> None:
        """Count a promise to a pending *row*."""
        self._count(row, 1)
        waiting = self._waiting.get(self._jobs.user[row])
        new = _Waiting(np.array([row]), request)
        self._waiting[self._jobs.user[row]] = new if waiting is None else waiting.plus(new)

    def remove(self, row: int, request: DeadlineRequests) -> None:
        """Undo ``add``."""
        self._count(row, -1)
        self._waiting[self._jobs.user[row]] = self._waiting[self._jobs.user[row]].without(row)

    def _count(self, row: int, sign: int) -> None:
        hours = sign * self._gpu_hours(row)
        self._hours["user", self._jobs.user[row]] += hours
        self._hours["account", self._jobs.account[row]] += hours

    def _gpu_hours(self, row: int) -> float:
        return float(self._jobs.gpus[row] * self._availability.charged_s[row]) / HOUR_S

    def _exempt(self, row: int) -> bool:
        return bool({self._jobs.user[row], self._jobs.account[row]} & set(self._rules.exempt))


@dataclass(frozen=True, eq=False)
class _Waiting:
    """The promises to pending jobs of one user."""

    jobs: IntArray  #: pending rows
    requests: DeadlineRequests

    def plus(self, other: _Waiting) -> _Waiting:
        return _Waiting(np.concatenate([self.jobs, other.jobs]), self.requests.plus(other.requests))

    def without(self, row: int) -> _Waiting:
        rest = self.jobs != row
        return _Waiting(self.jobs[rest], self.requests.take(rest))

    def above(self, gpus: float, request: DeadlineRequests, now_s: float) -> bool:
        """Return whether these and *request* need more GPU time than *gpus* have, until its due time or any later one.

        Only promises that share rows of room with it count. A single promise may always need more.
        """
        near = self.requests.take(np.flatnonzero((self.requests.rows & request.rows).any(axis=1)))
        if not len(near):
            return False
        every = near.plus(request)
        order = np.argsort(every.due_s, kind="stable")
        due_s, needed = every.due_s[order], np.cumsum((every.gpus * every.needs_s)[order])
        return bool((in_ms(needed) > in_ms(gpus * (due_s - now_s)))[due_s >= request.due_s[0]].any())


def asked_gpus(view: View, table: PromiseTable, rules: DeadlineRules) -> IntArray:
    """Return the GPUs of each request of the last ``interval_s``, promised or not; 0 for older ones."""
    return np.asarray(np.where(table.asked_s > view.now_s - rules.interval_s, table.gpus, 0))


def held_hours(view: View, table: PromiseTable, rules: DeadlineRules) -> FloatArray:
    """Return the GPU-hours of each row that count against a quota: promised in the last ``window_s``, not withdrawn."""
    counts = np.isin(table.state, (PromiseState.OPEN, PromiseState.MET, PromiseState.BROKEN))
    counted = counts & ((table.asked_s > view.now_s - rules.window_s) | table.open)
    return np.asarray(table.gpus * np.where(counted, table.needs_s, 0.0) / HOUR_S)

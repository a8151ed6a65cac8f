"""Quotas: how much may be promised to whom."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..cluster.promises import PromiseState, PromiseTable
from ..cluster.state import View
from .rules import DeadlineRules

HOUR_S = 3600.0


def over_quota(view: View, table: PromiseTable, row: int, needs_s: float, rules: DeadlineRules) -> str:
    """Which quota a promise of *needs_s* to the pending *row* would break, in words; empty where none."""
    user, account = view.pending.user[row], view.pending.account[row]
    if {user, account} & set(rules.exempt):
        return ""
    gpus = int(view.pending.gpus[row])
    theirs = np.array([name == user for name in table.user], dtype=np.bool_)
    asked = int(asked_gpus(view, table, rules)[theirs].sum())
    if rules.user_gpus and asked + gpus > rules.user_gpus:
        return (
            f"{user} has asked deadlines for {asked} GPUs lately, and may for "
            f"{rules.user_gpus} in {rules.interval_s:g} s (deadline.user_gpus)"
        )
    hours = gpus * needs_s / HOUR_S
    mine = np.array([name == account for name in table.account], dtype=np.bool_)
    for who, rows, limit, name in (
        (user, theirs, rules.user_gpu_hours, "user_gpu_hours"),
        (account and f"account {account}", mine, rules.account_gpu_hours, "account_gpu_hours"),
    ):
        held = float(held_hours(view, table, rules)[rows].sum())
        if limit and who and held + hours > limit:
            return (
                f"{who} has been promised {held:.4g} GPU-hours, this one asks for {hours:.4g} more, and the quota is "
                f"{limit:g} (deadline.{name})"
            )
    return ""


def asked_gpus(view: View, table: PromiseTable, rules: DeadlineRules) -> IntArray:
    """GPUs of each job that asked in the last ``interval_s``, promised or not."""
    return np.asarray(np.where(table.asked_s > view.now_s - rules.interval_s, table.gpus, 0))


def held_hours(view: View, table: PromiseTable, rules: DeadlineRules) -> FloatArray:
    """GPU-hours of each row that count against a quota: promised in the last ``window_s`` and not withdrawn."""
    counts = np.isin(table.state, (PromiseState.OPEN, PromiseState.MET, PromiseState.BROKEN))
    counted = counts & ((table.asked_s > view.now_s - rules.window_s) | table.open)
    return np.asarray(table.gpus * np.where(counted, table.needs_s, 0.0) / HOUR_S)

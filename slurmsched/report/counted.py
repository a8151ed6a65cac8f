"""What a daemon counted by the hour: the cluster's free GPUs, the effect of the order, the load of Slurm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ..cluster.records.hours import HOUR_S, HourTable
from .answer import Cluster, Ledger, Load, Order, OrderEffect, Stranded
from .hour_names import (
    CALLS,
    COUNTED_S,
    EFFECT_JOBS,
    EFFECT_LATER,
    EFFECT_S,
    EFFECT_SAMPLES,
    EFFECT_SOONER,
    FREE_S,
    GPUS_S,
    MODE_CALLS,
    REFUSED,
    RPC_S,
    RPC_SPAN_S,
    RPCS,
    STRANDED_CPUS_S,
    STRANDED_MEMORY_S,
    WAITED_FOR_S,
    WRITES,
    named,
)
from .redraws import interval
from .replayed import replayed_waits

MODES = ("observe", "advise", "act")
STRANDED_MOST = 20


class HourSums:
    """The sums of an HourTable over its hours, by name."""

    def __init__(self, table: HourTable) -> None:
        self.table = table
        sums = np.bincount(table.what.codes, table.value, len(table.what.names)) if len(table) else np.zeros(0)
        self._sums: dict[str, float] = dict(zip(table.what.names, sums.tolist(), strict=False))

    def __getitem__(self, what: str) -> float:
        return self._sums.get(what, 0.0)

    def starting(self, what: str) -> dict[str, float]:
        """Return the sums of all modes, kinds or commands of *what*, by name."""
        head = f"{what}:"
        return {name.removeprefix(head): value for name, value in self._sums.items() if name.startswith(head) and value}

    @property
    def counted_s(self) -> float:
        """Seconds of the span that a daemon counted."""
        return sum(self.starting(COUNTED_S).values())


def cluster(sums: HourSums) -> Cluster | None:
    """Return what was counted of all GPUs; None where no daemon counted."""
    if not sums[GPUS_S]:
        return None
    return {
        "counted_hours": sums.counted_s / HOUR_S,
        "capacity": sums[GPUS_S] / HOUR_S,
        "free": sums[FREE_S] / HOUR_S,
        "free_while_waiting": sums[WAITED_FOR_S] / HOUR_S,
        "stranded_cpus": sums[STRANDED_CPUS_S] / HOUR_S,
        "stranded_memory": sums[STRANDED_MEMORY_S] / HOUR_S,
        "stranded_by": list(_stranded(sums.table))[:STRANDED_MOST],
    }


def ledger(sums: HourSums) -> Ledger | None:
    """Return what slurmsched asked of Slurm; None where no daemon counted."""
    if not sums.counted_s:
        return None
    return {
        "counted_hours": sums.counted_s / HOUR_S,
        "writes": {kind: round(many) for kind, many in sorted(sums.starting(WRITES).items())},
        "refused": round(sums[REFUSED]),
        "calls": {command: round(many) for command, many in sorted(sums.starting(CALLS).items())},
        "load": [_load(sums, mode) for mode in MODES if sums[named(COUNTED_S, mode)]],
    }


def orders(table: HourTable) -> Iterator[Order]:
    """Yield the effect of the order by account in each mode: the largest harm first."""
    sums = HourSums(table)
    for mode in MODES:
        if sums[named(EFFECT_SAMPLES, mode)]:
            accounts = list(_effects(table, mode))
            accounts.sort(key=lambda one: (-one["change_s"], one["account"]))
            yield {
                "mode": mode,
                "hours": sums[named(COUNTED_S, mode)] / HOUR_S,
                "accounts": accounts,
                "replayed": list(replayed_waits(table, mode)),
            }


def _load(sums: HourSums, mode: str) -> Load:
    counted_min, span_min = sums[named(COUNTED_S, mode)] / 60.0, sums[named(RPC_SPAN_S, mode)] / 60.0
    rpcs = sums[named(RPCS, mode)]
    return {
        "mode": mode,
        "hours": counted_min / 60.0,
        "rpcs_per_min": rpcs / span_min if span_min else np.nan,
        "ours_per_min": sums[named(MODE_CALLS, mode)] / counted_min if counted_min else np.nan,
        "rpc_mean_s": sums[named(RPC_S, mode)] / rpcs if rpcs else np.nan,
    }


def _stranded(table: HourTable) -> Iterator[Stranded]:
    hours: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    kinds = (STRANDED_CPUS_S, STRANDED_MEMORY_S)
    for what, account, user, value in zip(table.what, table.account, table.user, table.value.tolist(), strict=True):
        if what in kinds:
            hours[account, user][kinds.index(what)] += value / HOUR_S
    for (account, user), (cpus, memory) in sorted(hours.items(), key=lambda one: (-sum(one[1]), one[0])):
        yield {"account": account, "user": user, "cpus": cpus, "memory": memory}


def _effects(table: HourTable, mode: str) -> Iterator[OrderEffect]:
    names = {named(what, mode): what for what in (EFFECT_JOBS, EFFECT_S, EFFECT_SOONER, EFFECT_LATER, EFFECT_SAMPLES)}
    parts: dict[str, dict[str, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    rows = zip(table.what, table.account, table.from_s.tolist(), table.value.tolist(), strict=True)
    for what, account, from_s, value in rows:
        if what in names:
            parts[account][names[what]][from_s] = value
    samples = sum(parts.pop("", {}).get(EFFECT_SAMPLES, {}).values()) or 1.0
    for account, sums in parts.items():
        jobs = sum(sums[EFFECT_JOBS].values())
        hours = sorted(sums[EFFECT_JOBS])
        series = (np.array([sums[what].get(hour, 0.0) for hour in hours]) for what in (EFFECT_S, EFFECT_JOBS))
        low_s, high_s = interval(*series)
        yield {
            "account": account,
            "hours": len(hours),
            "jobs": jobs / samples,
            "change_s": sum(sums[EFFECT_S].values()) / jobs,
            "low_s": low_s,
            "high_s": high_s,
            "sooner": sum(sums[EFFECT_SOONER].values()) / jobs,
            "later": sum(sums[EFFECT_LATER].values()) / jobs,
        }

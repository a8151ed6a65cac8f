"""What idle GPUs cost: who held them, and who waited for them, as a daemon added it up by the hour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..cluster.records.hours import HOUR_S, HourTable
from .answer import IdleHarm, IdleHolder, IdleWaiter
from .hour_names import IDLE_HELD_S, IDLE_JOBS, IDLE_WAIT_GPU_S, IDLE_WAIT_S

MOST = 20  #: names that are listed of each kind

Owner = tuple[str, str]


def idle_harm(table: HourTable) -> IdleHarm | None:
    """Return what idle GPUs cost others; None where no GPU was held idle."""
    sums: dict[str, dict[Owner, float]] = defaultdict(lambda: defaultdict(float))
    for what, account, user, value in zip(table.what, table.account, table.user, table.value.tolist(), strict=True):
        sums[what][account, user] += value
    if not sums[IDLE_HELD_S] and not sums[IDLE_WAIT_S]:
        return None
    return {
        "held": sum(sums[IDLE_HELD_S].values()) / HOUR_S,
        "jobs": round(sum(sums[IDLE_JOBS].values())),
        "waited": sum(sums[IDLE_WAIT_S].values()) / HOUR_S,
        "waited_gpus": sum(sums[IDLE_WAIT_GPU_S].values()) / HOUR_S,
        "holders": list(_holders(sums[IDLE_HELD_S]))[:MOST],
        "waiters": list(_waiters(sums))[:MOST],
    }


def _holders(held_s: dict[Owner, float]) -> Iterator[IdleHolder]:
    for (account, user), value in sorted(held_s.items(), key=lambda one: (-one[1], one[0])):
        yield {"account": account, "user": user, "held": value / HOUR_S}


def _waiters(sums: dict[str, dict[Owner, float]]) -> Iterator[IdleWaiter]:
    for owner, value in sorted(sums[IDLE_WAIT_S].items(), key=lambda one: (-one[1], one[0])):
        yield {
            "account": owner[0],
            "user": owner[1],
            "jobs": round(sums[IDLE_JOBS].get(owner, 0.0)),
            "waited": value / HOUR_S,
            "waited_gpus": sums[IDLE_WAIT_GPU_S].get(owner, 0.0) / HOUR_S,
        }

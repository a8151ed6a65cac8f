"""The usage with which fair share begins: that of runs before a replay."""

from __future__ import annotations

import numpy as np

from ..cluster.columns import Labels
from ..cluster.jobs import JobTable
from .slurmctld.multifactor import UserUsage, Weights, share_out
from .workload.workload import Workload, workload


def use_before(usage: UserUsage, weights: Weights, users: Labels, past: Workload) -> None:
    """Let the *users* of a replay begin with the decayed usage of their *past* runs, as if none of these had waited.

    Users without a job in the replay are not counted among those who share.
    """
    code = {name: at for at, name in enumerate(users.names)}
    whose = past.user.map([code.get(name, -1) for name in past.user.names], np.int64)
    passed_s = np.maximum(usage.until_s[0] - (past.submit_s + past.runtime_s), 0.0)
    used_s = past.runtime_s * np.where(past.gpus > 0, past.gpus, past.cpus) * 0.5 ** (passed_s / weights.half_life_s)
    usage.used_s[:] = np.bincount(whose[whose >= 0], used_s[whose >= 0], len(usage.used_s))
    share_out(usage)


def so_far(running: JobTable, now_s: float) -> Workload:
    """Return what *running* jobs have used until now, as runs that end now."""
    ran_s = np.nan_to_num(np.maximum(now_s - running.started_s, 0.0))
    return workload(
        len(running),
        **{name: getattr(running, name) for name in ("job_id", "user", "gpus")},
        cpus=-(-running.cpus // np.maximum(running.nodes, 1)),
        submit_s=now_s - ran_s,
        runtime_s=ran_s,
    )

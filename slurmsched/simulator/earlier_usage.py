"""The usage with which fair share begins: that of runs before a replay."""

from __future__ import annotations

import numpy as np

from ..cluster.jobs import JobTable
from .slurmctld.fair_share import Usage, add, share_out
from .slurmctld.multifactor import Weights
from .slurmctld.shared_accounts import SharedAccounts
from .workload.workload import Workload, workload


def use_before(usage: Usage, weights: Weights, accounts: SharedAccounts, past: Workload) -> None:
    """Let the users of a replay begin with the decayed usage of their *past* runs, as if none of these had waited.

    Users that *accounts* lack, those without a job in the replay where Slurm's are not known, are not counted.
    """
    whose, shares = accounts.rows_of(past), usage.shares
    passed_s = np.maximum(usage.until_s[0] - (past.submit_s + past.runtime_s), 0.0)
    used_s = past.runtime_s * np.where(past.gpus > 0, past.gpus, past.cpus) * 0.5 ** (passed_s / weights.half_life_s)
    shares.used_s[:] = 0.0
    of_users = np.bincount(whose[whose >= 0], used_s[whose >= 0], len(shares.used_s))
    for row in np.flatnonzero(of_users).tolist():
        add(shares, row, float(of_users[row]))
    share_out(shares, weights.fair_tree, weights.dampening)


def so_far(running: JobTable, now_s: float) -> Workload:
    """Return what *running* jobs have used until now, as runs that end now."""
    ran_s = np.nan_to_num(np.maximum(now_s - running.started_s, 0.0))
    return workload(
        len(running),
        **{name: getattr(running, name) for name in ("job_id", "user", "account", "partition", "gpus")},
        cpus=-(-running.cpus // np.maximum(running.nodes, 1)),
        submit_s=now_s - ran_s,
        runtime_s=ran_s,
    )

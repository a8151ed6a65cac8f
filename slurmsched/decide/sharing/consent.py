"""Who may share GPUs by the settings of the site and the words of owners."""

from __future__ import annotations

import numpy as np

from ...cluster.columns import BoolArray
from ...cluster.jobs import JobTable
from ..rules import SharingRules


def consent_bars(jobs: JobTable, rules: SharingRules) -> list[tuple[BoolArray, str]]:
    """Return the reasons of owners and settings that bar jobs from sharing: per reason a mask and its text.

    ``nopack`` and ``off`` hold whatever else a comment says.
    """
    others = jobs.account.map(
        [bool(rules.accounts) and name not in rules.accounts for name in jobs.account.names], np.bool_
    )
    return [
        (jobs.nopack | jobs.off, "its owner does not want to share"),
        (others, "its account is not one of share.accounts"),
        (~jobs.pack & rules.optin, "its owner did not ask for it with slurmsched:pack"),
    ]


def is_barred(jobs: JobTable, rules: SharingRules) -> BoolArray:
    """Select the jobs that owners or settings bar from sharing."""
    barred = np.zeros(len(jobs), dtype=np.bool_)
    for holds, _ in consent_bars(jobs, rules):
        barred |= holds
    return barred

"""What a trial counts between two cycles: how long jobs waited, and how many came, by account. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from ...cluster.columns import BoolArray
from ...cluster.jobs import JobTable
from ...cluster.records.trial import TrialSums
from ...cluster.state import View
from ...decide.ordering.ranking import queueing_s
from ...decide.rules import TrialRules
from ...decide.trial import held_out

NO_ACCOUNT = "(none)"


def waited(view: View, lasted_s: float, trial: TrialRules) -> Mapping[str, TrialSums]:
    """Return what jobs of *view* waited in the last *lasted_s* seconds, and those that came, by account.

    A job waits from when it is eligible until it starts, also while we delay it; not under a hold, a dependency or a
    begin time of its user. The tasks of an array count one by one.
    """
    found: dict[str, TrialSums] = defaultdict(TrialSums)
    pending, running, since_s = view.pending, view.running, view.now_s - lasted_s
    queues = ~np.isnan(queueing_s(pending, view.now_s))
    eligible_s = np.where(np.isnan(pending.waiting_since_s), pending.eligible_s, pending.waiting_since_s)
    came = queues & (eligible_s > since_s)
    tasks = np.maximum(pending.tasks, 1)
    spans_s = np.where(queues, np.minimum(lasted_s, np.maximum(view.now_s - np.nan_to_num(eligible_s), 0.0)), 0.0)
    _add(found, pending, tasks * spans_s, tasks * came, held_out(pending, trial))
    at_once = (running.eligible_s > since_s) & (running.eligible_s <= view.now_s)
    began_s = np.clip(running.started_s - np.maximum(running.eligible_s, since_s), 0.0, lasted_s)
    began_s = np.where(running.started_s > since_s, np.nan_to_num(began_s), 0.0)
    _add(found, running, began_s, at_once.astype(np.int64), held_out(running, trial))
    return found


def _add(found: dict[str, TrialSums], jobs: JobTable, waited_s: object, came: object, out: BoolArray) -> None:
    seconds, many = np.asarray(waited_s, np.float64), np.asarray(came, np.float64)
    codes, names = jobs.account.codes, jobs.account.names
    columns = (np.zeros(len(jobs)), seconds, many, seconds * out, many * out)
    sums = np.array([np.bincount(codes, column, len(names)) for column in columns]).T
    for code in np.flatnonzero(sums.any(axis=1)).tolist():
        account = names[code] or NO_ACCOUNT
        found[account] = found[account].plus(TrialSums(*sums[code].tolist()))

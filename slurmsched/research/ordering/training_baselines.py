"""Baselines of MLFS (CoNEXT'20, section 4.1): the orders of other systems for training jobs.

They are as that paper has them, and what a job reports moves only jobs of its account. What these systems do beside
the order has no counterpart for rigid gangs of tasks.
"""

from __future__ import annotations

import numpy as np

from ...cluster.columns import FloatArray, Labels
from ...cluster.state import View
from ...policies.contract import ordering
from ...policies.ordering.mlfs import Terms, bounded

LATE_SHARE = 0.25  #: the last part of the iterations, in which ``late_fall`` is measured
LEAST_RAN_S = 60.0


@ordering("graphene", changes="with_time")
def graphene(view: View) -> FloatArray:
    """Least remaining work first, GPUs times remaining time (Graphene's order among jobs, Grandl et al., OSDI'16).

    The tasks of a gang start together, so that the order among them and the packing of single tasks are gone.
    """
    terms = Terms.of(view, silent=True)
    return np.asarray(terms.left_s * terms.gpus)


@ordering("gandiva", changes="never")
def gandiva(view: View) -> FloatArray:
    """First come, first served (Gandiva, Xiao et al., OSDI'18); its moves of tasks are no part of the order."""
    return view.pending.came_s


@ordering("slaq", changes="with_time")
def slaq(view: View) -> FloatArray:
    """Most loss reduction per GPU and second first, each loss over its whole fall so far (SLAQ, Zhang et al., SoCC'17).

    A job that reported no course of its loss yet counts as one that lost all of it in the time that it ran.
    """
    ran_s = np.maximum(view.pending.ran_s, LEAST_RAN_S)

    def key(terms: Terms) -> FloatArray:
        known = terms.iteration > 1
        share = np.where(known & (terms.late_fall < 1), terms.late_fall / LATE_SHARE, 1.0)
        return np.asarray(-share / ran_s / terms.gpus)

    return bounded(view, key)


@ordering("hypersched", changes="with_time")
def hypersched(view: View) -> FloatArray:
    """Most progress expected until the deadline first, and late jobs last (HyperSched, Liaw et al., SoCC'19).

    The progress is the part of the loss still to lose, as far as the time until the deadline is enough for it.
    """

    def key(terms: Terms) -> FloatArray:
        enough = np.clip(terms.slack_s, 0.0, terms.left_s) / terms.left_s
        return np.asarray(np.where(terms.slack_s < 0, 1.0, -terms.loss_left * enough))

    return bounded(view, key)


@ordering("fair", changes="with_time")
def fair(view: View) -> FloatArray:
    """The virtual cluster that has fewest GPUs in use first, each in order of arrival (TensorFlow on Borg).

    A virtual cluster is an account, or a partition where all jobs are of one account. The key is the GPUs that it
    needs to run the job and all its earlier ones.
    """
    pending, running = view.pending, view.running
    by_account = len(pending.account.names) > 1
    mine, theirs = (jobs.account if by_account else jobs.partition for jobs in (pending, running))
    both = Labels.joined(mine, theirs)
    group, gpus = both.codes[: len(pending)], np.maximum(pending.gpus, 1) * pending.tasks
    busy = np.bincount(both.codes[len(pending) :], weights=running.gpus, minlength=len(both.names))
    needed = np.zeros(len(pending))
    by_arrival = np.lexsort((pending.job_id, pending.came_s, group))
    total = np.cumsum(gpus[by_arrival])
    first = np.flatnonzero(np.diff(group[by_arrival], prepend=-1))
    before = np.repeat((total - gpus[by_arrival])[first], np.diff(np.append(first, len(total))))
    needed[by_arrival] = total - before
    return np.asarray(busy[group] + needed)

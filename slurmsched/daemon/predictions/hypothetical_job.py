"""A hypothetical job on the cluster of a view, and its start and finish."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...clock import local_zone
from ...cluster.columns import Labels
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.permissions import Permissions
from ...cluster.plan import Plan
from ...cluster.reasons import reason_of
from ...cluster.sbatch_probe import PROBE_ID, Probe, Site, probe
from ...cluster.state import View
from ...cluster.text.sbatch import read_options
from ...cluster.text.sbatch_values import submission_failed
from ...decide.rules import Rules
from ...explain.deadlines import DeadlineAnswer, check
from ...explain.eta import Eta, unread
from ...explain.limits import beyond_words, doubts_of_new, full_for_new, own_limit, unread_limits_words
from ...models.port import Model
from ...models.requests.suggestions import Suggestion

VIOLATES = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
"""Slurm's words for a job beyond a limit at its submission."""

PredictCompletion = Callable[[JobTable, Forecast], Eta]
"""Predicts the start and finish of a job (a table of one row) with this forecast."""


def new_job(view: View, permissions: Permissions, options: str, user: str) -> Probe:
    """Return the job that *user* would submit now with these sbatch *options*, after all jobs that wait.

    ConfigError or CommentError describes options that sbatch or slurmctld would refuse.
    """
    tried = _asked(view, permissions, options, user)
    doubts = () if reason_of(tried.job.reason[0]).limit else (*doubts_of_new(view, tried.job), *unread(view))
    return replace(tried, not_understood=(*tried.not_understood, *doubts))


def _asked(view: View, permissions: Permissions, options: str, user: str) -> Probe:
    """Return the job of *user* with these *options*, without what is not known of its limits."""
    known = (view.pending.job_id, view.pending.array_job_id, view.running.job_id, view.running.array_job_id)
    site = Site(
        *(view.partitions, view.nodes, view.limits, permissions, unix_groups, view.topology, view.reservations),
        job_ids=frozenset(np.concatenate(known).tolist()),
    )
    asked = read_options(options)
    tried = probe(asked, user, view.now_s, local_zone(), site)
    job = tried.job
    if full := full_for_new(view, job):
        submission_failed(f"{VIOLATES}: {full}")
    if limit := own_limit(view, job, timed="time" in asked):
        if limit.is_refused(limit.asked(job, 0)):
            submission_failed(f"{VIOLATES}: {beyond_words(limit, job, 0)}")
        return replace(tried, job=job.changed(reason=Labels.of([limit.reason])))
    return tried


def unix_groups(user: str) -> frozenset[str] | None:
    """Return the names of the groups of *user* on this host; None where it does not know the user."""
    try:
        gids = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except (KeyError, OSError):
        return None
    return frozenset(filter(None, map(_group_name, gids)))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""


def try_out(
    view: View,
    permissions: Permissions,
    model: Model,
    predict: PredictCompletion,
    options: str,
    user: str,
    suggest: Callable[[JobTable], Suggestion | None] = lambda job: None,
) -> Eta:
    """Predict the start and finish of a job of *user* with these sbatch *options* if it were submitted now.

    A job without -t gets DefaultTime of its partition, else the longest limit. ConfigError or CommentError describes
    options that would be refused.
    """
    tried = _asked(view, permissions, options, user)
    answer = predict(tried.job, model.forecast(tried.job, view.now_s, view.running))
    notes = tuple(note.replace(str(PROBE_ID), "JOB") for note in answer.notes)
    left_out = dict.fromkeys((*tried.not_understood, *unread_limits_words(view), *answer.not_understood))
    return replace(answer, job_id=0, notes=notes, not_understood=tuple(left_out), suggestion=suggest(tried.job))


def check_deadline(
    view: View, plan: Plan, permissions: Permissions, model: Model, rules: Rules, options: str, user: str
) -> DeadlineAnswer:
    """Answer the deadline of such a job, which it would be promised now; the same options are refused."""
    tried, asked = new_job(view, permissions, options, user), read_options(options)
    forecast = model.forecast(tried.job, view.now_s, view.running)
    job = tried.job.changed(
        nice=np.array([int(asked.get("nice", "0") != "0")]),  # any but none makes us leave it alone
        fixed=np.array(["priority" in asked]),
        reason=tried.job.reason.renamed(["Dependency"]) if asked.get("dependency") else tried.job.reason,
    )
    answer = check(view, plan, job, forecast, rules)
    return replace(answer, not_understood=tried.not_understood)

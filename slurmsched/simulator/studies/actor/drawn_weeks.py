"""Weeks of a trace as workloads of section 4.1 of MLFS: its mix of GPUs, with deadlines and urgency."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....cluster.columns import IntArray
from ....errors import TooLittleHistory
from ...cluster_spec import ClusterSpec
from ...workload.workload import Workload, workload

WEEK_S = 7 * 86400.0
LIMIT_S = 86400.0  #: runtimes are cut there, and it is the time limit of every job
LOAD = 1.2
SIZES = 6  #: jobs have 1, 2, 4, ... 32 GPUs, each as often
FLEET = ClusterSpec.of(20, 4)
UNSEEN, CHOOSING = 4, 3  #: the last weeks are for the judgement, those before them for the choice among weights
FEWEST = 100  #: jobs in a week that counts


class Weeks(NamedTuple):
    """The rows of each week of a trace, by their purpose."""

    train: list[IntArray]
    choose: list[IntArray]
    unseen: list[IntArray]


def split_weeks(jobs: Workload) -> Weeks:
    """Split *jobs* into weeks, the last of them unseen; TooLittleHistory for fewer than one to train on."""
    if not len(jobs):
        raise TooLittleHistory("there are no jobs")
    number = ((jobs.submit_s - jobs.submit_s[0]) // WEEK_S).astype(np.int64)
    weeks = [rows for week in range(int(number[-1]) + 1) if len(rows := np.flatnonzero(number == week)) >= FEWEST]
    if len(weeks) < UNSEEN + CHOOSING + 1:
        raise TooLittleHistory(
            f"{len(weeks)} weeks of {FEWEST} jobs and more: at least {UNSEEN + CHOOSING + 1} are needed"
        )
    return Weeks(weeks[: -UNSEEN - CHOOSING], weeks[-UNSEEN - CHOOSING : -UNSEEN], weeks[-UNSEEN:])


def drawn_week(jobs: Workload, rows: IntArray, seed: int, load: float = LOAD) -> Workload:
    """Draw a workload from *rows* of a week, thinned to *load* times what FLEET can do in it.

    A week that has less stays whole. Half of the estimates of runtimes have a mean error of 11 %, the others one of
    30 %.
    """
    random = np.random.default_rng(seed)
    gpus = 2 ** random.integers(0, SIZES, len(rows))
    runtime_s = np.clip(jobs.runtime_s[rows], 1.0, LIMIT_S)
    shuffled = random.permutation(len(rows))
    work = np.cumsum((runtime_s * gpus)[shuffled])
    picked = np.sort(shuffled[: 1 + int(np.searchsorted(work, load * FLEET.total * WEEK_S))])
    submit_s, runtime_s, gpus = (jobs.submit_s[rows] - jobs.submit_s[rows[0]])[picked], runtime_s[picked], gpus[picked]
    count = len(picked)
    error = np.where(random.random(count) < 0.5, 0.11, 0.30) * np.sqrt(np.pi / 2)
    return workload(
        count,
        job_id=np.arange(1, count + 1),
        submit_s=submit_s,
        runtime_s=runtime_s,
        gpus=gpus,
        time_limit_s=np.full(count, LIMIT_S),
        estimate_s=np.minimum(runtime_s * np.exp(random.normal(0, 1, count) * error), LIMIT_S),
        deadline_s=submit_s + np.maximum(1.1 * runtime_s, random.uniform(0.5, 24, count) * 3600),
        urgency=random.integers(1, 11, count).astype(np.float64),
        best_effort=np.zeros(count, dtype=np.bool_),
    )

"""Replays that gather decisions for training: the event loop of ``simulate`` with keys from features alone.

The loop is the same, only the tables of a view are left out, whose columns the features do not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ....cluster.columns import FloatArray, IntArray, Labels
from ....policies.contract import find_ordering
from ....policies.ordering.mlfs import LEAST_LEFT, MOST_S, Terms
from ....policies.ordering.mlfs_rl import features
from ...fast.loops import Keys
from ...machine.direct import RanS, outages_of, rules_of, run_direct
from ...machine.pace import pace_of
from ...run import ways
from ...setup import Setup
from ...workload.workload import Workload
from .drawn_weeks import FLEET

SELECTION = "easy"  #: as slurmctld starts jobs: by order, behind a reservation for the first that must wait
CHOICES = 3  #: jobs of a decision whose choice is learned from, in their order
TEMPERATURE = 0.1  #: of the choice among jobs in training, in units of scores


class Decision(NamedTuple):
    """The waiting jobs at one time, and those that were first, up to one that could not start."""

    at_s: float
    rows: FloatArray  #: of features
    chosen: IntArray  #: numbers of rows, the first one first


@dataclass(frozen=True)
class Rollout:
    """One replay of a drawn week."""

    start_s: FloatArray
    end_s: FloatArray
    decisions: list[Decision]


def rollout(
    jobs: Workload, score: Callable[[FloatArray], FloatArray], random: np.random.Generator | None = None
) -> Rollout:
    """Replay *jobs* by their *score*; with *random* each decision draws its order, and is recorded.

    The order is that of scores over TEMPERATURE plus Gumbel noise, so that each next job is a draw from a softmax.
    """
    count, total = len(jobs), float(FLEET.total)
    recorded: list[tuple[float, IntArray, FloatArray, IntArray]] = []
    ones = np.ones(count)
    unknown = Terms(
        np.clip(jobs.estimate_s, 1.0, MOST_S),
        jobs.deadline_s,
        np.zeros(count),
        jobs.urgency,
        ones,
        ones,
        ones,
        jobs.gpus.astype(np.float64),
        Labels(np.zeros(count, dtype=np.int64), ("",)),
    )

    def keys(now_s: float, rows: IntArray, beside: IntArray, ran_s: RanS) -> FloatArray:
        """Return the key of each waiting job of *rows*, and record the decision that it is drawn for."""
        ran = ran_s(rows)
        left_s = np.maximum(jobs.estimate_s[rows] - ran, LEAST_LEFT * jobs.estimate_s[rows])
        terms = replace(
            unknown,
            left_s=np.clip(left_s, 1.0, MOST_S),
            slack_s=jobs.deadline_s[rows] - now_s,
            waited_s=np.maximum(now_s - jobs.submit_s[rows] - ran, 0.0),
            **{
                name: getattr(unknown, name)[rows]
                for name in ("urgency", "iteration", "late_fall", "loss_left", "gpus")
            },
        )
        found = features(terms, total - float(jobs.gpus[beside].sum()), total)
        key = -score(found)
        if random is not None:
            key = key / TEMPERATURE - random.gumbel(size=len(rows))
            recorded.append((now_s, rows, found, np.argsort(key, kind="stable")[:CHOICES]))
        return key

    setup = Setup(find_ordering("mlfs-rl"), SELECTION, forecast="told")
    model = run_direct(
        jobs,
        FLEET,
        rules_of(SELECTION, 0.0, setup.depth),
        Keys(np.zeros((1, count)), np.zeros(count), np.zeros(0)),
        ways(jobs, FLEET, setup),
        key_source=keys,
        outages=outages_of(jobs, FLEET),
        pace=pace_of(jobs, FLEET),
    )
    start_s, end_s = model.stage.life.first_s.copy(), model.stage.life.ended_s.copy()
    return Rollout(start_s, end_s, [_decision(start_s, *one) for one in recorded if len(one[1]) > 1])


def _decision(start_s: FloatArray, at_s: float, rows: IntArray, found: FloatArray, first: IntArray) -> Decision:
    """Return the decision whose first jobs are *first*, without those behind one that had to wait."""
    waits = np.flatnonzero(start_s[rows[first]] != at_s)
    return Decision(at_s, found.astype(np.float32), first[: int(waits[0]) + 1] if len(waits) else first)

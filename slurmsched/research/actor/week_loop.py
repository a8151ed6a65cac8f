"""Replays for training: the simulator's core with EASY backfill on equal nodes, by the scores of an actor.

The scores are computed in the same compiled loop, some fifty times as fast as an ordering that Python is asked for.
Nodes of several sizes count as one pool of GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.outlook.remaining import MIDDLE, left_s
from ...policies.by_address import entry_by_address, packed
from ...policies.compiled import inner
from ...policies.ordering.mlfs import MOST_S, NEUTRAL_URGENCY
from ...policies.ordering.mlfs_rl import FEATURES, Actor, feature_rows, score_rows
from ...policies.placement import CONSOLIDATE
from ...policies.selection.built_in import DEPTH
from ...simulator.cluster_spec import ClusterSpec
from ...simulator.engine.calendar import NEVER
from ...simulator.engine.keys import Keys
from ...simulator.machine.direct import direct, rules_of
from ...simulator.machine.event_loop import to_decision
from ...simulator.machine.starters import reserving
from ...simulator.slurmctld.slurmctld import put_in_order
from ...simulator.slurmctld.state import NOW, Controller
from ...simulator.workload.workload import Workload, of_gpus_alone

SELECTION = "easy"  #: as slurmctld starts jobs: by order, behind a reservation for the first that must wait
_feature_rows, _score_rows, _left_s = inner(feature_rows), inner(score_rows), inner(left_s)


@packed
class WeekJobs(NamedTuple):
    """What the scores need to know of the jobs, in order of submission."""

    submit_s: FloatArray
    estimate_s: FloatArray
    gpus: FloatArray
    deadline_s: FloatArray
    urgency: FloatArray


class Decisions(NamedTuple):
    """Features of the jobs that waited at each decision between several."""

    rows: FloatArray  #: of features, decision by decision
    first: IntArray  #: the first row of each decision, and at last the number of all rows

    @classmethod
    def of(cls, several: Sequence[Decisions]) -> Decisions:
        """Return the decisions of *several* replays, one after the other."""
        sizes = np.concatenate([np.diff(one.first) for one in several])
        return cls(np.concatenate([one.rows for one in several]), np.concatenate([[0], np.cumsum(sizes)]))


class Played(NamedTuple):
    """One replay."""

    start_s: FloatArray
    end_s: FloatArray
    decisions: Decisions


def play(jobs: Workload, fleet: ClusterSpec, actor: Actor, kept: int = 0) -> Played:
    """Replay *jobs* on *fleet* by the scores of *actor*, and keep the first decisions up to *kept* rows."""
    week = WeekJobs(
        jobs.submit_s,
        np.clip(np.nan_to_num(jobs.estimate_s, nan=MOST_S), 1.0, MOST_S),
        jobs.gpus.astype(np.float64),
        jobs.deadline_s,
        np.nan_to_num(jobs.urgency, nan=NEUTRAL_URGENCY),
    )
    count, pool = len(jobs), fleet if fleet.equal else ClusterSpec.of(1, fleet.total)
    no_keys = Keys(np.zeros((1, count)), np.zeros(count), np.zeros(0))
    how = np.full(count, CONSOLIDATE)
    model = direct(of_gpus_alone(jobs), pool, rules_of(SELECTION, 0.0, DEPTH), no_keys, how)
    rows, first = np.empty((kept, len(FEATURES))), np.zeros(kept + 1, dtype=np.int64)
    many = _play(model, week, actor.weights, rows, first)
    life = model.stage.life
    return Played(life.first_s.copy(), life.ended_s.copy(), Decisions(rows[: first[many]], first[: many + 1]))


@entry_by_address
def _play(c: Controller, jobs: WeekJobs, weights: tuple[FloatArray, ...], rows: FloatArray, first: IntArray) -> int:
    """Replay to the end; return the number of decisions in *rows*."""
    many, keeps = 0, True
    while to_decision(c, NEVER):
        if _any_has_room(c):  # else no job starts, whatever the order is
            waits = c.queue.many[0]
            keeps = keeps and (waits == 1 or first[many] + waits <= len(rows))
            _score(c, jobs, weights, rows, first[many] if keeps and waits > 1 else len(rows))
            if keeps and waits > 1:
                many += 1
                first[many] = first[many - 1] + waits
            put_in_order(c)
        reserving(c)
    return many


@inner
def _any_has_room(c: Controller) -> bool:
    """Return True if some waiting job asks for no more GPUs than are free."""
    free, waiting = c.stage.resources.free.gpus.sum(), c.queue.rows[: c.queue.many[0]]
    return bool(len(waiting) > 0 and c.stage.requests.gpus[waiting].min() <= free)


@inner
def _score(c: Controller, jobs: WeekJobs, weights: tuple[FloatArray, ...], rows: FloatArray, at: int) -> None:
    """Give the waiting jobs their scores as keys; keep their features in *rows* from *at* on, where there is room."""
    resources, life, now_s = c.stage.resources, c.stage.life, c.clock[NOW]
    waiting = np.sort(c.queue.rows[: c.queue.many[0]])
    running = c.stage.running.rows[: c.stage.running.many[0]]
    freed_s = _left_s(jobs.estimate_s[running], now_s - life.started_s[running], MIDDLE, np.inf)
    order = np.argsort(freed_s, kind="mergesort")
    found = _feature_rows(
        jobs.estimate_s[waiting],
        now_s - jobs.submit_s[waiting],
        jobs.deadline_s[waiting] - now_s,
        jobs.urgency[waiting],
        np.ones(len(waiting)),
        jobs.gpus[waiting],
        float(resources.free.gpus.sum()),
        float(resources.has.gpus.sum()),
        freed_s[order],
        jobs.gpus[running][order],
    )
    if at + len(waiting) <= len(rows):
        rows[at : at + len(waiting)] = found
    c.given.at[0, waiting] = -_score_rows(found, *weights)

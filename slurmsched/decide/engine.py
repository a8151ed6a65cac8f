"""decide(): from a view, a policy and rules to a Plan. Pure: the same three give the same Plan, bit for bit."""

from __future__ import annotations

import numpy as np

from ..cluster.actions import Action, Rank, Release
from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.jobs import JobTable
from ..cluster.plan import Placing, Plan, Standing
from ..cluster.state import View
from ..policies.hooks import Ordering
from ..slurm.labels import MOST_POINTS, label
from ..slurm.verbs import SETTLE_S
from .ranking import base_priority, order, qos_classes, tiers, waited_s
from .referee import judge
from .rules import Rules
from .runset import fill, free_gpus
from .standing import standing


def decide(view: View, ordering: Ordering, rules: Rules) -> Plan:
    """What should run, in which order, and the writes that make Slurm see it.

    Jobs that are left alone keep no points of ours. With a native ordering no job gets any.
    """
    jobs = view.pending
    standings = standing(jobs, view.partitions, rules.only_partitions)
    rows = np.flatnonzero(standings == Standing.RANKED)
    waited = waited_s(jobs, view.now_s)
    starving = waited > rules.starvation_s
    tier, qos, base = tiers(jobs, view.partitions), qos_classes(jobs, view.qos), base_priority(jobs)
    if ordering.native:
        ranked = rows[
            order(-base[rows].astype(np.float64), _none(rows), waited[rows], tier[rows], base[rows], jobs.job_id[rows])
        ]
    else:
        classes = tier if rules.scope == "queue" else tier * (int(qos.max(initial=0)) + 1) + qos
        key = _checked(ordering(view), jobs, ordering)
        ranked = rows[order(key[rows], starving[rows], waited[rows], classes[rows], base[rows], jobs.job_id[rows])]
    rank = np.full(len(jobs), -1, dtype=np.int64)
    rank[ranked] = np.arange(len(ranked))
    runs = np.zeros(len(jobs), dtype=bool)
    runs[ranked] = fill((jobs.gpus * jobs.tasks)[ranked], free_gpus(view.nodes))
    points, capped = (np.zeros(len(jobs), dtype=np.int64), np.zeros(len(jobs), dtype=bool))
    if not ordering.native:
        points, capped = _points(jobs, ranked, tier, base, rules)
    wishes = [*_release_wishes(jobs, view.now_s), *_rank_wishes(jobs, ranked, points)]
    actions, refusals = judge(wishes, view, rules)
    return Plan(Placing(standings, rank, starving, runs, points, capped), tuple(actions), tuple(refusals))


def _none(rows: IntArray) -> BoolArray:
    return np.zeros(len(rows), dtype=bool)


def _checked(key: FloatArray, jobs: JobTable, ordering: Ordering) -> FloatArray:
    if key.shape != (len(jobs),):
        raise ValueError(f"ordering {ordering.name!r} gave keys of shape {key.shape} for {len(jobs)} pending jobs")
    return key


def _points(
    jobs: JobTable, ranked: IntArray, tier: IntArray, base: IntArray, rules: Rules
) -> tuple[IntArray, BoolArray]:
    """Points per pending job: the top of each partition tier is labelled, everything else gets none.

    Slurm serves tiers one after the other, so that only jobs of one tier need be told apart.
    """
    points = np.zeros(len(jobs), dtype=np.int64)
    capped = np.zeros(len(jobs), dtype=bool)
    cap = rules.max_points if rules.scope == "points" else MOST_POINTS
    length = min(rules.window, cap)
    for value in np.unique(tier[ranked]).tolist():
        chain = ranked[tier[ranked] == value]
        top, rest = chain[:length], chain[length:]
        floor = int(base[rest].max(initial=0))
        labelling = label(base[top], jobs.site_points[top], floor, cap)
        points[top], capped[top] = labelling.points, labelling.capped
    return points, capped


def _release_wishes(jobs: JobTable, now_s: float) -> list[Action]:
    """Ends of begin times of ours that no policy wants any more, once a requeue has settled."""
    settled = (jobs.restarts == 0) | (now_s - jobs.submitted_s >= SETTLE_S)
    rows = np.flatnonzero(jobs.held_by_us & (jobs.eligible_s > now_s) & settled)
    return [Release(job_id) for job_id in jobs.job_id[rows].tolist()]


def _rank_wishes(jobs: JobTable, ranked: IntArray, points: IntArray) -> list[Action]:
    """Writes for jobs whose points differ from what they have: the top of the order first, then those given back."""
    differs = points != jobs.site_points
    if not differs.any():
        return []
    first = ranked[differs[ranked]]
    rest = np.setdiff1d(np.flatnonzero(differs), first)
    rows = np.concatenate([first, rest])
    return [
        Rank(job_id, value) for job_id, value in zip(jobs.job_id[rows].tolist(), points[rows].tolist(), strict=True)
    ]

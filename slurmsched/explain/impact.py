"""Impact of our order against Slurm's own, per account and QOS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cluster.columns import FloatArray, IntArray, Labels
from ..cluster.plan import Plan
from ..cluster.state import View
from ..cluster.text.plural import count
from ..decide.ordering.ranking import base_priority, order
from ..decide.phrasing import spell


@dataclass(frozen=True)
class GroupImpact:
    """The jobs of one account or QOS, and the change of the work ahead of them by our order."""

    kind: str  #: account or qos
    name: str
    jobs: int
    sooner: int  #: jobs with less work ahead than in Slurm's own order
    later: int
    change_s: float  #: mean change of the work ahead, as seconds on all GPUs; negative is sooner


def advice(view: View, plan: Plan) -> tuple[GroupImpact, ...]:
    """Return one GroupImpact per account and per QOS of the ranked jobs, the largest gain first.

    Our order is the one that would be in force: Slurm's, with the points that the plan gives. Where the cap on points
    keeps a job from its place, it is not counted at that place.

    The work ahead of a job is the forecast GPU-seconds of all ranked jobs before it, divided by all GPUs: a measure to
    compare two orders, not a start time. A job without a forecast counts as no work.
    """
    jobs = view.pending
    rows = np.flatnonzero(plan.jobs.rank >= 0)
    if not len(rows):
        return ()
    runtime_s: FloatArray = np.where(np.isfinite(view.forecast.runtime_s), view.forecast.runtime_s, 0.0)
    work: FloatArray = runtime_s * np.maximum(jobs.gpus, 1) * jobs.tasks
    gpus = max(1, int(view.nodes.gpus.sum()))
    base, points = base_priority(jobs), plan.jobs.points
    native, ours = (_in_force(view, rows, priority) for priority in (base, base + points))
    ours_s = _ahead(work, ours) / gpus
    change_s = (ours_s - _ahead(work, native) / gpus)[rows]
    shares = [*_shares("account", jobs.account, rows, change_s), *_shares("qos", jobs.qos, rows, change_s)]
    return tuple(sorted(shares, key=lambda share: (share.kind, share.change_s, share.name)))


def in_words(shares: tuple[GroupImpact, ...]) -> str:
    """Return one line for a log: the groups that gain or lose, and the amounts."""
    moved = [share for share in shares if share.sooner or share.later]
    if not moved:
        return "our order and Slurm's own are the same"
    return "; ".join(
        f"{share.kind} {share.name}: {spell(abs(share.change_s))} {'less' if share.change_s < 0 else 'more'} work "
        f"ahead on average, {share.sooner} of {count(share.jobs, 'job')} sooner, {share.later} later"
        for share in moved
    )


def _in_force(view: View, rows: IntArray, priority: IntArray) -> IntArray:
    """Return *rows* in the order that Slurm gives them with this *priority*."""
    jobs, none = view.pending, np.zeros(len(rows))
    tier, base = view.tiers[rows], priority[rows]
    came = jobs.came_s[rows], jobs.job_id[rows]
    return rows[order(-base.astype(np.float64), none > 0, none, tier, base, *came)]


def _ahead(work: FloatArray, in_order: IntArray) -> FloatArray:
    """Return the GPU-seconds before each job, by row."""
    ahead = np.zeros(len(work))
    ahead[in_order] = np.cumsum(work[in_order]) - work[in_order]
    return ahead


def _shares(kind: str, column: Labels, rows: IntArray, change_s: FloatArray) -> list[GroupImpact]:
    codes = column.codes[rows]
    return [
        GroupImpact(
            kind=kind,
            name=column.names[int(code)] or "(none)",
            jobs=int(mine.sum()),
            sooner=int((change_s[mine] < 0).sum()),
            later=int((change_s[mine] > 0).sum()),
            change_s=float(change_s[mine].mean()),
        )
        for code in np.unique(codes)
        for mine in [codes == code]
    ]

"""Return every job to Slurm, without our points, begin times and answers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from ...cluster.actions import ACTIONS, Action, Rank, Release, SetAdminComment, job_of
from ...cluster.jobs import JobState, JobTable
from ...cluster.state import ClusterState
from ...cluster.text.plural import count
from ...errors import SlurmUnavailable
from ..port import Slurm

logger = logging.getLogger(__name__)

T = TypeVar("T")

BATCH = 100
LEAST = 5
"""The smallest batch of writes that is tried after larger ones went unanswered."""


@dataclass(frozen=True)
class ReleaseReport:
    """Counts of the jobs given back; ``left`` is the number of writes not made when the time ran out."""

    ranked: int = 0  #: jobs whose points were taken away
    held: int = 0  #: jobs whose begin time was lifted
    refused: tuple[str, ...] = ()  #: Slurm's own words
    left: int = 0
    shared: int = 0  #: jobs on their way to shared GPUs that may start there now
    unshared: int = 0  #: such jobs that keep their own GPUs, or get them back
    let_go: int = 0  #: jobs that may start again on the nodes that we excluded
    moved: int = 0  #: jobs that are in the partitions of their owners again
    restored: int = 0  #: jobs that ask for the CPUs and memory of their owners again
    resized: int = 0  #: jobs that ask for their own number of GPUs again
    resumed: int = 0  #: jobs that run again after we had suspended them
    emptied: int = 0  #: jobs from whose AdminComment our answer was taken

    @property
    def sentence(self) -> str:
        """A summary for an admin, in the words of the actions."""
        counts, told = asdict(self), dict[str, int]()
        for name, words in (kind.returned for kind in ACTIONS.values() if kind.returned[0]):
            told[words] = told.get(words, 0) or counts[name]
        always = Rank.returned[1], Release.returned[1]
        parts = [(words, many) for words, many in told.items() if many or words in always]
        return "; ".join(words.format(jobs=count(many, "job"), **counts) for words, many in parts)


def release_all(
    cluster: Slurm,
    ranked: Collection[int],
    held: Collection[int],
    *,
    now_s: float,
    settling: Callable[[ClusterState], Sequence[Action]] = lambda state: (),
    within: Callable[[], bool] = lambda: True,
    rest: Callable[[], object] = lambda: None,
) -> ReleaseReport:
    """Remove our points and begin times from every pending job, and our answers from all AdminComments.

    Points and answers are read from the cluster, so that none are missed even without a database. *ranked* are jobs
    that may have points although sprio shows none (they are not eligible). *held* are jobs whose begin time is ours; a
    job requeued a moment ago keeps it, since it would fail if it started at once. *settling* returns the actions that
    finish changes of several steps. *within* is called before each batch; False ends the release early. Writes without
    an answer are retried until then, after a *rest* and in smaller batches. Raises SlurmUnavailable where the queue
    cannot be read.
    """

    def asked(question: Callable[[], T]) -> T:
        while True:
            try:
                return question()
            except SlurmUnavailable as error:
                if not within():
                    raise
                logger.warning("trying again to give jobs back: %s", error)
                rest()

    state, answered = asked(cluster.observe), asked(cluster.with_our_comment)
    settled = list(settling(state))
    emptied = [SetAdminComment(job_id, "") for job_id in sorted(answered)]
    actions = [*settled, *_wanted(state.pending, set(ranked), set(held), now_s), *emptied]
    refusals: list[tuple[Action, str]] = []
    done: list[Action] = []
    size = BATCH
    while len(done) < len(actions) and within():
        batch = actions[len(done) : len(done) + size]
        try:
            answers = cluster.act(batch)
        except SlurmUnavailable as error:
            logger.warning("trying again to give jobs back, %d writes are left: %s", len(actions) - len(done), error)
            size = max(size // 2, LEAST)
            rest()
            continue
        refusals += [(answer.action, answer.refused) for answer in answers if answer.refused]
        done += batch
        size = min(2 * size, BATCH)
    refused: dict[Action, str] = {}
    if refusals:  # a job that started meanwhile needs no further write, and one that ended no other answer
        now = asked(cluster.observe)
        suspended = now.running.job_id[now.running.state == JobState.SUSPENDED]
        waiting = {*now.pending.job_id.tolist(), *suspended.tolist()}
        comments = set(asked(cluster.with_our_comment))
        refused = {
            action: words
            for action, words in refusals
            if job_of(action) in (comments if isinstance(action, SetAdminComment) else waiting)
        }
    counts = Counter(name for name in (action.returned[0] for action in done if action not in refused) if name)
    return replace(ReleaseReport(refused=tuple(refused.values()), left=len(actions) - len(done)), **counts)  # type: ignore[arg-type]


def _wanted(pending: JobTable, ranked: set[int], held: set[int], now_s: float) -> list[Action]:
    """Return the ends of holds first, since holds keep jobs from starting; then the points, by job id."""
    by_id = sorted(pending.job_id.tolist())
    held = held & set(pending.job_id[pending.settled(now_s)].tolist())
    pointed = {
        job_id for job_id, points in zip(pending.job_id.tolist(), pending.site_points.tolist(), strict=True) if points
    }
    return [
        *(Release(job_id) for job_id in by_id if job_id in held),
        *(Rank(job_id, 0) for job_id in by_id if job_id in pointed | ranked),
    ]

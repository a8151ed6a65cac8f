"""Memory: what the cycle remembers, with the database or, for a while, without it."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ..clock import Timer
from ..cluster.actions import Action
from ..cluster.events import Event, JobRequeued, JobSubmitted
from ..cluster.job_tracker import JobTracker
from ..cluster.modifications import ModificationTracker
from ..cluster.records.faults import Mismatches
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.promises import NO_PROMISES, PromiseTable
from ..cluster.state import ClusterState
from ..errors import MemoryUnavailable, SchemaMismatch
from .pending_writes import PendingWrites
from .records.gpu_usage import EVERY_S, Measured, RecentUsage
from .records.pause import Control
from .records.policy_choices import PolicyChoice
from .records.promises import changed_rows, rows_of
from .store import Store
from .tracking.decisions import DecisionRecord
from .tracking.intents import ASKS_S, BACK_OFF_S, Intent, Intents
from .tracking.story import Standings, story_of, story_of_answer, story_of_modification, story_of_promise

logger = logging.getLogger(__name__)

#: So much is written to see whether the database is back: more than any record, so that the next one fits as well.
PROBE_B = 2 * 2**20

#: Facts kept while the database is away; some hundred bytes each.
BACKLOG = 200_000

#: So long an answer to a job with a deadline is kept at hand: quotas look back so far at most.
PROMISES_S = 32 * 86_400.0


@dataclass(frozen=True)
class Remembered:
    """A look at the cluster, completed by memory, and what it brought."""

    state: ClusterState  #: with ``first_submit_s``, ``held_by_us`` and what is known of the use of GPUs
    events: tuple[Event, ...]
    ended: OutcomeTable
    available: bool


class Memory:
    """The daemon's memory of one cluster. No method raises for trouble with the database.

    While it is away the ledger and the intents live on in this process, what is new waits in a bounded backlog,
    decision records are dropped (``decisions_dropped``), and the last known pause holds. After a failure the database
    is left alone for twice its time limit, so that an outage costs a cycle one wait at most; it is back when a write as
    large as a record was committed: on a full disk a read or a small write proves nothing. Waits run on *monotonic*,
    whatever the wall clock is set to meanwhile. Where several daemons look at one cluster, one of them *leads*.
    """

    def __init__(
        self,
        store: Store,
        *,
        cluster: str,
        backlog: int = BACKLOG,
        monotonic: Callable[[], float] = time.monotonic,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self.trouble = ""  #: why the database is away; empty while it is not
        self.facts_dropped = 0
        self.decisions_dropped = 0
        self._store, self._cluster, self._limit = store, cluster, backlog
        self._ledger, self._intents, self._standings = JobTracker(), Intents(), Standings()
        self._modifications, self._leads = ModificationTracker(), leads
        self._facts, self._usage = PendingWrites(), RecentUsage()
        self._mismatches = Mismatches()
        self._control = Control()
        self._choice: PolicyChoice | None = None
        self._promises, self._own_promises, self._own_intents = NO_PROMISES, False, False
        self._adopted = False  #: intents were read, and no look has shown yet whether their jobs are still the same
        self._number = 0
        self._loaded = False
        self._retry, self._usage_wait, self._mismatches_wait = (Timer(monotonic) for _ in range(3))

    @property
    def available(self) -> bool:
        """Whether the database took all that was to be written."""
        return not self.trouble

    @property
    def backlog(self) -> int:
        """How many facts wait for the database."""
        return len(self._facts)

    def missing(self, state: ClusterState, now_s: float) -> list[int]:
        """The jobs of earlier looks that had not ended and are not in this one; see ``JobTracker.missing``."""
        self._load(now_s)
        return self._ledger.missing(state)

    def remember(
        self, state: ClusterState, now_s: float, *, acting: bool = False, forgotten: Collection[int] = ()
    ) -> Remembered:
        """Compare a look at the cluster with what is known; save what changed.

        Of the jobs that are ``missing`` those *forgotten* by Slurm are over. Who begins *acting* reads what another
        daemon may have asked for meanwhile.
        """
        self._load(now_s)
        self._intents.not_later_than(now_s)
        if acting and not self._own_intents and not len(self._facts):
            self._own_intents = self._attempt(lambda: self._read_intents(now_s))
        self._own_intents = acting and self._own_intents
        changes = self._ledger.update(state, now_s, self._intents.delays(), forgotten)
        requeued = [event.job_id for event in changes.events if isinstance(event, JobRequeued)]
        self._facts.jobs.update(changes.jobs)
        submitted_s = _submitted(changes.events)
        if self._adopted:
            submitted_s, self._adopted = _first_submits(changes.state, now_s) | submitted_s, False
        self._facts.note(self._intents.forget_former(submitted_s, now_s))
        self._note_modifications(changes.state, now_s)  # first: what is seen of intents is not to be told of others
        self._facts.note(self._intents.observe(changes.state, requeued, now_s))
        self._facts.story += map(story_of, changes.events)
        if len(changes.ended):
            self._facts.outcomes.append(changes.ended)
        self._flush()
        with_intents = self._with_intents(changes.state, now_s)
        if self._usage_wait.due:
            self._attempt(lambda: self._read_usage(now_s))
        return Remembered(self._usage.filled(with_intents), changes.events, changes.ended, self.available)

    def _note_modifications(self, state: ClusterState, now_s: float) -> None:
        """Add to the stories what others changed of jobs; of several daemons only the leader does."""
        ours = self._intents.modifications()
        modified = self._modifications.observe(state.pending, state.running, now_s, ours)
        if modified and self._leads():
            self._facts.story += map(story_of_modification, modified)

    def _with_intents(self, state: ClusterState, now_s: float) -> ClusterState:
        """*state* with what we have asked for: holds, stops, what jobs were told, GPUs they share."""
        tables = []
        for jobs in (state.pending, state.running):
            asked_s, ask_count = self._intents.ask_counts(jobs, now_s)
            comments, (shares, asked_for, given_back) = self._intents.comments(jobs), self._intents.sharing(jobs)
            refusal = self._intents.share_refusals(jobs, now_s)
            jobs = replace(jobs, shares=shares, asked_for=asked_for, given_back=given_back, share_refusal=refusal)
            tables.append(replace(jobs, asked_s=asked_s, asks=ask_count, told=comments))
        pending, running = tables
        pending = replace(pending, held_by_us=self._intents.held(pending, now_s))
        return replace(state, pending=pending, running=running)

    def intend(self, cycle: int, actions: Iterable[Action], now_s: float) -> None:
        """Note what is about to be asked of Slurm, before it is."""
        self._facts.note(self._intents.intend(cycle, actions, now_s))
        self._flush()

    def answered(self, cycle: int, answers: Sequence[tuple[Action, str | None]], now_s: float) -> None:
        """Note what Slurm said: None for yes, else its sentence."""
        # A hold is renewed every cycle; only its beginning is news.
        renewed = {(i.job_id, i.kind) for i in self._intents if i.kind == "Hold" and i.cycle != cycle}
        self._facts.note(self._intents.answered(cycle, answers, now_s))
        self._facts.story += [
            story_of_answer(cycle, action, refused, now_s)
            for action, refused in answers
            if refused is not None or (action.job_id, type(action).__name__) not in renewed
        ]
        self._flush()

    def intents(self) -> tuple[Intent, ...]:
        """What we have asked of Slurm and has not ended: by job, oldest first."""
        return tuple(sorted(self._intents, key=lambda intent: (intent.job_id, intent.requested_s)))

    def recently_refused(self, now_s: float) -> set[int]:
        """Jobs of which Slurm refused a write in the last ten minutes: not to be asked again yet."""
        return self._intents.recently_refused(now_s)

    def save_decision(self, record: DecisionRecord) -> None:
        """Keep a cycle; while the database is away it is dropped, being large."""
        self._number = max(self._number, record.number)
        jobs = record.view.pending.job_id
        self._facts.story += self._standings.change(record.number, jobs, record.plan.jobs.standing, record.now_s)
        self._flush()
        if not self._attempt(lambda: self._store.save_decision(self._cluster, record)):
            self.decisions_dropped += 1

    def promises(self, now_s: float, *, acting: bool) -> PromiseTable:
        """The promises that are to be kept, and all deadlines asked for lately; oldest first.

        Who is not *acting*, or was not last time, reads what another daemon may have promised meanwhile.
        """
        if not (acting and self._own_promises) and not self._facts.promises:
            read = self._attempt(lambda: self._read_promises(now_s))
            self._own_promises = acting and read
        table = self._promises
        recent = table.open | (table.asked_s >= now_s - PROMISES_S)
        self._promises = table if recent.all() else table.take(recent)
        return self._promises

    def keep_promises(self, promises: PromiseTable, now_s: float) -> None:
        """Take *promises* for what holds now, and save what changed of them."""
        changed = dict(rows_of(promises.take(changed_rows(self._promises, promises))))
        self._promises = promises
        if changed:
            self._facts.promises |= changed
            self._facts.story += [story_of_promise(row, now_s) for row in changed.values()]
            self._flush()

    def control(self, now_s: float) -> Control:
        """Whether an admin has paused us; what was last known while the database is away."""

        def read() -> None:
            self._control = self._store.control(self._cluster, now_s)

        self._attempt(read)
        return self._control.at(now_s)

    def choice(self) -> PolicyChoice | None:
        """Which policy an admin chose last; what was last known while the database is away."""

        def read() -> None:
            latest = self._store.choices(self._cluster, 1)
            self._choice = latest[0] if latest else None

        self._attempt(read)
        return self._choice

    def next_number(self, now_s: float) -> int:
        """A number for the next cycle, higher than all that are kept."""
        self._load(now_s)
        self._number += 1
        return self._number

    def history(self, since_s: float | None = None) -> OutcomeTable | None:
        """Runs that ended since then; None while the database is away."""
        found: list[OutcomeTable] = []
        self._attempt(lambda: found.append(self._store.history(self._cluster, since_s, None)))
        return found[0] if found else None

    def measured(self) -> list[Measured]:
        """The newest runs that were measured; none while the database is away."""
        found: list[Measured] = []
        self._attempt(lambda: found.extend(self._store.measured(self._cluster, -math.inf)))
        return found

    def mismatches(self, now_s: float) -> Mismatches:
        """What is known of jobs that do not go together on GPUs; what was last known while the database is away."""
        if self._mismatches_wait.due and not self._attempt(lambda: self._read_mismatches(now_s)):
            self.expect_mismatches()
        return self._mismatches

    def expect_mismatches(self) -> None:
        """Read them again the next time: there are new ones. May be called from other threads."""
        self._mismatches_wait.expire()

    def _load(self, now_s: float) -> None:
        """Learn what earlier processes knew, once; later than at the start if the database was away then."""
        if not self._loaded:
            self._loaded = self._attempt(lambda: self._read_all(now_s))

    def _read_all(self, now_s: float) -> None:
        jobs, intents = self._store.jobs(self._cluster), self._asked_for(now_s)
        number = self._store.last_number(self._cluster)
        try:
            last = self._store.latest_decision(self._cluster)
        except SchemaMismatch as error:
            logger.info("the standings of the last cycle are lost: %s", error)
            last = None
        self._intents.adopt(intents)
        self._own_intents = self._adopted = True
        mended = self._ledger.adopt(jobs)
        self._facts.jobs.update(mended)
        first_s = {job.job_id: job.first_submit_s for job in mended.values() if job is not None}
        self._facts.story = [
            replace(event, first_submit_s=first_s.get(event.job_id, event.first_submit_s))
            for event in self._facts.story
        ]
        self._number = max(self._number, number)
        if last is not None:
            self._standings.change(last.number, last.view.pending.job_id, last.plan.jobs.standing, last.now_s)
            if self._modifications.empty:
                self._modifications.observe(last.view.pending, last.view.running, last.now_s)

    def _read_intents(self, now_s: float) -> None:
        self._intents, self._adopted = Intents(self._asked_for(now_s)), True

    def _asked_for(self, now_s: float) -> list[Intent]:
        return self._store.intents(self._cluster, now_s - BACK_OFF_S, now_s - ASKS_S)

    def _read_usage(self, now_s: float) -> None:
        self._usage.learn(self._store.measured(self._cluster, self._usage.since_s(now_s)), now_s)
        self._usage_wait.put_off(EVERY_S)

    def _read_mismatches(self, now_s: float) -> None:
        self._mismatches_wait.put_off(EVERY_S)  # first: what is told meanwhile is read the next time
        self._mismatches = self._store.mismatches(self._cluster, now_s)

    def _read_promises(self, now_s: float) -> None:
        self._promises = self._store.promises(self._cluster, now_s - PROMISES_S)

    def _flush(self) -> None:
        if len(self._facts) and self._attempt(lambda: self._store.save(self._cluster, self._facts)):
            self._facts = PendingWrites()
        if len(self._facts) > self._limit:
            self.facts_dropped += self._facts.trim(self._limit)

    def _attempt(self, step: Callable[[], None]) -> bool:
        """Whether *step* worked; after a failure nothing is tried for a while."""
        if not self._retry.due:
            return False
        try:
            if self.trouble:
                self._store.probe(PROBE_B)
            step()
        except MemoryUnavailable as error:
            if not self.trouble:
                logger.warning("the database is away, deciding without it: %s", error)
            self.trouble = str(error)
            self._retry.put_off(2 * self._store.database.timeout_s)
            return False
        if self.trouble:
            logger.warning("the database is back; %d facts were waiting", len(self._facts))
            self.trouble = ""
        return True


def _submitted(events: Iterable[Event]) -> dict[int, float]:
    """When each of the jobs was first submitted that are there for the first time."""
    return {event.job_id: event.first_submit_s for event in events if isinstance(event, JobSubmitted)}


def _first_submits(state: ClusterState, now_s: float) -> dict[int, float]:
    """When the jobs that are there were first submitted; without those of a time when the clock was ahead."""
    found: dict[int, float] = {}
    for jobs in (state.pending, state.running):
        found |= dict(zip(jobs.job_id.tolist(), jobs.first_submit_s.tolist(), strict=True))
    return {job_id: at_s for job_id, at_s in found.items() if at_s <= now_s}

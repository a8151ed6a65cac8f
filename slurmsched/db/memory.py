"""The state that the daemon keeps between cycles, in the database or, during an outage, in the process."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ..clock import Timer
from ..cluster.actions import ACTIONS, Action, MoveNodes, job_of
from ..cluster.actions.intent import Intent
from ..cluster.events import Event, JobRequeued, JobSubmitted
from ..cluster.filling import with_columns
from ..cluster.interactive_use import WINDOW_S, InteractiveUse
from ..cluster.job_tracker import JobTracker
from ..cluster.modifications import ModificationTracker
from ..cluster.records.faults import Mismatches
from ..cluster.records.node_loans import LentNodes
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
from .tracking.intents import BACK_OFF_S, Intents
from .tracking.node_moves import NodeMoves
from .tracking.story import Standings, StoryEvent, story_of, story_of_answer, story_of_modification, story_of_promise

logger = logging.getLogger(__name__)

#: Size of the write that tests a recovered database: larger than any record, so that the next record fits as well.
PROBE_B = 2 * 2**20

#: The largest number of facts kept while the database is away; some hundred bytes each.
BACKLOG = 200_000

#: Promises of this age, in seconds, are kept in memory: the longest period of a quota.
PROMISES_S = 32 * 86_400.0


@dataclass(frozen=True)
class Remembered:
    """An observation of the cluster, completed from memory, and the changes since the last one."""

    state: ClusterState  #: with ``first_submit_s``, ``held_by_us`` and measured GPU usage
    events: tuple[Event, ...]
    ended: OutcomeTable
    available: bool


class Memory:
    """The daemon's memory of one cluster. No method raises for trouble with the database.

    During an outage the job tracker and the intents live on in this process, new facts wait in a bounded backlog,
    decision records are dropped (``decisions_dropped``), and the last known pause holds. After a failure the database
    is not used for twice its time limit, so that an outage costs a cycle one wait at most. It counts as back once a
    write as large as a record was committed: on a full disk a read or a small write proves nothing. Waits run on
    *monotonic*, so that changes of the wall clock do not affect them. Of several daemons on one cluster, one *leads*.
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
        self.trouble = ""  #: the reason of an outage of the database; empty without one
        self.facts_dropped = 0
        self.decisions_dropped = 0
        self._store, self._cluster, self._limit = store, cluster, backlog
        self._tracker, self._intents, self._standings = JobTracker(), Intents(), Standings()
        self._modifications, self._leads = ModificationTracker(), leads
        self._facts, self._usage, self._interactive = PendingWrites(), RecentUsage(), InteractiveUse()
        self._mismatches = Mismatches()
        self._control = Control()
        self._choice: PolicyChoice | None = None
        self._promises, self._own_promises, self._own_intents = NO_PROMISES, False, False
        self._adopted = False  #: intents were read, but not yet checked to belong to the same jobs
        self._number = 0
        self._loaded = False
        self._moves = NodeMoves(monotonic)
        self._retry, self._usage_wait, self._mismatches_wait = (Timer(monotonic) for _ in range(3))

    @property
    def available(self) -> bool:
        """True if the last use of the database succeeded."""
        return not self.trouble

    @property
    def backlog(self) -> int:
        """The number of facts that wait for the database."""
        return len(self._facts)

    def missing(self, state: ClusterState, now_s: float) -> list[int]:
        """Return the unfinished jobs of earlier observations that *state* lacks; see ``JobTracker.missing``."""
        self._load(now_s)
        return self._tracker.missing(state)

    def remember(
        self, state: ClusterState, now_s: float, *, acting: bool = False, forgotten: Collection[int] = ()
    ) -> Remembered:
        """Compare an observation with the remembered state, and save the changes.

        Of the ``missing`` jobs, those *forgotten* by Slurm have ended. A daemon that begins *acting* first reads the
        intents that another daemon may have made meanwhile.
        """
        self._load(now_s)
        self._intents.not_later_than(now_s)
        if acting and not self._own_intents and not len(self._facts):
            self._own_intents = self._attempt(lambda: self._read_intents(now_s))
        self._own_intents = acting and self._own_intents
        changes = self._tracker.update(state, now_s, self._intents.delays(), forgotten)
        requeued = [event.job_id for event in changes.events if isinstance(event, JobRequeued)]
        self._facts.jobs.update(changes.jobs)
        submitted_s = _submitted(changes.events)
        if self._adopted:
            submitted_s, self._adopted = _first_submits(changes.state, now_s) | submitted_s, False
        self._facts.note(self._intents.forget_former(submitted_s, now_s))
        self._note_modifications(changes.state, now_s)  # before intents count as seen, else they look like others'
        self._facts.note(self._intents.observe(changes.state, requeued, now_s))
        self._facts.story += map(story_of, changes.events)
        if len(changes.ended):
            self._facts.outcomes.append(changes.ended)
            self._interactive.learn(changes.ended)
        self._flush()
        if self._usage_wait.due:
            self._attempt(lambda: self._read_usage(now_s))
        known = [part.columns(changes.state, now_s) for part in (self._intents, self._interactive)]
        state = with_columns(changes.state, [*known, self._usage.columns(changes.state)])
        return Remembered(state, changes.events, changes.ended, self.available)

    def _note_modifications(self, state: ClusterState, now_s: float) -> None:
        """Add changes of jobs by others to the stories; of several daemons only the leader does."""
        ours = self._intents.modifications()
        modified = self._modifications.observe(state.pending, state.running, now_s, ours)
        if modified and self._leads():
            self._facts.story += map(story_of_modification, modified)

    def loans(self, state: ClusterState, *, acting: bool) -> tuple[LentNodes, ...] | None:
        """Return the partitions whose nodes we changed; None while none may move: after a move, or during an outage.

        A daemon that is not *acting*, or was not last time, reads those of another daemon from the database. Loans
        that are all back by *state* are forgotten.
        """
        if not self._moves.due:
            return None
        if not (acting and self._moves.ours):
            self._moves.ours = self._attempt(self._read_loans) and acting
        if acting and self._moves.all_back(state):
            self._save_loans(())
        return self._moves.loans if self.available else None

    def intend(self, cycle: int, actions: Sequence[Action], now_s: float) -> tuple[Action, ...]:
        """Record *actions* before they are sent to Slurm; return those that may go out.

        A move of nodes goes out only after the database has the nodes that admins gave the partitions.
        """
        safe = tuple(action for action in actions if not isinstance(action, MoveNodes) or self._may_move(action))
        self._facts.note(self._intents.intend(cycle, safe, now_s))
        self._flush()
        return safe

    def _may_move(self, move: MoveNodes) -> bool:
        self._moves.put_off()
        saved = self._save_loans(move.loans)
        if not saved:
            logger.warning("no nodes were lent: %s", self.trouble)
        return saved

    def _save_loans(self, loans: tuple[LentNodes, ...]) -> bool:
        saved = self._attempt(lambda: self._store.save_loans(self._cluster, loans))
        self._moves.loans = loans if saved else self._moves.loans
        return saved

    def answered(self, cycle: int, answers: Sequence[tuple[Action, str | None]], now_s: float) -> None:
        """Record Slurm's answers: None for accepted, else its message."""
        renewed = {(i.job_id, i.kind) for i in self._intents if ACTIONS[i.kind].renewed and i.cycle != cycle}
        self._facts.note(self._intents.answered(cycle, answers, now_s))
        for action, refused in answers:
            if isinstance(action, MoveNodes):
                self._moves.answered(action, refused)
        self._facts.story += [
            story_of_answer(cycle, action, refused, now_s)
            for action, refused in answers
            if job_of(action) and (refused is not None or (job_of(action), action.stored) not in renewed)
        ]
        self._flush()

    def intents(self) -> tuple[Intent, ...]:
        """Return our open requests to Slurm, by job, oldest first."""
        return tuple(sorted(self._intents, key=lambda intent: (intent.job_id, intent.requested_s)))

    def optional_columns(self) -> frozenset[str]:
        """Return the columns that an observation must have to tell what of pending jobs is ours."""
        return self._intents.optional_columns()

    def recently_refused(self, now_s: float) -> set[int]:
        """Return the jobs whose write Slurm refused in the last ten minutes; these are not retried yet."""
        return self._intents.recently_refused(now_s)

    def kept_by_refusals(self) -> set[int]:
        """Return those of them to which Slurm refused several times in a row to give their own back."""
        return self._intents.kept_by_refusals()

    def save_decision(self, record: DecisionRecord) -> None:
        """Save the record of a cycle; during an outage it is dropped because of its size."""
        self._number = max(self._number, record.number)
        jobs = record.view.pending.job_id
        self._facts.story += self._standings.change(record.number, jobs, record.plan.jobs.standing, record.now_s)
        self._flush()
        if not self._attempt(lambda: self._store.save_decision(self._cluster, record)):
            self.decisions_dropped += 1

    def promises(self, now_s: float, *, acting: bool) -> PromiseTable:
        """Return the open promises and all recent requests for a deadline, oldest first.

        A daemon that is not *acting*, or was not last time, reads the promises of another daemon from the database.
        """
        if not (acting and self._own_promises) and not self._facts.promises:
            read = self._attempt(lambda: self._read_promises(now_s))
            self._own_promises = acting and read
        table = self._promises
        recent = table.open | (table.asked_s >= now_s - PROMISES_S)
        self._promises = table if recent.all() else table.take(recent)
        return self._promises

    def keep_promises(self, promises: PromiseTable, now_s: float) -> None:
        """Replace the present promises by *promises*, and save the changes."""
        if promises is self._promises:
            return
        changed = dict(rows_of(promises.take(changed_rows(self._promises, promises))))
        self._promises = promises
        if changed:
            self._facts.promises |= changed
            self._facts.story += [story_of_promise(row, now_s) for row in changed.values()]
            self._flush()

    def control(self, now_s: float) -> Control:
        """Return the state of the pause switch; during an outage the last known one."""

        def read() -> None:
            self._control = self._store.control(self._cluster, now_s)

        self._attempt(read)
        return self._control.at(now_s)

    def choice(self) -> PolicyChoice | None:
        """Return the latest choice of a policy; during an outage the last known one."""

        def read() -> None:
            latest = self._store.choices(self._cluster, 1)
            self._choice = latest[0] if latest else None

        self._attempt(read)
        return self._choice

    def choose_next(self, choice: PolicyChoice, before: PolicyChoice | None) -> bool:
        """Store *choice* if *before* is still the latest; return False if it is not, or during an outage."""
        stored: list[bool] = []
        self._attempt(lambda: stored.append(self._store.choose_next(self._cluster, choice, before)))
        return stored == [True]

    def next_number(self, now_s: float) -> int:
        """Return the number of the next cycle, higher than all earlier ones."""
        self._load(now_s)
        self._number += 1
        return self._number

    def history(self, since_s: float | None = None) -> OutcomeTable | None:
        """Return the runs that ended since *since_s*; None during an outage of the database."""
        found: list[OutcomeTable] = []
        self._attempt(lambda: found.append(self._store.history(self._cluster, since_s, None)))
        return found[0] if found else None

    def measured(self) -> list[Measured]:
        """Return the newest measured runs; none during an outage of the database."""
        found: list[Measured] = []
        self._attempt(lambda: found.extend(self._store.measured(self._cluster, -math.inf)))
        return found

    def mismatches(self, now_s: float) -> Mismatches:
        """Return known failures of jobs that shared GPUs; during an outage the last known ones."""
        if self._mismatches_wait.due and not self._attempt(lambda: self._read_mismatches(now_s)):
            self.expect_mismatches()
        return self._mismatches

    def tell(self, events: Iterable[StoryEvent]) -> None:
        """Add *events* to the stories of jobs, saved with what is saved next."""
        self._facts.story.extend(events)

    def expect_mismatches(self) -> None:
        """Request a fresh read of mismatches on the next call; other threads may call this."""
        self._mismatches_wait.expire()

    def validate(self) -> None:
        """Raise AssertionError where the records of jobs or intents are inconsistent."""
        self._tracker.validate()
        self._intents.validate()

    def _load(self, now_s: float) -> None:
        """Load the state of earlier processes once, after an outage if necessary."""
        if not self._loaded:
            self._loaded = self._attempt(lambda: self._read_all(now_s))

    def _read_all(self, now_s: float) -> None:
        jobs, intents = self._store.jobs(self._cluster), self._asked_for(now_s)
        number = self._store.last_number(self._cluster)
        interactive = self._store.interactive_runs(self._cluster, now_s - WINDOW_S)
        try:
            last = self._store.latest_decision(self._cluster)
        except SchemaMismatch as error:
            logger.info("the standings of the last cycle are lost: %s", error)
            last = None
        self._interactive.learn(interactive)
        self._intents.adopt(intents)
        self._own_intents = self._adopted = True
        mended = self._tracker.adopt(jobs)
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
        return self._store.intents(self._cluster, now_s - BACK_OFF_S, now_s)

    def _read_loans(self) -> None:
        self._moves.loans = self._store.loans(self._cluster)

    def _read_usage(self, now_s: float) -> None:
        self._usage.learn(self._store.measured(self._cluster, self._usage.since_s(now_s)), now_s)
        self._usage_wait.put_off(EVERY_S)

    def _read_mismatches(self, now_s: float) -> None:
        self._mismatches_wait.put_off(EVERY_S)  # before the read, so that a request during it leads to another read
        self._mismatches = self._store.mismatches(self._cluster, now_s)

    def _read_promises(self, now_s: float) -> None:
        self._promises = self._store.promises(self._cluster, now_s - PROMISES_S)

    def _flush(self) -> None:
        if len(self._facts) and self._attempt(lambda: self._store.save(self._cluster, self._facts)):
            self._facts = PendingWrites()
        if len(self._facts) > self._limit:
            self.facts_dropped += self._facts.trim(self._limit)

    def _attempt(self, step: Callable[[], None]) -> bool:
        """Run *step* and return True if it succeeded; for a while after a failure do not try."""
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
    """Return the first submit time of each job that is new in this observation."""
    return {event.job_id: event.first_submit_s for event in events if isinstance(event, JobSubmitted)}


def _first_submits(state: ClusterState, now_s: float) -> dict[int, float]:
    """Return the first submit time of each present job, without times in the future (the clock was ahead)."""
    found: dict[int, float] = {}
    for jobs in (state.pending, state.running):
        found |= dict(zip(jobs.job_id.tolist(), jobs.first_submit_s.tolist(), strict=True))
    return {job_id: at_s for job_id, at_s in found.items() if at_s <= now_s}

"""The store: what is remembered, one method one transaction."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from ..cluster.job_record import JobRecord
from ..cluster.records.faults import Fault, Instability, Mismatches
from ..cluster.records.node_loans import LentNodes
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.prediction_records import PredictionRecords
from ..cluster.records.profiles import NodeProfile, ProfileTable
from ..cluster.records.promises import PromiseTable
from . import integrity, pending_writes, retention, schema
from .database import Database
from .pending_writes import PendingWrites
from .records import (
    faults,
    gpu_usage,
    node_loans,
    outcomes,
    pause,
    policy_choices,
    predictions,
    profiles,
    promises,
)
from .records.pause import Control
from .records.policy_choices import PolicyChoice
from .retention import Pruned
from .tracking import decisions, intents, story
from .tracking.decision_layers import BlobLayers
from .tracking.decisions import DecisionRecord
from .tracking.intents import Intent
from .tracking.story import StoryEvent


class Store:
    """A database with our tables, for one or several clusters; callers never see a connection.

    Every method raises ``MemoryUnavailable`` where the database is away, or locked for longer than *timeout_s*;
    then nothing of what it was to do has happened.
    """

    def __init__(self, url: str, *, timeout_s: float = 5.0) -> None:
        self.database = Database(url, timeout_s=timeout_s)
        self._layers: dict[str, BlobLayers] = {}  # of each cluster whose cycles are kept

    @property
    def place(self) -> str:
        """The address, without its password."""
        return self.database.place

    @property
    def path(self) -> Path | None:
        """The file of an SQLite database."""
        return self.database.path

    def upgrade(self) -> str:
        """Make the tables, or bring them to this version; returns it. ``SchemaMismatch`` if they are newer."""
        return schema.upgrade(self.database)

    def check(self) -> None:
        """``SchemaMismatch`` unless the tables are of this version."""
        schema.check(self.database)

    def version(self) -> str | None:
        """The version of the tables; None where there are none."""
        return schema.version(self.database)

    def inspect(self, *, thorough: bool) -> str:
        """What is wrong with the tables, and with *thorough* with the file, in words; empty for nothing.

        Until it is mended every other method raises ``MemoryUnavailable`` with these words.
        """
        damage = integrity.find_damage(self.database, thorough=thorough or bool(self.database.damage))
        if damage:
            self.database.damage = damage
        else:
            self.database.whole()
        return damage

    def probe(self, size_b: int) -> None:
        """Commit a write of so many bytes, and take it back: where that works a record of that size can be kept."""
        with self.database.transaction("trying to write", write=True) as connection:
            decisions.save_probe(connection, size_b)
        with self.database.transaction("taking back what was tried", write=True) as connection:
            decisions.remove_probe(connection)

    def close(self) -> None:
        """Close all idle connections."""
        self.database.close()

    def save(self, cluster: str, news: PendingWrites) -> None:
        """Write *news*, all or nothing; repeating it changes nothing."""
        with self.database.transaction("saving what was seen", write=True) as connection:
            pending_writes.save_facts(connection, cluster, news)

    def jobs(self, cluster: str) -> list[JobRecord]:
        """The jobs that Slurm knew when it was last looked at."""
        with self.database.transaction("reading the known jobs") as connection:
            return pending_writes.load_jobs(connection, cluster)

    def intents(self, cluster: str, refused_since_s: float, asked_since_s: float = math.inf) -> list[Intent]:
        """The intents not closed, those refused since then, and those that asked a job to stop since then."""
        with self.database.transaction("reading the intents") as connection:
            return intents.load_intents(connection, cluster, refused_since_s, asked_since_s)

    def add_outcomes(self, cluster: str, table: OutcomeTable) -> int:
        """Write the runs that are not there yet; returns how many were new, or mended one that had vanished."""
        with self.database.transaction("saving outcomes", write=True) as connection:
            return outcomes.add_outcomes(connection, cluster, table)

    def history(self, cluster: str, since_s: float | None = None, until_s: float | None = None) -> OutcomeTable:
        """Runs that ended in [since, until), oldest end first."""
        with self.database.transaction("reading the history") as connection:
            return outcomes.load_outcomes(connection, cluster, since_s, until_s)

    def add_profiles(self, cluster: str, news: Iterable[NodeProfile]) -> None:
        """Write the records of nodes that are not there yet."""
        with self.database.transaction("saving profiles", write=True) as connection:
            profiles.add_profiles(connection, cluster, news)

    def profiles(self, cluster: str, since_s: float | None = None, until_s: float | None = None) -> ProfileTable:
        """What runs did with their GPUs, of those whose profile ended in [since, until), oldest end first."""
        with self.database.transaction("reading profiles") as connection:
            return profiles.load_profiles(connection, cluster, since_s, until_s)

    def measured(self, cluster: str, since_s: float) -> list[gpu_usage.Measured]:
        """The newest runs that were measured since then, with their kind; a bounded number, oldest end first."""
        with self.database.transaction("reading what was measured") as connection:
            return gpu_usage.load_measured(connection, cluster, since_s)

    def add_faults(self, cluster: str, news: Iterable[Fault]) -> None:
        """Write the records of jobs that failed together, those that are not there yet."""
        with self.database.transaction("saving faults", write=True) as connection:
            faults.add_faults(connection, cluster, news)

    def add_instabilities(self, cluster: str, news: Iterable[Instability]) -> None:
        """Write the records of jobs whose load together was unstable, those that are not there yet."""
        with self.database.transaction("saving instabilities", write=True) as connection:
            faults.add_instabilities(connection, cluster, news)

    def mismatches(self, cluster: str, now_s: float) -> Mismatches:
        """What is known at *now_s* of jobs that do not go together on GPUs that they share."""
        with self.database.transaction("reading faults") as connection:
            failed = faults.load_failed(connection, cluster)
            return Mismatches(failed, faults.load_instabilities(connection, cluster, now_s))

    def promises(self, cluster: str, since_s: float) -> PromiseTable:
        """The promises that are to be kept, and all that was asked for since then; oldest first."""
        with self.database.transaction("reading the promises") as connection:
            return promises.load_promises(connection, cluster, since_s)

    def save_predictions(self, cluster: str, records: PredictionRecords) -> None:
        """Write what is new of *records*, and what came of the rest; repeating it changes nothing."""
        with self.database.transaction("saving predictions", write=True) as connection:
            predictions.save_predictions(connection, cluster, records)

    def predictions(self, cluster: str, since_s: float) -> PredictionRecords:
        """The predictions made since then with what came of them, oldest first; a bounded number."""
        with self.database.transaction("reading predictions") as connection:
            return predictions.load_predictions(connection, cluster, since_s)

    def clusters(self) -> list[str]:
        """The clusters whose runs are remembered, by name."""
        with self.database.transaction("reading the names of the clusters") as connection:
            return outcomes.load_clusters(connection)

    def story(self, cluster: str, job_id: int, first_submit_s: float | None = None) -> list[StoryEvent]:
        """What happened to the job of that id and first submission, or to the last one of that id; oldest first."""
        with self.database.transaction(f"reading the story of job {job_id}") as connection:
            events = story.load_story(connection, cluster, job_id, first_submit_s)
            meanwhile = policy_choices.choices_in(events, policy_choices.load_choices(connection, cluster))
        return story.in_order([*events, *meanwhile])

    def save_decision(self, cluster: str, record: DecisionRecord) -> None:
        """Keep a cycle; of what did not change since an earlier one nothing is stored again."""
        if cluster not in self._layers:
            self._layers[cluster] = BlobLayers(decisions.TABLES)
        parts = self._layers[cluster].blobs(decisions.layers_of(record))
        with self.database.transaction(f"saving cycle {record.number}", write=True) as connection:
            decisions.save_decision(connection, cluster, record, parts)

    def decision(self, number: int, cluster: str | None = None) -> DecisionRecord | None:
        """Cycle *number*; None if it is not kept, ``SchemaMismatch`` if another version wrote it.

        Where several clusters share the database and none is named, the one that decided last is meant.
        """
        with self.database.transaction(f"reading cycle {number}") as connection:
            return decisions.load_decision(connection, number, cluster)

    def latest_decision(self, cluster: str | None = None) -> DecisionRecord | None:
        """The newest cycle that is kept."""
        with self.database.transaction("reading the latest cycle") as connection:
            return decisions.load_decision(connection, None, cluster)

    def decision_numbers(self, cluster: str | None = None) -> list[int]:
        """The cycles that are kept, oldest first."""
        with self.database.transaction("reading the numbers of the cycles") as connection:
            return decisions.decision_numbers(connection, cluster)

    def last_number(self, cluster: str) -> int:
        """The highest cycle number so far, 0 if there is none."""
        with self.database.transaction("reading the last cycle number") as connection:
            return decisions.last_number(connection, cluster)

    def pause(self, cluster: str, *, by: str, now_s: float, until_s: float | None = None) -> None:
        """Let every daemon of *cluster* only observe from its next cycle on, until then or until a resume."""
        with self.database.transaction("pausing", write=True) as connection:
            pause.save_control(connection, cluster, Control(True, until_s, by, now_s))

    def resume(self, cluster: str, *, by: str, now_s: float) -> None:
        """End a pause."""
        with self.database.transaction("resuming", write=True) as connection:
            pause.save_control(connection, cluster, Control(False, None, by, now_s))

    def choose(self, cluster: str, choice: PolicyChoice) -> None:
        """Let every daemon of *cluster* order by this from its next cycle on."""
        with self.database.transaction("keeping the choice of a policy", write=True) as connection:
            policy_choices.save_choice(connection, cluster, choice)

    def choices(self, cluster: str, last: int | None = None) -> list[PolicyChoice]:
        """The *last* policies that were chosen, or all; the latest first."""
        with self.database.transaction("reading the choices of a policy") as connection:
            return policy_choices.load_choices(connection, cluster, last)

    def save_loans(self, cluster: str, loans: Iterable[LentNodes]) -> None:
        """Remember that just these partitions have other nodes than their admin gave them."""
        with self.database.transaction("keeping which nodes are lent", write=True) as connection:
            node_loans.save_lent(connection, cluster, loans)

    def loans(self, cluster: str) -> tuple[LentNodes, ...]:
        """The partitions whose nodes we changed, by name."""
        with self.database.transaction("reading which nodes are lent") as connection:
            return node_loans.load_lent(connection, cluster)

    def control(self, cluster: str, now_s: float) -> Control:
        """Whether *cluster* is paused now."""
        with self.database.transaction("reading the pause switch") as connection:
            return pause.load_control(connection, cluster).at(now_s)

    def prune(self, now_s: float, keep_decisions_s: float, keep_outcomes_s: float) -> Pruned:
        """Forget what is older, a bounded amount per call: call again while it says there is more."""
        with self.database.transaction("forgetting what is old", write=True) as connection:
            return retention.prune(connection, now_s, keep_decisions_s, keep_outcomes_s)


class Unchanged(Store):
    """A database that is read and never written: for a rehearsal beside a daemon, and for simulations."""

    def probe(self, size_b: int) -> None:
        """Leave it as it is."""

    def save(self, cluster: str, news: object) -> None:
        """Leave it as it is."""

    def save_decision(self, cluster: str, record: object) -> None:
        """Leave it as it is."""

    def save_loans(self, cluster: str, loans: object) -> None:
        """Leave it as it is."""

"""The store of all records; each method is one transaction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..cluster.actions.intent import Intent
from ..cluster.job_record import JobRecord
from ..cluster.records.faults import Fault, Instability, Mismatches
from ..cluster.records.node_loans import LentNodes
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.prediction_records import PredictionRecords
from ..cluster.records.profiles import LinkUse, NodeProfile, ProfileTable
from ..cluster.records.promises import PromiseTable
from ..cluster.records.report_rows import JobKey, ReportRows
from ..cluster.records.scope import Scope
from ..cluster.records.shared_times import MeasuredTime
from ..cluster.records.trial import Ending, OfBlock, Trial, TrialSums
from ..cluster.records.usage import KeptUsage, UsageTable
from . import integrity, pending_writes, retention, schema
from .database import Database
from .pending_writes import PendingWrites
from .records import (
    faults,
    gpu_usage,
    hours,
    node_loans,
    outcomes,
    pause,
    policy_choices,
    predictions,
    profiles,
    promises,
    report_rows,
    run_use,
    trials,
)
from .records.pause import Control
from .records.policy_choices import PolicyChoice
from .retention import Pruned
from .tracking import decisions, intent_records, story
from .tracking.decision_layers import BlobLayers
from .tracking.decisions import DecisionRecord
from .tracking.story import StoryEvent

ALL = Scope()
PREDICTED_BEFORE_S = 30 * 86_400.0
"""How long before its start a job may have been predicted that counts in a report."""


class Store:
    """A database with our tables, for one or several clusters; callers never see a connection.

    Every method raises ``MemoryUnavailable`` where the database is away, or locked for longer than *timeout_s*; the
    transaction then has no effect.
    """

    def __init__(self, url: str, *, timeout_s: float = 5.0) -> None:
        self.database = Database(url, timeout_s=timeout_s)
        self._layers: dict[str, BlobLayers] = {}  # by cluster

    @property
    def place(self) -> str:
        """The address, without its password."""
        return self.database.place

    @property
    def path(self) -> Path | None:
        """The file of an SQLite database."""
        return self.database.path

    def upgrade(self) -> str:
        """Create the tables or upgrade them to this version; return it. ``SchemaMismatch`` if they are newer."""
        return schema.upgrade(self.database)

    def check(self) -> None:
        """Raise ``SchemaMismatch`` unless the tables are of this version."""
        schema.check(self.database)

    def version(self) -> str | None:
        """Return the version of the tables; None where there are none."""
        return schema.version(self.database)

    def inspect(self, *, thorough: bool) -> str:
        """Describe damage to the tables and, if *thorough*, to the file; empty for none.

        Until it is repaired, every other method raises ``MemoryUnavailable`` with this description.
        """
        damage = integrity.find_damage(self.database, thorough=thorough or bool(self.database.damage))
        if damage:
            self.database.damage = damage
        else:
            self.database.whole()
        return damage

    def probe(self, size_b: int) -> None:
        """Commit a write of *size_b* bytes and delete it again; success means that a record of that size fits."""
        with self.database.transaction("trying to write", write=True) as connection:
            decisions.save_probe(connection, size_b)
        with self.database.transaction("taking back what was tried", write=True) as connection:
            decisions.remove_probe(connection)

    def close(self) -> None:
        """Close all idle connections."""
        self.database.close()

    def save(self, cluster: str, news: PendingWrites) -> None:
        """Write *news*, all or nothing; a repeat changes nothing."""
        with self.database.transaction("saving an observation", write=True) as connection:
            pending_writes.save_facts(connection, cluster, news)

    def save_intents(self, cluster: str, news: Iterable[Intent]) -> None:
        """Write requests to Slurm of a process that has no memory of the cluster."""
        facts = PendingWrites()
        facts.note(news)
        self.save(cluster, facts)

    def jobs(self, cluster: str) -> list[JobRecord]:
        """Return the jobs that Slurm had at the last observation."""
        with self.database.transaction("reading the known jobs") as connection:
            return pending_writes.load_jobs(connection, cluster)

    def intents(self, cluster: str, refused_since_s: float, now_s: float = math.inf) -> list[Intent]:
        """Return open intents, those refused since *refused_since_s*, and those that are remembered at *now_s*."""
        with self.database.transaction("reading the intents") as connection:
            return intent_records.load_intents(connection, cluster, refused_since_s, now_s)

    def add_outcomes(self, cluster: str, table: OutcomeTable) -> int:
        """Write runs that are new, or whose true end replaces an unknown one; return their number."""
        with self.database.transaction("saving outcomes", write=True) as connection:
            return outcomes.add_outcomes(connection, cluster, table)

    def history(self, cluster: str, since_s: float | None = None, until_s: float | None = None) -> OutcomeTable:
        """Return the runs that ended in [since_s, until_s), oldest end first."""
        with self.database.transaction("reading the history") as connection:
            return outcomes.load_outcomes(connection, cluster, since_s, until_s)

    def interactive_runs(self, cluster: str, since_s: float) -> OutcomeTable:
        """Return the runs without a batch script that ended since *since_s*."""
        with self.database.transaction("reading interactive runs") as connection:
            return outcomes.load_outcomes(connection, cluster, since_s, None, interactive=True)

    def add_profiles(self, cluster: str, news: Iterable[NodeProfile]) -> None:
        """Write profiles of nodes; one that covers more time replaces an earlier one of the same run."""
        with self.database.transaction("saving profiles", write=True) as connection:
            profiles.add_profiles(connection, cluster, news)

    def idle_nodes(self, cluster: str, since_s: float) -> list[NodeProfile]:
        """Return the records since then of nodes on which a job held GPUs without a process at the end."""
        with self.database.transaction("reading which GPUs are idle") as connection:
            return profiles.load_idle(connection, cluster, since_s)

    def link_use(self, cluster: str, since_s: float) -> list[LinkUse]:
        """Return the use of links between GPUs by runs whose profile ended since then."""
        with self.database.transaction("reading the use of links") as connection:
            return profiles.link_use(connection, cluster, since_s)

    def profiles(self, cluster: str, since_s: float | None = None, until_s: float | None = None) -> ProfileTable:
        """Return the GPU profiles of runs that ended in [since_s, until_s), oldest end first."""
        with self.database.transaction("reading profiles") as connection:
            return profiles.load_profiles(connection, cluster, since_s, until_s)

    def measured(self, cluster: str, since_s: float) -> list[gpu_usage.Measured]:
        """Return the newest runs measured since *since_s*, with their kind; a bounded number, oldest end first."""
        with self.database.transaction("reading what was measured") as connection:
            return gpu_usage.load_measured(connection, cluster, since_s)

    def measured_times(self, cluster: str, since_s: float, least_s: float) -> list[MeasuredTime]:
        """Return what jobs kept of their speed beside others since *since_s*, for *least_s* or more; oldest first."""
        with self.database.transaction("reading speeds of jobs beside others") as connection:
            return story.load_measured_times(connection, cluster, since_s, least_s)

    def add_faults(self, cluster: str, news: Iterable[Fault]) -> None:
        """Write those records of jobs that failed together that are not stored yet."""
        with self.database.transaction("saving faults", write=True) as connection:
            faults.add_faults(connection, cluster, news)

    def add_instabilities(self, cluster: str, news: Iterable[Instability]) -> None:
        """Write those records of jobs with unstable combined load that are not stored yet."""
        with self.database.transaction("saving instabilities", write=True) as connection:
            faults.add_instabilities(connection, cluster, news)

    def mismatches(self, cluster: str, now_s: float) -> Mismatches:
        """Return the failures and instabilities of jobs that shared GPUs that count at *now_s*."""
        with self.database.transaction("reading faults") as connection:
            failed = faults.load_failed(connection, cluster)
            return Mismatches(failed, faults.load_instabilities(connection, cluster, now_s))

    def promises(self, cluster: str, since_s: float) -> PromiseTable:
        """Return the open promises and all requests since *since_s*, oldest first."""
        with self.database.transaction("reading the promises") as connection:
            return promises.load_promises(connection, cluster, since_s)

    def save_predictions(self, cluster: str, records: PredictionRecords) -> None:
        """Write new *records* and the outcomes of older ones; a repeat changes nothing."""
        with self.database.transaction("saving predictions", write=True) as connection:
            predictions.save_predictions(connection, cluster, records)

    def predictions(self, cluster: str, since_s: float) -> PredictionRecords:
        """Return the predictions made since *since_s* with their outcomes, oldest first; a bounded number."""
        with self.database.transaction("reading predictions") as connection:
            return predictions.load_predictions(connection, cluster, since_s)

    def add_hours(self, cluster: str, news: Mapping[hours.Counted, float]) -> None:
        """Add *news* to the sums of their hours."""
        with self.database.transaction("saving the sums of hours", write=True) as connection:
            hours.add_hours(connection, cluster, news)

    def add_use(self, cluster: str, table: UsageTable) -> None:
        """Write what ended runs used of CPUs and memory; a repeat changes nothing."""
        with self.database.transaction("saving the use of CPUs and memory", write=True) as connection:
            run_use.add_use(connection, cluster, table)

    def run_use(self, cluster: str, since_s: float) -> KeptUsage:
        """Return what runs that ended since then used of CPUs and memory."""
        with self.database.transaction("reading the use of CPUs and memory") as connection:
            return run_use.load_use(connection, cluster, since_s)

    def report_rows(self, cluster: str, since_s: float, until_s: float, of: Scope) -> ReportRows:
        """Return all that a report on [since_s, until_s) needs *of* a choice of jobs; the hours are everybody's."""
        job_ids = report_rows.ids_of(cluster, since_s, of)
        with self.database.transaction("reading the rows of a report") as connection:
            return ReportRows(
                runs=report_rows.load_runs(connection, cluster, since_s, until_s, of),
                everybody=None if of.everybody else report_rows.load_runs(connection, cluster, since_s, until_s, ALL),
                nodes=report_rows.load_node_records(connection, cluster, since_s, of),
                predictions=predictions.load_predictions(connection, cluster, since_s - PREDICTED_BEFORE_S, job_ids),
                use=run_use.load_use(connection, cluster, since_s, job_ids),
                promises=promises.load_promises(connection, cluster, since_s),
                held=story.load_held(connection, cluster, since_s - PREDICTED_BEFORE_S, job_ids),
                hours=hours.load_hours(connection, cluster, since_s, until_s),
                trials=trials.load_in_span(connection, cluster, since_s, until_s),
            )

    def held_jobs(self, cluster: str, since_s: float) -> frozenset[JobKey]:
        """Return the jobs that we held since *since_s*."""
        with self.database.transaction("reading which jobs were held") as connection:
            return story.load_held(connection, cluster, since_s)

    def clusters(self) -> list[str]:
        """Return the names of the clusters with stored runs, sorted."""
        with self.database.transaction("reading the names of the clusters") as connection:
            return outcomes.load_clusters(connection)

    def submissions(self, cluster: str, since_s: float) -> dict[tuple[int, int], story.Submission]:
        """Return how jobs were submitted since *since_s*, by job id and whole second of the submission."""
        with self.database.transaction("reading submissions") as connection:
            return story.load_submissions(connection, cluster, since_s)

    def story(self, cluster: str, job_id: int, first_submit_s: float | None = None) -> list[StoryEvent]:
        """Return the events of the job with that id and first submit, or of the last with that id; oldest first."""
        with self.database.transaction(f"reading the story of job {job_id}") as connection:
            events = story.load_story(connection, cluster, job_id, first_submit_s)
            meanwhile = policy_choices.choices_in(events, policy_choices.load_choices(connection, cluster))
        return story.in_order([*events, *meanwhile])

    def save_decision(self, cluster: str, record: DecisionRecord) -> None:
        """Save a cycle; parts that did not change since an earlier one are not stored again."""
        if cluster not in self._layers:
            self._layers[cluster] = BlobLayers(decisions.TABLES)
        parts = self._layers[cluster].blobs(decisions.layers_of(record))
        with self.database.transaction(f"saving cycle {record.number}", write=True) as connection:
            decisions.save_decision(connection, cluster, record, parts)

    def decision(self, number: int, cluster: str | None = None) -> DecisionRecord | None:
        """Return cycle *number*; None if it is not stored, ``SchemaMismatch`` if another version wrote it.

        Without *cluster*, in a database of several clusters, it is that of the cluster that decided last.
        """
        with self.database.transaction(f"reading cycle {number}") as connection:
            return decisions.load_decision(connection, number, cluster)

    def latest_decision(self, cluster: str | None = None) -> DecisionRecord | None:
        """Return the newest stored cycle."""
        with self.database.transaction("reading the latest cycle") as connection:
            return decisions.load_decision(connection, None, cluster)

    def decision_numbers(self, cluster: str | None = None) -> list[int]:
        """Return the numbers of the stored cycles, oldest first."""
        with self.database.transaction("reading the numbers of the cycles") as connection:
            return decisions.decision_numbers(connection, cluster)

    def last_number(self, cluster: str) -> int:
        """Return the highest cycle number so far, 0 if there is none."""
        with self.database.transaction("reading the last cycle number") as connection:
            return decisions.last_number(connection, cluster)

    def pause(self, cluster: str, *, by: str, now_s: float, until_s: float | None = None) -> None:
        """Let every daemon of *cluster* only observe from its next cycle on, until *until_s* or a resume."""
        with self.database.transaction("pausing", write=True) as connection:
            pause.save_control(connection, cluster, Control(True, until_s, by, now_s))

    def resume(self, cluster: str, *, by: str, now_s: float) -> None:
        """End a pause."""
        with self.database.transaction("resuming", write=True) as connection:
            pause.save_control(connection, cluster, Control(False, None, by, now_s))

    def choose(self, cluster: str, choice: PolicyChoice) -> None:
        """Let every daemon of *cluster* order jobs by *choice* from its next cycle on."""
        with self.database.transaction("keeping the choice of a policy", write=True) as connection:
            policy_choices.save_choice(connection, cluster, choice)

    def choose_next(self, cluster: str, choice: PolicyChoice, before: PolicyChoice | None) -> bool:
        """Choose as ``choose`` does if *before* is still the latest choice; return False otherwise."""
        with self.database.transaction("keeping the choice of a policy", write=True) as connection:
            return policy_choices.save_next_choice(connection, cluster, choice, before)

    def choices(self, cluster: str, last: int | None = None) -> list[PolicyChoice]:
        """Return the *last* choices of a policy, or all; the latest first."""
        with self.database.transaction("reading the choices of a policy") as connection:
            return policy_choices.load_choices(connection, cluster, last)

    def save_loans(self, cluster: str, loans: Iterable[LentNodes]) -> None:
        """Replace the stored loans by *loans*: the partitions whose nodes differ from their admin's."""
        with self.database.transaction("keeping which nodes are lent", write=True) as connection:
            node_loans.save_lent(connection, cluster, loans)

    def loans(self, cluster: str) -> tuple[LentNodes, ...]:
        """Return the partitions whose nodes we changed, by name."""
        with self.database.transaction("reading which nodes are lent") as connection:
            return node_loans.load_lent(connection, cluster)

    def control(self, cluster: str, now_s: float) -> Control:
        """Return the state of the pause switch of *cluster* at *now_s*."""
        with self.database.transaction("reading the pause switch") as connection:
            return pause.load_control(connection, cluster).at(now_s)

    def start_trial(self, cluster: str, trial: Trial) -> bool:
        """Let every daemon of *cluster* follow *trial* from its next cycle on; return False where one runs."""
        with self.database.transaction("starting a trial", write=True) as connection:
            return trials.start_trial(connection, cluster, trial)

    def end_trial(self, cluster: str, started_s: float, at_s: float, ending: Ending, detail: str = "") -> bool:
        """End the trial that began then, or the time without the policy after one that harmed; False where none is."""
        with self.database.transaction("ending a trial", write=True) as connection:
            return trials.end_trial(connection, cluster, started_s, at_s, ending, detail)

    def trials(self, cluster: str, last: int | None = None) -> list[Trial]:
        """Return the *last* trials, or all; the latest first."""
        with self.database.transaction("reading the trials") as connection:
            return trials.load_trials(connection, cluster, last)

    def add_trial_sums(self, cluster: str, started_s: float, news: Mapping[OfBlock, TrialSums]) -> None:
        """Add *news* to what was counted in the blocks of the trial that began then."""
        with self.database.transaction("saving what a trial counted", write=True) as connection:
            trials.add_sums(connection, cluster, started_s, news)

    def trial_sums(self, cluster: str, started_s: float) -> dict[OfBlock, TrialSums]:
        """Return what was counted in the blocks of the trial that began then."""
        with self.database.transaction("reading what a trial counted") as connection:
            return trials.load_sums(connection, cluster, started_s)

    def prune(self, now_s: float, keep_decisions_s: float, keep_outcomes_s: float) -> Pruned:
        """Delete older records, a bounded number per call; repeat while the result has *more*."""
        with self.database.transaction("forgetting what is old", write=True) as connection:
            return retention.prune(connection, now_s, keep_decisions_s, keep_outcomes_s)


class Unchanged(Store):
    """A store that is read and never written, for a dry run beside a daemon and for simulations."""

    def probe(self, size_b: int) -> None:
        """Leave it as it is."""

    def save(self, cluster: str, news: PendingWrites) -> None:
        """Leave it as it is."""

    def save_decision(self, cluster: str, record: object) -> None:
        """Leave it as it is."""

    def save_loans(self, cluster: str, loans: object) -> None:
        """Leave it as it is."""

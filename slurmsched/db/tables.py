"""The tables, and two column types with which SQLite and PostgreSQL store the same values."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

_QUOTED = "json:"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Words(TypeDecorator[str]):
    """Any text; one that a database would refuse (NUL, lone surrogates) is stored as ``json:"..."``."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text in its stored form."""
        if value is None or not (value.startswith(_QUOTED) or _UNSTORABLE.search(value)):
            return value
        return _QUOTED + json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the original text."""
        if value is None or not value.startswith(_QUOTED):
            return value
        return str(json.loads(value.removeprefix(_QUOTED)))


class Seconds(TypeDecorator[float]):
    """Unix time or a duration; NaN is stored as NULL, as SQLite does anyway."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        """Return the number in its stored form."""
        return None if value is None or math.isnan(value) else value

    def process_result_value(self, value: float | None, dialect: Dialect) -> float:
        """Return the original number."""
        return math.nan if value is None else float(value)


metadata = MetaData()


def _cluster() -> Column[str]:
    return Column("cluster", String(64), primary_key=True)


def _key(name: str) -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


def _number(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _words(name: str) -> Column[str]:
    return Column(name, Words, nullable=False)


#: Jobs that Slurm still has, as last observed; a row is deleted once Slurm has forgotten the job.
jobs = Table(
    "jobs",
    metadata,
    _cluster(),
    _key("unit"),  # the job id, negative for the waiting tasks of an array
    _number("job_id"),
    _number("array_job_id"),
    _number("task_id"),
    _number("tasks"),
    *(_words(name) for name in ("name", "user", "account", "qos", "partition")),
    _number("gpus"),
    _number("nodes"),
    _number("cpus"),
    *(Column(name, Seconds) for name in ("time_limit_s", "submitted_s", "eligible_s", "started_s")),
    _number("restarts"),
    Column("first_submit_s", Seconds),
    Column("phase", Integer, nullable=False),
    Column("waiting_since_s", Seconds),
    Column("delayed_s", Seconds),
    Column("ran_s", Seconds),
    Column("gpu_type", Words, nullable=False),
    Column("ran_on", Words, nullable=False),
    Column("waited_s", Seconds),
    Column("held_since_s", Seconds),
    Column("lost_s", Seconds),
    Column("interactive", BigInteger, nullable=False),
)

#: Runs that ended. The first submit time is part of the key and stored in whole seconds, as in Slurm.
outcomes = Table(
    "outcomes",
    metadata,
    _cluster(),
    _key("job_id"),
    _key("first_submit_s"),
    _key("restart"),
    *(_words(name) for name in ("name", "user", "account", "qos", "partition")),
    _number("gpus"),
    _number("nodes"),
    _number("cpus"),
    *(Column(name, Seconds) for name in ("time_limit_s", "eligible_s", "started_s")),
    Column("ended_s", Seconds, nullable=False),
    Column("runtime_s", Seconds, nullable=False),
    Column("state", Integer, nullable=False),
    Column("gpu_type", Words, nullable=False),
    Column("interactive", BigInteger, nullable=False),
    Index("outcomes_by_end", "cluster", "ended_s"),
)


def _of_node() -> tuple[Column[Any], ...]:
    """Return the columns for a node's record of a run; the start is part of the key: a job may run there again."""
    return (
        _cluster(),
        _key("job_id"),
        Column("node", String(255), primary_key=True),
        _key("start_s"),
        _number("restart"),
        _number("end_s"),
    )


#: The measurements of each node of a run of a job.
profiles = Table(
    "profiles",
    metadata,
    *_of_node(),
    _number("gpus"),
    *(
        Column(name, Seconds)  # also for shares, MiB and W, which may be NaN
        for name in (
            *("measured_s", "process_share", "gpu_util", "gpu_util_sd", "memory_util"),
            *("memory_mib", "power_w", "unstable", "link_gbps", "best_link_gbps"),
            *("idle_gpus", "idle_since_s"),
        )
    ),
    Column("source", String(16), nullable=False, server_default="sampler"),
    Index("profiles_by_end", "cluster", "end_s"),
)


def _of_sharers(name: str, *words: str) -> Table:
    """Return a table of nodes' records of jobs that share GPUs."""
    return Table(
        name,
        metadata,
        *_of_node(),
        *(_words(each) for each in ("gpus", "partners", *words)),
        Index(f"{name}_by_end", "cluster", "end_s"),
    )


#: Jobs that failed together on GPUs that they shared.
faults = _of_sharers("faults", "fault")

#: Jobs whose load of the GPUs that they shared was unstable.
instabilities = _of_sharers("instabilities", "partner_restarts", "why")

#: Requested deadlines, with our answer and its outcome; a job may request several times.
promises = Table(
    "promises",
    metadata,
    _cluster(),
    _key("job_id"),
    Column("asked_s", Double, primary_key=True),
    Column("first_submit_s", Seconds),
    *(_words(name) for name in ("user", "account", "reason")),
    _number("gpus"),
    _number("state"),
    *(
        Column(name, Seconds)
        for name in (
            *("deadline_s", "needs_s", "promised_s", "worth", "earliest_s"),
            *("announced_s", "settled_s"),
        )
    ),
    Index("promises_by_state", "cluster", "state"),
)

#: Predictions of jobs and their outcomes; a job has several where its prediction changed much.
predictions = Table(
    "predictions",
    metadata,
    _cluster(),
    _key("job_id"),
    Column("made_s", Double, primary_key=True),
    *(_number(name) for name in ("restarts", "number", "gpus", "state", "delays")),
    _words("partition"),
    *(
        Column(name, Seconds)
        for name in (
            *("first_submit_s", "raw_start_s", "raw_finish_s", "scale", "start_s", "start_from_s", "start_by_s"),
            *("finish_s", "finish_from_s", "finish_by_s", "slurm_start_s", "started_s", "ended_s", "windows"),
        )
    ),
    Index("predictions_by_time", "cluster", "made_s"),
)

#: The story of each job: changes only, never one row per cycle.
job_events = Table(
    "job_events",
    metadata,
    _cluster(),
    _key("job_id"),
    Column("at_s", Double, primary_key=True),
    Column("kind", String(32), primary_key=True),
    Column("details", Text, nullable=False),
    Column("first_submit_s", Seconds),  # identifies the job, since Slurm reuses ids
    Index("job_events_by_time", "cluster", "at_s"),
)

#: Requests to Slurm, and their observed effect.
intents = Table(
    "intents",
    metadata,
    _cluster(),
    _key("cycle"),
    _key("job_id"),
    Column("kind", String(32), primary_key=True),
    Column("value", Text, nullable=False),
    Column("requested_s", Double, nullable=False),
    Column("answered_s", Double),
    Column("refused", Words),
    Column("seen_s", Double),
    Column("closed_s", Double),
    Index("intents_by_close", "cluster", "closed_s"),
)

#: What ended runs used of CPUs and memory on a node, by accounting.
run_use = Table(
    "run_use",
    metadata,
    _cluster(),
    _key("job_id"),
    Column("ended_s", Double, primary_key=True),
    _number("nodes"),
    *(Column(name, Seconds) for name in ("cpus", "memory_mib", "held_memory_mib")),
    Index("run_use_by_end", "cluster", "ended_s"),
)

#: Sums of whole hours, by what was counted and whose it is.
hours = Table(
    "hours",
    metadata,
    _cluster(),
    Column("from_s", Double, primary_key=True),
    Column("what", String(64), primary_key=True),
    *(Column(name, Words, primary_key=True) for name in ("account", "user")),
    Column("value", Double, nullable=False),
)

cycles = Table(
    "cycles",
    metadata,
    _cluster(),
    _key("number"),
    Column("at_s", Double, nullable=False),
    Column("mode", String(16), nullable=False),
    Column("models_digest", Text, nullable=False),
    _words("sentence"),
    Index("cycles_by_time", "cluster", "at_s"),
)

#: The blob of each part of a cycle; a part that did not change refers to the same blob.
cycle_blobs = Table(
    "cycle_blobs",
    metadata,
    _cluster(),
    _key("number"),
    Column("part", String(32), primary_key=True),
    Column("digest", String(64), nullable=False),
    Index("cycle_blobs_by_digest", "digest"),
)

blobs = Table(
    "blobs",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

#: Choices of an ordering; the latest row of a cluster is in effect.
policy_choices = Table(
    "policy_choices",
    metadata,
    _cluster(),
    Column("at_s", Double, primary_key=True),
    *(_words(name) for name in ("line", "by", "reason")),
    Column("synthesis", Text, nullable=False),  # the composition in force under "auto", as JSON
)

#: Partitions whose nodes we changed: host lists of their admin's nodes, and of the nodes that we set last.
lent = Table(
    "lent",
    metadata,
    _cluster(),
    Column("partition", String(255), primary_key=True),
    *(_words(name) for name in ("own", "given")),
)

control = Table(
    "control",
    metadata,
    _cluster(),
    Column("paused", Boolean, nullable=False),
    Column("until_s", Double),
    Column("by", Words, nullable=False),
    Column("since_s", Double, nullable=False),
)

#: Trials of the policy; the latest row of a cluster is in effect.
trials = Table(
    "trials",
    metadata,
    _cluster(),
    Column("started_s", Double, primary_key=True),
    *(_words(name) for name in ("by", "ending", "detail")),
    *(_number(name) for name in ("seed", "blocks")),
    *(Column(name, Double, nullable=False) for name in ("block_s", "washout_s", "harm_s", "holdout")),
    *(Column(name, Seconds) for name in ("ended_s", "released_s")),
)

#: What was counted in the blocks of trials, by account.
trial_sums = Table(
    "trial_sums",
    metadata,
    _cluster(),
    Column("started_s", Double, primary_key=True),  # of the trial
    _key("block"),
    Column("account", Words, primary_key=True),
    *(Column(name, Double, nullable=False) for name in ("counted_s", "waited_s", "came", "held_out_s", "held_out")),
)

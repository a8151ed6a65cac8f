"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_OF_A_JOB = ("name", "user", "account", "qos", "partition")
_OF_A_RUN = ("cluster:64", "job_id#", "node:255", "start_s#")
_PREDICTED_S = (
    *("first_submit_s", "raw_start_s", "raw_finish_s", "scale", "start_s", "start_from_s", "start_by_s"),
    *("finish_s", "finish_from_s", "finish_by_s", "slurm_start_s", "started_s", "ended_s"),
)


def upgrade() -> None:
    """Make all tables."""
    _jobs_and_runs()
    _measured()
    _promised_and_predicted()
    _story_and_intents()
    _cycles()
    _of_admins()


def _make(table: str, key: tuple[str, ...], *columns: sa.Column[Any], **indices: tuple[str, ...]) -> None:
    """Make a table; of the *key* ``NAME:LENGTH`` is a text, ``NAME#`` a whole number, any other a time."""
    op.create_table(table, *(_key(name) for name in key), *columns)
    for name, indexed in indices.items():
        op.create_index(name, table, list(indexed))


def _key(name: str) -> sa.Column[Any]:
    if name.endswith("#"):
        return sa.Column(name[:-1], sa.BigInteger, primary_key=True, autoincrement=False)
    name, _, length = name.partition(":")
    return sa.Column(name, sa.String(int(length)) if length else sa.Double, primary_key=True)


def _columns(kind: Any, *names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]


def _numbers(*names: str) -> list[sa.Column[Any]]:
    return _columns(sa.BigInteger, *names)


def _texts(*names: str) -> list[sa.Column[Any]]:
    return _columns(sa.Text, *names)


def _seconds(*names: str) -> list[sa.Column[Any]]:
    return _columns(sa.Double, *names, nullable=True)


def _jobs_and_runs() -> None:
    _make(
        "jobs",
        ("cluster:64", "unit#"),
        *_numbers("job_id", "array_job_id", "task_id", "tasks", "gpus", "nodes", "cpus", "restarts", "interactive"),
        *_texts(*_OF_A_JOB, "gpu_type", "ran_on"),
        *_seconds("time_limit_s", "submitted_s", "first_submit_s", "eligible_s", "started_s"),
        *_seconds("waiting_since_s", "delayed_s", "ran_s", "waited_s", "held_since_s", "lost_s"),
        *_columns(sa.Integer, "phase"),
    )
    _make(
        "outcomes",
        ("cluster:64", "job_id#", "first_submit_s#", "restart#"),
        *_texts(*_OF_A_JOB, "gpu_type"),
        *_numbers("gpus", "nodes", "cpus", "interactive"),
        *_seconds("time_limit_s", "eligible_s", "started_s"),
        *_columns(sa.Double, "ended_s", "runtime_s"),
        *_columns(sa.Integer, "state"),
        outcomes_by_end=("cluster", "ended_s"),
    )


def _measured() -> None:
    figures = ("measured_s", "process_share", "gpu_util", "gpu_util_sd", "memory_util", "memory_mib", "power_w")
    _make(
        "profiles",
        _OF_A_RUN,
        *_numbers("restart", "end_s", "gpus"),
        *_seconds(*figures, "unstable", "link_gbps", "best_link_gbps"),
        profiles_by_end=("cluster", "end_s"),
    )
    _make(
        "faults",
        _OF_A_RUN,
        *_numbers("restart", "end_s"),
        *_texts("gpus", "partners", "fault"),
        faults_by_end=("cluster", "end_s"),
    )
    _make(
        "instabilities",
        _OF_A_RUN,
        *_numbers("restart", "end_s"),
        *_texts("gpus", "partners", "partner_restarts", "why"),
        instabilities_by_end=("cluster", "end_s"),
    )


def _promised_and_predicted() -> None:
    _make(
        "promises",
        ("cluster:64", "job_id#", "asked_s"),
        *_texts("user", "account", "reason"),
        *_numbers("gpus", "state"),
        *_seconds("first_submit_s", "deadline_s", "needs_s", "promised_s", "worth", "earliest_s"),
        *_seconds("announced_s", "settled_s"),
        promises_by_state=("cluster", "state"),
    )
    _make(
        "predictions",
        ("cluster:64", "job_id#", "made_s"),
        *_numbers("restarts", "number", "gpus", "state", "delays"),
        *_texts("partition"),
        *_seconds(*_PREDICTED_S),
        predictions_by_time=("cluster", "made_s"),
    )


def _story_and_intents() -> None:
    _make(
        "job_events",
        ("cluster:64", "job_id#", "at_s", "kind:32"),
        *_texts("details"),
        *_seconds("first_submit_s"),
        job_events_by_time=("cluster", "at_s"),
    )
    _make(
        "intents",
        ("cluster:64", "cycle#", "job_id#", "kind:32"),
        *_texts("value"),
        *_columns(sa.Double, "requested_s"),
        *_seconds("answered_s", "seen_s", "closed_s"),
        *_columns(sa.Text, "refused", nullable=True),
        intents_by_close=("cluster", "closed_s"),
    )


def _cycles() -> None:
    _make(
        "cycles",
        ("cluster:64", "number#"),
        *_columns(sa.Double, "at_s"),
        *_columns(sa.String(16), "mode"),
        *_texts("models_digest", "sentence"),
        cycles_by_time=("cluster", "at_s"),
    )
    _make(
        "cycle_blobs",
        ("cluster:64", "number#", "part:32"),
        *_columns(sa.String(64), "digest"),
        cycle_blobs_by_digest=("digest",),
    )
    _make("blobs", ("digest:64",), *_columns(sa.LargeBinary, "body"))


def _of_admins() -> None:
    _make("policy_choices", ("cluster:64", "at_s"), *_texts("line", "by", "reason", "synthesis"))
    _make("lent", ("cluster:64", "partition:255"), *_texts("own", "given"))
    _make(
        "control",
        ("cluster:64",),
        *_columns(sa.Boolean, "paused"),
        *_seconds("until_s"),
        *_texts("by"),
        *_columns(sa.Double, "since_s"),
    )

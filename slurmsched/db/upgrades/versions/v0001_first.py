"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _cluster() -> sa.Column[str]:
    return sa.Column("cluster", sa.String(64), primary_key=True)


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False)


def _columns(kind: type[sa.types.TypeEngine[Any]], *names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]


def upgrade() -> None:
    """Make all tables."""
    _jobs_and_outcomes()
    _story_and_intents()
    _cycles()
    op.create_table(
        "control",
        _cluster(),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("until_s", sa.Double),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("since_s", sa.Double, nullable=False),
    )


def _jobs_and_outcomes() -> None:
    op.create_table(
        "jobs",
        _cluster(),
        _key("unit"),
        *_columns(sa.BigInteger, "job_id", "array_job_id", "task_id", "tasks"),
        *_columns(sa.Text, "name", "user", "account", "qos", "partition"),
        *_columns(sa.BigInteger, "gpus", "nodes", "cpus"),
        *_columns(sa.Double, "time_limit_s", "submitted_s", "eligible_s", "started_s", nullable=True),
        *_columns(sa.BigInteger, "restarts"),
        sa.Column("first_submit_s", sa.Double),
        sa.Column("phase", sa.Integer, nullable=False),
    )
    op.create_table(
        "outcomes",
        _cluster(),
        *(_key(name) for name in ("job_id", "first_submit_s", "restart")),
        *_columns(sa.Text, "name", "user", "account", "qos", "partition"),
        *_columns(sa.BigInteger, "gpus", "nodes", "cpus"),
        *_columns(sa.Double, "time_limit_s", "eligible_s", "started_s", nullable=True),
        *_columns(sa.Double, "ended_s", "runtime_s"),
        sa.Column("state", sa.Integer, nullable=False),
    )
    op.create_index("outcomes_by_end", "outcomes", ["cluster", "ended_s"])


def _story_and_intents() -> None:
    op.create_table(
        "job_events",
        _cluster(),
        _key("job_id"),
        sa.Column("at_s", sa.Double, primary_key=True),
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("details", sa.Text, nullable=False),
    )
    op.create_index("job_events_by_time", "job_events", ["cluster", "at_s"])
    op.create_table(
        "intents",
        _cluster(),
        _key("cycle"),
        _key("job_id"),
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("requested_s", sa.Double, nullable=False),
        sa.Column("answered_s", sa.Double),
        sa.Column("refused", sa.Text),
        sa.Column("seen_s", sa.Double),
        sa.Column("closed_s", sa.Double),
    )
    op.create_index("intents_by_close", "intents", ["cluster", "closed_s"])


def _cycles() -> None:
    op.create_table(
        "cycles",
        _cluster(),
        _key("number"),
        sa.Column("at_s", sa.Double, nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("models_digest", sa.Text, nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
    )
    op.create_index("cycles_by_time", "cycles", ["cluster", "at_s"])
    op.create_table(
        "cycle_blobs",
        _cluster(),
        _key("number"),
        sa.Column("part", sa.String(32), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_index("cycle_blobs_by_digest", "cycle_blobs", ["digest"])
    op.create_table(
        "blobs",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )

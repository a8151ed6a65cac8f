"""What reports need: sums of whole hours, and what ended runs used of CPUs and memory."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "run_use",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("ended_s", sa.Double, primary_key=True),
        sa.Column("nodes", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Double) for name in ("cpus", "memory_mib", "held_memory_mib")),
    )
    op.create_index("run_use_by_end", "run_use", ["cluster", "ended_s"])
    op.create_table(
        "hours",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("from_s", sa.Double, primary_key=True),
        sa.Column("what", sa.String(64), primary_key=True),
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
    )

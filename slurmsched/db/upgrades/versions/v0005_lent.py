"""Nodes that partitions lend each other."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table of what is lent."""
    op.create_table(
        "lent",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("partition", sa.String(255), primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("own", "given")),
    )

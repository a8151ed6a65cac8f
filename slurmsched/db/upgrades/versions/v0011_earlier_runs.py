"""The time of a job's earlier runs, which a job with ckpt continues."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column; what jobs ran before this upgrade is not counted."""
    op.add_column("jobs", sa.Column("ran_s", sa.Double, nullable=True))
    op.execute("UPDATE jobs SET ran_s = 0")

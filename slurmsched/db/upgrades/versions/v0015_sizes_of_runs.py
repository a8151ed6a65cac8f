"""The numbers of GPUs on which a job's earlier runs were."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the column; the numbers of earlier runs are not known, and count as those that jobs ask for."""
    op.add_column("jobs", sa.Column("ran_on", sa.Text, nullable=False, server_default=""))

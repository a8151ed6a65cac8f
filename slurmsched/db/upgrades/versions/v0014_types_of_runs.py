"""The type of the GPUs on which a job ran."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the columns; the types of earlier runs are not known."""
    for table in ("jobs", "outcomes"):
        op.add_column(table, sa.Column("gpu_type", sa.Text, nullable=False, server_default=""))

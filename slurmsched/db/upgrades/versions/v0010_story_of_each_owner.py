"""Whose story an event belongs to: Slurm gives the ids of jobs out again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Tell jobs of one id apart by their first submission; events without one belong to the submission before them."""
    op.add_column("job_events", sa.Column("first_submit_s", sa.Double))

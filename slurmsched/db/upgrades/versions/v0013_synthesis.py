"""The composition in force under ``auto``, and the decision that chose it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column; earlier choices had no composition."""
    op.add_column("policy_choices", sa.Column("synthesis", sa.Text, nullable=False, server_default=""))

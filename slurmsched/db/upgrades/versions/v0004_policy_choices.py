"""Which policy admins chose."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table of choices."""
    op.create_table(
        "policy_choices",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("at_s", sa.Double, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("line", "by", "reason")),
    )

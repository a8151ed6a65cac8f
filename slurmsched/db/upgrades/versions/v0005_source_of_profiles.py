"""Who measured a profile: the sampler of a node, or Prometheus."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; all earlier profiles are those of samplers."""
    with op.batch_alter_table("profiles") as profiles:
        profiles.add_column(sa.Column("source", sa.String(16), nullable=False, server_default="sampler"))

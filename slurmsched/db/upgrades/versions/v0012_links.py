"""The bandwidth of the links between the GPUs of a run on a node, and of as many GPUs of that node at best."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the columns; the links of earlier runs are not known."""
    op.add_column("profiles", sa.Column("link_gbps", sa.Double, nullable=True))
    op.add_column("profiles", sa.Column("best_link_gbps", sa.Double, nullable=True))

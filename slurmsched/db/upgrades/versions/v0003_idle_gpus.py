"""GPUs that a job holds without a process on them, told by nodes, and windows that predictions had before them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns; what older records do not tell stays null."""
    with op.batch_alter_table("profiles") as profiles:
        for name in ("idle_gpus", "idle_since_s"):
            profiles.add_column(sa.Column(name, sa.Double))
    with op.batch_alter_table("predictions") as predictions:
        predictions.add_column(sa.Column("windows", sa.Double))

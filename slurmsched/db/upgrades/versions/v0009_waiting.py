"""Since when jobs wait, whatever begin times of ours did to their EligibleTime; predictions made under such delays."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the columns; what is known so far was never delayed."""
    op.add_column("jobs", sa.Column("waiting_since_s", sa.Double, nullable=True))
    op.add_column("jobs", sa.Column("delayed_s", sa.Double, nullable=True))
    op.execute("UPDATE jobs SET delayed_s = 0")
    op.add_column("predictions", sa.Column("delays", sa.BigInteger, nullable=False, server_default="0"))

"""What was answered to jobs that ask for a deadline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the table of promises."""
    seconds = ("deadline_s", "needs_s", "promised_s", "worth", "earliest_s", "announced_s", "settled_s")
    op.create_table(
        "promises",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("asked_s", sa.Double, primary_key=True),
        sa.Column("first_submit_s", sa.Double),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("user", "account", "reason")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("gpus", "state")),
        *(sa.Column(name, sa.Double) for name in seconds),
    )
    op.create_index("promises_by_state", "promises", ["cluster", "state"])

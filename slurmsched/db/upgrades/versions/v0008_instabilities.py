"""Which jobs did not go together on GPUs that they shared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the table of instabilities."""
    op.create_table(
        "instabilities",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("node", sa.String(255), primary_key=True),
        sa.Column("start_s", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("restart", "end_s")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("gpus", "partners", "partner_restarts", "why")),
    )
    op.create_index("instabilities_by_end", "instabilities", ["cluster", "end_s"])

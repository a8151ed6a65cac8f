"""Which jobs failed together on GPUs that they shared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table of faults."""
    op.create_table(
        "faults",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("node", sa.String(255), primary_key=True),
        sa.Column("start_s", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("restart", "end_s")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("gpus", "partners", "fault")),
    )
    op.create_index("faults_by_end", "faults", ["cluster", "end_s"])

"""What was predicted of jobs, and what came of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table of predictions."""
    seconds = (
        *("first_submit_s", "raw_start_s", "raw_finish_s", "scale", "start_s", "start_from_s", "start_by_s"),
        *("finish_s", "finish_from_s", "finish_by_s", "slurm_start_s", "started_s", "ended_s"),
    )
    op.create_table(
        "predictions",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("made_s", sa.Double, primary_key=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("restarts", "number", "gpus", "state")),
        sa.Column("partition", sa.Text, nullable=False),
        *(sa.Column(name, sa.Double) for name in seconds),
    )
    op.create_index("predictions_by_time", "predictions", ["cluster", "made_s"])

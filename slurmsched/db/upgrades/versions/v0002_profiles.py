"""What nodes measured of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table of profiles."""
    figures = ("measured_s", "process_share", "gpu_util", "gpu_util_sd", "memory_util", "memory_mib", "power_w")
    op.create_table(
        "profiles",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("node", sa.String(255), primary_key=True),
        sa.Column("start_s", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("restart", "end_s", "gpus")),
        *(sa.Column(name, sa.Double) for name in (*figures, "unstable")),
    )
    op.create_index("profiles_by_end", "profiles", ["cluster", "end_s"])

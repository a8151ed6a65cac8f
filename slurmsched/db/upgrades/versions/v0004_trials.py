"""Trials of the policy, and what was counted in their blocks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "trials",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("started_s", sa.Double, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("by", "ending", "detail")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("seed", "blocks")),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("block_s", "washout_s", "harm_s", "holdout")),
        *(sa.Column(name, sa.Double) for name in ("ended_s", "released_s")),
    )
    op.create_table(
        "trial_sums",
        sa.Column("cluster", sa.String(64), primary_key=True),
        sa.Column("started_s", sa.Double, primary_key=True),
        sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("account", sa.Text, primary_key=True),
        *(
            sa.Column(name, sa.Double, nullable=False)
            for name in ("counted_s", "waited_s", "came", "held_out_s", "held_out")
        ),
    )

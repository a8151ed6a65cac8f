"""Associations of accounting: users in their accounts, and accounts in others, with their shares."""

from __future__ import annotations

from dataclasses import dataclass

from ..columns import BoolArray, IntArray, Labels, Table, table_of

OF_PARENT = -1
"""The shares of an association that has those of the account above it (Fairshare=parent)."""

ROOT = "root"
"""The account above all others."""


@dataclass(frozen=True, eq=False)
class AssociationTable(Table):
    """Associations in Slurm's order; empty where Slurm does not show them, or keeps none."""

    account: Labels
    user: Labels  #: empty for the account itself
    partition: Labels  #: the one partition for whose jobs it is; empty for all
    parent: Labels  #: the account above an account; empty for users and the root
    default: BoolArray  #: of the user's jobs that name no account
    shares: IntArray  #: OF_PARENT for those of the account above
    priority: IntArray  #: 0 for none


NO_ASSOCIATIONS = table_of(AssociationTable, 0, {}, {})
"""Associations where none are known."""

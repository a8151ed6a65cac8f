"""The tree of accounts and users over which fair share is computed, and where jobs stand in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.records.associations import OF_PARENT, ROOT, AssociationTable
from ...policies.selection.struct_arrays import records
from ..workload.workload import Workload
from .fair_share import Shares, Usage

Key = tuple[str, str, str]


@dataclass
class SharedAccounts:
    """Rows of a tree by account, user and partition; an account has no user, and the root is row 0."""

    associations: AssociationTable | None
    parent: list[int] = field(default_factory=lambda: [-1])
    user: list[bool] = field(default_factory=lambda: [False])
    shares: list[int] = field(default_factory=lambda: [1])
    priority: list[int] = field(default_factory=lambda: [0])
    rows: dict[Key, int] = field(default_factory=dict)
    accounts: dict[str, int] = field(default_factory=lambda: {ROOT: 0, "": 0})
    defaults: dict[str, str] = field(default_factory=dict)  #: account by user

    @classmethod
    def of(cls, jobs: Workload, associations: AssociationTable | None) -> SharedAccounts:
        """Return the tree of *associations* and of the users of *jobs* that these lack, with one share each.

        Without any the accounts are those of the jobs, with equal shares; with None the users have equal shares and no
        accounts.
        """
        tree = cls(associations)
        if associations is None:
            for name in jobs.user.names:
                tree._add(("", name, ""), 0, 1, user=True)
        else:
            tree._add_all(associations)
            for key in tree._keys(jobs)[0]:
                tree._add_user_of_jobs(key)
        return tree

    def usage(self, jobs: Workload, since_s: float = 0.0) -> Usage:
        """Return the usage before any job has run, which is *since_s*; without a time, 0."""
        size, parent = len(self.parent), np.array(self.parent, dtype=np.int64)
        shares = np.array(self.shares, dtype=np.float64)
        among = np.bincount(parent[1:], np.maximum(shares[1:], 0.0), size)[parent[1:]]
        share = np.zeros(size)
        np.divide(shares[1:], among, out=share[1:], where=among > 0)
        share[shares == OF_PARENT] = np.inf
        child = np.argsort(parent, kind="stable")  # the root, then siblings by their parents
        first = np.searchsorted(parent[child], np.arange(size), side="left")
        last = np.searchsorted(parent[child], np.arange(size), side="right")
        zeros = np.zeros(size)
        columns = Shares(parent, np.array(self.user), share, zeros, zeros, np.ones(size), child, first, last)
        until_s = np.full(1, since_s if np.isfinite(since_s) else 0.0)
        return Usage(self.rows_of(jobs), records(columns), until_s)

    def rows_of(self, jobs: Workload) -> IntArray:
        """Return the row of each job's user in its account; -1 where the tree has none."""
        keys, which = self._keys(jobs)
        return np.array([self._row(key) for key in keys] or [-1], dtype=np.int64)[which]

    def _keys(self, jobs: Workload) -> tuple[list[Key], IntArray]:
        """Return account, user and partition of jobs, each once in order of appearance, and which each job has."""
        if self.associations is None:
            return [("", name, "") for name in jobs.user.names], jobs.user.codes
        columns = (jobs.account, jobs.user, jobs.partition)
        codes = np.stack([column.codes for column in columns])
        _, first, which = np.unique(codes, axis=1, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        keys = [(jobs.account[row], jobs.user[row], jobs.partition[row]) for row in first[order].tolist()]
        return keys, place[which.reshape(-1)]

    def _row(self, key: Key) -> int:
        """Return the row for jobs of an account and user in a partition: one for it alone comes first."""
        account, user, partitions = key
        account = account or self.defaults.get(user, "")
        for partition in (*partitions.split(","), ""):
            if (row := self.rows.get((account, user, partition))) is not None:
                return row
        return -1

    def _add_all(self, associations: AssociationTable) -> None:
        """Add the associations that Slurm has."""
        texts = (associations.account, associations.user, associations.partition)
        numbers = (associations.default, associations.shares, associations.priority)
        above = {
            name: (parent or ROOT, shares)
            for name, user, parent, shares in zip(
                associations.account, associations.user, associations.parent, associations.shares.tolist(), strict=True
            )
            if not user and name != ROOT
        }
        for name in above:
            self._add_account(name, above)
        columns = (*texts, *(column.tolist() for column in numbers))
        for account, user, partition, default, shares, priority in zip(*columns, strict=True):
            if user:
                row = self._add((account, user, partition), self.accounts.get(account, 0), shares, user=True)
                self.priority[row] = priority
                if default:
                    self.defaults[user] = account

    def _add_account(self, name: str, above: dict[str, tuple[str, int]]) -> int:
        """Return the row of an account; one that has the shares of its parent is no sibling, but those below it are."""
        line = list(_line(name, above))
        for one in reversed(line):
            if one not in self.accounts:
                parent, shares = above[one]
                row = self.accounts.get(parent, 0)
                self.accounts[one] = row if shares == OF_PARENT else self._add((one, "", ""), row, shares)
        return self.accounts[name]

    def _add_user_of_jobs(self, key: Key) -> None:
        """Add a user of whom Slurm's accounts do not tell, with one share of an account of one share."""
        if self._row(key) >= 0:
            return
        account, user, _ = key
        if account not in self.accounts:
            self.accounts[account] = self._add((account, "", ""), 0, 1)
        self._add((account, user, ""), self.accounts[account], 1, user=True)

    def _add(self, key: Key, parent: int, shares: int, *, user: bool = False) -> int:
        row = len(self.parent)
        self.parent.append(parent)
        self.user.append(user)
        self.shares.append(shares)
        self.priority.append(0)
        self.rows[key] = row
        return row


def _line(name: str, above: dict[str, tuple[str, int]]) -> Iterator[str]:
    """Yield an account and those above it, up to the root."""
    seen: set[str] = set()
    while name in above and name not in seen:
        seen.add(name)
        yield name
        name = above[name][0]

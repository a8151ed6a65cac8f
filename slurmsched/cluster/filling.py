"""Columns that are added to an observation: several who know something fill its tables at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .state import ClusterState

NewColumns = Mapping[str, Mapping[str, Any]]
"""Columns by the table of an observation that has them (pending, running, nodes), and by their names."""

NOTHING: NewColumns = {}


def with_columns(state: ClusterState, columns: Iterable[NewColumns]) -> ClusterState:
    """Return *state* with all of *columns*; each table takes them at once."""
    by_table: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for one in columns:
        for table, its in one.items():
            by_table[table].update(its)
    tables = {table: getattr(state, table).changed(**its) for table, its in by_table.items() if its}
    return replace(state, **tables) if tables else state


class Knowing:
    """A part that knows something of jobs or nodes beside what Slurm shows."""

    def columns(self, state: ClusterState) -> NewColumns:
        """Return what it knows of those in *state*; it may note what that shows."""
        raise NotImplementedError

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with its columns alone."""
        return with_columns(state, [self.columns(state)])

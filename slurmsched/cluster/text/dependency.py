"""The dependencies of a job as squeue shows them: ``afterok:12(unfulfilled),afterany:13_*(unfulfilled),singleton``."""

from __future__ import annotations

import re
from dataclasses import dataclass

SINGLETON = "singleton"
ENDS = frozenset({"afterok", "afterany", "afternotok", "aftercorr"})
"""Kinds that wait for the end of a job; ``after`` waits for its start."""

_ONE = re.compile(
    r"(?P<kind>[a-z]+)(?::(?P<job>\d+)(?:_(?P<task>\d+|\*))?(?:\+(?P<minutes>\d+))?)?(?:\((?P<state>\w+)\))?"
)


@dataclass(frozen=True)
class Dependency:
    """One condition: a kind and the job that it is about."""

    kind: str  #: after, afterok, afterany, afternotok, aftercorr, singleton or one that nobody knows here
    job: int = 0  #: 0 of a singleton
    task: int | None = None  #: of an array; None for the whole job
    minutes: int = 0  #: after that many minutes
    failed: bool = False  #: it can no longer come true


@dataclass(frozen=True)
class Dependencies:
    """All conditions of a job; one is enough where they are alternatives."""

    each: tuple[Dependency, ...]
    alternatives: bool = False

    @property
    def never(self) -> bool:
        """True if they can no longer come true."""
        failed = [one.failed for one in self.each]
        return bool(failed) and (all(failed) if self.alternatives else any(failed))


def read_dependencies(text: str) -> Dependencies | None:
    """Return the dependencies of *text*; None for a form that is not known."""
    parts = [part for part in re.split(r"[,?]", text) if part]
    found = [_ONE.fullmatch(part) for part in parts]
    each = tuple(
        Dependency(
            match["kind"],
            int(match["job"] or 0),
            None if match["task"] in (None, "*") else int(match["task"]),
            int(match["minutes"] or 0),
            match["state"] == "failed",
        )
        for match in found
        if match is not None
    )
    return Dependencies(each, "?" in text) if len(each) == len(parts) else None

"""The contract of a power: what an admin can switch on, with all that is known of it in one folder.

A power is a module or a package with these names. It writes nothing: its wishes are values that the referee judges.
A new action stands in ``cluster.actions``, with a line in ``slurm/write/verbs.py`` and rules in ``decide/referee.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ..cluster.actions import Action
from ..cluster.outlook.remaining import Remaining
from ..cluster.plan import Plan
from ..cluster.state import View
from ..config import Settings
from ..decide.draft import Draft, Lane
from ..decide.rules import Rules
from ..policies.contract import Ordering


class Power(Protocol):
    """A part of a decision that begins changes of its own kind."""

    @property
    def name(self) -> str:
        """Its name in settings, in turns and in the times of a cycle."""
        ...

    @property
    def section(self) -> str:
        """The field of ``Rules`` that has its terms; empty if it has none of its own."""
        ...

    @property
    def can_wait(self) -> bool:
        """Whether it may sit out cycles: what it does not begin now, it can begin later."""
        ...

    def terms(self, settings: Settings) -> object | None:
        """Return its terms by the settings, None where it is off; ConfigError for settings that contradict."""
        ...

    def wishes(self, draft: Draft) -> Mapping[Lane, Sequence[Action]]:
        """Return the actions that it wants, by lane; whatever it began is given back where it is off."""
        ...

    def words(self, view: View, plan: Plan, rules: Rules, job_id: int) -> Iterable[str]:
        """Return its sentences about a job, for ``why`` and ``explain``."""
        ...

    def changes_s(self, view: View, plan: Plan, ordering: Ordering, rules: Rules) -> Iterable[float]:
        """Return the times from which its wishes may differ though no job came, started or ended.

        The view has the promises of the plan.
        """
        ...


class HaltingPower(Power, Protocol):
    """A power that stops running jobs in place for a while: they keep their GPUs, and end later."""

    def halts(self, view: View, rules: Rules) -> Remaining | None:
        """Return for how long it will still stop each running job in all, in seconds; None if none.

        Each bound is that of jobs that need, from now on, as long as the same bound of ``View.run_left``.
        """
        ...

    def halt_words(self, view: View, rules: Rules, job_id: int) -> Iterable[str]:
        """Return sentences about the stops in force of a running job, or of another one for it, for its times."""
        ...


class PromisingPower(Power, Protocol):
    """A power that promises jobs when they end."""

    def in_brief(self, view: View, plan: Plan, job_id: int) -> tuple[Sequence[str], Sequence[str]]:
        """Return sentences on what a pending job's owner has to expect, and on what else could be asked for."""
        ...

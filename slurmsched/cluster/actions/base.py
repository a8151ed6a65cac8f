"""What every action declares: its power, its stored spelling, and its life after it was sent.

A new action is a class of this package, in the table of ``ACTIONS``: intents, stories, releases and reports ask the
class, and none of them compares names of actions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from ..events import Value
from .intent import Intent
from .observation import Observation

if TYPE_CHECKING:
    from ..jobs import JobTable

HALF = "half_written"
"""The column of changes that Slurm took in part, which several kinds of actions fill."""

NO_JOB = 0
"""The number in place of a job id where an action concerns partitions; Slurm's job ids are positive."""


@dataclass(frozen=True)
class Action:
    """A change of the cluster; ``power`` is the switch that an admin must have turned on for it."""

    power: ClassVar[str]
    stored: ClassVar[str]  #: its spelling in records, intents, metrics and JSON; it outlives the name of the class
    story: ClassVar[tuple[tuple[str, str], ...]] = ()
    """The kinds of its events in the story of a job, with a sentence about each; the first is the usual one."""
    is_write: ClassVar[bool] = True  #: False where nothing is sent to Slurm
    accumulates: ClassVar[bool] = False  #: all that were sent may be in force, not only the last one
    slurm_event: ClassVar[str] = ""  #: the kind of event in the story that Slurm adds upon it, in the same second
    of_sharing: ClassVar[bool] = False  #: a step of a job to shared GPUs or back, which is not left half-way
    renewed: ClassVar[bool] = False  #: it is sent again and again, and only the first is an event of the story
    modifies: ClassVar[str] = ""  #: the change that an observation shows, by its name in ``JobModified.what``
    delays_s: ClassVar[float | None] = None
    """How far ahead it sets a StartTime where its value does not say until when; None if it sets none."""
    remembered_s: ClassVar[float] = 0.0  #: how long answered ones count after they are closed
    undoes: ClassVar[tuple[str, ...]] = ()  #: stored spellings of actions that its effect closes
    returned: ClassVar[tuple[str, str]] = ("", "")
    """The count of ``ReleaseReport`` in which it is, and what that says of the {jobs}; empty if no release sends it."""
    settled_by_refusal: ClassVar[bool] = False  #: a refusal is final, and nothing else waits because of it

    @property
    def value(self) -> Value:
        """What an intent stores of the action; None for an action without a value."""
        rest = [getattr(self, f.name) for f in fields(self) if f.name != "job_id"]
        value: Value = rest[0] if rest else None
        item = getattr(value, "item", None)  # a number of NumPy
        return item() if callable(item) else value

    @property
    def event(self) -> tuple[str, Value]:
        """The kind and the value of its event in the story."""
        return self.story[0][0] if self.story else "", self.value

    @property
    def ends_change(self) -> bool:
        """True if it ends a change of a job's request: its nodes, partitions, size or GPUs are its own again."""
        return False

    @property
    def gives_back(self) -> bool:
        """True if it only gives a job back to Slurm."""
        return self.ends_change

    @classmethod
    def can_end_change(cls) -> bool:
        """Return True if some actions of this class end a change of a job's request."""
        return cls.ends_change is not Action.ends_change

    def sets(self, now_s: float) -> Mapping[str, Value]:
        """Return the columns of a pending job that differ once Slurm has carried it out.

        A model of Slurm asks for it, and needs no case of its own for an action that does no more.
        """
        return {}

    def expects(self) -> Mapping[str, Value]:
        """Return the columns that must be so when it is written: other values are somebody else's, and stay."""
        return {}

    @classmethod
    def columns(cls, own: OwnIntents, jobs: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return the columns of *jobs*, pending or running ones, that open intents of the class fill."""
        return {}

    @classmethod
    def columns_of_waiting(cls, own: OwnIntents, pending: JobTable, now_s: float) -> Mapping[str, Any]:
        """Return the columns of *pending* jobs that open intents of the class fill; other jobs have ``columns``."""
        return cls.columns(own, pending, now_s)

    @classmethod
    def undone(cls, own: OwnIntents, pending: JobTable) -> Sequence[Action]:
        """Return the ends of what open intents of the class changed, of jobs that still ask for just what we wrote."""
        return ()

    @classmethod
    def undone_of_running(cls, own: OwnIntents, running: JobTable) -> Sequence[Action]:
        """Return the ends of what open intents of the class changed of running jobs."""
        return ()

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if an observation shows what *intent* asked for."""
        return False

    @classmethod
    def over(cls, intent: Intent, look: Observation, seen: bool) -> bool:
        """Return True if nothing of *intent* is left in Slurm, though its job is still there."""
        return seen

    @classmethod
    def in_vain(cls, intent: Intent, look: Observation) -> str:
        """Return why a request that Slurm accepted can have no effect; empty if it can."""
        return ""

    @classmethod
    def reads(cls, intent: Intent) -> tuple[str, ...]:
        """Return the optional columns of jobs that show what is there of *intent*."""
        return ()

    @classmethod
    def stays_open(cls, intent: Intent, refused: str) -> bool:
        """Return True for a request that Slurm *refused* and that counts all the same: it may be there in part."""
        return False


@dataclass(frozen=True)
class OwnIntents:
    """Our intents by kind: those that are open, and those that count for a while after they are closed."""

    open: Mapping[str, Collection[Intent]]
    answered: Mapping[str, Collection[Intent]]
    """Of the kinds that are remembered, those that Slurm accepted lately, open ones among them."""

    @classmethod
    def among(cls, intents: Iterable[Intent], answered: Iterable[Intent] = ()) -> OwnIntents:
        """Sort open *intents*, and those *answered* lately, by kind."""
        return cls(_by_kind(intents), _by_kind(answered))

    def of(self, kind: type[Action]) -> Collection[Intent]:
        """Return the open intents of actions of a *kind*."""
        return self.open.get(kind.stored, ())

    def lately(self, kind: type[Action]) -> list[Intent]:
        """Return those of a remembered *kind* that were accepted lately, or may have been sent."""
        unanswered = (intent for intent in self.of(kind) if intent.answered_s is None)
        return [*self.answered.get(kind.stored, ()), *unanswered]


def _by_kind(intents: Iterable[Intent]) -> dict[str, list[Intent]]:
    found: dict[str, list[Intent]] = {}
    for intent in intents:
        found.setdefault(intent.kind, []).append(intent)
    return found


@dataclass(frozen=True)
class JobAction(Action):
    """A change of one job."""

    job_id: int

    @classmethod
    def seen(cls, intent: Intent, look: Observation) -> bool:
        """Return True if the pending job is as *intent* asked for."""
        row = look.waiting(intent.job_id)
        return row is not None and cls.shown(look.pending, row, intent.value, look.now_s)

    @classmethod
    def shown(cls, pending: JobTable, row: int, value: Value, now_s: float) -> bool:
        """Return True if the pending job in a row is as an intent with this *value* asked for."""
        return False


@dataclass(frozen=True)
class Refusal:
    """An action that a rule prevented: the name of the rule, and details in words."""

    action: Action
    rule: str
    detail: str = ""


def job_of(action: Action) -> int:
    """Return the id of the job that *action* changes; NO_JOB for a change of partitions."""
    return action.job_id if isinstance(action, JobAction) else NO_JOB


def refused_for(intent: Intent, refused: str) -> bool:
    """Return True if *refused* are Slurm's own words about the job: it may have taken the change over all the same.

    So it does where a limit of the partition stands against the job, whatever the change (seen on 22.05). Of what we
    did not even send nothing is there.
    """
    return refused.endswith(f"for job {intent.job_id}")

"""The form of a question: its name, its parameters, who may ask, and the function that answers it."""

from __future__ import annotations

import pwd
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from typing import Any, NoReturn, NotRequired, TypedDict

from ....cluster.kind_speeds import SpreadSpeed, TypeSpeed
from ....cluster.plan import Plan
from ....cluster.records.profiles import LinkUse
from ....cluster.records.promises import NO_PROMISES
from ....cluster.records.scope import Scope
from ....cluster.state import View
from ....cluster.stranded_gpus import StrandedBy
from ....cycle import CycleReport
from ....db.tracking.decisions import DecisionRecord
from ....db.tracking.story import StoryEvent
from ....decide.fragmented_waits import Fragmentation
from ....decide.rules import Rules
from ....explain.causes import Cause
from ....explain.deadlines import DeadlineAnswer
from ....explain.eta import Eta, LivePredictions, eta_of, with_halts_told
from ....explain.explain import Explanation, QueueRow
from ....explain.why import Circumstances, Why
from ....models.runtime.overruns import Overrunner
from ...idle.idle_gpus import IdleGpus
from ...order_effects_service import PlayedOrders
from ..privacy import hide_other_users
from ..query_arguments import AnswerRefused, NotYet, Parameter

STARTING = "the daemon is still starting: it has not observed the cluster yet; ask again after its first cycle"


def _unknown(*_: object) -> NoReturn:
    raise AnswerRefused("this daemon has no answer to that")


class OfCycle(TypedDict):
    """An answer from one cycle."""

    as_of_s: float
    cycle: int
    mode: NotRequired[str]


Decided = CycleReport | DecisionRecord
"""A decision that answers are about: the daemon's latest one, or a recorded one."""


@dataclass(frozen=True)
class Sources:
    """The sources of answers, of a running daemon or of its records; called in a thread other than the cycle's."""

    status: Callable[[], Mapping[str, Any]]
    why: Callable[[View, Plan, int, Circumstances], Why]
    explain: Callable[[View, Plan, int, Circumstances], Explanation]
    queue: Callable[[View, Plan], Sequence[QueueRow]]
    story: Callable[[int, float | None], Sequence[StoryEvent]]  #: of the job of that id and submission, or the last one
    passed: Callable[[View, Plan, int, Circumstances], str] = lambda *_: ""  #: who passed a job because of our order
    rules: Callable[[], Rules] = Rules
    overrunners: Callable[[], Sequence[Overrunner]] = tuple  #: users whose runs went far beyond their forecasts
    links: Callable[[], Sequence[LinkUse]] = tuple  #: use of the links between GPUs, by number of GPUs
    spread: Callable[[], Sequence[SpreadSpeed]] = tuple  #: speeds of kinds of jobs on more nodes than they need
    types: Callable[[], Sequence[TypeSpeed]] = tuple  #: speeds of kinds of jobs by type of GPU
    stranded: Callable[[], Sequence[StrandedBy]] = tuple  #: whose jobs left GPUs without CPUs or memory
    idle: Callable[[], IdleGpus] = IdleGpus  #: GPUs without a process, and who waits for them
    orders: Callable[[View, str], PlayedOrders] = lambda view, mode: PlayedOrders()  #: other orders, on the live queue
    fragmented: Callable[[], Sequence[Fragmentation]] = tuple  #: what jobs waited for GPUs that did not lie together
    check: Callable[[View, Plan, str, str], DeadlineAnswer] = _unknown  #: for a user's new job
    cause: Callable[[View, Plan, int], Cause | None] = lambda *_: None  #: what keeps a pending row from starting
    predictions: Callable[[], LivePredictions] = LivePredictions
    eta_check: Callable[[View, Plan, str, str], Eta] = _unknown  #: for a user's new job
    order_off: Callable[[str], str] = lambda mode: ""  #: why our order is not in force in a mode; empty where it is
    starting: Callable[[], str] = str  #: why compiled code cannot be run yet; empty where it can
    figures: Callable[[str, float | None, str | None], Mapping[str, Any]] = lambda about, days, only: {}
    report: Callable[[float, Scope], Mapping[str, Any]] = _unknown  #: on the last seconds, and a choice of jobs
    private: Callable[[], bool] = lambda: False  #: whether PrivateData includes jobs
    operator: Callable[[str], bool] = lambda user: False  #: whether a user may see all jobs all the same
    recorded: bool = False  #: no daemon runs: what only it learns is not known


@dataclass(frozen=True)
class Asker:
    """The client's user; ``only`` is the one user whose jobs they may see, None for all."""

    uid: int
    only: str | None
    trusted: bool

    @property
    def user(self) -> str:
        """The user's name; AnswerRefused for a uid without one."""
        return named(self.uid)


@dataclass(frozen=True)
class Asked:
    """A question under way: what was given, by whom, and what is known."""

    given: Mapping[str, Any]  #: a value for each parameter
    asker: Asker
    sources: Sources
    latest: Decided | None

    @property
    def decided(self) -> Decided:
        """The decision that the answer is about; AnswerRefused before the first cycle."""
        if self.latest is None:
            raise NotYet(STARTING)
        return self.latest

    @cached_property
    def view(self) -> View:
        """What was observed, as far as the asker may see it."""
        view = self.decided.view
        return view if self.asker.only is None else hide_other_users(view, self.asker.only)

    @property
    def plan(self) -> Plan:
        """What was decided."""
        return self.decided.plan

    @property
    def head(self) -> OfCycle:
        """The cycle that the answer is from."""
        return {"as_of_s": self.decided.now_s, "cycle": self.decided.number, "mode": self.decided.mode}

    @property
    def order_off(self) -> str:
        """Why our order was not in force; empty where it was."""
        return self.sources.order_off(self.decided.mode)

    def beside(self, job_id: int) -> Circumstances:
        """Return what an answer about a job needs beside the decision: the order in force and the prediction."""
        predictions = self.sources.predictions()
        if predictions.table is None:
            return Circumstances(self.order_off, no_eta=predictions.why_none)
        view, now_s = self.decided.view, self.decided.now_s
        eta = with_halts_told(eta_of(predictions.table, view, job_id, now_s), view, self.sources.rules())
        return Circumstances(self.order_off, eta)

    def identity(self, job_id: int) -> tuple[str | None, float | None]:
        """Return the owner and first submission of a job (Unix seconds): they tell it from others with its id."""
        latest = self.latest
        for jobs in (latest.view.pending, latest.view.running) if latest else ():
            row = jobs.row_of(job_id)
            if row is not None:
                return jobs.user[row], float(jobs.first_submit_s[row])
        promises = latest.plan.promises if latest else NO_PROMISES
        place = promises.last_of(job_id)
        return (None, None) if place is None else (promises.user[place], float(promises.first_submit_s[place]))

    def demand_own(self, job_id: int) -> None:
        """Raise AnswerRefused where jobs are private and this one is not the asker's."""
        if self.asker.only is not None and self.identity(job_id)[0] != self.asker.only:
            # The same text for a job that does not exist: the refusal must not reveal which ids are in use.
            raise AnswerRefused(f"job {job_id} is not yours or does not exist; jobs are private on this cluster")


class Who(Enum):
    """Who may ask a question where jobs are private; elsewhere everybody may."""

    ANYBODY = "anybody"  #: the answer holds what the asker may see
    OWNER = "owner"  #: of the job that the question is about
    OPERATOR = "operator"


@dataclass(frozen=True)
class Question:
    """A question that the daemon answers, and its records where none runs."""

    name: str
    about: str  #: what the answer is about, in a few words
    answer: Callable[[Asked], Mapping[str, Any]]
    form: Any  #: the type of the answer; JSON Schemas are made of it
    parameters: tuple[Parameter, ...] = ()
    who: Who = Who.ANYBODY
    command: str = ""  #: the command whose ``--json`` has this answer; empty for ``ask`` alone
    recorded_form: Any = None  #: the type of an answer from the records, where that is another one
    read_only: bool = True  #: the answer changes nothing
    decided: bool = True  #: about a decision; otherwise also before the first cycle
    live_only: str = ""  #: why records cannot answer it; empty where they can
    slow: bool = False  #: plans, forecasts or goes through all jobs: 10 ms and more on a busy cluster
    compiled: bool = False  #: runs compiled code that no cycle may have run before
    remote: bool = False  #: also for users of other hosts; the rest is for those of the daemon's own host

    def given(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a value for each parameter; AnswerRefused where *request* has one that is not accepted."""
        return {one.name: one.of(request) for one in self.parameters}


for_users = partial(Question, remote=True)
"""A question that users ask, from other hosts too."""


def named(uid: int, why: str = "") -> str:
    """Return the name of a user; AnswerRefused, after *why*, for a uid without one."""
    if user := user_name(uid):
        return user
    raise AnswerRefused(f"{why}uid {uid} has no name here")


def user_name(uid: int) -> str:
    """Return the user's name; empty for an unknown uid."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return ""

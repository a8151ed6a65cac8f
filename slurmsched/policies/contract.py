"""The policy contract: a policy is composed of parts, each a pure function of a View, registered under a name.

There is one hook for each decision: who is admitted, in which order pending jobs run, which of them start now, on which
GPUs, which running jobs yield to promises, which jobs share GPUs, which are measured first, and how many GPUs of which
nodes jobs that train get. A part reads only the view and its other arguments: no clock, no input, no randomness, no
state of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Literal, Self

import numpy as np

from ..cluster.columns import BoolArray, FloatArray, IntArray
from ..cluster.state import View
from ..cluster.training import Allocations, TrainingView
from ..errors import MissingExtra
from .registry import Part, Registry, summary_of
from .sharing_candidates import PackingLimits, Pair, Sharers

Key = Callable[[View], FloatArray]
"""A function to one finite number per pending job; smaller runs sooner, ties keep Slurm's own order."""

Changes = Literal["never", "while_running", "with_time"]
"""The moments at which the key of a pending job may change while its forecast does not.

``with_time``: at any decision; it may depend on everything in the view. ``while_running``: with the time that the job
itself ran, linearly or in steps, and with nothing else. ``never``: the submission alone determines it. The simulator
asks an ordering of the last two kinds once, so that a false declaration gives wrong orders there; the conformance
suite finds it.
"""

Tuned = Callable[[Mapping[str, str]], Key]
"""A function from parameters, texts by name, to a key function; ConfigError if they are invalid.

A key function with other steps than its ordering has them as its attribute ``steps``, one that changes at other moments
has these as ``changes``, and one to which another selection belongs has its name as ``selection``.
"""

Admit = Callable[[View], BoolArray]
"""A function that selects the pending jobs that may be considered at all; the others wait outside."""

Select = Callable[[View, IntArray, Any], None]
"""A function that starts pending jobs on free nodes, and lets running ones yield.

It gets numbers of jobs in their order, and the nodes (``selection.free_nodes.FreeNodes``), on which it calls
``start(number)`` and ``stop(number)``. Running jobs have the numbers from 0 on, pending ones those after them; running
ones are in the order only if the selection preempts.
"""

Pairing = Callable[[Sharers, FloatArray, Sharers, BoolArray, PackingLimits], tuple[Pair, ...]]
"""A function that lets waiting jobs join running ones on their GPUs.

It gets the waiting jobs, soonest first, and the seconds that each would wait for its own GPUs; then the running jobs,
and the mask of those that one more may join: alone on their GPUs, with CPUs and memory for a second job. The limits
hold for every pair, and each job is in at most one.
"""


Preempt = Callable[[Any, Callable[[IntArray], int]], IntArray]
"""A function that chooses rows of running jobs (``preemption.Yielders``) to be stopped for promised jobs.

It gets a function that counts the promised jobs that start too late if given rows stop now.
"""


MeasureFirst = Callable[[View, Any], IntArray]
"""A function from a view and ``decide.rules.ProfilingRules`` to a reason per pending job not to be measured first.

Reasons are numbers of ``decide.profiling.Home``; 0 stands for none.
"""


Scale = Callable[[TrainingView], Allocations]
"""A function to the GPUs of each job on each node, and the CPUs, memory and batch where it divides them.

A job whose allocation is the one that it holds goes on; any other is restarted, at a cost.
"""


MayEnd = Callable[[View], BoolArray]
"""A function that selects the running jobs that may end now, of those whose owners said ``stop=``."""


Wish = Callable[[View], Iterable[Any]]
"""A function to the actions that a power of a plug-in wants (``cluster.actions``): Hold, Steer and AskToStop."""


@dataclass(frozen=True)
class Ordering(Part[Key]):
    """A named order of pending jobs."""

    changes: Changes = "with_time"
    steps: tuple[float, ...] = ()  #: GPU-seconds of attained service at which a key jumps; between them it is linear
    native: bool = False  #: it is Slurm's own order: nothing is written
    turns: bool = False  #: it is made for jobs that yield to it: without leases it orders pending jobs, and no more
    selection: str = ""  #: the selection that belongs to it where that depends on its parameters
    needs: str = ""  #: a module without which it cannot decide
    extra: str = ""  #: the optional dependencies of slurmsched that include this module

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        return self.function(view)

    def installed(self) -> Self:
        """Return the ordering; MissingExtra if the module that it needs is not installed."""
        if self.needs and find_spec(self.needs) is None:
            raise MissingExtra(f"the ordering {self.name} needs {self.needs}", self.extra)
        return self

    def tuned_by(self, hook: str, words: Sequence[str]) -> Self:
        """Return the ordering with the parameters *words*, and with what follows from them."""
        found = super().tuned_by(hook, words)
        given = {
            name: getattr(found.function, name, getattr(found, name)) for name in ("steps", "changes", "selection")
        }
        return replace(found, **given)


@dataclass(frozen=True)
class Admission(Part[Admit]):
    """A named rule about the pending jobs that are considered."""


@dataclass(frozen=True)
class Selection(Part[Select]):
    """A named rule about the jobs that start now."""

    reserves: bool = False  #: it plans with the duration of jobs, which therefore need a time limit

    @property
    def preempts(self) -> bool:
        """True if running jobs yield to better ones."""
        return "preempt" in self.powers


@dataclass(frozen=True)
class Placement(Part[Callable[..., int]]):
    """A named rule about the nodes of a job's GPUs."""

    sensitive: int = 0  #: the way of ``placement.place`` for jobs that slow down when spread
    other: int = 0  #: that for all other jobs
    links: bool = False  #: it chooses the GPUs of a node by the links between them; otherwise the lowest are taken
    least_speed: float = 0.0
    """Jobs of kinds measured to be slower than this when spread are the sensitive ones, those measured to be faster are
    not, whatever is declared; 0: what is declared counts alone."""
    by_jobs: bool = False  #: it scores nodes by the jobs that run or wait (``selection.fragmentation``)

    @property
    def measured(self) -> bool:
        """True if it needs to know how fast jobs were when spread."""
        return self.least_speed > 0

    def ways(self, sensitive: BoolArray, spread_speed: FloatArray) -> IntArray:
        """Return the way of ``placement.place`` for each job.

        *sensitive* is what is declared, *spread_speed* what was measured, NaN where nothing was.
        """
        believed = np.where(np.isnan(spread_speed), sensitive, spread_speed < self.least_speed)
        return np.where(believed if self.measured else sensitive, self.sensitive, self.other)


@dataclass(frozen=True)
class Preemption(Part[Preempt]):
    """A named rule about the running jobs that yield to other jobs."""


@dataclass(frozen=True)
class Stopping(Part[MayEnd]):
    """A named rule about the running jobs that may end before their time."""


@dataclass(frozen=True)
class Profiling(Part[MeasureFirst]):
    """A named rule about the jobs that are measured in a profiling partition first, and about its nodes."""

    lend: Callable[..., Mapping[str, tuple[str, ...]]] = field(kw_only=True)
    """Returns the nodes of the profiling partition and of its home; see ``decide.profiling_nodes.lend``."""


@dataclass(frozen=True)
class Scaling(Part[Scale]):
    """A named rule about the allocation of jobs that train."""

    needs: frozenset[str] = field(default=frozenset(), kw_only=True)
    """The optional fields of TrainingView that it reads."""
    turns: bool = field(default=False, kw_only=True)
    """Jobs take turns on GPUs: allocations may change in each round although nothing happens."""
    own_batch: bool = field(default=False, kw_only=True)
    """Jobs choose the batch with the best goodput at each epoch and allocation; else they have their owner's."""

    def tuned_by(self, hook: str, words: Sequence[str]) -> Self:
        """Return the scaling with the parameters *words*, and with the fields that it reads then."""
        found = super().tuned_by(hook, words)
        return replace(found, needs=getattr(found.function, "needs", found.needs))


@dataclass(frozen=True)
class Sharing(Part[Pairing]):
    """A named rule about the jobs that share GPUs."""

    @property
    def pairs_jobs(self) -> bool:
        """True unless no jobs ever share under it."""
        return "share" in self.powers


@dataclass(frozen=True)
class Guest(Part[Wish]):
    """A named power of a plug-in, which wants actions that slurmsched has."""


ORDERINGS: Registry[Ordering] = Registry("ordering")
ADMISSIONS: Registry[Admission] = Registry("admission")
SELECTIONS: Registry[Selection] = Registry("selection")
PLACEMENTS: Registry[Placement] = Registry("placement")
PREEMPTIONS: Registry[Preemption] = Registry("preemption")
PROFILINGS: Registry[Profiling] = Registry("profiling")
SCALINGS: Registry[Scaling] = Registry("scaling")
SHARINGS: Registry[Sharing] = Registry("sharing")
STOPPINGS: Registry[Stopping] = Registry("stopping")
GUESTS: Registry[Guest] = Registry("powers")


def ordering(
    name: str,
    *,
    changes: Changes = "with_time",
    steps: tuple[float, ...] = (),
    native: bool = False,
    turns: bool = False,
    tuned: Tuned | None = None,
    defaults: str = "",
    bare: str = "",
    needs: str = "",
    extra: str = "",
) -> Callable[[Key], Key]:
    """Register the decorated key function under *name*; its docstring's first line is its summary.

    An ordering with parameters also gives *tuned*, which builds its key function, and *defaults*. One that cannot
    decide without the module *needs*, of the optional dependencies *extra*, is refused where that is not installed.
    """

    def register(key: Key) -> Key:
        made = Ordering(
            name,
            key,
            summary_of(key),
            changes,
            steps,
            native,
            turns,
            needs=needs,
            extra=extra,
            tuned=tuned,
            defaults=defaults,
            bare=bare,
        )
        ORDERINGS.add(made)
        return key

    return register


def admission(name: str) -> Callable[[Admit], Admit]:
    """Register the decorated function as an admission under *name*; its docstring's first line is its summary."""

    def register(admit: Admit) -> Admit:
        ADMISSIONS.add(Admission(name, admit, summary_of(admit), powers=frozenset({"hold"})))
        return admit

    return register


def selection(name: str, *, preempts: bool = False, reserves: bool = False) -> Callable[[Select], Select]:
    """Register the decorated function as a selection under *name*; its docstring's first line is its summary."""

    def register(select: Select) -> Select:
        powers = frozenset({"start", "preempt"} if preempts else {"start"})
        SELECTIONS.add(Selection(name, select, summary_of(select), reserves, powers=powers))
        return select

    return register


def preemption(name: str) -> Callable[[Preempt], Preempt]:
    """Register the decorated function as a preemption under *name*; its docstring's first line is its summary."""

    def register(chosen: Preempt) -> Preempt:
        PREEMPTIONS.add(Preemption(name, chosen, summary_of(chosen), powers=frozenset({"requeue"})))
        return chosen

    return register


def stopping(name: str, *, powers: Sequence[str] = ("stop",)) -> Callable[[MayEnd], MayEnd]:
    """Register the decorated function as a stopping under *name*; its docstring's first line is its summary."""

    def register(may_end: MayEnd) -> MayEnd:
        STOPPINGS.add(Stopping(name, may_end, summary_of(may_end), powers=frozenset(powers)))
        return may_end

    return register


def power(name: str, *, powers: Sequence[str]) -> Callable[[Wish], Wish]:
    """Register the decorated function as a power under *name*; its docstring's first line is its summary.

    *powers* are those that an admin must have switched on for its actions: hold, steer or requeue.
    """

    def register(wish: Wish) -> Wish:
        GUESTS.add(Guest(name, wish, summary_of(wish), powers=frozenset(powers)))
        return wish

    return register


def scaling(
    name: str,
    *,
    needs: Sequence[str] = (),
    turns: bool = False,
    own_batch: bool = False,
    tuned: Callable[[Mapping[str, str]], Scale] | None = None,
    defaults: str = "",
) -> Callable[[Scale], Scale]:
    """Register the decorated function as a scaling under *name*; its docstring's first line is its summary."""

    def register(scale: Scale) -> Scale:
        made = Scaling(name, scale, summary_of(scale), tuned=tuned, defaults=defaults, powers=frozenset({"resize"}))
        SCALINGS.add(replace(made, needs=frozenset(needs), turns=turns, own_batch=own_batch))
        return scale

    return register


def sharing(name: str, *, powers: Sequence[str] = ("share",)) -> Callable[[Pairing], Pairing]:
    """Register the decorated function as a rule of pairs under *name*; its docstring's first line is its summary."""

    def register(pairing: Pairing) -> Pairing:
        SHARINGS.add(Sharing(name, pairing, summary_of(pairing), powers=frozenset(powers)))
        return pairing

    return register


def find_ordering(line: str) -> Ordering:
    """Return the ordering that *line* names; see ``Registry.find``."""
    return ORDERINGS.find(line)

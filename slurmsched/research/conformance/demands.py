"""The demands on the parts of policies: each raises BrokenRule with what is wrong, or returns a remark."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from time import process_time
from traceback import extract_tb
from typing import Any

import numpy as np

from ...cluster.actions import POWERS
from ...cluster.columns import FloatArray, IntArray
from ...cluster.state import View
from ...policies.contract import Ordering
from ...policies.registry import Part
from .day import BrokenRule, run_day
from .purity import Watch
from .random_views import nodes
from .trials import TRIALS, Trial

VIEWS = 1000
"""The random inputs of a demand."""

LARGE = 10_000
"""The pending jobs of the input on which the time is taken."""

MOST_S = 1.0
"""The longest processor time on such an input, in seconds."""

LARGEST = 25
"""The most jobs of a random input."""

FEW = 100
"""The inputs of demands that need no more."""

TRIED = (0.11, 0.17, 0.37, 0.61, 0.89)
"""The points between two steps at which a key must lie on a line."""

PACKAGE = Path(__file__).parents[3]
"""The directory of slurmsched: lines of other files are an author's own."""

POWERS_OF_PARTS = frozenset(POWERS) | {"start", "preempt", "resize"}


@dataclass(frozen=True)
class Case:
    """A part on trial, with random inputs."""

    hook: str
    part: Part[Any]
    count: int = VIEWS

    @property
    def trial(self) -> Trial:
        """The trial of its hook."""
        return TRIALS[self.hook]

    @cached_property
    def inputs(self) -> list[Any]:
        """The random inputs, the same in each process."""
        return [self.made(seed) for seed in range(self.count)]

    def made(self, seed: int) -> Any:
        """Return the random input number *seed*."""
        random = np.random.default_rng(seed)
        return self.trial.make(random, int(random.integers(0, LARGEST + 1)))

    def call(self, given: Any) -> Any:
        """Return the part's result."""
        return self.trial.call(self.part, given)

    def by_job(self, given: Any) -> bytes:
        """Return the part's result in the order of the jobs' ids."""
        return self.trial.by_job(given, self.call(given))


def described(case: Case) -> str:
    """Its docstring begins with a sentence, which is its summary."""
    if not case.part.summary.strip().endswith("."):
        raise BrokenRule("its docstring needs a first line that is a sentence and ends with a full stop")
    return case.part.summary


def declared_powers(case: Case) -> str:
    """Its powers exist."""
    if unknown := sorted(case.part.powers - POWERS_OF_PARTS):
        raise BrokenRule(f"there is no power {', '.join(unknown)}; there are {', '.join(sorted(POWERS_OF_PARTS))}")
    return ", ".join(sorted(case.part.powers)) or "none"


def sound_results(case: Case) -> str:
    """Results have the right shape and are finite."""
    for seed, given in enumerate(case.inputs):
        if wrong := case.trial.wrong(case.part, given, case.call(given)):
            raise BrokenRule(f"{wrong} (input {seed})")
    return f"{case.count} inputs"


def independent_of_rows(case: Case) -> str:
    """The decision on a job does not depend on the row that it is in."""
    assert case.trial.shuffled is not None
    for seed, given in enumerate(case.inputs):
        if case.by_job(given) != case.by_job(case.trial.shuffled(given, np.random.default_rng(seed))):
            raise BrokenRule(f"the same jobs in other rows are decided otherwise (input {seed})")
    return f"{case.count} inputs"


def repeatable(case: Case) -> str:
    """The same input gives the same result."""
    for seed, given in enumerate(case.inputs):
        if case.by_job(given) != case.by_job(given):
            raise BrokenRule(f"the same input gives another result the second time (input {seed})")
    return f"{case.count} inputs"


def input_unchanged(case: Case) -> str:
    """Nothing is written into the input."""
    for seed, given in enumerate(case.inputs):
        tables = case.trial.tables(given)
        before = deepcopy(tables)
        case.call(given)
        for table, copy in zip(tables, before, strict=True):
            if not table.equals(copy):
                raise BrokenRule(f"it writes into {type(table).__name__} (input {seed})")
    return f"{case.count} inputs"


def elsewhere_and_later(view: View, rows: IntArray, ran_s: float) -> View:
    """Return these *rows* of the queue a week later, with nothing running, on other nodes; each job ran longer."""
    few = view.take(rows)
    pending = replace(few.pending, ran_s=few.pending.ran_s + ran_s)
    empty = view.running.take(np.zeros(0, dtype=np.int64))
    no_forecasts = few.forecast_running.take(np.zeros(0, dtype=np.int64))
    room = nodes((8,), (3,))
    return replace(
        few, now_s=view.now_s + 604_800, pending=pending, running=empty, forecast_running=no_forecasts, nodes=room
    )


def demand_declared_changes(ordering: Ordering, view: View, rows: IntArray) -> None:
    """Raise BrokenRule unless the keys of *rows* are the same whatever else there is, as far as that is declared."""
    ran_s = 3600.0 if ordering.changes == "never" else 0.0
    if not np.array_equal(ordering(view)[rows], ordering(elsewhere_and_later(view, rows, ran_s)), equal_nan=True):
        beside = "" if ordering.changes == "while_running" else ", or with the time that it ran"
        raise BrokenRule(
            f"it declares changes={ordering.changes!r}, but the key of a job changes with the time, the nodes, the"
            f" running jobs or the other pending jobs{beside}"
        )


def demand_declared_steps(ordering: Ordering, view: View) -> None:
    """Raise BrokenRule unless keys are linear in the time that jobs ran, between the declared steps."""
    gpus = np.maximum(view.pending.gpus, 1)
    bounds = (0.0, *ordering.steps, 2.0 * max((*ordering.steps, 50_000.0)))
    for low, high in pairwise(bounds):
        keys = np.array([_key_after(ordering, view, (low + (high - low) * at) / gpus) for at in TRIED])
        keys = keys[:, np.isfinite(keys).all(axis=0)]
        line = keys[0] + np.multiply.outer((np.array(TRIED) - TRIED[0]) / (TRIED[-1] - TRIED[0]), keys[-1] - keys[0])
        if np.abs(keys - line).max(initial=0.0) > 1e-6 * np.abs(keys).max(initial=1.0):
            raise BrokenRule(
                "it declares changes='while_running', but its key is not linear in the time that a job ran: declare"
                " steps=(GPU-seconds, ...) at which it jumps, or changes='with_time'"
            )


def _key_after(ordering: Ordering, view: View, ran_s: FloatArray) -> FloatArray:
    return ordering(replace(view, pending=replace(view.pending, ran_s=ran_s)))


def declared_changes(case: Case) -> str:
    """Keys change only as declared."""
    ordering = case.part
    assert isinstance(ordering, Ordering)
    for seed, view in enumerate(case.inputs):
        if ordering.changes == "with_time":
            break
        random, count = np.random.default_rng(seed), len(view.pending)
        rows = random.permutation(count)[: int(random.integers(0, count + 1))]
        demand_declared_changes(ordering, view, rows)
        if ordering.changes == "while_running":
            demand_declared_steps(ordering, view)
    return ordering.changes


def pure(case: Case) -> str:
    """No clock, file, network, process or chance."""
    inputs = case.inputs[:FEW]
    for given in inputs:  # modules that are imported and code that is compiled when first used
        case.call(given)
    watch = _watch()
    with watch.armed():
        for given in inputs:
            case.call(given)
    if watch.found:
        raise BrokenRule(f"it calls {watch.found}; a decision depends on its input alone")
    return f"{len(inputs)} inputs"


_WATCHES: list[Watch] = []


def _watch() -> Watch:
    if not _WATCHES:
        _WATCHES.append(Watch())
    return _WATCHES[0]


def fast(case: Case) -> str:
    """It decides about 10,000 jobs in at most a second."""
    given = case.trial.make(np.random.default_rng(0), LARGE)
    took_s = _timed(case, given)
    if took_s > MOST_S:  # code may be compiled when first used
        took_s = _timed(case, given)
    if took_s > MOST_S:
        raise BrokenRule(f"{LARGE:,} jobs took {took_s:.1f} s of processor time, more than {MOST_S:g} s")
    return f"{LARGE:,} jobs in {took_s * 1000:.1f} ms"


def _timed(case: Case, given: Any) -> float:
    began_s = process_time()
    case.call(given)
    return process_time() - began_s


def whole_day(case: Case) -> str:
    """A simulated day breaks no rule, all jobs end, and decisions are the same when decided again."""
    return run_day(case.hook, case.part)


def digest(case: Case) -> str:
    """Return a digest of the results, the same in each process."""
    total = hashlib.sha256()
    for given in case.inputs[:FEW]:
        total.update(case.by_job(given))
    return total.hexdigest()[:16]


Demand = Callable[[Case], str]

DEMANDS: dict[str, Demand] = {
    "summary": described,
    "powers": declared_powers,
    "results": sound_results,
    "rows": independent_of_rows,
    "repeatable": repeatable,
    "input": input_unchanged,
    "changes": declared_changes,
    "pure": pure,
    "processes": digest,
    "speed": fast,
    "day": whole_day,
}
"""The demands by name; ``processes`` holds if its digest is the same in two processes."""


def demands_on(hook: str) -> Iterator[str]:
    """Yield the names of the demands on the parts of a hook."""
    for name in DEMANDS:
        applies = {
            "rows": TRIALS[hook].shuffled is not None,
            "changes": hook == "ordering",
            "day": hook not in ("preemption", "stopping"),
            "speed": hook != "scaling",  # some solve programs, and there are hundreds of jobs, not thousands
        }
        if applies.get(name, True):
            yield name


def judged(case: Case, name: str) -> tuple[bool, str]:
    """Return whether a part meets the demand *name*, and the remark or what is wrong."""
    try:
        return True, DEMANDS[name](case)
    except BrokenRule as broken:
        return False, str(broken)
    except Exception as error:  # code of strangers may raise anything
        return False, _raised(error)


def _raised(error: Exception) -> str:
    """Return what was raised, the last line outside this package on the way to it, and the nearest word to a typo."""
    text = f"it raises {type(error).__name__}: {error}"
    if isinstance(error, AttributeError) and error.name is not None:
        near = get_close_matches(error.name, [name for name in dir(error.obj) if name[0] != "_"], n=1)
        text += f"; did you mean {near[0]}?" if near else ""
    theirs = [frame for frame in extract_tb(error.__traceback__) if PACKAGE not in Path(frame.filename).parents]
    return text + (f" ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno})" if theirs else "")

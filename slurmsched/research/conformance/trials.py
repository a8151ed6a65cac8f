"""Trials: random inputs for the parts of a hook, and what their results must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...cluster.columns import FloatArray, IntArray, Table
from ...cluster.jobs import JobTable
from ...cluster.records.progress import ProgressTable
from ...cluster.state import View
from ...policies.contract import PLACEMENTS
from ...policies.preemption import Yielders
from ...policies.registry import Part
from ...policies.selection.free_nodes import FreeNodes, RunSet
from ...policies.stopping import owner_rule
from . import random_views
from .random_views import forecast, nodes, random_view, running_jobs
from .training_jobs import ScalingRun, scale, training_view, wrong_allocations

Random = np.random.Generator

STOP_COMMENTS = ("", *(f"slurmsched:stop={rule}" for rule in ("never", "opt", "acc:0.5", "loss:0.5%", "acc:0.5,off")))
"""Comments of jobs with rules of their owners for an early end."""


@dataclass(frozen=True)
class Trial:
    """The trial of the parts of one hook; inputs and results are the hook's own."""

    make: Callable[[Random, int], Any]  #: a random input of so many jobs
    call: Callable[[Part[Any], Any], Any]
    wrong: Callable[[Part[Any], Any, Any], str]  #: the first thing that is wrong with a result; empty if none is
    by_job: Callable[[Any, Any], bytes]  #: a result whose order is that of the jobs' ids
    shuffled: Callable[[Any, Random], Any] | None = None  #: the same input in other rows
    tables: Callable[[Any], Sequence[Table]] = field(default=lambda given: ())  #: the columns of an input


def _bits(column: NDArray[Any]) -> bytes:
    """Return the bytes of *column*, the same for equal values."""
    if column.dtype.kind == "f":
        column = np.where(np.isnan(column), np.nan, column + 0.0)
    return np.ascontiguousarray(column).tobytes()


def _tables_of(view: View) -> list[Table]:
    values = (getattr(view, column.name) for column in fields(view))
    return [value for value in values if isinstance(value, Table)]


def _shuffled_view(view: View, random: Random) -> View:
    return view.take(random.permutation(len(view.pending)))


def _one_per_job(view: View, result: Any) -> bytes:
    return _bits(np.asarray(result)[np.argsort(view.pending.job_id)])


def _misshapen(jobs: JobTable, result: Any, dtype: type, noun: str, which: str = "pending") -> str:
    """Say what is wrong with the shape or the type of *result*; empty if nothing is."""
    if not isinstance(result, np.ndarray):
        return f"it returned {type(result).__name__}, not an array"
    if result.shape != (len(jobs),):
        return f"{noun} of shape {result.shape} for {len(jobs)} {which} jobs"
    return "" if result.dtype == dtype else f"{noun} of type {result.dtype}, not {np.dtype(dtype)}"


def _wrong_keys(part: Part[Any], view: View, result: Any) -> str:
    if trouble := _misshapen(view.pending, result, np.float64, "keys"):
        return trouble
    rows = np.flatnonzero(np.isfinite(view.forecast.runtime_s) & ~np.isfinite(result))
    return f"the key of a job with a forecast is {result[rows[0]]}" if len(rows) else ""


def _wrong_mask(part: Part[Any], view: View, result: Any) -> str:
    return _misshapen(view.pending, result, np.bool_, "a mask")


class Choice(NamedTuple):
    """The input of a selection."""

    view: View
    order: IntArray  #: numbers of jobs, running ones first


def _choice(random: Random, count: int) -> Choice:
    """Return a choice on nodes of four GPUs, where each that is in use has one running job."""
    many = max(2, count // 50)
    used = np.where(random.random(many) < 0.5, 0, random.integers(1, 5, many))
    busy = np.flatnonzero(used)
    limit_s: FloatArray = 3600.0 * random.integers(1, 100, count).astype(np.float64)
    view = random_view(random, count)
    pending = replace(view.pending, time_limit_s=limit_s, tasks=np.ones(count, dtype=np.int64))
    running = running_jobs(
        len(busy),
        job_id=count + 1 + np.arange(len(busy)),
        gpus=used[busy],
        node_list=[f"n{node + 1}" for node in busy.tolist()],
        time_limit_s=np.full(len(busy), 7200.0),
    )
    view = replace(
        view,
        pending=pending,
        running=running,
        nodes=nodes([4] * many, used.tolist()),
        forecast_running=forecast([3600.0] * len(busy)),
    )
    return Choice(view, random.permutation(count) + len(busy))


def _select(part: Part[Any], choice: Choice) -> RunSet:
    view, order = choice
    room = FreeNodes(view, PLACEMENTS["consolidate"])
    running = np.arange(len(view.running))
    part(view, np.concatenate([order, running]) if "preempt" in part.powers else order.copy(), room)
    return room.run_set()


def _wrong_run_set(part: Part[Any], choice: Choice, result: RunSet) -> str:
    view, yields = choice.view, result.yields
    if len(yields) and "preempt" not in part.powers:
        return "it stops running jobs, which a selection registered with preempts=True may do alone"
    free = dict(zip(view.nodes.name, (view.nodes.gpus - view.nodes.gpus_used).tolist(), strict=True))
    for row in yields.tolist():
        free[view.running.node_list[row]] += int(view.running.gpus[row])
    for row, places in zip(result.rows.tolist(), result.nodes, strict=True):
        for name, gpus in places:
            free[name] -= gpus
        if sum(gpus for _, gpus in places) != view.pending.gpus[row]:
            return f"job {view.pending.job_id[row]} starts with other GPUs than it asks for"
    over = [name for name, left in free.items() if left < 0]
    return f"node {over[0]} has {-free[over[0]]} GPUs too few for the jobs that start" if over else ""


def _run_set_by_job(choice: Choice, result: RunSet) -> bytes:
    starts = zip(choice.view.pending.job_id[result.rows].tolist(), result.nodes, strict=True)
    return repr((sorted(starts), sorted(choice.view.running.job_id[result.yields].tolist()))).encode()


def _shuffled_choice(choice: Choice, random: Random) -> Choice:
    rows, running = random.permutation(len(choice.order)), len(choice.view.running)
    place = np.empty(len(rows), dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return Choice(choice.view.take(rows), place[choice.order - running] + running)


class Room(NamedTuple):
    """The input of a placement."""

    free: IntArray
    size: int
    gpus: int


def _room(random: Random, count: int) -> Room:
    size = int(random.choice([1, 4, 8]))
    free = random.integers(0, size + 1, max(1, count))
    return Room(free, size, int(random.integers(1, 3 * size + 1)))


def _place(part: Part[Any], room: Room) -> list[list[tuple[int, int]]]:
    """Return the nodes of a sensitive job and those of another one, with the GPUs on each."""
    found = []
    for how in (part.sensitive, part.other):  # type: ignore[attr-defined]  # of a Placement
        chosen, taken = np.zeros((2, len(room.free)), dtype=np.int64)
        count = part(how, room.free, room.size, room.gpus, chosen, taken)
        found.append(list(zip(chosen[:count].tolist(), taken[:count].tolist(), strict=True)))
    return found


def _wrong_places(part: Part[Any], room: Room, result: list[list[tuple[int, int]]]) -> str:
    for places in result:
        if len({node for node, _ in places}) < len(places):
            return "a node is taken twice for one job"
        if any(not 0 < gpus <= room.free[node] for node, gpus in places):
            return "more GPUs are taken than are free, or none"
        if places and sum(gpus for _, gpus in places) != room.gpus:
            return "a job has other GPUs than it asks for"
    return ""


class PreemptionCase(NamedTuple):
    """The input of a preemption: jobs that may yield, and promises that need GPUs."""

    jobs: Yielders
    gains: Mapping[int, int]  #: GPUs that a job leaves
    needs: tuple[int, ...]  #: GPUs that must be free for each promise

    def late(self, rows: IntArray) -> int:
        """Count the promised jobs that start too late if *rows* stop now."""
        free = sum(self.gains[int(self.jobs.job_id[row])] for row in rows)
        return sum(need > free for need in self.needs)


def _danger(random: Random, count: int) -> PreemptionCase:
    ids = 1 + random.permutation(count)
    jobs = Yielders(ids, random.uniform(0.0, 1e6, count), random.random(count) < 0.2)
    gains = dict(zip(ids.tolist(), random.integers(1, 9, count).tolist(), strict=True))
    needs = tuple(random.integers(0, 4 * max(count, 1), int(random.integers(0, 4))).tolist())
    return PreemptionCase(jobs, gains, needs)


def _wrong_yields(part: Part[Any], danger: PreemptionCase, result: Any) -> str:
    rows = np.asarray(result)
    if rows.dtype.kind != "i" or rows.ndim != 1:
        return "rows are an array of whole numbers"
    if len(np.unique(rows)) < len(rows) or (len(rows) and not 0 <= rows.min() <= rows.max() < len(danger.jobs)):
        return "a row is returned twice, or there is no such row"
    none = rows[:0]
    return "jobs stop, and no promise gains" if len(rows) and danger.late(rows) >= danger.late(none) else ""


def _shuffled_danger(danger: PreemptionCase, random: Random) -> PreemptionCase:
    return danger._replace(jobs=danger.jobs.take(random.permutation(len(danger.jobs))))


def _training(random: Random, count: int) -> View:
    """Return a view of *count* running jobs, most of which have reported their progress."""
    jobs = running_jobs(
        count, job_id=1 + random.permutation(count), comment=[str(random.choice(STOP_COMMENTS)) for _ in range(count)]
    )
    reported = np.flatnonzero(random.random(count) < 0.8)
    many = len(reported)
    progress = ProgressTable(
        jobs.job_id[reported],
        random.integers(1, 100_000, many),
        np.where(random.random(many) < 0.3, np.nan, random.random(many)),
        np.where(random.random(many) < 0.3, np.nan, 0.01 * random.random(many)),
        np.where(random.random(many) < 0.3, np.nan, random.random(many)),
        random.random(many) < 0.1,
        random.random(many) < 0.5,
    )
    return replace(random_views.view(random_views.jobs(0), running=jobs), progress=progress)


def _wrong_ends(part: Part[Any], view: View, result: Any) -> str:
    if trouble := _misshapen(view.running, result, np.bool_, "a mask", "running"):
        return trouble
    jobs = view.running
    changeable = jobs.busy.map([bool(rule) for rule in jobs.busy.names], np.bool_)
    consents = jobs.stop.map([rule not in ("", "never") for rule in jobs.stop.names], np.bool_)
    refusing = jobs.off | ~(consents | changeable)
    early = ~changeable & ~owner_rule(view)
    for rows, why in (
        (refusing, "said off, or neither stop= with a rule nor busy="),
        (early, "said a stop= that is not fulfilled"),
    ):
        if (result & rows).any():
            return f"job {jobs.job_id[result & rows][0]} ends, whose owner {why}"
    return ""


def _shuffled_training(view: View, random: Random) -> View:
    rows = random.permutation(len(view.running))
    progress = view.progress.take(random.permutation(len(view.progress)))
    return replace(
        view, running=view.running.take(rows), forecast_running=view.forecast_running.take(rows), progress=progress
    )


def _allocations_by_job(view: Any, result: ScalingRun) -> bytes:
    first = result.first
    return b"".join(_bits(given) for given in (first.gpus, first.cpus, first.memory_mib) if given is not None)


TRIALS: dict[str, Trial] = {
    "ordering": Trial(
        random_view, lambda part, view: part(view), _wrong_keys, _one_per_job, _shuffled_view, _tables_of
    ),
    "admission": Trial(
        random_view, lambda part, view: part(view), _wrong_mask, _one_per_job, _shuffled_view, _tables_of
    ),
    "selection": Trial(
        _choice,
        _select,
        _wrong_run_set,
        _run_set_by_job,
        _shuffled_choice,
        lambda choice: _tables_of(choice.view),
    ),
    "placement": Trial(_room, _place, _wrong_places, lambda room, result: repr(result).encode()),
    "preemption": Trial(
        _danger,
        lambda part, danger: part(danger.jobs, danger.late),
        _wrong_yields,
        lambda danger, result: _bits(np.sort(danger.jobs.job_id[result])),
        _shuffled_danger,
        lambda danger: [danger.jobs],
    ),
    "stopping": Trial(
        _training,
        lambda part, view: part(view),
        _wrong_ends,
        lambda view, result: _bits(np.asarray(result)[np.argsort(view.running.job_id)]),
        _shuffled_training,
        _tables_of,
    ),
    "scaling": Trial(
        training_view, scale, wrong_allocations, _allocations_by_job, tables=lambda view: [view.jobs, view.nodes]
    ),
}
"""The trials by hook."""

"""The GPUs over time: who holds them until when, and who is predicted to have them next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..cluster.columns import IntArray, places_of
from ..cluster.jobs import JobTable
from ..cluster.nodes import by_type
from ..cluster.records.predictions import PredictionKind, PredictionTable
from ..cluster.records.promises import SAME_S
from ..cluster.state import View
from ..decide.phrasing import HIDDEN

SPANS_MOST = 400  #: jobs in one answer: running ones with most GPUs, and those that start next


@dataclass(frozen=True)
class Span:
    """A job on GPUs over time. Times are Unix seconds, NaN if unknown."""

    job_id: int  #: 0 if the reader may not see it
    user: str
    partition: str
    gpu_type: str  #: empty for any
    gpus: int
    kind: str  #: running or pending
    from_s: float  #: when it started, or the median of its predicted start
    until_s: float  #: the median
    by_s: float  #: by which nine in ten end


@dataclass(frozen=True)
class GpuGroup:
    """The GPUs of usable nodes of a partition or a type; without a name those of a cluster that has none."""

    name: str
    gpus: int


@dataclass(frozen=True)
class Schedule:
    """The GPUs of a cluster over time, and how many jobs are not among the spans."""

    spans: Sequence[Span]
    partitions: Sequence[GpuGroup]
    types: Sequence[GpuGroup]
    running: int  #: jobs on GPUs
    pending: int  #: jobs for GPUs with a predicted start
    more: int  #: of both, those without a span here


def schedule(view: View, table: PredictionTable | None) -> Schedule:
    """Return the running jobs of *view* and the predicted ones of *table*, whose rows are of the same jobs."""
    running = np.flatnonzero(view.running.gpus > 0)
    running = running[np.argsort(-view.running.gpus[running], kind="stable")]
    pending, rows = _predicted(view, table)
    first = pending[: max(SPANS_MOST - len(running), SPANS_MOST // 3)]
    shown = running[: SPANS_MOST - len(first)]
    waits = [] if table is None else list(_waiting(view.pending, table, first, rows))
    return Schedule(
        spans=[*_running(view, shown), *waits],
        partitions=list(_by_partition(view)),
        types=list(_by_type(view)),
        running=len(running),
        pending=len(pending),
        more=len(running) + len(pending) - len(shown) - len(first),
    )


def _predicted(view: View, table: PredictionTable | None) -> tuple[IntArray, IntArray]:
    """Return the pending rows with a predicted start, the soonest first, and the row of *table* of each pending row."""
    jobs = view.pending
    none = np.full(len(jobs), -1, dtype=np.int64)
    if table is None or not len(table) or not len(jobs):
        return none[:0], none
    at = places_of(jobs.job_id, table.job_id, first=True)
    same = (at >= 0) & (np.abs(table.first_submit_s[at] - jobs.first_submit_s) <= SAME_S)
    known = same & np.isfinite(table.start_s[at]) & table.has_value[at] & (table.kind[at] != PredictionKind.RUNNING)
    rows = np.flatnonzero(known & (jobs.gpus > 0))
    return rows[np.argsort(table.start_s[at[rows]], kind="stable")], np.where(same, at, none)


def _running(view: View, rows: IntArray) -> Iterator[Span]:
    jobs, remaining = view.running, view.remaining
    type_of = dict(zip(view.nodes.name, view.nodes.gpu_type, strict=True))
    job, node, _ = view.free_gpus.held
    first = dict(zip(job[::-1].tolist(), node[::-1].tolist(), strict=True))
    for row in rows.tolist():
        held = view.nodes.name[first[row]] if row in first else ""
        yield _span(
            jobs,
            row,
            type_of.get(held, jobs.gpu_type[row]),
            "running",
            float(jobs.started_s[row]),
            view.now_s + float(remaining.median_s[row]),
            view.now_s + float(remaining.high_s[row]),
        )


def _waiting(jobs: JobTable, table: PredictionTable, rows: IntArray, at: IntArray) -> Iterator[Span]:
    for row in rows.tolist():
        place = int(at[row])
        times = (float(column[place]) for column in (table.start_s, table.finish_s, table.finish_by_s))
        yield _span(jobs, row, jobs.gpu_type[row], "pending", *times)


def _span(jobs: JobTable, row: int, gpu_type: str, kind: str, from_s: float, until_s: float, by_s: float) -> Span:
    user = jobs.user[row]
    job_id = 0 if user == HIDDEN else int(jobs.job_id[row])
    partition = jobs.partition[row].partition(",")[0]
    return Span(job_id, user, partition, gpu_type, int(jobs.gpus[row]), kind, from_s, until_s, by_s)


def _by_partition(view: View) -> Iterator[GpuGroup]:
    nodes, total = view.nodes, view.free_gpus.total
    if not len(view.partitions):
        yield GpuGroup("", int(total.sum()))
    for name in dict.fromkeys(view.partitions.name):
        inside = nodes.partitions.map([name in text.split(",") for text in nodes.partitions.names], np.bool_)
        if gpus := int(total[inside].sum()):
            yield GpuGroup(name, gpus)


def _by_type(view: View) -> Iterator[GpuGroup]:
    nodes, usable = view.nodes, view.nodes.usable
    names = dict.fromkeys(nodes.gpu_type) | dict.fromkeys(
        one for text in nodes.gpu_types.names for one in by_type(text)
    )
    for name in names:
        if gpus := int(nodes.gpus_of(name)[usable].sum()):
            yield GpuGroup(name, gpus)

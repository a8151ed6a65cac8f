"""A report as one value, from rows of the database."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..cluster.columns import BoolArray, Labels
from ..cluster.jobs import JobState
from ..cluster.records.hours import HOUR_S, HourTable
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.records.prediction_records import PredictionRecords
from ..cluster.records.promises import PromiseTable
from ..cluster.records.report_rows import JobKey, ReportRows
from ..cluster.records.scope import Scope
from ..models.completion.prediction_accuracy import accuracy
from ..models.completion.reliability import Groups, by_group, points, predicted_waits, since
from .answer import GpuHours, GroupHours, IdleRun, NotMeasured, Report, SourceHours, SpanHours
from .counted import HourSums, cluster, ledger, orders
from .gpu_time import GpuTime, gpu_time, seconds_in
from .hour_names import GPUS_S
from .idle import idle_harm
from .requests import asked_hours, cpu_hours, gpu_memory, node_memory, requests
from .sooner import sooner_requests
from .trial_effects import trial_facts
from .waits import waits

DAY_S = 86_400.0
GROUPS_MOST = 20  #: of each kind; the rest is one group
OTHERS = "(others)"
IDLE_MOST = 20
IDLE_LEAST_S = 1800.0  #: GPU-seconds without a process for which a run is named
ON_NODES = "nodes: the sampler of the prolog"
_KINDS = ("account", "user", "partition", "gpu_type")


def summary(rows: ReportRows, of: Scope, *, cluster_name: str, since_s: float, until_s: float) -> Report:
    """Return the report on *rows*, which are those of the jobs *of* a choice, in [since_s, until_s).

    What a daemon counts of the whole cluster is only in a report on everybody.
    """
    runs, time = rows.runs, gpu_time(rows.runs, rows.nodes, since_s, until_s)
    inside = _inside(runs, since_s, until_s)
    predictions = rows.predictions if of.everybody else _theirs(rows.predictions, runs)
    came = predictions.take(since(predictions, since_s))
    hours = HourSums(rows.hours)
    ended = (runs.state != JobState.RUNNING) & inside
    return {
        "cluster": cluster_name,
        "since_s": since_s,
        "until_s": until_s,
        "of": {"user": of.user, "account": of.account, "partition": of.partition, "job_id": of.job_id},
        "jobs": len(set(_keys(runs.take(inside)))),
        "users": len(np.unique(runs.user.codes[inside])),
        "running": int(((runs.state == JobState.RUNNING) & inside).sum()),
        "total": _hours(time, inside),
        "asked": asked_hours(runs.take(ended)),
        "spans": list(_spans(runs, time, rows.hours, since_s, until_s, whole=of.everybody)),
        "sources": _sources(time),
        "groups": [group for kind in _KINDS for group in _groups(kind, getattr(runs, kind), time, inside)],
        "idle_runs": list(_idle_runs(runs, time)),
        "idle_harm": idle_harm(rows.hours) if of.everybody else None,
        "machine": cluster(hours) if of.everybody else None,
        "requests": list(requests(runs, since_s)),
        "sooner": sooner_requests(runs, time, runs if rows.everybody is None else rows.everybody, since_s),
        "gpu_memory": gpu_memory(runs, rows.nodes),
        "cpus": cpu_hours(runs, seconds_in(runs, since_s, until_s), rows.use),
        "node_memory": node_memory(runs, rows.use),
        "waits": list(waits(runs, predictions, since_s, until_s)),
        "accuracy": accuracy(came, until_s, ((until_s - since_s) / DAY_S,)),
        "reliability": points(came),
        "predicted_waits": predicted_waits(came),
        "reliability_by": by_group(came, groups_of(came, rows.promises, rows.held)),
        "promises": _promises(rows.promises, of, runs),
        "order": list(orders(rows.hours)) if of.everybody else [],
        "trials": [trial_facts(one, sums, until_s) for one, sums in rows.trials] if of.everybody else [],
        "ledger": ledger(hours) if of.everybody else None,
        "not_measured": list(_not_measured(time, rows, came, hours, of)),
    }


def groups_of(records: PredictionRecords, promises: PromiseTable, held: frozenset[JobKey]) -> Groups:
    """Return which of *records* are of jobs that asked for deadlines, and of jobs that we held."""
    keys = _keys(records)
    asked = set(_keys(promises))
    return Groups(
        np.array([key in asked for key in keys], dtype=np.bool_),
        np.array([key in held for key in keys], dtype=np.bool_),
    )


def _keys(table: OutcomeTable | PredictionRecords | PromiseTable) -> list[JobKey]:
    whole_s = np.nan_to_num(table.first_submit_s).astype(np.int64)
    return list(zip(table.job_id.tolist(), whole_s.tolist(), strict=True))


def _inside(runs: OutcomeTable, since_s: float, until_s: float) -> BoolArray:
    """Select the runs that began before the end of the span, and ended after its start."""
    began_s = np.where(np.isfinite(runs.started_s), runs.started_s, runs.ended_s)
    return np.asarray((began_s < until_s) & (runs.ended_s >= since_s))


def _theirs(records: PredictionRecords, runs: OutcomeTable) -> PredictionRecords:
    """Return the predictions of the jobs of *runs*."""
    return records.take(np.isin(np.arange(len(records)), _rows_of_all(records, runs)))


def _rows_of_all(records: PredictionRecords, runs: OutcomeTable) -> list[int]:
    mine = set(_keys(runs))
    return [row for row, key in enumerate(_keys(records)) if key in mine]


def _hours(time: GpuTime, rows: BoolArray) -> GpuHours:
    sums = time.sums(rows)
    return {
        "runs": int(rows.sum()),
        "held": sums["held"],
        "measured": sums["measured"],
        "used": sums["used"],
        "no_process": sums["no_process"],
        "below": sums["below"],
        "unmeasured": sums["held"] - sums["measured"],
    }


def _sources(time: GpuTime) -> list[SourceHours]:
    sums = time.sums()
    return [{"source": ON_NODES, "measured": sums["measured"], "used": sums["used"]}] if sums["measured"] else []


def _idle_runs(runs: OutcomeTable, time: GpuTime) -> Iterator[IdleRun]:
    """Yield the runs that held the most GPU-hours without a process, those of more than half an hour on a GPU."""
    longest = np.argsort(-time.no_process_s, kind="stable")[:IDLE_MOST]
    for row in longest[time.no_process_s[longest] >= IDLE_LEAST_S].tolist():
        yield {
            "job_id": int(runs.job_id[row]),
            "user": runs.user[row],
            "account": runs.account[row],
            "gpus": int(runs.gpus[row]),
            "no_process": float(time.no_process_s[row]) / HOUR_S,
            "below": float(time.below_s[row]) / HOUR_S,
            "running": bool(runs.state[row] == JobState.RUNNING),
        }


def _groups(kind: str, column: Labels, time: GpuTime, inside: BoolArray) -> Iterator[GroupHours]:
    """Yield the groups with the most GPU-hours, and the rest of them as one."""
    held_s = np.bincount(column.codes[inside], time.held_s[inside], len(column.names))
    runs = np.bincount(column.codes[inside], minlength=len(column.names))
    ranked = [code for code in np.lexsort((-runs, -held_s)).tolist() if runs[code]]
    for code in ranked[:GROUPS_MOST]:
        yield {**_hours(time, inside & (column.codes == code)), "kind": kind, "name": column.names[code]}
    if rest := ranked[GROUPS_MOST:]:
        yield {**_hours(time, inside & np.isin(column.codes, rest)), "kind": kind, "name": OTHERS}


def _spans(
    runs: OutcomeTable, time: GpuTime, hours: HourTable, since_s: float, until_s: float, *, whole: bool
) -> Iterator[SpanHours]:
    """Yield the GPU-hours of each day of the span, or of each hour of a short one."""
    step_s = _step_s(until_s - since_s)
    inside_s = seconds_in(runs, since_s, until_s)
    counted = hours.what.map([name == GPUS_S for name in hours.what.names], np.bool_) & whole
    at_s = since_s
    while at_s < until_s:
        end_s = min(at_s + step_s, until_s)
        part = np.divide(seconds_in(runs, at_s, end_s), inside_s, out=np.zeros(len(runs)), where=inside_s > 0)
        held, used, idle, measured = (
            float((each * part).sum()) / HOUR_S
            for each in (time.held_s, time.used_s, time.no_process_s + time.below_s, time.measured_s)
        )
        here = counted & (hours.from_s >= at_s - HOUR_S / 2) & (hours.from_s < end_s - HOUR_S / 2)
        yield {
            "from_s": at_s,
            "held": held,
            "used": used,
            "idle": idle,
            "unmeasured": held - measured,
            "capacity": float(hours.value[here].sum()) / HOUR_S if here.any() else None,
        }
        at_s = end_s


def _step_s(span_s: float) -> float:
    """Return the length of one bar: whole hours or whole days, at most some forty."""
    if span_s <= 2 * DAY_S:
        return HOUR_S
    return DAY_S * max(1, math.ceil(span_s / DAY_S / 40))


def _promises(promises: PromiseTable, of: Scope, runs: OutcomeTable) -> dict[str, int]:
    if not of.everybody:
        mine = set(_keys(runs))
        promises = promises.take(np.array([key in mine for key in _keys(promises)], dtype=np.bool_))
    return {state: many for state, many in promises.counts().items() if many}


def _not_measured(
    time: GpuTime, rows: ReportRows, came: PredictionRecords, hours: HourSums, of: Scope
) -> Iterator[NotMeasured]:
    if not time.measured_s.any():
        yield {
            "what": "use of GPUs, GPUs without a process, memory of GPUs",
            "switch_on": "profile.listen, and the prolog on the nodes (docs/profiling.md)",
        }
    if not len(came):
        yield {"what": "accuracy of predicted times", "switch_on": "predict.enabled, with the extra sim"}
    if not len(rows.use):
        yield {
            "what": "CPUs and memory of nodes that runs used",
            "switch_on": "report.usage, with slurmdbd and JobAcctGatherType",
        }
    if of.everybody and not hours.counted_s:
        yield {
            "what": "free and stranded GPUs, effect of the order, writes and calls to Slurm",
            "switch_on": "the daemon, in any mode: it counts them by the hour from its start on",
        }

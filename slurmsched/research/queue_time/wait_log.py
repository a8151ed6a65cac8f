"""Logs with real waits, and what was known of them at a moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...cluster.columns import BoolArray, FloatArray, IntArray, Labels, Table, table_of
from ...simulator.traces.cleaning import Raw
from ...simulator.traces.trace import Note, TraceError


@dataclass(frozen=True, eq=False)
class WaitLog(Table):
    """Jobs by submit time, one row each; times are Unix seconds, NaN where they are not known."""

    submit_s: FloatArray  #: when it joined the queue: free of dependencies, begin times and holds of its owner
    asked_s: FloatArray  #: when its wait is asked for; the true answer counts from here
    start_s: FloatArray  #: of its first run; NaN of a job that has not started
    end_s: FloatArray  #: NaN of a job that waits or runs
    job_id: IntArray
    user: Labels
    account: Labels
    partition: Labels
    qos: Labels
    name: Labels
    gpus: IntArray  #: over all nodes, as the three below; 0 where not known
    cpus: IntArray
    nodes: IntArray
    memory_mib: FloatArray
    time_limit_s: FloatArray  #: infinite where there is none
    priority: IntArray  #: as Slurm had it when it was asked for; 0 where not known
    slurm_start_s: FloatArray  #: Slurm's own estimate of the start then

    @property
    def wait_s(self) -> FloatArray:
        """The true wait of each job in seconds, from the moment it is asked for."""
        return np.asarray(self.start_s - self.asked_s)

    @property
    def waits(self) -> BoolArray:
        """A mask of the jobs that wait."""
        return np.isnan(self.start_s) & np.isnan(self.end_s)

    @property
    def runs(self) -> BoolArray:
        """A mask of the jobs that run."""
        return np.isfinite(self.start_s) & np.isnan(self.end_s)

    def known_at(self, now_s: float) -> WaitLog:
        """Return the log as it was at *now_s*: rows keep their numbers, later rows and later moments are gone.

        Jobs submitted in the very second are there; starts and ends of that second are not yet known.
        """
        past = self.take(slice(int(np.searchsorted(self.submit_s, now_s, side="right"))))
        asked = past.asked_s <= now_s
        return past.changed(
            start_s=np.where(past.start_s < now_s, past.start_s, np.nan),
            end_s=np.where(past.end_s < now_s, past.end_s, np.nan),
            priority=np.where(asked, past.priority, 0),
            slurm_start_s=np.where(asked, past.slurm_start_s, np.nan),
        )


@dataclass(frozen=True, eq=False)
class WaitData:
    """A data set: its log, and what reading changed."""

    log: WaitLog
    format: str
    shared: bool  #: all partitions use the same nodes; else each has its own
    notes: tuple[Note, ...] = field(default=())


_NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("end_s", "slurm_start_s"), np.nan),
    "time_limit_s": np.inf,
}


def wait_log(length: int, **columns: Any) -> WaitLog:
    """Build a WaitLog of *length* rows, sorted by submit time; missing columns are neutral, ``asked_s`` the submission.

    ValueError for an unknown column.
    """
    known = {"asked_s": columns.get("submit_s"), "job_id": np.arange(1, length + 1)} | columns
    log = table_of(WaitLog, length, _NEUTRAL, known)
    return log.take(np.argsort(log.submit_s, kind="stable"))


def wait_data(raw: Raw, source: str, format: str, *, shared: bool) -> WaitData:  # noqa: A002
    """Return the data set of *raw*; TraceError where it has no waits that a prediction could be held against."""
    if "asked_s" not in raw.columns:
        raw.columns["asked_s"] = raw.columns["submit_s"].copy()
    columns = raw.columns
    raw.only(~np.isnan(columns["submit_s"]), "submit", "{jobs} without a submit time left out")
    never = np.full(len(raw), np.nan)
    early = np.fmin(raw.columns["start_s"], raw.columns.get("end_s", never)) < raw.columns["asked_s"]
    raw.only(~early, "early", "{jobs} that had started or ended before their wait is asked for left out")
    log = wait_log(len(raw), **raw.columns)
    started = np.isfinite(log.start_s)
    if not started.any():
        raise TraceError(f"{source}: no job has a start time, so no wait is known: such a log is of no use here")
    if not (log.wait_s[started] > 0).any():
        raise TraceError(
            f"{source}: every job starts when it was submitted, so no wait is real: such a log is of no use here"
        )
    return WaitData(log, format, shared, tuple(raw.notes))

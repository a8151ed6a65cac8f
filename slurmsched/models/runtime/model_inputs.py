"""The features of the runtime model, computed by one function for training and for forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels, Table
from ...cluster.jobs import JobTable
from ...cluster.records.outcomes import OutcomeTable
from ...cluster.ties import in_points
from ..ebm.additive import Columns
from ..ebm.dictionary_column import DictionaryColumn
from .history_index import HistoryIndex, compact
from .name_buckets import NameBuckets

#: Statistics of `HistoryIndex.columns` that serve as features.
HISTORY = (
    *("task_last", "task_median", "task_spread", "task_runs"),
    *("name_last", "name_median", "name_spread", "name_runs"),
    *("kind_last", "kind_median", "kind_spread", "kind_runs"),
    *("user_last", "user_median", "user_usual", "user_spread", "user_runs"),
    *("width_last", "width_median", "limit_last", "limit_median", "gpus_usual", "site_usual"),
)

#: Every column in words, as `explain` shows it.
WORDS: Mapping[str, str] = {
    "user": "user",
    "account": "account",
    "qos": "QOS",
    "partition": "partition",
    "bucket": "kind of job name",
    "gpus": "GPUs",
    "cpus": "CPUs",
    "nodes": "nodes",
    "limit": "time limit",
    "hour": "hour of submission",
    "weekday": "day of submission",
    "gpu_util": "GPU utilisation of earlier runs",
    "gmem_util": "GPU memory utilisation of earlier runs",
    "gmem_mib": "GPU memory of earlier runs in MiB",
    "task_last": "last two runs of this user, name and number of GPUs",
    "task_median": "median of the last runs of this user, name and number of GPUs",
    "task_spread": "spread of the last runs of this user, name and number of GPUs",
    "task_runs": "number of runs of this user, name and number of GPUs",
    "name_last": "last two runs of this user and name",
    "name_median": "median of the last runs of this user and name",
    "name_spread": "spread of the last runs of this user and name",
    "name_runs": "number of runs of this user and name",
    "kind_last": "last two runs of this user and such a name",
    "kind_median": "median of the last runs of this user and such a name",
    "kind_spread": "spread of the last runs of this user and such a name",
    "kind_runs": "number of runs of this user and such a name",
    "user_last": "last two runs of this user",
    "user_median": "median of the last runs of this user",
    "user_usual": "usual runtime of this user",
    "user_spread": "spread of the last runs of this user",
    "user_runs": "number of runs of this user",
    "width_last": "last two runs of this user with as many GPUs",
    "width_median": "median of the last runs of this user with as many GPUs",
    "limit_last": "last two runs of this user with this time limit",
    "limit_median": "median of the last runs of this user with this time limit",
    "gpus_usual": "usual runtime with as many GPUs",
    "site_usual": "usual runtime on the site",
}

LOGARITHMS = frozenset(
    name for name in WORDS if name.endswith(("_last", "_median", "_usual")) or name == "limit"
)  #: columns that hold the natural logarithm of seconds

DAY_S = 86400.0
PROFILE = ("gpu_util", "gmem_util", "gmem_mib")
_LEVELS = ("user", "kind", "name")  # coarsest first
_STEADINESS = np.array([0.1, 0.4, 0.9])  # standard deviations of log runtime between classes of a level
CLASSES = 1 + len(_LEVELS) * (len(_STEADINESS) + 1)  #: of `classes`


@dataclass(frozen=True, eq=False)
class Profiles(Table):
    """The GPU use of earlier runs of each job's kind, as known at its submission; NaN where none was measured."""

    gpu_util: FloatArray  #: 0..1
    gmem_util: FloatArray  #: 0..1, of the memory controller
    gmem_mib: FloatArray  #: the most


def inputs(
    jobs: JobTable | OutcomeTable,
    past: HistoryIndex,
    buckets: NameBuckets,
    ended_before: IntArray | None = None,
    profiles: Profiles | None = None,
) -> Columns:
    """Compute the columns for forecasts of *jobs*, given the first *ended_before* runs of *past* (by default all).

    Measured use is in the columns of jobs; for ended runs it comes as *profiles*. All of it was known when the job was
    submitted: for training, *ended_before* is the number of runs that had ended by then.
    """
    day = np.floor(jobs.first_submit_s / DAY_S)  # floor and product: % on floats takes ten times as long
    columns: dict[str, FloatArray | Labels | DictionaryColumn] = {
        "user": compact(jobs.user),
        "account": jobs.account,
        "qos": jobs.qos,
        "partition": jobs.partition,
        "bucket": buckets.label(compact(jobs.name)),
        "gpus": jobs.gpus.astype(np.float64),
        "cpus": jobs.cpus.astype(np.float64),
        "nodes": jobs.nodes.astype(np.float64),
        "limit": _log_limit(jobs.time_limit_s),
        "hour": np.floor((jobs.first_submit_s - day * DAY_S) / 3600.0),
        "weekday": day - 7.0 * np.floor(day / 7.0),
    }
    columns |= past.coded(jobs, HISTORY) if ended_before is None else past.columns(jobs, HISTORY, ended_before)
    if profiles is None and isinstance(jobs, JobTable):
        profiles = Profiles(jobs.gpu_util, jobs.memory_util, jobs.gpu_memory_mib)
    nothing = np.full(len(jobs), np.nan)
    return columns | {name: nothing if profiles is None else getattr(profiles, name) for name in PROFILE}


def classes(columns: Columns) -> IntArray:
    """Classify each job by the evidence about it, 0 to CLASSES - 1.

    0 without two runs of its user, else by the finest of user, kind of name and name with two, and by its steadiness.
    """
    found = np.zeros(len(columns["user_runs"]), dtype=np.int64)
    for place, level in enumerate(_LEVELS):
        # searchsorted puts NaN last, so an unknown spread counts as the least steady.
        kind = np.searchsorted(_STEADINESS, numbers(columns, f"{level}_spread"), side="right")
        kind += 1 + place * (len(_STEADINESS) + 1)
        found = np.where(numbers(columns, f"{level}_runs") >= 2, kind, found)
    return found


def numbers(columns: Columns, name: str) -> FloatArray:
    """Return the column *name*, which holds numbers. ValueError where it holds texts."""
    column = columns[name]
    if isinstance(column, Labels):
        raise ValueError(f"{name} is a column of texts, not of numbers")
    return column.numbers() if isinstance(column, DictionaryColumn) else column


def rows_of(columns: Columns, rows: IntArray) -> Columns:
    """Select the *rows* of all columns."""
    return {
        name: column.take(rows) if isinstance(column, Labels | DictionaryColumn) else column[rows]
        for name, column in columns.items()
    }


def _log_limit(limit_s: FloatArray) -> FloatArray:
    """Return the natural logarithm of the time limit; NaN where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log = in_points(np.log(limit_s))
    return np.where(np.isfinite(log), log, np.nan)

"""Jobs whose speed depends on the type of their GPUs, and on the job beside them (Gavel).

A file of throughputs is JSON: ``{type: {"('model', gpus)": {"null": iterations per second alone, "('model', gpus)":
[its iterations per second beside that job, and those of that job]}}}``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Labels
from ...cluster.jobs import JobTable
from ...cluster.nodes import NodeTable
from ...cluster.speed_texts import write_relative
from ...cluster.text.hostlist import fold
from ...cluster.training import TypeSpeeds
from ...errors import ConfigError
from ..engine.job_state import JobSpeed
from ..workload.workload import Workload, as_submitted
from .performance import EndRule, FixedBatch, JobResources

ROUND_S = 360.0

_KEY = re.compile(r"\('(.*)', (\d+)\)")
_ACCEPTED = 'accepted is {type: {"(\'model\', gpus)": {"null": speed, "(\'model\', gpus)": [speed, speed]}}}'

Kind = tuple[str, int]
"""A model, and the GPUs that train it."""

Speeds = dict[str, dict[Kind, dict[Kind | None, tuple[float, float]]]]
"""Iterations per second by type of GPU and kind, and by the kind beside it: of the one, then of the other."""


@cache
def read_throughputs(path: str) -> Speeds:
    """Read a file of throughputs; ConfigError says what is wrong with it."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return {kind: {_key(key): _beside(row) for key, row in rows.items()} for kind, rows in found.items()}
    except OSError as error:
        raise ConfigError(f"reading throughputs: {path}: {error.strerror}") from error
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ConfigError(f"reading throughputs: {path}: {_ACCEPTED}; {type(error).__name__}: {error}") from error


def _key(text: str) -> Kind:
    match = _KEY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} names no model with GPUs")
    return match[1], int(match[2])


def _beside(row: dict[str, Any]) -> dict[Kind | None, tuple[float, float]]:
    found: dict[Kind | None, tuple[float, float]] = {None: (float(row["null"]), 0.0)}
    for key, (speed, other) in ((key, pair) for key, pair in row.items() if key != "null"):
        found[_key(key)] = float(speed), float(other)
    if not all(0 <= speed < math.inf for pair in found.values() for speed in pair):
        raise ValueError("a speed is below 0, or no number")
    return found


def _fastest_first(types: Iterable[str], speeds: Speeds) -> tuple[str, ...]:
    """Return *types* by their speed over that of the fastest one, on average over all kinds."""
    names = list(types)
    kinds = dict.fromkeys(kind for name in names for kind in speeds[name])
    speed = np.array([[speeds[name].get(kind, {}).get(None, (0.0, 0.0))[0] for name in names] for kind in kinds])
    best = np.maximum(speed.max(axis=1, keepdims=True), 1e-300)
    return tuple(names[number] for number in np.argsort(-(speed / best).sum(axis=0), kind="stable").tolist())


class TypedJobs(FixedBatch):
    """The true speed of jobs by the type of their GPUs (``Performance``). A job runs on GPUs of one type."""

    end_rule = EndRule.EXACT

    def __init__(self, jobs: Workload, speeds: Speeds, nodes: NodeTable) -> None:
        if missing := [name for name in nodes.gpu_type.names if name not in speeds]:
            raise ConfigError(f"the throughputs have no GPUs of type {missing[0]!r}; there are: {', '.join(speeds)}")
        self._types = _fastest_first(dict.fromkeys(nodes.gpu_type), speeds)
        self.node_type = nodes.gpu_type.map([self._types.index(name) for name in nodes.gpu_type.names], np.int64)
        kinds = list(zip(jobs.work, jobs.gpus.tolist(), strict=True))
        known = dict.fromkeys(kinds)
        number = {kind: row for row, kind in enumerate(known)}
        self._kind: IntArray = np.array([number[kind] for kind in kinds], np.int64)
        of_kind = np.zeros((len(known), len(self._types)))
        self._beside = np.zeros((len(known), len(known), len(self._types)))
        for column, name in enumerate(self._types):
            for kind, row in number.items():
                rates = speeds[name].get(kind, {})
                of_kind[row, column] = rates.get(None, (0.0, 0.0))[0]
                for other, place in number.items():
                    self._beside[row, place, column] = rates.get(other, (0.0, 0.0))[0]
        self._alone: FloatArray = of_kind[self._kind]
        if (lost := np.flatnonzero(~(self._alone > 0).any(axis=1))).size:
            model, gpus = kinds[lost[0]]
            raise ConfigError(f"job {jobs.job_id[lost[0]]}: there is no throughput of {model!r} on {gpus} GPUs")
        self.epochs = np.ones(len(jobs), dtype=np.int64)
        self.until = jobs.iterations[:, None]
        self.left = jobs.iterations[:, None]
        self.most_gpus = jobs.gpus
        self.runtime_s = jobs.iterations / self._alone.max(axis=1)

    def rates(self, row: int, has: JobResources) -> FloatArray:
        """Return the iterations per second; 0 on GPUs of two types, or another number of GPUs than it asks for."""
        types = np.unique(self.node_type[has.node_gpus > 0])
        if len(types) != 1:
            return np.zeros(1)
        if has.beside >= 0:
            return np.asarray(self._beside[self._kind[row], self._kind[has.beside], types])
        return np.asarray(self._alone[row, types])

    @property
    def relative(self) -> FloatArray:
        """The speed of each job on each type, as a share of that on its fastest one; 0 where it cannot run."""
        return np.asarray(self._alone / self._alone.max(axis=1, keepdims=True))

    @property
    def types(self) -> tuple[str, ...]:
        """The types of GPUs, the fastest first, on average over all kinds of jobs."""
        return self._types

    def step_times(self, row: int, most: int) -> FloatArray:
        """Return the seconds of an iteration on the GPUs that it asks for, of its fastest type; infinite on others."""
        times = np.full(most + 1, np.inf)
        times[most] = 1 / self._alone[row].max()
        return times

    def type_speeds(self, rows: IntArray) -> TypeSpeeds:
        """Return what a scaling knows of the jobs in *rows*."""
        return TypeSpeeds(self._types, self.node_type, self._alone[rows], self._kind[rows], self._beside)


def on_types(pace: JobSpeed, types: TypedJobs) -> JobSpeed:
    """Return *pace* with the speeds of jobs by the type of their GPUs."""
    rows = np.arange(len(types.relative))
    return pace._replace(type_kind=rows, by_type=types.relative, node_type=types.node_type)


def with_type_speeds(jobs: Workload, types: TypedJobs, nodes: NodeTable) -> JobTable:
    """Return *jobs* as submitted, with their speeds by type of GPU as what is known of their kinds.

    A job that cannot run on a type excludes the nodes of that type, as its owner would have to.
    """
    distinct, which = np.unique(types.relative, axis=0, return_inverse=True)
    texts = [write_relative(types.types, row) for row in distinct]
    names = np.array(list(nodes.name), dtype=object)
    excluded = [fold(names[row[types.node_type] <= 0]) for row in distinct]
    of_job = Labels(which.reshape(-1).astype(np.int64), tuple(texts))
    return as_submitted(jobs).changed(type_speeds=of_job.renamed(texts), excluded_nodes=of_job.renamed(excluded))


def at_mean_speed(jobs: Workload, types: TypedJobs) -> Workload:
    """Return *jobs* with their runtimes at the mean of their speeds: what a history over all types would say."""
    speeds = np.where(types.relative > 0, types.relative, np.nan)
    return replace(jobs, runtime_s=jobs.runtime_s / np.nanmean(speeds, axis=1))

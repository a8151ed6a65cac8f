"""Jobs whose speed depends on their CPUs and memory (Synergy).

A file of profiles is a csv file with the columns model, gpus, cpus_wanted, memory_gib_wanted (per GPU, for the best
speed), speedup (that speed over the one with a proportional share), iteration_s (with that share), and a grid of cpus,
memory_gib, relative_speed (1 for the proportional share), in any number of rows per model.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...cluster.training import CpuNeeds
from ...errors import ConfigError
from ...simulator.cluster_spec import ClusterSpec
from ...simulator.speeds.performance import EndRule, FixedBatch, JobResources
from ...simulator.workload.workload import Workload

ROUND_S = 300.0
_MIB = 1024.0
_CLOSE = 1e-6


class CpuProfile(NamedTuple):
    """What one model gains by CPUs and memory, per GPU."""

    cpus: float  #: with which, and with *memory_mib*, it is fastest
    memory_mib: float
    speedup: float
    iteration_s: float
    grid: FloatArray  #: rows of CPUs, MiB, and speed over the proportional one


@cache
def read_profiles(path: str) -> dict[str, CpuProfile]:
    """Read a file of profiles; ConfigError says what is wrong with it."""
    found: dict[str, list[tuple[float, ...]]] = {}
    names = ("cpus_wanted", "memory_gib_wanted", "speedup", "iteration_s", "cpus", "memory_gib", "relative_speed")
    try:
        with Path(path).open(newline="", encoding="utf-8") as text:
            for row in csv.DictReader(text):
                found.setdefault(row["model"], []).append(tuple(float(row[name]) for name in names))
    except OSError as error:
        raise ConfigError(f"reading profiles: {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        accepted = f"accepted are the columns model, {', '.join(names)}"
        raise ConfigError(f"reading profiles: {path}: {accepted}; {type(error).__name__}: {error}") from error
    for model, rows in found.items():
        table = np.array(rows)
        if not ((table[:, :4] > 0).all() and (table >= 0).all() and np.isfinite(table).all()):
            raise ConfigError(f"reading profiles: {path}: {model} has numbers that are not above 0")
    scale = np.array([1.0, _MIB, 1.0])
    return {
        model: CpuProfile(rows[0][0], rows[0][1] * _MIB, rows[0][2], rows[0][3], np.array(rows)[:, 4:] * scale)
        for model, rows in found.items()
    }


class ProfiledJobs(FixedBatch):
    """The true speed of jobs by their CPUs and memory (``Performance``)."""

    end_rule = EndRule.ROUND
    defaults: ClassVar[Mapping[str, float]] = MappingProxyType({"restart_s": 0.0, "beat_s": ROUND_S})

    @classmethod
    def read(cls, path: str, jobs: Workload, fleet: ClusterSpec) -> ProfiledJobs:
        """Read the profiles of *jobs*; ConfigError for a file that cannot be read, and jobs it does not describe."""
        return cls(jobs, read_profiles(path), fleet)

    def __init__(self, jobs: Workload, profiles: dict[str, CpuProfile], fleet: ClusterSpec) -> None:
        for name, job_id in zip(jobs.work, jobs.job_id.tolist(), strict=True):
            if name not in profiles:
                raise ConfigError(f"job {job_id}: {name!r} has no profile; there are: {', '.join(sorted(profiles))}")
        self._gpus, self._nodes = jobs.gpus, fleet.nodes
        self._profiles = [profiles[name] for name in jobs.work]
        self.needs = CpuNeeds(*(np.array(column) for column in list(zip(*self._profiles, strict=True))[:4]))
        self.epochs = np.ones(len(jobs), dtype=np.int64)
        self.until = self.left = jobs.iterations[:, None]
        self.most_gpus = jobs.gpus
        self.runtime_s = jobs.iterations * self.needs.iteration_s

    def rates(self, row: int, has: JobResources) -> FloatArray:
        """Return the iterations per second: with its best case, with its share, or below that by the grid."""
        profile, many = self._profiles[row], int(has.node_gpus.sum())
        part = has.node_gpus / np.maximum(self._nodes.gpus, 1)
        cpus = has.cpus or float((part * self._nodes.cpus).sum())
        mib = has.memory_mib or float((part * self._nodes.memory_mib).sum())
        if _enough(cpus, mib, many * profile.cpus, many * profile.memory_mib):
            speed = profile.speedup
        elif _enough(cpus, mib, *self._share(profile, has.node_gpus)):
            speed = 1.0
        else:
            there = (profile.grid[:, :2] * many <= np.array([cpus, mib]) + _CLOSE).all(axis=1)
            speed = float(profile.grid[there, 2].max(initial=0.0))
        return np.array([speed / profile.iteration_s])

    def _share(self, profile: CpuProfile, node_gpus: IntArray) -> tuple[float, float]:
        """Return CPUs and memory of the proportional share, or of the best case where that is less."""
        nodes, whole = self._nodes, np.maximum(self._nodes.gpus, 1)
        cpus = np.minimum(profile.cpus, nodes.cpus / whole)
        mib = np.minimum(profile.memory_mib, nodes.memory_mib / whole)
        return float((node_gpus * cpus).sum()), float((node_gpus * mib).sum())

    def step_times(self, row: int, most: int) -> FloatArray:
        """Return the seconds of an iteration on the GPUs that it asks for, with its share; infinite on others."""
        times = np.full(most + 1, np.inf)
        times[self._gpus[row] :] = self.needs.iteration_s[row]
        return times

    def cpu_needs(self, rows: IntArray) -> CpuNeeds:
        """Return what a scaling knows of the jobs in *rows*."""
        needs = self.needs
        return CpuNeeds(needs.cpus[rows], needs.memory_mib[rows], needs.speedup[rows], needs.iteration_s[rows])


def _enough(cpus: float, mib: float, wanted_cpus: float, wanted_mib: float) -> bool:
    return cpus >= wanted_cpus - _CLOSE and mib >= wanted_mib - _CLOSE

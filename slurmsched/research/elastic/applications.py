"""Applications: work in seconds on one GPU, the most GPUs they can use, and how fast they are on fewer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray, Rows
from ...errors import ConfigError
from ...simulator.workload.workload import Workload

_ACCEPTED = 'accepted is {"speedup": {"Model": [1.0, 1.8, ...], ...}}, the speed on 1, 2, ... GPUs over that on one'


@dataclass(frozen=True, eq=False)
class Curves:
    """Speed-ups over one GPU. On more GPUs than a curve knows it stays as fast; between two numbers it is linear."""

    names: tuple[str, ...]
    speed: FloatArray  #: a row per curve, on 0, 1, ... GPUs

    @classmethod
    def of(cls, speedups: dict[str, FloatArray], most: int) -> Curves:
        """The curves *speedups* by name, on up to *most* GPUs, and as the last one a linear one without a name."""
        rows = [
            np.concatenate(([0.0], curve[np.minimum(np.arange(most), len(curve) - 1)])) for curve in speedups.values()
        ]
        return cls((*speedups, ""), np.array([*rows, np.arange(most + 1.0)]))


@dataclass(frozen=True, eq=False)
class Applications:
    """Applications by submit time. Times are seconds from any origin."""

    submit_s: FloatArray
    service_s: FloatArray  #: work: seconds on one GPU
    demand: IntArray  #: GPUs it can use at most
    curve: IntArray  #: row of its speed-up in ``curves``
    curves: Curves

    def __len__(self) -> int:
        return len(self.submit_s)

    def take(self, rows: Rows) -> Self:
        """Only *rows*."""
        return replace(
            self,
            submit_s=self.submit_s[rows],
            service_s=self.service_s[rows],
            demand=self.demand[rows],
            curve=self.curve[rows],
        )

    def load(self, gpus: int) -> float:
        """Work that arrives over what *gpus* GPUs do one by one from the first to the last arrival."""
        span_s = float(self.submit_s[-1] - self.submit_s[0]) if len(self) else 0.0
        return float(self.service_s.sum()) / (gpus * span_s) if span_s > 0 else np.inf


def applications(jobs: Workload, speedups: dict[str, FloatArray] | None = None) -> Applications:
    """The jobs of a trace as if they were elastic, with the speed-up that *speedups* has under their name.

    The GPUs of a job are the most it can use; its work is its runtime on those times its speed on them. Without a curve
    of its name a job is taken to be as much faster as it has more GPUs. Jobs without GPUs or runtime are left out.
    """
    speedups = speedups or {}
    rows = np.flatnonzero((jobs.gpus > 0) & (jobs.runtime_s > 0))
    demand = jobs.gpus[rows]
    curves = Curves.of(speedups, int(demand.max(initial=1)))
    number = {name: row for row, name in enumerate(curves.names)}
    curve = jobs.name.map([number.get(name, len(speedups)) for name in jobs.name.names], np.int64)[rows]
    service_s = jobs.runtime_s[rows] * curves.speed[curve, demand]
    return Applications(jobs.submit_s[rows], service_s, demand, curve, curves)


def read_speedups(path: Path) -> dict[str, FloatArray]:
    """The curves of a file of speed-ups; ConfigError says what is wrong with it and what is accepted."""
    try:
        speedups = json.loads(path.read_text(encoding="utf-8"))["speedup"].items()
        curves = {str(model): np.array(curve, dtype=np.float64) for model, curve in speedups}
    except OSError as error:
        raise ConfigError(f"reading the speed-ups {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"reading the speed-ups {path}: {_ACCEPTED}") from error
    if not all(curve.ndim == 1 and len(curve) and np.all(curve > 0) for curve in curves.values()):
        raise ConfigError(f"reading the speed-ups {path}: {_ACCEPTED}")
    return curves

"""Measurements of training configurations alone on a GPU, and of the speed of pairs that share one."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...errors import ConfigError
from .sharing_model import JUMBO, GpuUse, score_of_speed

ALONE = ("name", "gpu_util", "memory_util", "memory_mib", "amp")  #: columns of the file of configurations
PAIR = ("first", "second", "first_speed", "second_speed")  #: columns of the file of pairs, as in a cluster file


@dataclass(frozen=True, eq=False)
class Measured:
    """Measured configurations, and pairs of them by row."""

    use: GpuUse
    score: IntArray  #: TINY, MEDIUM or JUMBO
    first: IntArray
    second: IntArray
    speeds: FloatArray  #: of both while sharing, relative to alone; shape (pairs, 2)

    @property
    def sums(self) -> FloatArray:
        """The sum of the GPU utilisations of each pair."""
        sums: FloatArray = self.use.gpu_util[self.first] + self.use.gpu_util[self.second]
        return sums

    @classmethod
    def of(
        cls, use: GpuUse, first: IntArray, second: IntArray, speeds: FloatArray, score: IntArray | None = None
    ) -> Self:
        """Build the table; without *score*, by the paper's rule from the mean speed of each configuration's pairs."""
        if score is None:
            both, mean = np.concatenate((first, second)), np.tile(speeds.mean(axis=1), 2)
            pairs = np.bincount(both, minlength=len(use))
            total = np.bincount(both, mean, minlength=len(use))
            score = score_of_speed(np.divide(total, pairs, out=np.full(len(use), np.nan), where=pairs > 0))
        return cls(use, score, first, second, speeds)

    @classmethod
    def read(cls, configurations: Path, pairs: Path) -> Self:
        """Read both CSV files: columns ALONE, with an optional ``score`` 0 to 2, and columns PAIR.

        Utilisations are 0..1. ConfigError names an invalid line.
        """
        alone = _rows(configurations, ALONE)
        places = {row["name"]: place for place, (_, row) in enumerate(alone)}
        if len(places) < len(alone):
            raise ConfigError(f"{configurations}: a name stands for one configuration; some names occur twice")
        numbers = [
            [_number(configurations, line, row, name, most) for line, row in alone]
            for name, most in (("gpu_util", 1.0), ("memory_util", 1.0), ("memory_mib", math.inf), ("amp", 1.0))
        ]
        score = None
        if alone and "score" in alone[0][1]:
            score = np.array([int(_number(configurations, line, row, "score", JUMBO)) for line, row in alone])
        measured = _rows(pairs, PAIR)
        first, second = ([_place(pairs, line, row, name, places) for line, row in measured] for name in PAIR[:2])
        speeds = [[_number(pairs, line, row, name, 2.0) for name in PAIR[2:]] for line, row in measured]
        return cls.of(
            GpuUse(*(np.array(column, dtype=np.float64) for column in numbers)),
            np.array(first, dtype=np.int64),
            np.array(second, dtype=np.int64),
            np.array(speeds, dtype=np.float64).reshape(-1, 2),
            score,
        )


def _rows(path: Path, columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Read the rows of a CSV file with their line numbers."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            lacking = [name for name in columns if name not in (reader.fieldnames or ())]
            if lacking:
                raise ConfigError(f"{path} lacks the column {lacking[0]}; needed are {', '.join(columns)}")
            return [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a CSV file in UTF-8: {error}") from error


def _number(path: Path, line: int, row: dict[str, str], name: str, most: float) -> float:
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = math.nan
    if not 0.0 <= value <= most or math.isinf(value):
        raise ConfigError(f"{path}, line {line}: {name} is {row[name]!r}; accepted is a number from 0 to {most:g}")
    return value


def _place(path: Path, line: int, row: dict[str, str], name: str, places: dict[str, int]) -> int:
    if row[name] not in places:
        raise ConfigError(
            f"{path}, line {line}: {name} is {row[name]!r}, which the file of configurations does not name"
        )
    return places[row[name]]

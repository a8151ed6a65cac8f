"""The jobs of the demo: real ones of a week of Philly, with users, names and time limits attached by a fixed rule.

Philly publishes arrivals, runtimes, GPUs and virtual clusters, but neither names nor limits, so every measurement
with these jobs is *semi-synthetic*. docs/demo.md states the rule and its consequences.
"""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

USERS = {"ada": "vision", "ben": "speech", "cleo": "vision", "dan": "speech"}
"""User -> account."""

LONGEST_S = 20
MOST_GPUS = 8  #: two nodes of the lab
BURST = 72  #: jobs in each of the two bursts

_PROJECTS = ("asr", "bert", "detect", "gan", "lm", "nmt", "pose", "resnet", "rl", "seg")
_NOISE = 0.35  #: share of names without information about the runtime


@dataclass(frozen=True)
class Submission:
    """A job as its user submits it; ``runtime_s`` is hidden from all but its script."""

    user: str
    name: str
    gpus: int
    time_limit_min: int
    runtime_s: int


def bursts(jobs: int = BURST, longest_s: int = LONGEST_S) -> tuple[tuple[Submission, ...], tuple[Submission, ...]]:
    """Return the earlier burst, for history, and the measured one: *jobs* each, none longer than *longest_s*."""
    rows = tuple(_sample())
    return _burst(rows[:BURST][-jobs:], longest_s), _burst(rows[BURST:][:jobs], longest_s)


def _sample() -> Iterator[dict[str, str]]:
    text = files("slurmsched").joinpath("data/philly_demo.csv").read_text("utf-8")
    return csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def _burst(rows: Sequence[dict[str, str]], longest_s: int) -> tuple[Submission, ...]:
    return tuple(_submission(row, longest_s) for row in rows)


def _submission(row: dict[str, str], longest_s: int) -> Submission:
    """Convert a row of the trace: minutes become seconds; the hash of the row is the only source of chance."""
    at = (row["submitted"], row["virtual_cluster"], row["runtime_s"])
    minutes = int(row["runtime_s"]) / 60
    runtime_s = min(max(round(minutes), 1), longest_s)
    user = _choice(tuple(USERS), row["virtual_cluster"], str(int(2 * _chance("member", *at))))
    level = min(4, int(math.log(max(minutes, 1.0), 5)))
    if _chance("noise", *at) < _NOISE:
        level = int(5 * _chance("level", *at))
    own = int(len(_PROJECTS) * _chance("projects", user))
    project = _PROJECTS[(own + level) % len(_PROJECTS)]
    name = f"{project}_{int(90 * _chance('number', user, project)) + 10}_v{int(9 * _chance('version', *at)) + 1}"
    # Users ask for 3 to 30 times what they need, in whole minutes.
    limit_s = runtime_s * 10 ** (0.5 + _chance("limit", *at))
    return Submission(user, name, min(int(row["gpus"]), MOST_GPUS), math.ceil(limit_s / 60), runtime_s)


def _chance(*words: str) -> float:
    """Return a number in [0, 1) that is the same on every machine."""
    return zlib.crc32("/".join(words).encode()) / 2**32


def _choice(of: Sequence[str], *words: str) -> str:
    return of[int(len(of) * _chance(*words))]

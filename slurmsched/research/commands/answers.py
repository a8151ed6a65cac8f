"""The form of what commands of the research print with ``--json``."""

from __future__ import annotations

from typing import Any, TypedDict

from ..early_stopping import CurveStudy
from ..fractions.figures import FillFigures
from ..queue_time.scores import QueueTimes
from ..tuning.search import Gain

__all__ = ["CurveStudy", "Filled", "NewPart", "ParetoFront", "PartsChecked", "QueueTimesShown", "Tuned"]


class NewPart(TypedDict):
    """A package that ``policy new`` wrote."""

    directory: str
    hook: str
    files: list[str]


class FailedDemand(TypedDict):
    """A demand that a part does not meet."""

    hook: str
    part: str
    demand: str
    detail: str


class Demand(TypedDict):
    """The judgement by one demand."""

    passed: bool
    detail: str


class CheckedPart(TypedDict):
    """A part of a policy, judged by each demand."""

    hook: str
    part: str
    demands: dict[str, Demand]


class PartsChecked(TypedDict):
    """What ``policy check`` found."""

    failed: list[FailedDemand]
    parts: list[CheckedPart]
    views: int
    seconds: float


class Tuned(TypedDict):
    """A search for better settings."""

    jobs: int
    measured: int
    simulations: int
    current: dict[str, Any]
    best: dict[str, Any]
    searched: Gain
    held_out: Gain
    recommended: bool
    settings: list[str]


class Filled(TypedDict):
    """What placements allocate of a cluster that fills."""

    nodes: int
    pods: int
    arrived: int
    seeds: int
    placements: list[FillFigures]


class ParetoFront(TypedDict):
    """Settings of weighted fair queueing that no other one betters."""

    trace: str
    asked: dict[str, Any]
    simulations: int
    points: list[dict[str, Any]]
    extremes: list[dict[str, Any]]


class QueueTimesShown(TypedDict):
    """Predictions of queue times compared, a result for each data set."""

    results: list[QueueTimes]

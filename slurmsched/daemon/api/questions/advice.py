"""The question about the effect of our order, and about what could be better."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NotRequired, TypedDict, cast

from ....cluster.kind_speeds import TypeSpeed
from ....cluster.records.order_effects import OrderEffects
from ....cluster.records.profiles import LinkUse
from ....cluster.stranded_gpus import StrandedBy
from ....decide.fragmented_waits import Fragmentation
from ....errors import MemoryUnavailable
from ....explain.impact import GroupImpact, advice
from ....models.runtime.overruns import Overrunner
from ...idle.idle_gpus import IdleGpus
from .contract import Asked, OfCycle, Question, Who, for_users

OVERRUNNERS_MOST = 20  #: users in one answer
STRANDED_MOST = 20  #: likewise, of those whose jobs left GPUs without CPUs or memory


class SpreadRow(TypedDict):
    """The speed of a kind of job on more nodes than it needs."""

    kind: str
    gpus: int
    gpu_type: str
    runs: int
    iteration_s: float
    spread_runs: int
    spread_iteration_s: float
    speed: float


class SettingsGainRow(TypedDict):
    """The gain of one row over Slurm alone: mean JCTs divided, with the interval of 90 % of redraws."""

    policy: str
    meaning: str
    ratio: float
    low: float
    high: float


class SettingsGain(TypedDict):
    """The gain of the settings, replayed on the latest jobs; *why_none* says why there is none."""

    jobs: int
    span_s: float
    assumed: Sequence[str]
    rows: Sequence[SettingsGainRow]
    why_none: str


class AdviceAnswer(OfCycle):
    """Who gains and who loses by our order; the command adds the gain of the settings."""

    advice: Sequence[GroupImpact]
    gain: NotRequired[SettingsGain]
    overrunners: NotRequired[Sequence[Overrunner]]
    links: NotRequired[Sequence[LinkUse]]
    spread: NotRequired[Sequence[SpreadRow]]
    types: NotRequired[Sequence[TypeSpeed]]
    stranded: NotRequired[Sequence[StrandedBy]]
    fragmented: NotRequired[Sequence[Fragmentation]]
    idle: NotRequired[IdleGpus]


def _advice(asked: Asked) -> AdviceAnswer:
    decided, sources = asked.decided, asked.sources
    gained: AdviceAnswer = {
        "as_of_s": decided.now_s,
        "cycle": decided.number,
        "advice": advice(decided.view, decided.plan),
    }
    if sources.recorded:
        return gained
    links: Sequence[LinkUse] = ()
    with suppress(MemoryUnavailable):  # the rest needs no database
        links = sources.links()
    return {
        **gained,
        "overrunners": sources.overrunners()[:OVERRUNNERS_MOST],
        "links": links,
        "spread": [cast(SpreadRow, {**vars(row), "speed": row.speed}) for row in sources.spread()],
        "types": sources.types(),
        "stranded": sources.stranded()[:STRANDED_MOST],
        "fragmented": sources.fragmented(),
        "idle": sources.idle(),
    }


class OrdersAnswer(OfCycle):
    """What other orders would do to the jobs that wait now; *note* says why that is not known, or not anew."""

    effects: OrderEffects | None
    note: str


def _orders(asked: Asked) -> OrdersAnswer:
    found = asked.sources.orders(asked.decided.view, asked.decided.mode)
    return {**asked.head, "effects": found.effects, "note": found.note}


QUESTIONS = (
    for_users(
        *("orders", "what other orders would do to waiting jobs", _orders, OrdersAnswer, (), Who.OPERATOR),
        live_only="only a running daemon plays the queue forward",
    ),
    Question(
        *("advice", "the effect of our order on accounts", _advice, AdviceAnswer, (), Who.OPERATOR, "advice"),
        slow=True,
        remote=True,
    ),
)

"""Synthesis: choose one of several compositions by their forecast outcomes (Blox, EuroSys'24, section 5.3). Pure.

The caller plays the present state forward under each composition, on forecasts alone. The choice here has no clock, no
randomness and no state of its own: the composition in force, and since when, is an argument and a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..cluster.columns import FloatArray, IntArray
from ..cluster.records.outcomes import OutcomeTable
from ..cluster.state import View
from ..cluster.ties import in_ms, in_points
from ..errors import ConfigError
from ..policies.admission import ROUNDING, find_admission, load_of
from ..policies.contract import find_ordering

AUTO = "auto"  #: the name of a policy that is synthesised
ACCEPT_ALL = "accept-all"
UNKNOWN_S = 3600.0  #: runtime of jobs without a forecast, where none has one
METRICS = ("jct", "response", "both")


def is_auto(line: str) -> bool:
    """Report whether *line* names a policy that is synthesised."""
    return line.partition(" ")[0] == AUTO


class Candidate(NamedTuple):
    """A composition that may be chosen."""

    ordering: str
    admission: str  #: as ``find_admission`` takes it

    def __str__(self) -> str:
        return self.ordering if self.admission == ACCEPT_ALL else f"{self.ordering}, {self.admission}"

    def most(self, gpus: int) -> float:
        """Return the GPUs that admitted jobs may ask for together on a cluster of so many *gpus*."""
        return load_of(self.admission) * gpus * ROUNDING


@dataclass(frozen=True)
class SynthesisRules:
    """The compositions to choose from, and the terms of the choice."""

    orderings: tuple[str, ...] = ("fifo", "srtf", "las")
    admissions: tuple[str, ...] = (ACCEPT_ALL, "load:1.2", "load:1.4")
    metric: str = "jct"  #: mean job completion time, mean time to the first start (response), or both added up
    weight: float = 1.0  #: of the response, where both count
    rounds: int = 10  #: between two decisions
    gain: float = 0.02  #: least gain of a switch, as a share of the delay that the present composition would cause
    dwell_s: float = 3600.0  #: least time between two switches
    arrivals_s: float = 86400.0  #: span of past arrivals that are played in as arrivals to come; 0 for none

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every ordering with every admission; ties go to the first."""
        return tuple(Candidate(*parts) for parts in product(self.orderings, self.admissions))

    @classmethod
    def of(cls, line: str) -> SynthesisRules:
        """Parse ``auto orderings=fifo,las loads=all,1.2 metric=both ...``; ConfigError says what is accepted."""
        read: dict[str, Any] = {}
        for word in line.split()[1:]:
            name, equals, text = word.partition("=")
            if name not in _PARAMETERS or not equals:
                raise ConfigError(f"{AUTO}: {word!r}: accepted are {', '.join(f'{one}=' for one in _PARAMETERS)}")
            field, convert = _PARAMETERS[name]
            try:
                read[field] = convert(text)
            except ValueError:
                raise ConfigError(f"{AUTO}: {word!r}: accepted is a number") from None
        rules = cls(**read)
        rules._check()
        return rules

    def _check(self) -> None:
        for candidate in self.candidates:
            find_ordering(candidate.ordering)
            find_admission(candidate.admission)
        if self.metric not in METRICS:
            raise ConfigError(f"{AUTO}: metric {self.metric!r} is not known; there are: {', '.join(METRICS)}")
        if self.rounds < 1:
            raise ConfigError(f"{AUTO}: rounds={self.rounds}: accepted are 1 and more")
        numbers = {"weight": self.weight, "gain": self.gain, "dwell": self.dwell_s, "arrivals": self.arrivals_s}
        for name, value in numbers.items():
            if not 0 <= value < np.inf:
                raise ConfigError(f"{AUTO}: {name}={value:g}: accepted are finite numbers from 0 on")


def _admissions(text: str) -> tuple[str, ...]:
    return tuple(ACCEPT_ALL if load == "all" else f"load:{load}" for load in text.split(","))


def _orderings(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


_PARAMETERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "orderings": ("orderings", _orderings),
    "loads": ("admissions", _admissions),
    "metric": ("metric", str),
    "weight": ("weight", float),
    "rounds": ("rounds", int),
    "gain": ("gain", float),
    "dwell": ("dwell_s", float),
    "arrivals": ("arrivals_s", float),
}


@dataclass(frozen=True)
class PlayRequest:
    """The state of a cluster, and the compositions under which it is played forward."""

    line: str  #: of the policy: ``auto ...``
    view: View
    policy_json: str  #: the rules that all have in common
    candidates: tuple[Candidate, ...]
    config: Mapping[str, str]  #: ``scontrol show config``
    ended: OutcomeTable  #: the runs that have ended in the span of the arrivals


@dataclass(frozen=True)
class Outlook:
    """The forecast outcome of one composition, a row per job: those that are there, and those expected to come."""

    submit_s: FloatArray
    start_s: FloatArray  #: first start, also where it is past
    end_s: FloatArray


class Scores(NamedTuple):
    """The scores of compositions, in seconds; the least is best, and infinite where a job never ends."""

    of: Mapping[Candidate, float]
    undelayed_s: float  #: if from now on each job had GPUs at once, which no composition changes


def scores_of(outlooks: Mapping[Candidate, Outlook], undelayed: Outlook, rules: SynthesisRules) -> Scores:
    """Return the scores of *outlooks*, all of the same jobs, and of *undelayed*."""
    return Scores({candidate: _score(one, rules) for candidate, one in outlooks.items()}, _score(undelayed, rules))


class ActiveComposition(NamedTuple):
    """The composition in force."""

    candidate: Candidate
    since_s: float  #: -inf for the first one, which may be left at once


@dataclass(frozen=True)
class SynthesisDecision:
    """The composition in force from now on, and the reason."""

    now_s: float
    active: ActiveComposition
    scores: Scores
    switched: bool
    reason: str


def choose(now_s: float, scores: Scores, active: ActiveComposition, rules: SynthesisRules) -> SynthesisDecision:
    """Choose the composition with the least score, unless the gain is too small or comes too soon.

    The composition in force must be one of *scores*.
    """
    of, present = scores.of, active.candidate
    best = min(of, key=lambda candidate: (in_ms(of[candidate]), candidate != present))
    delay_s, saved_s = of[present] - scores.undelayed_s, of[present] - of[best]
    gain = 1.0 if delay_s == np.inf else saved_s / delay_s if delay_s > 0 else 0.0
    forecast = f"{best} would take {of[best]:,.0f} s and save {100 * gain:.1f} % of the delay under {present}"
    if best == present or gain <= 0:
        return SynthesisDecision(now_s, active, scores, False, f"{present} is the best of {len(of)} forecasts")
    if in_points(gain) < in_points(rules.gain):
        return SynthesisDecision(now_s, active, scores, False, f"{forecast}: too little for a switch")
    if now_s - active.since_s < rules.dwell_s:
        return SynthesisDecision(now_s, active, scores, False, f"{forecast}: too soon after the last switch")
    return SynthesisDecision(now_s, ActiveComposition(best, now_s), scores, True, forecast)


def _score(outlook: Outlook, rules: SynthesisRules) -> float:
    """Return the score of an outlook, in seconds; infinite where a job never ends."""
    jct_s = _mean(outlook.end_s - outlook.submit_s)
    response_s = _mean(outlook.start_s - outlook.submit_s)
    both_s = jct_s + rules.weight * response_s
    return {"jct": jct_s, "response": response_s, "both": both_s}[rules.metric]


def _mean(spans_s: FloatArray) -> float:
    return float(np.nan_to_num(spans_s, nan=np.inf).mean()) if len(spans_s) else 0.0


def expected_arrivals(submit_s: FloatArray, now_s: float, span_s: float) -> tuple[IntArray, FloatArray]:
    """Repeat the arrivals of the last *span_s* once: return the rows of *submit_s* to repeat, and when they come.

    Before as much time has passed since the first arrival, those since then are repeated.
    """
    since_s = max(now_s - span_s, float(submit_s[0])) if len(submit_s) else now_s
    rows = np.flatnonzero((submit_s > since_s) & (submit_s <= now_s))
    return rows, submit_s[rows] + (now_s - since_s)

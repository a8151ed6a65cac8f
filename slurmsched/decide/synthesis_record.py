"""Records of synthesis on a cluster: the composition in force, and decisions with their inputs. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from ..policies.admission import find_admission
from ..policies.contract import find_ordering
from .synthesis import ACCEPT_ALL, ActiveComposition, Candidate, Scores, SynthesisDecision, SynthesisRules, choose


@dataclass(frozen=True)
class SynthesisStep:
    """A decision among compositions on a cluster, and what it was made from."""

    line: str  #: of the policy: ``auto ...``
    played_s: float  #: the time of the state that was played forward
    before: ActiveComposition
    decision: SynthesisDecision
    acts: bool  #: a switch is carried out; otherwise it is advice

    @classmethod
    def of(
        cls, line: str, played_s: float, now_s: float, scores: Scores, before: ActiveComposition, *, acts: bool
    ) -> Self:
        """Decide at *now_s* from the scores of the state at *played_s*."""
        decision = choose(now_s, scores, before, SynthesisRules.of(line))
        return cls(line, played_s, before, decision, acts)

    def again(self) -> Self:
        """Decide again from the same inputs; ConfigError if a part of them no longer exists."""
        scores = self.decision.scores
        return self.of(self.line, self.played_s, self.decision.now_s, scores, self.before, acts=self.acts)

    @property
    def active(self) -> ActiveComposition:
        """The composition in force after the decision."""
        return self.decision.active if self.acts else self.before

    @property
    def advised(self) -> str:
        """The composition to which a switch is advised, and not carried out; empty where there is none."""
        return str(self.decision.active.candidate) if self.decision.switched and not self.acts else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the form for ``from_dict``, ready for JSON."""
        scores = self.decision.scores
        return {
            "line": self.line,
            "played_s": self.played_s,
            "now_s": self.decision.now_s,
            "before": [*self.before.candidate, self.before.since_s],
            "after": [*self.decision.active.candidate, self.decision.active.since_s],
            "scores": [[*candidate, score_s] for candidate, score_s in scores.of.items()],
            "undelayed_s": scores.undelayed_s,
            "switched": self.decision.switched,
            "reason": self.decision.reason,
            "acts": self.acts,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Return the step that ``to_dict`` described."""
        scores = Scores({Candidate(*names): score_s for *names, score_s in stored["scores"]}, stored["undelayed_s"])
        before, after = (_active(*stored[name]) for name in ("before", "after"))
        decision = SynthesisDecision(stored["now_s"], after, scores, stored["switched"], stored["reason"])
        return cls(stored["line"], stored["played_s"], before, decision, stored["acts"])


@dataclass(frozen=True)
class SynthesisState:
    """The composition in force under ``auto``, as it is stored with the choice of a policy."""

    active: ActiveComposition
    frozen: bool = False  #: nothing is switched until an admin says so
    advised: str = ""  #: the composition that was advised last; empty where none is
    step: SynthesisStep | None = None  #: the decision that led here

    @classmethod
    def initial(cls, candidate: Candidate) -> Self:
        """Return the state before the first decision."""
        return cls(ActiveComposition(candidate, -math.inf))

    def after(self, step: SynthesisStep) -> Self:
        """Return the state after a decision."""
        return replace(self, active=step.active, advised=step.advised, step=step)

    def to_json(self) -> str:
        """Return one line for ``from_json``."""
        active, step = self.active, None if self.step is None else self.step.to_dict()
        words = {"composition": str(active.candidate), "active": [*active.candidate, active.since_s]}
        return json.dumps(words | {"frozen": self.frozen, "advised": self.advised, "step": step})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the state that ``to_json`` wrote."""
        stored = json.loads(text)
        step = stored["step"] and SynthesisStep.from_dict(stored["step"])
        return cls(_active(*stored["active"]), stored["frozen"], stored["advised"], step)


@dataclass(frozen=True)
class Admissible:
    """The compositions that can be played forward on a cluster, and the reasons against the others."""

    candidates: tuple[Candidate, ...]
    left_out: Mapping[str, str]


def admissible(candidates: Iterable[Candidate], powers: Iterable[str]) -> Admissible:
    """Select the candidates that can be played forward, and carried out with these *powers*."""
    reasons = {candidate: _against(candidate, frozenset(powers)) for candidate in candidates}
    return Admissible(
        tuple(candidate for candidate, reason in reasons.items() if not reason),
        {str(candidate): reason for candidate, reason in reasons.items() if reason},
    )


def _against(candidate: Candidate, powers: frozenset[str]) -> str:
    """Return the reason against a candidate; empty where there is none."""
    ordering, admission = find_ordering(candidate.ordering), find_admission(candidate.admission)
    if not (ordering.built_in and admission.built_in):
        return "a part of a plug-in is not played forward, since its code may hang"
    if ordering.changes == "with_time":
        return "its order changes with time alone, which is not played forward"
    if not ordering.native and "order" not in powers:
        return "it needs power.order = true"
    if candidate.admission != ACCEPT_ALL and not admission.powers <= powers:
        return f"it needs power.{min(admission.powers - powers)} = true"
    return ""


def _active(ordering: str, admission: str, since_s: float) -> ActiveComposition:
    return ActiveComposition(Candidate(ordering, admission), since_s)

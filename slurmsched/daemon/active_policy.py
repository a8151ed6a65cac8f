"""The policy in force: the settings' or the one an admin set in its place, in its present composition."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from ..config import Settings
from ..db.records.policy_choices import PolicyChoice
from ..decide.policy import Policy
from ..decide.synthesis import SynthesisRules
from ..decide.synthesis_record import Admissible, SynthesisState, SynthesisStep
from ..errors import ConfigError
from .policy_settings import notes_on, ordering_line, synthesis_of, with_composition

logger = logging.getLogger(__name__)

MadeOf = Callable[[Settings, str], Policy]
"""Build a policy from the settings and the line of an ordering, empty for theirs; ConfigError for an invalid one."""


@dataclass(frozen=True)
class ActiveSynthesis:
    """A policy in force that chooses its composition."""

    line: str  #: ``auto ...``
    admissible: Admissible
    state: SynthesisState
    acts: bool  #: switches are carried out, unless they are frozen

    @property
    def rules(self) -> SynthesisRules:
        """The terms of the choice."""
        return SynthesisRules.of(self.line)

    @property
    def may_switch(self) -> bool:
        """True if a switch is more than advice."""
        return self.acts and not self.state.frozen


class SynthesisStatus(TypedDict):
    """The composition that ``auto`` has in force."""

    line: str
    composition: str
    since_s: float
    acts: bool
    frozen: bool
    advised: str
    rounds: int
    candidates: list[str]
    left_out: dict[str, str]
    step: dict[str, Any] | None


PolicyStatus = TypedDict(
    "PolicyStatus",
    {
        "ordering": str,
        "name": str,
        "summary": str,
        "parameters": Mapping[str, Any],
        "from": Literal["policy set", "settings"],
        "since_s": float | None,
        "by": str | None,
        "reason": str | None,
        "notes": list[str],
        "trouble": str,
        "shadow": str | None,
        "auto": SynthesisStatus | None,
    },
)
PolicyStatus.__doc__ = "The ordering in force."


class ActivePolicy:
    """The policy in force; construction raises ConfigError where the settings name no ordering."""

    def __init__(
        self,
        made_of: MadeOf,
        settings: Settings,
        config: Callable[[], Mapping[str, str]],
        model_trouble: Callable[[], str] = lambda: "",
    ) -> None:
        self._made_of, self._settings, self._config, self._model_trouble = made_of, settings, config, model_trouble
        self._choice: PolicyChoice | None = None
        self._trouble = ""
        self.synthesis: ActiveSynthesis | None = None
        self.latest_step: SynthesisStep | None = (
            None  #: the last decision among compositions, also one without a switch
        )
        self._serve()

    @property
    def policy(self) -> Policy:
        """The policy in force, for the site as it is configured now."""
        return self._policy.at_site(self._config())

    @property
    def choice(self) -> PolicyChoice | None:
        """The latest choice; None where there was none."""
        return self._choice

    def take(self, settings: Settings) -> None:
        """Use *settings* from now on, and the latest choice if there is one; on ConfigError nothing changes."""
        self._made_of(settings, "")
        self._settings = settings
        self._serve()

    def refresh(self) -> None:
        """Build the policy in force anew: a trained model behind it is another one, or not to be used any more."""
        self._serve()

    def apply(self, choice: PolicyChoice | None) -> None:
        """Use the latest *choice*. Where it is invalid, the settings' ordering applies and the log says why."""
        if choice != self._choice:
            self._choice = choice
            self._serve()
            if choice is not None:
                reason = f": {choice.reason}" if choice.reason else ""
                composition = f", now {self.synthesis.state.active.candidate}" if self.synthesis else ""
                line = (choice.line or "the ordering of the settings") + composition
                logger.info("%s chose %s%s", choice.by, line, reason)

    def _serve(self) -> None:
        line = self._choice.line if self._choice and self._choice.line else ""
        self._trouble = ""
        try:
            self._use(line)
        except ConfigError as error:
            if not line:
                raise
            self._trouble = f"the chosen ordering cannot be used: {error}"
            logger.error("the ordering of the settings is active, %s", self._trouble)
            self._use("")

    def _use(self, line: str) -> None:
        found, settings = synthesis_of(self._settings, line), self._settings
        if found is None:
            self._policy, self.synthesis = self._made_of(settings, line), None
            return
        state = SynthesisState.initial(found.candidates[0])
        if self._choice is not None and self._choice.synthesis:
            stored = SynthesisState.from_json(self._choice.synthesis)
            state = stored if stored.active.candidate in found.candidates else state
        candidate = state.active.candidate
        self._policy = self._made_of(with_composition(settings, candidate), candidate.ordering)
        acts = settings.policy.auto == "act"
        self.synthesis = ActiveSynthesis(ordering_line(settings, line), found, state, acts)

    def status(self) -> PolicyStatus:
        """Return the ordering in force and the latest choice, ready for JSON; ``from`` is the ordering's source."""
        policy, choice = self.policy, self._choice
        ordering = policy.ordering
        ruled = choice is not None and bool(choice.line) and not self._trouble
        return {
            "ordering": ordering.line,
            "name": ordering.name,
            "summary": ordering.summary,
            "parameters": ordering.settings,
            "from": "policy set" if ruled else "settings",
            "since_s": choice.at_s if choice else None,
            "by": choice.by if choice else None,
            "reason": choice.reason if choice else None,
            "notes": notes_on(policy),
            "trouble": "; ".join(filter(None, (self._trouble, self._model_trouble()))),
            "shadow": None if policy.shadow is None else policy.shadow.line,
            "auto": None if self.synthesis is None else _synthesis_status(self.synthesis, self.latest_step),
        }


def _synthesis_status(synthesis: ActiveSynthesis, latest: SynthesisStep | None) -> SynthesisStatus:
    state, rules = synthesis.state, synthesis.rules
    step = state.step if latest is None else latest
    return {
        "line": synthesis.line,
        "composition": str(state.active.candidate),
        "since_s": state.active.since_s,
        "acts": synthesis.acts,
        "frozen": state.frozen,
        "advised": state.advised,
        "rounds": rules.rounds,
        "candidates": list(map(str, synthesis.admissible.candidates)),
        "left_out": dict(synthesis.admissible.left_out),
        "step": None if step is None else step.to_dict(),
    }

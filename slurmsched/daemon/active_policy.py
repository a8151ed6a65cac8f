"""The policy in force: the ordering in the settings file, or the one an admin set in its place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..config import Settings
from ..db.records.policy_choices import PolicyChoice
from ..decide.policy import Policy
from ..errors import ConfigError

logger = logging.getLogger(__name__)

MadeOf = Callable[[Settings, str], Policy]
"""Build a policy from the settings and the line of an ordering, empty for theirs; ConfigError for an invalid one."""


class ActivePolicy:
    """The policy in force; construction raises ConfigError where the settings name no ordering."""

    def __init__(self, made_of: MadeOf, settings: Settings) -> None:
        self._made_of, self._settings = made_of, settings
        self._choice: PolicyChoice | None = None
        self._trouble = ""
        self.policy = made_of(settings, "")

    def take(self, settings: Settings) -> None:
        """Use *settings* from now on, and the admin's choice if there is one; on ConfigError nothing changes."""
        self._made_of(settings, "")
        self._settings = settings
        self._serve()

    def apply(self, choice: PolicyChoice | None) -> None:
        """Use the admin's *choice*. Where it is invalid, the settings' ordering applies and the log says why."""
        if choice != self._choice:
            self._choice = choice
            self._serve()
            if choice is not None:
                reason = f": {choice.reason}" if choice.reason else ""
                logger.info("%s chose %s%s", choice.by, choice.line or "the ordering of the settings", reason)

    def _serve(self) -> None:
        line = self._choice.line if self._choice and self._choice.line else ""
        self._trouble = ""
        try:
            self.policy = self._made_of(self._settings, line)
        except ConfigError as error:
            self._trouble = f"the chosen ordering cannot be used: {error}"
            logger.error("the ordering of the settings is active, %s", self._trouble)
            self.policy = self._made_of(self._settings, "")

    def status(self) -> dict[str, Any]:
        """Return the ordering in force and the latest choice, ready for JSON; ``from`` is the ordering's source."""
        ordering, choice = self.policy.ordering, self._choice
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
            "trouble": self._trouble,
        }

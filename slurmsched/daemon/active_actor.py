"""The trained actor behind the ordering mlfs-rl: its weights enter the ordering's line."""

from __future__ import annotations

import logging
from typing import Any

from ..config import Settings
from ..decide.policy import Policy
from ..errors import ModelUnusable
from ..models.registry import ACTOR, ArtifactRegistry
from ..policies.ordering.mlfs_rl import FEATURES, Actor
from .policy_settings import ordering_line, policy_of

logger = logging.getLogger(__name__)

FALLBACK = "mlfs-h"  #: the ordering in place of mlfs-rl without a usable actor


class ActiveActor:
    """Gives mlfs-rl the weights of the promoted actor of *artifacts*, or its fallback, with one warning."""

    def __init__(self, artifacts: ArtifactRegistry) -> None:
        self._artifacts, self._trouble = artifacts, ""

    def policy_of(self, settings: Settings, line: str = "") -> Policy:
        """Return the policy of the settings, with the ordering *line* in place of theirs; see ``policy_of``."""
        return policy_of(settings, self.resolved(ordering_line(settings, line)))

    def resolved(self, line: str) -> str:
        """Return *line* with the weights, where it is mlfs-rl without any; the fallback's where there are none."""
        name, *words = line.split() or [line]
        if name != "mlfs-rl" or any(word.startswith("actor=") for word in words):
            return line
        try:
            weights, self._trouble = self._weights(), ""
        except ModelUnusable as error:
            if self._trouble != str(error):
                self._trouble = str(error)
                logger.warning("%s orders jobs in place of mlfs-rl: %s", FALLBACK, error)
            return " ".join((FALLBACK, *words))
        return f"{line} actor={weights}"

    def _weights(self) -> str:
        artifact = self._artifacts.read(ACTOR)
        weights = artifact.read_as(_weights_of)
        if not artifact.scores.get("promoted"):
            raise ModelUnusable(f"the actor was not promoted: {artifact.model.get('why')}")
        return weights


def _weights_of(model: Any) -> str:
    """Return the weights in the document of an actor; ValueError for other features, or no weights."""
    if tuple(model["features"]) != FEATURES:
        raise ValueError("it has other features")
    return Actor.of_text(str(model["actor"])).text

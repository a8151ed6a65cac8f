"""The trained actor behind the ordering mlfs-rl: its weights enter the ordering's line while it can be trusted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..cluster.state import View
from ..config import Settings
from ..decide.policy import Policy
from ..errors import ModelUnusable
from ..models.registry import ACTOR, ArtifactRegistry, Stamp
from ..policies.contract import Ordering
from ..policies.ordering.mlfs_rl import FEATURES, Actor, LearnedPriority
from .actor_watch import ActorWatch
from .policy_settings import ordering_line, policy_of

logger = logging.getLogger(__name__)

LEARNED = "mlfs-rl"
WEIGHTS = "actor="  #: begins the word with the weights
FALLBACK = "mlfs-h"  #: the ordering in place of mlfs-rl without a usable actor


class ActiveActor:
    """Gives mlfs-rl the weights of the promoted actor of *artifacts*, or its fallback, with one warning.

    In shadow an actor needs no promotion. Weights that a watch found wanting are not used again in this process.
    """

    def __init__(self, artifacts: ArtifactRegistry, processor_s: Callable[[], float] = time.thread_time) -> None:
        self._artifacts, self._processor_s = artifacts, processor_s
        self._stamp: Stamp | None = None
        self._warned: dict[bool, str] = {}  #: why no actor orders jobs (True), or is in shadow (False)
        self._found_wanting: dict[str, str] = {}  #: reasons by the text of the weights
        self._watches: dict[str, ActorWatch] = {}  #: by the text of the weights

    @property
    def trouble(self) -> str:
        """The reasons why the actor is not used where the settings want it; empty where it is."""
        return "; ".join(self._warned.values())

    def policy_of(self, settings: Settings, line: str = "") -> Policy:
        """Return the policy of the settings, with the ordering *line* in place of theirs; see ``policy_of``."""
        shadow = self.shadowed(settings.policy.shadow)
        settings = replace(settings, policy=replace(settings.policy, shadow=shadow))
        return policy_of(settings, self.resolved(ordering_line(settings, line)))

    def resolved(self, line: str) -> str:
        """Return *line* with the weights, where it is mlfs-rl without any; the fallback's where there are none."""
        fallback = " ".join((FALLBACK, *(word for word in line.split()[1:] if not word.startswith(WEIGHTS))))
        return self._with_weights(line, fallback, f"{FALLBACK} orders jobs in place of {LEARNED}", promoted=True)

    def shadowed(self, line: str) -> str:
        """Return the *line* of the ordering in shadow with the weights of any usable actor, or empty without one."""
        return self._with_weights(line, "", f"nothing is recorded of {LEARNED} in shadow", promoted=False)

    def take_change(self) -> bool:
        """Return True if the file of the actor is another one than it was last looked at as. Costs one stat."""
        before, self._stamp = self._stamp, self._artifacts.stamp(ACTOR)
        return before != self._stamp

    def watch(self, view: View, policy: Policy) -> bool:
        """Look at what the actors of *policy* make of *view*; True if one of them is not to be used any more."""
        failed = [self._failed(view, one) for one in (policy.ordering, policy.shadow) if one is not None]
        return any(failed)

    def _failed(self, view: View, ordering: Ordering) -> bool:
        priority = ordering.function
        if not isinstance(priority, LearnedPriority) or priority.actor is None or not len(view.pending):
            return False
        weights = priority.actor.text
        if weights in self._found_wanting:
            return False
        watch = self._watches.setdefault(weights, ActorWatch(self._processor_s))
        if reason := watch.against(view, priority):
            self._found_wanting[weights] = reason
        return bool(reason)

    def _with_weights(self, line: str, fallback: str, instead: str, *, promoted: bool) -> str:
        """Return *line* with weights, or *fallback* after a warning that says what is done *instead*."""
        if line.split()[:1] != [LEARNED]:
            self._warned.pop(promoted, None)
            return line
        given = [word.removeprefix(WEIGHTS) for word in line.split() if word.startswith(WEIGHTS)]
        try:
            weights = given[0] if given else self._weights(promoted=promoted)
            if reason := self._found_wanting.get(weights):
                raise ModelUnusable(f"its actor is not used any more until there is another one, since {reason}")
        except ModelUnusable as error:
            if self._warned.get(promoted) != str(error):
                self._warned[promoted] = str(error)
                logger.warning("%s: %s", instead, error)
            return fallback
        self._warned.pop(promoted, None)
        return line if given else f"{line} {WEIGHTS}{weights}"

    def _weights(self, *, promoted: bool) -> str:
        self.take_change()
        artifact = self._artifacts.read(ACTOR)
        weights = artifact.read_as(_weights_of)
        if promoted and not artifact.scores.get("promoted"):
            raise ModelUnusable(f"the actor was not promoted: {artifact.model.get('why')}")
        return weights


def _weights_of(model: Any) -> str:
    """Return the weights in the document of an actor; ValueError for other features, or no weights."""
    if tuple(model["features"]) != FEATURES:
        raise ValueError("it has other features")
    return Actor.of_text(str(model["actor"])).text

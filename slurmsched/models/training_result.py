"""The result of training a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .artifact import Artifact


@dataclass(frozen=True)
class Trained:
    """The result of one training."""

    kind: str
    promoted: Artifact | None  #: the model that becomes active; None where the current one stays
    why: str  #: the decision in words
    scores: Mapping[str, Mapping[str, float]]  #: of each candidate, by name

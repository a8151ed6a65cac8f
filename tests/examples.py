"""How many examples property tests draw."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

DEFAULT = 100


def fewer(count: int) -> int:
    """Return how many of *count* examples judge a change; ``make soak`` draws them all."""
    return max(count // 4, 5)


def examples(count: int, **others: Any) -> settings:
    """Return settings with *count* examples in ``make soak``, with fewer for each change, and with *others*."""
    by_chance = not settings().derandomize
    return settings(max_examples=count if by_chance else fewer(count), **others)

"""How many examples property tests draw."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

DEFAULT = 100


def fewer(count: int) -> int:
    """Return how many of *count* examples judge a change; ``make soak`` draws them all."""
    return max(count // 4, 5)


def examples(count: int, each_change: int = 0, **others: Any) -> settings:
    """Return settings with *count* examples in ``make soak``, with fewer for each change, and with *others*.

    Where a quarter of many is still much, *each_change* says how many.
    """
    by_chance = not settings().derandomize
    return settings(max_examples=count if by_chance else each_change or fewer(count), **others)

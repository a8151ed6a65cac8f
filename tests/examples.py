"""How many examples property tests draw."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> settings:
    """Return settings with *count* examples in ``make soak``, and with a quarter of them for each change."""
    by_chance = not settings().derandomize
    return settings(max_examples=count if by_chance else max(count // 4, 5))

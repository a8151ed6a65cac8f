"""Numbers with their nouns."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 job``, ``2 jobs``, ``12,000 jobs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

"""Suggestions for misspelt words."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(word: str, accepted: Iterable[str]) -> str:
    """Return ``: did you mean NEAREST?``, or where none is near ``; known: ALL``."""
    names = list(accepted)
    near = get_close_matches(word, names, n=1, cutoff=0.5)
    return f": did you mean {near[0]}?" if near else f"; known: {', '.join(names)}"

"""Shared by trainings: the active model, and progress on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...errors import ModelUnusable

if TYPE_CHECKING:
    from ...models.artifact import Artifact
    from ...models.registry import ArtifactRegistry


def active_artifact(artifacts: ArtifactRegistry, kind: str) -> Artifact | None:
    """Return the active model if it is usable; a damaged one is replaced."""
    try:
        return artifacts.read(kind)
    except ModelUnusable:
        return None


@contextmanager
def showing(doing: str) -> Iterator[Callable[[str], None]]:
    """Show progress; yields the function that reports the current part."""
    if not sys.stderr.isatty():
        yield lambda part: None
        return
    from rich.console import Console

    with Console(stderr=True).status(doing) as shown:
        yield lambda part: shown.update(f"{doing}: {part}")

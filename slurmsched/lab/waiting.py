"""Waiting for the world: by condition, never by a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from slurmsched.errors import LabError

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float, what: str, every_s: float = 0.02) -> T:
    """The first truthy answer of *condition*; `LabError` naming *what* when none came in time."""
    end_s = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() > end_s:
            raise LabError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(every_s)
    return answer

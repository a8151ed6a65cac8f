"""Waiting for the world: by condition, never by a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from slurmsched.errors import LabError

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float, what: str, every_s: float = 0.02) -> T:
    """The first truthy answer of *condition*; `LabError` naming *what* when none came in time.

    The condition is tried once more after the time is over, however long this process was kept from running before.
    """
    end_s = time.monotonic() + timeout_s
    while True:
        over = time.monotonic() > end_s
        if answer := condition():
            return answer
        if over:
            raise LabError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(every_s)

"""Waiting by condition, never by a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from slurmsched.errors import LabError

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float, what: str, every_s: float = 0.02) -> T:
    """Return the first truthy value of *condition*; `LabError` naming *what* when there is none in time.

    The condition is tested once more after the time limit, in case this process was not scheduled for long.
    """
    end_s = time.monotonic() + timeout_s
    while True:
        over = time.monotonic() > end_s
        if answer := condition():
            return answer
        if over:
            raise LabError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(every_s)

"""Waiting by condition, never by a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from slurmsched.errors import LabError

T = TypeVar("T")

LONGEST_S = 2.0  #: pause after a condition that took long


def wait_until(condition: Callable[[], T], timeout_s: float, what: str, every_s: float = 0.02) -> T:
    """Return the first truthy value of *condition*; `LabError` naming *what* when there is none in time.

    The condition is tested every *every_s* seconds, and at most a third of the time: one that asks a command would keep
    a processor busy. It is tested once more after the time limit, in case this process was not scheduled for long.
    """
    end_s = time.monotonic() + timeout_s
    while True:
        began_s = time.monotonic()
        over = began_s > end_s
        if answer := condition():
            return answer
        if over:
            raise LabError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(max(every_s, min(LONGEST_S, 2 * (time.monotonic() - began_s))))

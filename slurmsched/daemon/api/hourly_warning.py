"""A warning that anybody on the network can cause: logged once an hour, counted in between."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

SILENT_S = 3600.0


class HourlyWarning:
    """Logs the first of its warnings and then one an hour at most, each with the number since the start.

    *monotonic* is a clock in seconds that never decreases. It may be called from any thread.
    """

    def __init__(self, logger: logging.Logger, monotonic: Callable[[], float]) -> None:
        self._logger, self._monotonic = logger, monotonic
        self._lock = threading.Lock()
        self._count, self._silent_until_s = 0, -math.inf

    def warn(self, text: str) -> None:
        """Count a warning; log it unless one was logged within the hour."""
        with self._lock:
            self._count += 1
            count, now_s = self._count, self._monotonic()
            if now_s < self._silent_until_s:
                return
            self._silent_until_s = now_s + SILENT_S
        self._logger.warning("%s (%d since the start; the next message comes after an hour)", text, count)

"""A warning that anybody on the network can cause: logged once an hour, counted in between."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ...clock import Timer

SILENT_S = 3600.0


class HourlyWarning:
    """Logs the first of its warnings and then one an hour at most, each with the number since the start.

    *monotonic* is a clock in seconds that never decreases. It may be called from any thread.
    """

    def __init__(self, logger: logging.Logger, monotonic: Callable[[], float]) -> None:
        self._logger, self._pause = logger, Timer(monotonic)
        self._lock, self._count = threading.Lock(), 0

    def warn(self, text: str) -> None:
        """Count a warning; log it unless one was logged within the hour."""
        with self._lock:
            self._count += 1
            count = self._count
            if not self._pause.due:
                return
            self._pause.put_off(SILENT_S)
        self._logger.warning("%s (%d since the start; the next message comes after an hour)", text, count)

"""Periodic removal of old database records, a bounded amount after each cycle."""

from __future__ import annotations

import logging

from ..clock import Clock, Timer
from ..config.service_settings import DatabaseSettings
from ..db.store import Store
from ..errors import MemoryUnavailable

logger = logging.getLogger(__name__)

DAY_S = 86400.0
EVERY_S = 3600.0


class Retention:
    """Removes records that are older than the settings allow."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._timer = store, Timer(clock.monotonic)

    def apply(self, settings: DatabaseSettings, now_s: float) -> None:
        """Remove old records where that is due; without the database the next cycle tries again."""
        if not self._timer.due:
            return
        decisions_s, outcomes_s = settings.keep_decisions_days * DAY_S, settings.keep_outcomes_days * DAY_S
        try:
            removed = self._store.prune(now_s, decisions_s, outcomes_s)
        except MemoryUnavailable as error:
            logger.warning("old records were not removed: %s", error)
            return
        if not removed.more:
            self._timer.put_off(EVERY_S)

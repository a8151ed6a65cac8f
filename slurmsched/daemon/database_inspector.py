"""Integrity checks of the database's tables and file, at the start and periodically."""

from __future__ import annotations

import logging
from threading import Event, Thread

from ..clock import Clock, Timer
from ..db.store import Store
from ..errors import MemoryUnavailable
from .follower import Follower

logger = logging.getLogger(__name__)

TABLES_S = 60.0  #: between two checks of the tables
PAGES_S = 86_400.0  #: between two checks of every page of the file


class Inspector(Follower):
    """Inspects *database* in a thread of its own, so that no cycle waits for it; a damaged one is used by no part."""

    def __init__(self, database: Store, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._pages = Timer(clock.monotonic)
        self._damage = ""
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="inspector", daemon=True)

    def start(self) -> None:
        """Start with a complete inspection."""
        self._thread.start()

    def close(self) -> None:
        """Inspect no more; an inspection under way ends with the process."""
        self._stopping.set()

    def once(self) -> None:
        """Inspect now, and log changes since the last time."""
        thorough = self._pages.due
        try:
            damage = self._database.inspect(thorough=thorough)
        except MemoryUnavailable as error:
            logger.info("the database was not inspected: %s", error)
            return
        if thorough:
            self._pages.put_off(PAGES_S)
        if damage and damage != self._damage:
            logger.error("the database is not used until it is repaired: %s; docs/history.md says how", damage)
        if self._damage and not damage:
            logger.warning("the database is whole again")
        self._damage = damage

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.once()
            except Exception:  # a bug here must not end the inspections
                logger.exception("a bug in the inspection of the database, please report it")
            self._clock.wait(TABLES_S, self._stopping)

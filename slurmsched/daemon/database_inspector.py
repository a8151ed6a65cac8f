"""Looks after the database: whether its tables and its file are whole, at the start and now and then."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import Protocol

from ..clock import Clock, Timer
from ..errors import MemoryUnavailable

logger = logging.getLogger(__name__)

TABLES_S = 60.0  #: between two looks at the tables
PAGES_S = 86_400.0  #: between two looks at every page of the file


class Inspected(Protocol):
    """What is looked at."""

    def inspect(self, *, thorough: bool) -> str:
        """What is wrong, in words; empty for nothing. MemoryUnavailable where that cannot be known."""
        ...


class Inspector:
    """Inspects *database* in a thread of its own, so that no cycle waits for it; a damaged one is left alone by all."""

    def __init__(self, database: Inspected, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._pages = Timer(clock.monotonic)
        self._damage = ""
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="inspector", daemon=True)

    def start(self) -> None:
        """Begin with a look at everything."""
        self._thread.start()

    def close(self) -> None:
        """Look no more; an inspection under way ends with the process."""
        self._stopping.set()

    def once(self) -> None:
        """Inspect now; the log tells what has changed since the last time."""
        thorough = self._pages.due
        try:
            damage = self._database.inspect(thorough=thorough)
        except MemoryUnavailable as error:
            logger.info("the database was not inspected: %s", error)
            return
        if thorough:
            self._pages.put_off(PAGES_S)
        if damage and damage != self._damage:
            logger.error("the database is left alone until it is mended: %s; docs/history.md says how", damage)
        if self._damage and not damage:
            logger.warning("the database is whole again")
        self._damage = damage

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.once()
            except Exception:  # a bug here must not end the looking
                logger.exception("a bug in the inspection of the database, please report it")
            self._clock.wait(TABLES_S, self._stopping)

"""Threads that work on the latest cycle, beside the cycles."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from threading import Condition, Thread

from ..cycle import CycleReport
from ..errors import SlurmschedError
from .follower import Follower

logger = logging.getLogger(__name__)

CLOSE_S = 5.0  #: longest wait for the thread to end


class CycleFollower(Follower, ABC):
    """A thread named *name* that works on the latest cycle, whenever there is a new one; no cycle waits for it."""

    def __init__(self, name: str) -> None:
        self._news, self._stopping, self._new = Condition(), False, False
        self._report: CycleReport | None = None
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start to follow cycles."""
        self._thread.start()

    def close(self) -> None:
        """Follow no more cycles; work under way is abandoned."""
        with self._news:
            self._stopping = True
            self._news.notify()
        self._abandon()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def observe(self, report: CycleReport) -> None:
        """Note a cycle; return at once."""
        with self._news:
            if self._note(report):
                self._report, self._new = report, True
                self._news.notify()

    def _note(self, report: CycleReport) -> bool:
        """Return True if there is work for a cycle; the lock is held."""
        return True

    def _due(self) -> bool:
        """Return True if it is time to work again; asked at each cycle, with the lock held."""
        return True

    @abstractmethod
    def _work(self) -> None:
        """Work on the latest cycle; SlurmschedError where that is not possible now."""

    @abstractmethod
    def _failed(self, error: SlurmschedError) -> None:
        """Handle an error of ``_work``; not called while the thread stops."""

    def _broken(self) -> None:  # there may be nothing to do
        """Note that a bug has ended the thread."""

    @abstractmethod
    def _abandon(self) -> None:
        """End the work under way."""

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._stopping or (self._new and self._due()))
                if self._stopping:
                    return
                self._new = False
            try:
                self._work()
            except SlurmschedError as error:
                if not self._stopping:
                    self._failed(error)
            except Exception:  # a bug here must not cost more than this thread
                logger.exception("a bug in the thread %r, please report it; it ends here", self._thread.name)
                self._broken()
                return

"""The compilation of code that answers run, beside the cycles and in a process of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Lock, Thread

from ..child_process import ChildFailed, ChildProcess
from ..decide.deadlines import blocking
from ..policies.compiled import HAVE_NUMBA, load_stored
from ..policies.deadlines import latest_leases, reservations
from .follower import Follower
from .notify import Notifier

logger = logging.getLogger(__name__)

TIMEOUT_S = 900.0  #: on a machine that is busy
CLOSE_S = 5.0
STARTING = (
    "the daemon is still starting: it compiles the code of promises, for a minute or two after an installation and for "
    "seconds at other times; ask again in a moment"
)

OF_DECISIONS = (blocking, latest_leases, reservations)
"""The modules whose compiled code decides about promises."""


def load_decisions() -> None:
    """Load the code of decisions that is stored; the first cycle would, and take half a second of it."""
    load_stored(OF_DECISIONS)


class CompiledCode(Follower):
    """Has the process of *module* compile the code of promises, which is stored and loaded from there.

    It begins at the start where the code *is_needed*, else when an answer first needs it. Compiling here would hold
    Python's lock, and the answer would come too late for its client. Where the process fails, the code is compiled
    here all the same.
    """

    def __init__(self, module: str, is_needed: Callable[[], bool]) -> None:
        self._process, self._is_needed = ChildProcess(module, "compilation"), is_needed
        self._ready, self._begun, self._lock, self._closed = Event(), False, Lock(), False
        self._thread = Thread(target=self._run, name="compilation", daemon=True)
        if not HAVE_NUMBA:
            self._ready.set()

    def missing(self) -> str:
        """Return why an answer that runs the code cannot come yet; empty where it can, or no code is needed."""
        if self._ready.is_set() or not self._is_needed():
            return ""
        self._begin()
        return STARTING

    def wait(self, timeout_s: float) -> bool:
        """Wait until the code is there, for so many seconds at most; True if it is, or is not being compiled."""
        return not self._begun or self._ready.wait(timeout_s)

    def start(self) -> None:
        """Start to compile what is needed."""
        self.missing()

    def before_first_cycle(self) -> None:
        """Load what the first cycle needs of the stored code; what is not stored is left to the process."""
        if HAVE_NUMBA and self._is_needed():
            load_decisions()

    def close(self) -> None:
        """Stop compiling."""
        with self._lock:
            self._closed = True
        self._process.close()
        if self._begun:
            self._thread.join(CLOSE_S)

    def _begin(self) -> None:
        with self._lock:
            if not self._begun and not self._closed:
                self._begun = True
                self._thread.start()

    def _run(self) -> None:
        try:
            error = self._process.ask("promises", TIMEOUT_S)
        except ChildFailed as failure:
            error = str(failure)
        if error and not self._closed:
            logger.warning("the code of promises was not compiled in advance: %s", error)
        self._ready.set()
        self._process.close()


class Patience(Follower):
    """Feeds the watchdog while *code* is compiled: the first cycle may need it, and then takes minutes."""

    def __init__(self, code: CompiledCode, notifier: Notifier) -> None:
        self._code, self._notifier = code, notifier

    def start(self) -> None:
        """Start to feed it, where there is a watchdog."""
        if self._notifier.watchdog_s is not None:
            Thread(target=self._feed, args=(self._notifier.watchdog_s / 3,), name="patience", daemon=True).start()

    def _feed(self, every_s: float) -> None:
        while not self._code.wait(every_s):
            self._notifier.alive()

"""Signals as flags, read between cycles."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

STOPS = (signal.SIGTERM, signal.SIGINT)
RESTART = signal.SIGUSR1
"""An ordered stop that leaves the order in place for the daemon started next."""


@dataclass
class Flags:
    """Requests to the daemon; each of them sets ``wake``, which ends a sleep."""

    stop: bool = False
    keep_jobs: bool = False  #: at the stop jobs stay as they are, not given back
    reload: bool = False
    wake: threading.Event = field(default_factory=threading.Event)
    monotonic: Callable[[], float] = time.monotonic
    stop_s: float = math.inf  #: time of the request to stop, by *monotonic*

    @property
    def since_stop_s(self) -> float:
        """The seconds since the request to stop; 0 where there was none."""
        return max(0.0, self.monotonic() - self.stop_s)

    def ask_stop(self) -> None:
        """End after the cycle under way."""
        if not self.stop:
            self.stop_s = self.monotonic()
        self.stop = True
        self.wake.set()

    def ask_restart(self) -> None:
        """End after the cycle under way and leave the order as it is."""
        self.keep_jobs = True
        self.ask_stop()

    def ask_reload(self) -> None:
        """Read the settings again before the next cycle."""
        self.reload = True
        self.wake.set()

    def take_reload(self) -> bool:
        """Report whether a reload was requested, and clear the request; simultaneous requests count once."""
        requested, self.reload = self.reload, False
        return requested


@contextmanager
def listening(flags: Flags) -> Iterator[None]:
    """Turn signals into *flags* while open: SIGHUP requests a reload, the first SIGTERM or SIGINT a stop, SIGUSR1 a
    stop that leaves the order in place; a second signal to stop ends the process.

    Must be entered in the main thread. The flags are set by a thread of their own: an Event must not be set inside a
    signal handler, which may have interrupted that same Event's ``wait`` while it holds the lock; and the second
    SIGTERM counts even when the main thread hangs.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    watcher = threading.Thread(target=_watch, args=(reader, flags), name="signals", daemon=True)
    before = {signum: signal.signal(signum, _noted) for signum in (*STOPS, RESTART, signal.SIGHUP)}
    wakeup_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for signum, handler in before.items():
            signal.signal(signum, handler)
        writer.close()
        watcher.join()
        reader.close()


def _noted(signum: int, frame: FrameType | None) -> None:
    """Do nothing: a Python handler must exist for the signal's number to reach the wakeup socket."""


def _watch(reader: socket.socket, flags: Flags) -> None:
    while signums := reader.recv(64):
        for signum in signums:
            if signum == signal.SIGHUP:
                flags.ask_reload()
            elif flags.stop and signum in (*STOPS, RESTART):
                os._exit(128 + signum)
            elif signum == RESTART:
                flags.ask_restart()
            elif signum in STOPS:
                flags.ask_stop()

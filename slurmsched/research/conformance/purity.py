"""Detection of what a pure function never does: read a clock, a file, the network or chance, or start a process.

An audit hook reports files, sockets, processes and threads; a profile function reports the calls of clocks and of
random numbers, which raise no audit events. An audit hook stays for the life of a process, so that this belongs in a
process of its own. It finds mistakes, and is no sandbox.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

EVENTS = (
    *("open", "socket.", "subprocess.", "urllib.", "http.", "sqlite3.", "ctypes.", "shutil.", "tempfile.", "glob."),
    *("os.", "pathlib.", "pty.", "mmap.", "fcntl.", "_thread.start", "signal.", "syslog.", "import"),
)
"""The beginnings of the audit events that a pure function never raises."""

CLOCKS = frozenset(
    {
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"),
        *("process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "sleep"),
    }
)
"""Functions of ``time`` that a pure function never calls."""

DATES = frozenset({"datetime.now", "datetime.utcnow", "datetime.today", "date.today"})
CHANCE = frozenset({"random", "secrets", "uuid"})
"""Modules of the standard library whose functions depend on chance."""


class Watch:
    """The impure calls of this process while ``armed``; the first ones, in words."""

    def __init__(self) -> None:
        self._on, self.found = False, ""
        sys.addaudithook(self._event)

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Report what happens inside."""
        self.found, self._on = "", True
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._on = False

    def _note(self, what: str) -> None:
        self.found = self.found or what

    def _event(self, event: str, args: tuple[Any, ...]) -> None:
        if self._on and event.startswith(EVENTS):
            detail = f" {args[0]!r}" if args and isinstance(args[0], str) else ""
            self._note(f"{event}{detail}")

    def _called(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            self._builtin(function)
        elif event == "call":
            module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
            if module in CHANCE or (module == "os" and name.startswith(("_Environ.", "getenv"))):
                self._note(f"{module}.{name}")

    def _builtin(self, function: Any) -> None:
        module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
        owner = type(getattr(function, "__self__", None)).__module__
        if module == "time" and name in CLOCKS:
            self._note(f"time.{name}")
        elif name in DATES or (module == "posix" and name in ("urandom", "getrandom", "getpid")):
            self._note(name)
        elif owner in ("random", "_random") or owner.startswith("numpy.random"):
            self._note(f"random numbers: {name}")

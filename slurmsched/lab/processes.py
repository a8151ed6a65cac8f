"""Processes of a lab: started with a mark, recognised by it, and ended without affecting others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slurmsched.errors import LabError

#: the environment variable that every process of a lab inherits
MARK = "SLURMSCHED_LAB"


@dataclass(frozen=True)
class Process:
    """A process; *started* (clock ticks since boot) tells it from a later one with its pid."""

    pid: int
    started: int

    @property
    def state(self) -> str:
        """``running``, ``stopped`` (by SIGSTOP) or ``gone``."""
        found = stat_of(self.pid)
        if found is None or found.started != self.started or found.letter in "ZX":
            return "gone"
        return "stopped" if found.letter == "T" else "running"

    @property
    def alive(self) -> bool:
        """True if it still exists, stopped or not."""
        return self.state != "gone"

    def send(self, number: signal.Signals) -> bool:
        """Signal it; return False when it is gone. A pid that now belongs to another process is left alone."""
        if not self.alive:
            self.reap()
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def reap(self) -> None:
        """Collect its exit status if it was a child of ours, so that no zombie stays."""
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)

    def end(self, number: signal.Signals, timeout_s: float) -> None:
        """Signal it and wait until it is gone; SIGKILL when it takes longer than *timeout_s*."""
        end_s = time.monotonic() + timeout_s
        self.send(number)
        if number is not signal.SIGCONT:
            self.send(signal.SIGCONT)
        while self.alive:
            if time.monotonic() > end_s:
                self.send(signal.SIGKILL)
                end_s = time.monotonic() + timeout_s
            time.sleep(0.01)
        self.reap()


@dataclass(frozen=True)
class Stat:
    """The fields of /proc/PID/stat that matter here."""

    pid: int
    letter: str
    parent: int
    session: int
    started: int


def stat_of(pid: int) -> Stat | None:
    """Read the state of *pid* from the kernel; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name is in brackets and may contain anything, including brackets.
    rest = text.rpartition(")")[2].split()
    return Stat(pid, rest[0], int(rest[1]), int(rest[3]), int(rest[19]))


def spawn(argv: Sequence[str], env: Mapping[str, str], log: Path) -> Process:
    """Start *argv* as a session of its own, with its output going to *log*.

    posix_spawn rather than Popen: a daemon outlives the object that started it.
    """
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    ours_ignored = (signal.SIGPIPE, signal.SIGXFSZ)
    try:
        pid = os.posix_spawn(argv[0], list(argv), env, file_actions=files, setsid=True, setsigdef=ours_ignored)
    except OSError as error:
        raise LabError(f"cannot start {argv[0]}: {error}") from error
    found = stat_of(pid)
    if found is None:
        raise LabError(f"{argv[0]} was gone as soon as it was started; its log is {log}")
    return Process(pid, found.started)


def belonging(marks: Collection[bytes], uids: Collection[int], directory: Path) -> set[Process]:
    """Return every process of a lab, and its descendants, except this process and its ancestors.

    A process belongs when its environment holds a mark, when one of the lab's own unix users owns it, or
    when it is a daemon that works in the lab's directory (Slurm's overwrite their environment with a title).
    A container may use the same uid for another user, so its processes do not count by their uid.
    """
    stats = {stat.pid: stat for stat in _all_stats() if stat.letter not in "ZX"}
    here = _container_of(os.getpid())
    found = {
        pid
        for pid in stats
        if _is_marked(pid, marks) or (_uid_of(pid) in uids and _container_of(pid) == here) or _works_in(pid, directory)
    }
    while more := {pid for pid, stat in stats.items() if stat.parent in found} - found:
        found |= more
    return {Process(pid, stats[pid].started) for pid in found - set(_self_and_above(stats))}


def carrying(variable: str, value: str) -> bool:
    """Report whether any process has *variable* set to *value* in its environment."""
    mark = f"{variable}={value}".encode()
    return any(_is_marked(stat.pid, (mark,)) for stat in _all_stats())


def _all_stats() -> Iterator[Stat]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := stat_of(int(name))):
            yield stat


def _self_and_above(stats: Mapping[int, Stat]) -> Iterator[int]:
    pid = os.getpid()
    while pid in stats:
        yield pid
        pid = stats[pid].parent


def _is_marked(pid: int, marks: Collection[bytes]) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(mark in variables for mark in marks)


def _uid_of(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def _container_of(pid: int) -> str:
    """Return the process's pid namespace; empty where that cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _works_in(pid: int, directory: Path) -> bool:
    """Report whether *pid* is a Slurm daemon whose working directory or open files are below *directory*."""
    try:
        if not Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("slurm"):
            return False
        links = [f"/proc/{pid}/cwd", *(f"/proc/{pid}/fd/{number}" for number in os.listdir(f"/proc/{pid}/fd"))]
        return any(Path(os.readlink(link)).is_relative_to(directory) for link in links)
    except OSError:
        return False

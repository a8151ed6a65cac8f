"""Faults of jobs that share GPUs by MPS, from its log and the ends of the jobs: whom each harmed.

Used by mps.py as root: Python 3.6 or newer and the standard library. The log is its user's, who may write anything
there, so each line either has exactly a known form or says nothing. docs/sharing.md has the lines that were seen.
"""

import collections
import io
import os
import re
import signal
import stat
import time

# ruff: noqa: UP006, UP035, UP045 - newer spellings do not run on Python 3.6
from typing import Any, BinaryIO, Deque, Dict, Iterable, Iterator, NamedTuple, Optional, Set, Tuple

OWN, PARTNERS = "own", "partners"  #: whom a fault harms
OUTPUT = "output.log"  #: standard output of the daemon, to which it and its servers write if it is in the foreground
LOGS = (OUTPUT, "control.log", "server.log")  #: the others are those of a daemon in the background
READ_B = 32 * 1024 * 1024  #: of a log, its end
LINE_B = 1024
KILLED_S = 0.5  #: from the end of a client to the fault of the others where it was killed inside a kernel; .11 was seen
TOGETHER_S = 10  #: two jobs of which one had a fault failed together if no more time is between their ends
TEXT_MOST = 200  #: characters of a fault
CANCELLED = (signal.SIGTERM, signal.SIGKILL)
EXITS = 64  #: ends of clients that are remembered

LINE = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d{3}) (?:Control|Server|Other) +\d+\] (.*)", re.DOTALL)
FATAL = b"Server is handling a fatal GPU error."
DOWN = re.compile(rb"Client \{PID: (\d+), Context ID: \d+\} on device \d+ to be torn down")
EXIT = re.compile(
    rb"Client \{PID: (\d+), Context ID: \d+\} exiting\.( Worker is in reset\.)?"
    rb" Number of active client contexts is (\d+)\."
)
ASKED = re.compile(rb"(?:Try|Force) shutting down server (\d+)(?:,.*)?")
ENDED = re.compile(rb"Server (\d+) exited with status (-?\d+)")
BROKEN = b"Server encountered a fatal exception. Shutting down"


class Verdict(NamedTuple):
    """Whom a fault harmed, the line that says so, and whether all of it can come from a job that was cancelled."""

    harm: str  #: OWN, PARTNERS, or empty where nothing failed
    text: str = ""
    by_cancel: bool = False


NOTHING = Verdict("")


def verdict_of_logs(directory: str, uid: int, since: Dict[str, int]) -> Verdict:
    """Return the verdict of the logs of user *uid* since they had those lengths, of which the worst counts."""
    found = NOTHING
    for name in LOGS:
        with open_log(directory, name, uid) as file:
            one = verdict(lines_of(file, since.get(name, 0)))
        if one.harm == PARTNERS:
            return one
        found = found if found.harm else one
    return found


def log_ends(directory: str, uid: int) -> Dict[str, int]:
    """Return the current length of each log."""
    ends = {}
    for name in LOGS:
        with open_log(directory, name, uid) as file:
            ends[name] = file.seek(0, os.SEEK_END)
    return ends


def open_log(directory: str, name: str, uid: int) -> BinaryIO:
    """Open a log; an empty one where it is no plain file of *uid*, who could put anything into the directory."""
    try:
        handle = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return io.BytesIO()
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != uid:
        os.close(handle)
        return io.BytesIO()
    return os.fdopen(handle, "rb")


def verdict(lines: Iterable[bytes]) -> Verdict:
    """Return the first fault that harmed more than its own client, else the first that did not."""
    found, fatal = NOTHING, b""
    down: Set[bytes] = set()
    asked: Set[bytes] = set()
    exits: Deque[Tuple[float, bytes]] = collections.deque(maxlen=EXITS)
    for line in lines:
        parts = LINE.fullmatch(line.rstrip(b"\r\n"))
        if parts is None:
            continue
        words = parts.group(3)
        torn = DOWN.fullmatch(words)
        if fatal and torn:
            down.add(torn.group(1))
        if fatal and len(down) > 1:
            return Verdict(PARTNERS, text_of(fatal), by_cancel=True)
        ended, over, stops = ENDED.fullmatch(words), EXIT.fullmatch(words), ASKED.fullmatch(words)
        if words == BROKEN or (ended and ended.group(1) not in asked):
            return Verdict(PARTNERS, text_of(line))
        if words == FATAL:
            fatal, since_s = line, seconds(parts)
            down = {pid for at_s, pid in exits if 0.0 <= since_s - at_s <= KILLED_S}
            found = found if found.harm else Verdict(OWN, text_of(line))
        elif over:
            exits.append((seconds(parts), over.group(1)))
            if over.group(2) and int(over.group(3)) and not found.harm:
                found = Verdict(OWN, text_of(line))
        elif stops:
            asked.add(stops.group(1))
    return found


def seconds(parts: "re.Match[bytes]") -> float:
    """Return the time of a line in seconds; 0 where it is none."""
    try:
        return time.mktime(time.strptime(parts.group(1).decode(), "%Y-%m-%d %H:%M:%S")) + int(parts.group(2)) / 1000.0
    except (ValueError, OverflowError):
        return 0.0


def text_of(line: bytes) -> str:
    """Return a line for a record."""
    return line.decode("ascii", "replace").strip()[:TEXT_MOST]


def lines_of(file: BinaryIO, since: int) -> Iterator[bytes]:
    """Yield the lines of a log from byte *since* on: of more than ``READ_B`` the last, and long lines in pieces."""
    end = file.seek(0, 2)
    start = max(since if since <= end else 0, end - READ_B)  # a log that became shorter was replaced
    file.seek(start)
    while file.tell() < end:
        line = file.readline(LINE_B)
        if not line:
            return
        yield line


def settle(its: Dict[str, Any], found: Verdict, failed_job: int, now_s: float) -> None:
    """Store in the note of a job what its set's log told before its partners change.

    A fault that harmed only *failed_job*, which has left, is no fault of the others, unless they fail now too.
    """
    if found.harm == PARTNERS:
        its.update({"fault": found.text, "by_cancel": found.by_cancel})
    elif found.harm and failed_job in its["with"]:
        its["shaken"] = {"by": failed_job, "at_s": now_s, "fault": found.text, "with": its["with"]}
    elif found.harm:
        its["own"] = its.get("own") or {"fault": found.text, "with": its["with"]}


def judged(mine: Dict[str, Any], found: Verdict, status: Optional[int], now_s: float) -> Tuple[str, Dict[str, Any]]:
    """Return whom the fault of a job that ends with *status* harmed, if anybody, and what its record says of it.

    The log does not tell whose client failed: a fault that ended no partner is that of the first job that fails. A job
    that was cancelled may have ended its partner by that, which the partner's own end shows.
    """
    if mine.get("fault"):
        found = Verdict(PARTNERS, mine["fault"], bool(mine.get("by_cancel")))
    cancelled = status is not None and (status & 0x7F or (status >> 8) - 128) in CANCELLED
    if found.harm == PARTNERS:
        return ("", {}) if cancelled and found.by_cancel else (PARTNERS, {"fault": found.text})
    if not status or cancelled:
        return "", {}
    shaken = mine.get("shaken")
    if shaken and 0.0 <= now_s - shaken["at_s"] <= TOGETHER_S:
        text = f"{now_s - shaken['at_s']:.0f} s after job {shaken['by']}: {shaken['fault']}"
        return PARTNERS, {"fault": text[:TEXT_MOST], "with": shaken["with"]}
    if found.harm:
        return OWN, {"fault": found.text}
    return (OWN, mine["own"]) if mine.get("own") else ("", {})

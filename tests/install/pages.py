"""Command blocks of pages, and the shells that play them as a reader would.

A mark in the page, invisible where it is rendered, says who runs the block below it::

    <!-- newcomer: as root -->
    <!-- newcomer: as alice -->
    <!-- newcomer: not run: needs a GPU -->
"""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

COMMAND_S = 300.0
"""A command that takes longer hangs."""

MARK = re.compile(r"^<!-- newcomer: (?:as (?P<who>\w+)|not run: (?P<reason>.+)) -->$")
HEADING = re.compile(r"^##+ (.*)$")
INDENT = "    "


@dataclass(frozen=True)
class Command:
    """One command of a page; *text* may have several lines."""

    page: str
    section: str
    line: int
    who: str
    text: str
    reason: str = ""  #: why it is not run here

    @property
    def place(self) -> str:
        """Where it stands: ``docs/install.md:13``."""
        return f"{self.page}:{self.line}"


class Broken(Exception):
    """A command that failed, or a page that cannot be played."""


def commands(root: Path, page: str, heading: str | None = None) -> list[Command]:
    """Commands of a page in their order, only those below *heading* where one is given; each block has its mark."""
    found: list[Command] = []
    section, mark = "", None
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*(root / page).read_text().splitlines(), ""], 1):
        if line.startswith(INDENT):
            block.append((number, line.removeprefix(INDENT)))
            continue
        if block:
            if heading in (None, section):
                found += _commands_of_block(page, section, block, mark)
            mark, block = None, []
        if title := HEADING.match(line):
            section = title[1]
        mark = MARK.match(line) or (mark if not line else None)
    if heading is not None and not found:
        raise Broken(f"{page} has no commands below {heading!r}")
    return found


def _commands_of_block(
    page: str, section: str, block: Sequence[tuple[int, str]], mark: re.Match[str] | None
) -> Iterator[Command]:
    if mark is None:
        raise Broken(f"{page}:{block[0][0]}: no mark above this block says who runs it")
    lines: list[str] = []
    for number, line in block:
        lines.append(line)
        text = "\n".join(lines)
        if mark["reason"] or _is_complete(text):
            yield Command(page, section, number - len(lines) + 1, mark["who"] or "", text, mark["reason"] or "")
            lines = []
    if lines:
        raise Broken(f"{page}:{block[0][0]}: the last command of this block has no end")


def _is_complete(text: str) -> bool:
    """Whether a shell would run it and not wait for another line; it warns of a here-document without an end."""
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    return not text.endswith("\\") and not checked.stderr


class Shell:
    """A bash that keeps its directory, its variables and its background jobs from one command to the next."""

    def __init__(self, argv: Sequence[str] = (), cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
        self._mark = secrets.token_hex(8)
        self._process = subprocess.Popen(
            [*argv, "bash"], cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        self._write(f"set -e; trap 'printf \"\\n{self._mark} %d\\n\" $?' EXIT\n")

    def run(self, text: str, timeout_s: float = COMMAND_S) -> tuple[int, str]:
        """The exit status and output of a command; after one that failed the shell is gone."""
        self._write(f"{{ {text}\n}} </dev/null; printf '\\n{self._mark} 0\\n'\n")
        output, end_s = b"", time.monotonic() + timeout_s
        while (found := re.search(rb"\n%s (\d+)\n" % self._mark.encode(), output)) is None:
            read = self._read(end_s)
            if not read:
                return -1, output.decode(errors="replace") + f"\n(still running after {timeout_s:g} s)"
            output += read
        return int(found[1]), output[: found.start()].decode(errors="replace")

    def close(self) -> None:
        """End it, and what it left in the background."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def _read(self, end_s: float) -> bytes:
        assert self._process.stdout is not None
        stream = self._process.stdout.fileno()
        ready, _, _ = select.select([stream], [], [], max(0.0, end_s - time.monotonic()))
        return os.read(stream, 65536) if ready else b""


class Reader:
    """Plays commands in order, each in the shell of who runs it, shows them, and stops at the first that fails.

    *shell_of* opens a shell for a name; *adapted* gives what a command means here, which is nothing where it cannot be
    run, and why that is not what the page has.
    """

    def __init__(
        self,
        shell_of: Callable[[str], Shell],
        adapted: Callable[[Command], tuple[str, str]] = lambda command: (command.text, ""),
        show: Callable[[str], object] = print,
    ) -> None:
        self._shell_of, self._adapted, self._show = shell_of, adapted, show
        self._shells: dict[str, Shell] = {}
        self.run, self.adapted, self.skipped = 0, 0, 0

    def play(self, page: Sequence[Command]) -> str:
        """Everything the commands printed; `Broken` where one fails, with its page, line and text."""
        return "".join(self._play(command) for command in page)

    def leave_page(self) -> None:
        """Close the shells: a reader begins the next page in a new one."""
        for shell in self._shells.values():
            shell.close()
        self._shells.clear()

    def summary(self) -> str:
        """The counts in one line."""
        return f"{self.run} commands ran, {self.adapted} of them through a stand-in; {self.skipped} not run"

    def _play(self, command: Command) -> str:
        text, why = ("", command.reason) if command.reason else self._adapted(command)
        if not text:
            self.skipped += 1
            self._show(f"{command.place} not run, {why}: {command.text}")
            return ""
        self._show(f"{command.place} {command.who}: {command.text}" + f"\n    # {why}" * bool(why))
        if command.who not in self._shells:
            self._shells[command.who] = self._shell_of(command.who)
        began_s = time.monotonic()
        status, output = self._shells[command.who].run(text)
        if output:
            self._show(re.sub("^", INDENT, output, flags=re.M))
        if status:
            raise Broken(f"{command.place}: {command.who} ran this, and it ended with {status}:\n{text}\n{output}")
        self._show(f"    -> ok, {time.monotonic() - began_s:.1f} s")
        self.run += 1
        self.adapted += bool(why)
        return output + "\n"

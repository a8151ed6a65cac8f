"""The check of parts of policies, in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from ...child_process import ChildFailed, ChildProcess
from ...errors import ConfigError
from . import worker
from .demands import VIEWS, demands_on
from .judgement import Judge, MatchedParts, PartsWanted

LIMIT_S = 60.0
"""The time of a demand in seconds, after which its process is ended."""

FIRST_S = 120.0
"""Seconds more for what a process may have to do first: start, import, and compile where nothing is stored."""

IMPORT_S = 30.0
"""The time in which the process must start and import all plug-ins, in seconds."""

DAY = "day"
SLOW = "results"
"""The demand that comes first, and may have to compile."""

UNCOMPILED = {"NUMBA_DISABLE_JIT": "1"}
"""Variables of the process for simulated days: 150 jobs take seconds without the compiler, which needs a minute."""


@dataclass(frozen=True)
class Finding:
    """The judgement on a part by one demand."""

    hook: str
    part: str
    demand: str
    passed: bool
    detail: str


@dataclass
class Check:
    """The check of parts; two processes judge, so that results can be compared, and a third one simulates days."""

    count: int = VIEWS  #: random inputs
    limit_s: float = LIMIT_S
    first_s: float = FIRST_S
    import_s: float = IMPORT_S
    _one: ChildProcess = field(init=False, repr=False)
    _other: ChildProcess = field(init=False, repr=False)
    _days: ChildProcess = field(init=False, repr=False)

    def __post_init__(self) -> None:
        name = worker.__name__
        self._one, self._other = ChildProcess(name, "judgement"), ChildProcess(name, "judgement")
        self._days = ChildProcess(name, "judgement", variables=UNCOMPILED)

    def close(self) -> None:
        """Stop all processes."""
        for process in (self._one, self._other, self._days):
            process.close()

    def find(self, hooks: tuple[str, ...], line: str) -> MatchedParts:
        """Find the parts to check: those that *line* names, or those of all plug-ins; ConfigError if there are none."""
        try:
            found: MatchedParts = self._one.ask(PartsWanted(hooks, line), self.import_s)
        except ChildFailed as error:
            raise ConfigError(f"loading the plug-ins: {error}") from error
        if line and not found.parts:
            raise ConfigError("; ".join(found.troubles))
        return found

    def findings(self, hook: str, part: str) -> Iterator[Finding]:
        """Judge a part by each demand. What fails several demands is told once, with ``the same`` for the others."""
        failures: set[str] = set()
        for demand in demands_on(hook):
            passed, detail = self.judge(Judge(hook, part, demand, self.count))
            yield Finding(hook, part, demand, passed, "the same" if detail in failures else detail)
            if not passed:
                failures.add(detail)

    def judge(self, request: Judge) -> tuple[bool, str]:
        """Return whether a part meets a demand, with a remark; a process that hangs or dies does not."""
        try:
            one = self._asked(self._days if request.demand == DAY else self._one, request)
            if request.demand != "processes" or not one[0]:
                return one
            other = self._asked(self._other, request)
        except ChildFailed as error:
            return False, str(error)
        same = one == other
        return same, "equal in two processes" if same else "another process gives another result for the same input"

    def _asked(self, judge: ChildProcess, request: Judge) -> tuple[bool, str]:
        first = not judge.started or request.demand in (SLOW, DAY)
        answer: tuple[bool, str] = judge.ask(request, self.limit_s + self.first_s * first)
        return answer


def check(hooks: tuple[str, ...], line: str, count: int = VIEWS) -> Iterator[Finding]:
    """Check the parts that *line* names, or those of all plug-ins; ConfigError if *line* names none."""
    with closing(Check(count)) as checking:
        found = checking.find(hooks, line)
        for trouble in found.troubles:
            yield Finding("", "", "loading", False, trouble)
        for hook, part in found.parts:
            yield from checking.findings(hook, part)

"""Slurm's expressions of features, as ``--constraint`` of sbatch(1) has them.

``a&b`` and ``a,b``: each node has both. ``a|b``: each node has one of them. Without parentheses an expression is read
from left to right, whatever its operators. ``[a|b]``: all nodes have a, or all have b. ``a*2``, ``[a*2&b*1]``: of the
nodes at least so many have the feature.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

_TOKEN = re.compile(r"\s*(?:(?P<sign>[&|,()\[\]])|\*(?P<count>[0-9]{1,9})|(?P<name>[^&|,()\[\]*\s]+))")
_DEEPEST = 20
_LONGEST = 200  #: signs and names; any user may write any expression, and each operator nests a test
_MOST_WAYS = 64  #: brackets multiply the ways to meet an expression


@dataclass(frozen=True)
class Test:
    """What one node must have: a feature, or all or any of some tests."""

    name: str = ""  #: a feature; empty for a test that has parts
    every: bool = True  #: all of the parts, else any
    parts: tuple[Test, ...] = ()

    def holds(self, features: Collection[str]) -> bool:
        """Return True for a node with these *features*."""
        if self.name:
            return self.name in features
        return all(p.holds(features) for p in self.parts) if self.every else any(p.holds(features) for p in self.parts)


ANY_NODE = Test()


@dataclass(frozen=True)
class Choice:
    """One way to meet a constraint."""

    each: Test  #: holds on each node
    some: tuple[tuple[Test, int], ...] = ()  #: tests that hold on at least so many of the nodes


@dataclass(frozen=True)
class Constraint:
    """The ways to meet a constraint, any one of which is enough."""

    choices: tuple[Choice, ...]
    understood: bool = True  #: False for a text that is no such expression, or one that releases read in several ways

    def allows(self, features: Collection[str]) -> bool:
        """Return True if a node with these *features* may be one of the job's."""
        return any(choice.each.holds(features) for choice in self.choices)


_NOT_UNDERSTOOD = Constraint((Choice(ANY_NODE),), understood=False)


@lru_cache(maxsize=4096)
def constraint_of(text: str) -> Constraint:
    """Return what *text* requires. One that is not understood requires nothing, and says so; empty requires nothing."""
    if not text.strip():
        return Constraint((Choice(ANY_NODE),))
    try:
        parts = _Reader(text).read()
    except _Unclear:
        return _NOT_UNDERSTOOD
    return Constraint(parts)


class _Unclear(Exception):
    """The text is no expression that all releases read alike."""


@dataclass(frozen=True)
class _Part:
    """A part of an expression: a test, with a count or as one of the ways in brackets."""

    choices: tuple[Choice, ...]
    plain: Test | None  #: the test of a part without counts and brackets


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = list(islice(_tokens(text), _LONGEST + 1))
        self._at = 0
        if len(self._tokens) > _LONGEST:
            raise _Unclear

    def read(self) -> tuple[Choice, ...]:
        part = self._expression(brackets=True, depth=0)
        if self._at < len(self._tokens):
            raise _Unclear
        return part.choices

    def _expression(self, *, brackets: bool, depth: int) -> _Part:
        part = self._operand(brackets, depth)
        while self._peek() in ("&", "|"):
            sign = self._next()
            part = _joined(part, sign, self._operand(brackets, depth))
        return part

    def _operand(self, brackets: bool, depth: int) -> _Part:
        sign = self._next()
        if sign == "(" and depth < _DEEPEST:
            inside = self._expression(brackets=False, depth=depth + 1)
            self._expect(")")
            return self._counted(inside)
        if sign == "[" and brackets:
            return self._alternatives(depth)
        if sign.startswith("="):
            return self._counted(_plain(Test(sign[1:])))
        raise _Unclear

    def _counted(self, part: _Part) -> _Part:
        if not self._peek().startswith("*"):
            return part
        count = int(self._next()[1:])
        if part.plain is None or not count:
            raise _Unclear
        return _Part((Choice(ANY_NODE, ((part.plain, count),)),), None)

    def _alternatives(self, depth: int) -> _Part:
        """Read what stands in brackets: tests without counts by ``|``, or tests with counts by ``&``."""
        parts, signs = [self._operand(False, depth + 1)], set()
        while self._peek() in ("&", "|"):
            signs.add(self._next())
            parts.append(self._operand(False, depth + 1))
        self._expect("]")
        plain = [part.plain is not None for part in parts]
        if signs <= {"|"} and all(plain):
            return _Part(tuple(part.choices[0] for part in parts), None)
        if signs <= {"&"} and not any(plain):
            some = tuple(counted for part in parts for counted in part.choices[0].some)
            return _Part((Choice(ANY_NODE, some),), None)
        raise _Unclear

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._next() != sign:
            raise _Unclear


def _tokens(text: str) -> Iterator[str]:
    """Yield signs as they are, with ``&`` for a comma, names after ``=`` and counts after ``*``."""
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _Unclear
        at = found.end()
        if found["name"]:
            yield f"={found['name']}"
        elif found["count"]:
            yield f"*{found['count']}"
        else:
            yield "&" if found["sign"] == "," else found["sign"]


def _plain(test: Test) -> _Part:
    return _Part((Choice(test),), test)


def _joined(left: _Part, sign: str, right: _Part) -> _Part:
    """Return two parts as one; with counts or brackets only ``&`` is clear."""
    if left.plain is not None and right.plain is not None:
        return _plain(Test(every=sign == "&", parts=(left.plain, right.plain)))
    if any(choice.some for choice in left.choices) and any(choice.some for choice in right.choices):
        raise _Unclear  # of ib*2&slow*1 Slurm starts what it refuses as slow*1&ib*2 (22.05): brackets make it clear
    if sign != "&" or len(left.choices) * len(right.choices) > _MOST_WAYS:
        raise _Unclear
    return _Part(
        tuple(
            Choice(Test(parts=(one.each, other.each)), one.some + other.some)
            for one in left.choices
            for other in right.choices
        ),
        None,
    )

"""Expand and fold Slurm's host lists, such as ``gpu-[01-16,20]``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product

MOST = 65536  #: the most names in one list; Slurm's own limit for one range

_NOBODY = frozenset(("", "(null)", "n/a", "none assigned"))
_ITEM = re.compile(r"((?:[^\s,\[\]()]|\[[^\s\[\]()]*\])+)(?:,|\Z)")
_PIECE = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NAME = re.compile(r"([^\s,\[\]()]*?)([0-9]{0,18})")


def expand(text: str) -> tuple[str, ...]:
    """Return all names of a host list, in its order, with zero padding; none for ``(null)``.

    Raises ``ValueError`` where brackets, ranges or commas make no host list, or where it names more than ``MOST``.
    """
    if text.strip().lower() in _NOBODY:
        return ()
    names: list[str] = []
    for item in _items(text.strip()):
        pieces = [[literal] if literal else _choices(ranges, text) for ranges, literal in _PIECE.findall(item)]
        for piece in product(*pieces):
            names.append("".join(piece))
            if len(names) > MOST:
                raise ValueError(f"the host list {text[:80]!r} names more than {MOST} nodes")
    return tuple(names)


@lru_cache(maxsize=4_096)  # the same lists come every cycle
def expanded(text: str) -> tuple[str, ...]:
    """Return the nodes that a list names, none for one that cannot be read."""
    try:
        return expand(text)
    except ValueError:
        return ()


def fold(names: Iterable[str]) -> str:
    """Return the host list of *names* in their order; only neighbours fold, so sort them for the shortest one.

    Raises ``ValueError`` at a name that is empty or holds blanks, commas, brackets or parentheses.
    """
    folded: list[str] = []
    prefix = ""
    runs: list[list[str]] = []  # first and last number of each range
    for name in names:
        match = _NAME.fullmatch(name)
        if not match or not name:
            raise ValueError(f"{name!r} is no node name: no blanks, commas, brackets or parentheses are accepted")
        stem, number = match.groups()
        if not (number and runs and runs[-1][0] and stem == prefix):
            folded += _written(prefix, runs)
            prefix, runs = stem, []
        if runs and _next(runs[-1]) == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join([*folded, *_written(prefix, runs)])


def _items(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _ITEM.match(text, at)
        if not match:
            raise ValueError(f"{text[:80]!r} is no host list: accepted are n1, n[1-4,07] and such with commas between")
        yield match[1]
        at = match.end()
    if text.endswith(","):
        raise ValueError(f"{text[:80]!r} is no host list: accepted are n1, n[1-4,07] and such, none after a last comma")


def _choices(ranges: str, text: str) -> list[str]:
    """Return the numbers in one pair of brackets."""
    choices: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not match or high < low:
            raise ValueError(f"[{part[:80]}] in {text[:80]!r} is no range: accepted are 7, 07, 1-4 and 01-16")
        if high - low >= MOST or len(choices) > MOST:
            raise ValueError(f"the host list {text[:80]!r} names more than {MOST} nodes")
        choices += [str(number).zfill(len(match[1])) for number in range(low, high + 1)]
    return choices


def _next(run: list[str]) -> str:
    """Return the next number of the run, padded like its first number, as Slurm pads a range."""
    low, high = run
    return str(int(high) + 1).zfill(len(low))


def _written(prefix: str, runs: list[list[str]]) -> list[str]:
    """Return the items for one prefix and its runs of numbers; empty for no runs."""
    if len(runs) <= 1 and all(low == high for low, high in runs):
        return [prefix + low for low, _ in runs]
    parts = [low if low == high else f"{low}-{high}" for low, high in runs]
    return [f"{prefix}[{','.join(parts)}]"]

"""Waits run on the monotonic clock: what the wall clock is set to neither prolongs them nor cuts them short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmsched.clock import Timer

PACKAGE = Path(__file__).parent.parent / "slurmsched"

#: These live in virtual time alone, or look at one moment and wait for nothing.
TIMELESS = {"simulator", "policies", "decide", "research"}

WALL = {"now_s", "_now_s"}

#: What a text has that compares both: reading the others as code would take long.
WORDS = (re.compile(r"\bself\s*\."), re.compile(r"\b_?now_s\b|\.\s*now\b|\btime\s*\.\s*time\b"))

#: Who may ask the machine for the time of day, to write it down.
DATED = {"clock.py", "job.py", "prolog/mps.py", "prolog/watch.py", "prolog/sampler.py"}


def is_wall_time(node: ast.AST) -> bool:
    """Whether *node* is the time of day: ``now_s``, ``clock.now()``, ``time.time()``."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and (
            node.func.attr == "now" or ast.unparse(node.func) == "time.time"
        )
    return (isinstance(node, ast.Name) and node.id in WALL) or (isinstance(node, ast.Attribute) and node.attr in WALL)


def is_kept_moment(node: ast.AST) -> bool:
    """Whether *node* is a moment that an object keeps from one call to the next, such as ``self._retry_s``."""
    if not isinstance(node, ast.Attribute) or not node.attr.endswith("_s") or node.attr in WALL:
        return False
    parts = ast.unparse(node).split(".")
    return parts[0] == "self" and any(part.startswith("_") for part in parts[1:]) and "_settings" not in parts


def waits_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comparison, or difference, of the time of day with a moment that an object keeps."""
    if not all(words.search(source) for words in WORDS):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare) and not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)):
            continue
        called = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
        parts = [part for part in ast.walk(node) if id(part) not in called]
        if any(map(is_wall_time, parts)) and any(map(is_kept_moment, parts)):
            yield node.lineno, ast.unparse(node)


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE)
        if name.parts[0] not in TIMELESS:
            yield str(name), path.read_text(encoding="utf-8")


def test_nothing_waits_by_the_time_of_day():
    found = [f"{name}:{line}: {text}" for name, source in modules() for line, text in waits_in(source)]
    assert found == []


def test_only_records_are_dated_by_the_machines_time_of_day():
    dated = {name for name, source in modules() if "time.time(" in source}
    assert dated <= DATED


@pytest.mark.parametrize(
    "wait",
    [
        "if now_s < self._retry_s: pass",
        "due = not self._read_s <= now_s < self._read_s + 60",
        "if clock.now() >= self._model.pruned_s + 3600: pass",
        "elapsed_s = max(0.0, now_s - self._filled_s)",
        "while time.time() < self._until_s: pass",
        "if view.now_s < self._next_s: pass",
    ],
)
def test_a_wait_by_the_time_of_day_would_be_found(wait):
    assert list(waits_in(wait))


def test_a_timer_is_due_at_once_and_again_when_its_wait_is_over():
    now_s = [100.0]
    timer = Timer(lambda: now_s[0])
    assert timer.due
    timer.put_off(10.0)
    assert not timer.due
    now_s[0] = 110.0
    assert timer.due
    timer.put_off(10.0)
    timer.expire()
    assert timer.due

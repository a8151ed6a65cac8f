"""docs/promises.md has each promise, and docs/reference/promises.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_holds_a_promise_up_is_there():
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", (ROOT / "docs/reference/promises.md").read_text())
    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in _text(ROOT / file)]
    assert named
    assert missing == []


def test_the_short_list_has_each_promise_with_a_link_to_its_tests():
    short, tests = (ROOT / "docs" / name for name in ("promises.md", "reference/promises.md"))
    rows = re.findall(r"^\| \[([^]]+)\]\(reference/promises\.md#[\w-]+\) \|", short.read_text(), re.MULTILINE)
    assert rows == re.findall(r"^## (.+)$", tests.read_text(), re.MULTILINE)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""

"""docs/promises.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_holds_a_promise_up_is_there():
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", (ROOT / "docs/promises.md").read_text())
    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in _text(ROOT / file)]
    assert named
    assert missing == []


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""

"""Whoever wants to know something of an action asks it: nobody compares its name, or its words in stories."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurmsched
from slurmsched.cluster.actions import ACTIONS

PRODUCT = Path(slurmsched.__file__).parent
OTHER_MEANINGS = {
    ("cluster/modifications.py", "suspended"),  # by an admin: what Slurm shows of a job
    ("cluster/modifications.py", "resumed"),
    ("db/tracking/story.py", "suspended"),  # the same, told
    ("db/tracking/story.py", "resumed"),
    ("foresee/whatif.py", "held"),  # by its owner or an admin
    ("simulator/run.py", "told"),  # forecasts that a trace has
}
"""Words that actions have too, where they mean something else."""


def words_of_actions() -> set[str]:
    return {
        word
        for action in ACTIONS.values()
        for word in (action.__name__, action.stored, action.slurm_event, *(kind for kind, _ in action.story))
        if word
    }


def compared(text: str) -> Iterator[str]:
    """Yield the texts with which a program compares something, by an operator, a case or the beginning of a text."""
    for node in ast.walk(ast.parse(text)):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = list(node.args) if node.func.attr in {"startswith", "endswith", "in_"} else []
        for part in parts:
            for leaf in ast.walk(part):
                if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                    yield leaf.value


def test_nobody_compares_kinds_of_actions():
    words, found = words_of_actions(), set()
    assert {"Rank", "ranked", "held", "steered", "asked to stop"} <= words
    quoted = re.compile(f"""["']({"|".join(map(re.escape, words))})["']""")
    for file in PRODUCT.rglob("*.py"):
        name, text = file.relative_to(PRODUCT).as_posix(), file.read_text()
        if quoted.search(text):
            found |= {(name, word) for word in compared(text) if word in words}
    assert found == OTHER_MEANINGS


@pytest.mark.parametrize(
    "line", ["intent.kind == 'Rank'", "x in ('a', 'Rank')", "kind.startswith('Rank')", "match k:\n case 'Rank': pass"]
)
def test_comparisons_are_found_in_each_form(line):
    assert "Rank" in set(compared(line))

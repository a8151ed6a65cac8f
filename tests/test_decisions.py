"""What is measured is what runs: who decides each part of a policy, and that the page says so."""

from __future__ import annotations

from pathlib import Path

from decisions import decisions, table

PAGE = Path(__file__).parent.parent / "docs" / "design.md"

SEVERAL = {
    ("admission", "load"): 2,
    ("ordering", "tiresias"): 3,
    ("ordering", "tiresias-promoting"): 3,
    ("selection", "backfill"): 4,
    ("selection", "conservative"): 2,
    ("selection", "easy"): 2,
    ("selection", "strict"): 3,
}
"""How often a rule is written. tests/simulator/test_decided.py holds the compiled core equal to decide()."""


def test_all_but_the_listed_parts_are_decided_by_one_object():
    assert {(one.hook, one.part): len(one.forms) for one in decisions() if len(one.forms) > 1} == SEVERAL


def test_the_daemon_and_the_model_of_slurmctld_never_differ():
    rows = [one for one in decisions() if one.daemon is not None and one.slurm is not None]
    assert len(rows) > 10
    assert all(one.daemon == one.slurm for one in rows)


def test_the_page_has_the_table():
    assert table() in PAGE.read_text(), "python -m tests.decisions prints it"

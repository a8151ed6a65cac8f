"""docs/policies.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import slurmsched.decide  # noqa: F401  # registers the parts of profiling
from slurmsched.cluster.plan import Standing
from slurmsched.config.settings import SCOPES
from slurmsched.policies.contract import (
    ADMISSIONS,
    ORDERINGS,
    PLACEMENTS,
    PREEMPTIONS,
    PROFILINGS,
    SCALINGS,
    SELECTIONS,
    SHARINGS,
    STOPPINGS,
)
from slurmsched.policies.presets import PRESETS
from slurmsched.research.elastic.divisions import DIVISIONS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "policies.md").read_text()


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}")[2].partition("\n## ")[0]


def test_every_ordering_has_its_heading():
    assert set(re.findall(r"^### (\S+)$", section("Orderings"), re.M)) == set(ORDERINGS)


def test_every_part_of_a_policy_and_every_preset_is_in_a_table():
    registries = (ADMISSIONS, SELECTIONS, PLACEMENTS, PREEMPTIONS, PROFILINGS, DIVISIONS, SCALINGS, SHARINGS, STOPPINGS)
    hooks = {parts.hook: parts for parts in registries}
    rows = dict(re.findall(rf"^\| ({'|'.join(hooks)})[^|]*\| (.*) \|$", section("The parts of a policy"), re.M))
    for hook, parts in hooks.items():
        named = {name.partition(":")[0] for name in re.findall(r"`([a-z0-9-]+(?::X)?)`", rows[hook])}
        assert named == set(parts), hook
    lines = re.findall(
        r"^\| ((?:`[a-z0-9-]+`(?:, )?)+) \| ([^|]*) \| `([a-z0-9-]+)`(?:, sharing `([a-z-]+)`)? \|$",
        section("The parts"),
        re.M,
    )
    found = {}
    for names, ordering, selection, sharing in lines:
        for name in re.findall(r"`([a-z0-9-]+)`", names):
            found[name] = (
                name if ordering == "of the same name" else ordering.strip("`"),
                selection,
                sharing or "none",
            )
    assert found == {name: (preset.ordering, preset.selection, preset.sharing) for name, preset in PRESETS.items()}


def test_every_reason_to_leave_a_job_alone_is_listed():
    listed = set(re.findall(r"^\| `(\w+)` \|", section("Jobs that are left alone"), re.M))
    assert listed == {standing.name.lower() for standing in Standing if standing != Standing.RANKED}


def test_every_scope_is_explained():
    assert set(re.findall(r"^\| `(\w+)`", section("How far the order may go"), re.M)) - {"order"} == set(SCOPES)

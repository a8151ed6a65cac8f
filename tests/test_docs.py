"""The pages in docs/ say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurmsched.cli.commands import COMMANDS
from slurmsched.cli.reference import commands_page, settings_page
from slurmsched.config.catalogue import every_setting

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize(("name", "page"), [("commands", commands_page), ("settings", settings_page)])
def test_the_page_is_the_one_the_code_writes(name, page):
    assert (DOCS / f"{name}.md").read_text() == page(), (
        f"run: python -m slurmsched.cli.reference {name} > docs/{name}.md"
    )


def test_every_setting_has_its_heading_with_help_and_default():
    sections = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", (DOCS / "settings.md").read_text(), re.M | re.S))
    assert set(sections) == {setting.name for setting in every_setting()}
    for setting in every_setting():
        assert setting.help[1:] in sections[setting.name]
        assert "Default: `" in sections[setting.name]


def test_every_command_has_its_heading():
    headings = re.findall(r"^## slurmsched (\S+)$", (DOCS / "commands.md").read_text(), re.M)
    assert [*headings] == list(COMMANDS)

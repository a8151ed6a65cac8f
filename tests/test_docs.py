"""The pages in docs/ say what the code says."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from slurmsched.cli.command_table import COMMANDS
from slurmsched.cli.reference import commands_page, settings_page
from slurmsched.cluster.text.comment import CommentOptions
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


def tokens(section: str) -> set[str]:
    """The fields of Wishes whose tokens a part of the page lists."""
    part = (DOCS / "deadlines.md").read_text().partition(f"## {section}")[2].partition("\n## ")[0]
    keys = re.findall(r"^\| `([a-zA-Z]+)", part, re.MULTILINE)
    spelt = {"PERCENT": "steps", "coldstart": "coldstart_s", "pace": "pace_s"}
    return {spelt.get(key, key) for key in keys}


def test_the_page_of_tokens_says_which_have_an_effect_today():
    read = re.compile(r"(?:wish|wishes|read\([^()]*\)\[0\])\.([a-z_]+)")
    sources = (file.read_text() for file in (DOCS.parent / "slurmsched").rglob("*.py") if file.name != "comment.py")
    used = {name for text in sources if "comment import" in text for name in read.findall(text)}
    fields = set(CommentOptions.__slots__) - {"share"}  # no user's to say
    assert tokens("In effect now") == fields & used
    assert tokens("Accepted and checked, not acted on yet") == fields - used


def test_extras_are_installed_from_a_checkout_or_a_wheel_since_no_index_has_us():
    root = DOCS.parent
    setup = configparser.ConfigParser()
    setup.read(root / "setup.cfg")
    places = ("*.md", "docs/*.md", "contrib/**/*", "systemd/*", "slurmsched/**/*.py")
    files = [file for place in places for file in root.glob(place) if file.is_file()]
    assert [str(file) for file in files if "slurmsched[" in file.read_text()] == []
    named = {
        extra
        for file in files
        for found in re.findall(r"'\.\[([a-z,]+)\]", file.read_text())
        for extra in found.split(",")
    }
    assert named - set(setup["options.extras_require"]) == set()

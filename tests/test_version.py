"""The changelog, the package and the command agree on one version, which moves."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.version import Version

import slurmsched
from slurmsched.cli import main

ROOT = Path(__file__).parent.parent
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<day>\S+))?$", re.MULTILINE)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def sections(changelog: str) -> list[tuple[str, str, str]]:
    """Version, day and text of each section, from the top."""
    parts = HEADING.split(changelog)
    return [(parts[at], parts[at + 1] or "", parts[at + 2]) for at in range(1, len(parts), 3)]


def fits(changelog: str, version: str) -> bool:
    """Whether *version* is the newest release, or while entries are unreleased, one in development after it."""
    (_, _, unreleased), (newest, _, _) = sections(changelog)[:2]
    if not re.search(r"^- ", unreleased, re.MULTILINE):
        return version == newest
    return Version(version).is_devrelease and Version(newest) < Version(version)


def changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text()


def test_the_version_is_the_one_that_the_changelog_leads_to():
    assert fits(changelog(), slurmsched.__version__)


def test_the_command_prints_the_version_of_the_package():
    said = CliRunner().invoke(main, ["--version"]).stdout
    assert said == f"slurmsched, version {slurmsched.__version__}\n"


def test_the_version_stands_in_one_file_alone():
    files = [*(ROOT / "slurmsched").rglob("*.py"), *(ROOT / name for name in ("setup.cfg", "pyproject.toml"))]
    having = [file.name for file in files if slurmsched.__version__ in file.read_text()]
    assert having == ["__init__.py"]


def test_releases_are_dated_and_the_newest_is_the_first():
    (top, day, _), *releases = sections(changelog())
    assert (top, day) == ("Unreleased", "")
    assert releases
    versions = [Version(version) for version, _, _ in releases]
    days = [date.fromisoformat(day) for _, day, _ in releases]
    assert versions == sorted(set(versions), reverse=True)
    assert days == sorted(days, reverse=True)


def test_entries_stand_under_the_headings_of_keep_a_changelog():
    assert set(re.findall(r"^### (.*)$", changelog(), re.MULTILINE)) <= KINDS


@pytest.mark.parametrize(
    ("unreleased", "version", "good"),
    [
        ("", "0.1.0", True),
        ("", "0.2.0.dev0", False),
        ("", "0.0.9", False),
        ("### Added\n- a thing\n", "0.2.0.dev0", True),
        ("### Added\n- a thing\n", "0.1.1.dev0", True),
        ("### Added\n- a thing\n", "0.1.0", False),
        ("### Added\n- a thing\n", "0.1.0.dev0", False),
        ("### Added\n- a thing\n", "0.2.0", False),
    ],
)
def test_a_release_without_its_heading_and_changes_without_a_new_version_are_noticed(unreleased, version, good):
    text = f"# Changelog\n\n## [Unreleased]\n\n{unreleased}\n## [0.1.0] - 2026-11-22\n\n### Added\n- all\n"
    assert fits(text, version) is good


def test_the_readme_names_no_version_which_would_be_another_place_to_change():
    assert not re.search(r"version v?\d", (ROOT / "README.md").read_text("utf-8"), re.IGNORECASE)

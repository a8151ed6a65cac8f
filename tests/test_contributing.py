"""The pages for those who change the program name what there is, and their commands work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from slurmsched.cli.command_table import COMMANDS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
MADE = {"make setup", ".venv/bin/pip install pre-commit", ".venv/bin/pre-commit install"}
"""What only sets the checkout up."""


def commands(page: str) -> list[str]:
    """The lines of the page's indented blocks."""
    return [line.strip() for line in re.findall(r"^ {4,}(?=\S)(?:\.venv/|make |scripts/).*$", page, re.MULTILINE)]


COMMANDS_OF_THE_PAGE = [line for line in commands(PAGE) if line not in MADE]
PYTEST = [line for line in COMMANDS_OF_THE_PAGE if "/pytest " in line]
REFERENCE = [line for line in COMMANDS_OF_THE_PAGE if ".reference " in line]
MAKE = [line for line in COMMANDS_OF_THE_PAGE if line.startswith("make ")]
SCRIPTS = [line for line in COMMANDS_OF_THE_PAGE if line.startswith("scripts/")]
OURS = [line for line in COMMANDS_OF_THE_PAGE if "/slurmsched " in line]


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", *words], cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_each_command_of_the_page_is_of_a_kind_that_is_checked_here():
    assert sorted(PYTEST + REFERENCE + MAKE + SCRIPTS + OURS) == sorted(COMMANDS_OF_THE_PAGE)
    assert all((PYTEST, REFERENCE, MAKE, SCRIPTS, OURS))


def test_each_selection_of_tests_is_there():
    words = [word for command in PYTEST for word in shlex.split(command)]
    paths = {word for word in words if word.startswith("tests/")}
    assert len(paths) > 5
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_a_selection_by_a_word_finds_tests():
    (command,) = [command for command in PYTEST if " -k " in command]
    *words, folder = shlex.split(command)[1:]
    word = words[words.index("-k") + 1]
    # One file with such a name is enough, and takes less to read than the folder.
    files = (
        file
        for file in sorted((ROOT / folder).rglob("test_*.py"))
        if re.search(rf"def test_\w*{word}", file.read_text())
    )
    done = python("-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *words, str(next(files)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", REFERENCE)
def test_the_commands_that_write_pages_write_them_as_they_are(command):
    line, _, file = command.partition(" > ")
    done = python(*shlex.split(line)[1:])
    assert done.stdout == (ROOT / file).read_text()


def test_make_has_all_targets_of_the_page():
    assert {line.partition(" ")[2] for line in MAKE} <= targets().keys()


@pytest.mark.parametrize("command", SCRIPTS)
def test_each_script_is_there_and_can_be_run(command):
    for word in shlex.split(command):
        if word.startswith("scripts/"):
            assert (ROOT / word).stat().st_mode & 0o111


def test_our_own_commands_are_there():
    assert {shlex.split(line)[1] for line in OURS} <= set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page):
    text = page.read_text()
    named = re.findall(r"\]\(((?!https?:)[^)#]+)", text)
    named += re.findall(r"`((?:slurmsched|tests|docs|examples|scripts)/[\w./-]*)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def targets() -> dict[str, list[str]]:
    """The targets of the Makefile with their lines."""
    found: dict[str, list[str]] = {}
    rules = re.findall(r"^([\w .-]+):(?!=).*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for names, lines in rules:
        found |= {name: [line.strip() for line in lines.splitlines()] for name in names.split()}
    return found


def test_every_folder_with_python_is_linted():
    folders = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("*/**/*.py")}
    linted = [line.split()[2:] for line in targets()["lint"] if " check " in line and "ruff" in line]
    assert linted == [["slurmsched", "tests", "examples", "packages", "contrib"]]
    assert {name for name in folders if name.isidentifier()} - {"build", "dist"} == set(linted[0])


def test_pre_commit_runs_what_make_lint_runs():
    entries = re.findall(r"^ +entry: (.*)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    assert entries == [line.replace("$(BIN)", ".venv/bin") for line in targets()["lint"]]

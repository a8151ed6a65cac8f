"""Every command of slurmsched in the pages is one that the program takes: its options, and the keys of --set."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest

from slurmsched.cli import main
from slurmsched.cli.study.simulate_keys import KEYS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("**/*.md"))]
GENERATED = {"commands.md", "settings.md"}
_COMMAND = re.compile(r"^(?: {4}|\$ |# )*(?:sudo )?slurmsched (?P<words>.*)$")
_PLACEHOLDER = re.compile(r"\.\.\.|…|^[|\[]")


def commands(page: Path) -> Iterator[tuple[int, str]]:
    """The commands in the indented and fenced lines of a page, each with its lines put together."""
    lines = page.read_text().splitlines()
    fenced = False
    for number, line in enumerate(lines):
        fenced ^= line.lstrip().startswith("```")
        found = _COMMAND.match(line)
        if found is None or not (fenced or line.startswith("    ")):
            continue
        words, after = found["words"], number
        while words.endswith("\\") and after + 1 < len(lines):
            after += 1
            words = f"{words[:-1]} {lines[after].strip()}"
        yield number + 1, words


def parsed(words: str) -> list[str]:
    """The words of a command after the last name of a command; a click error for one that is not taken."""
    context = click.Context(main, info_name="slurmsched", **main.context_settings)
    command: click.Command = main
    left = shlex.split(words, comments=True)
    while isinstance(command, click.Group):
        _, left, _ = (
            command.make_parser(context).parse_args(left) if left[:1] and left[0].startswith("-") else ({}, left, [])
        )
        found = command.get_command(context, left[0]) if left else None
        if found is None:
            return []
        command, context, left = found, click.Context(found, context, info_name=left[0]), left[1:]
    end = next((place for place, word in enumerate(left) if word in ("|", ">", ">>", "&&", ";", "&")), len(left))
    command.make_parser(context).parse_args(list(left[:end]))
    return left[:end]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=lambda page: page.name)
def test_the_commands_of_a_page_have_the_options_of_the_program(page):
    wrong = []
    for number, words in commands(page):
        if _PLACEHOLDER.search(words):
            continue
        try:
            left = parsed(words)
        except (click.ClickException, ValueError) as error:
            wrong.append(f"{page.name}:{number}: slurmsched {words}: {error}")
            continue
        keys = [after.partition("=")[0] for word, after in pairwise(left) if word == "--set"]
        if words.startswith("simulate"):
            wrong += [f"{page.name}:{number}: no key {key}" for key in keys if key not in KEYS]
    assert wrong == []


def test_commands_are_found_and_a_wrong_option_is_noticed():
    assert sum(len(list(commands(page))) for page in PAGES) > 100
    with pytest.raises(click.NoSuchOption):
        parsed("simulate trace.csv --placement pool")

"""Answers of commands as JSON, held to the schemas that ``slurmsched schema`` prints."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import click
import jsonschema

from slurmsched.cli import main
from slurmsched.cli.json_answers import answer_schema, forms


@cache
def _validator(command: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(answer_schema(command, closed=True))


def command_of(words: tuple[str, ...] | list[str]) -> str:
    """The command that the words of a call begin with, after options of the program itself."""
    commands = main.list_commands(click.Context(main))
    first = next(at for at, word in enumerate(words) if word in commands)
    names = [word for word in words[first:] if not word.startswith("-")]
    both = " ".join(names[:2])
    return both if both in forms() else names[0]


def answer_of(words: tuple[str, ...] | list[str], text: str) -> dict[str, Any]:
    """The answer that a call printed; AssertionError where the schema of its command has another form."""
    answer: dict[str, Any] = json.loads(text)
    wrong = [f"{error.json_path}: {error.message}" for error in _validator(command_of(words)).iter_errors(answer)]
    assert not wrong, f"slurmsched schema {command_of(words)}: {wrong[:5]}"
    return answer

"""``slurmsched ask``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..app import App
from ..output import TextTable, emit

if TYPE_CHECKING:
    from ...daemon.api.questions.contract import Question


@click.command()
@click.argument("name", required=False, metavar="[QUESTION]")
@click.argument("given", nargs=-1, metavar="[NAME=VALUE]...")
@click.pass_obj
def ask(app: App, name: str | None, given: Sequence[str]) -> None:
    """Ask the daemon a QUESTION, and print its answer as JSON.

    Without QUESTION, list the questions with their parameters. Lists have commas between their values:

    \b
        slurmsched ask why job_id=1234
        slurmsched ask eta job_ids=1234,1235
    """
    from ...daemon.api.questions.table import QUESTIONS

    if name is None:
        rows = [(one.name, _parameters(one), one.who.value, one.about) for one in QUESTIONS.values()]
        return emit({}, TextTable(("QUESTION", "PARAMETERS", "FOR", "ABOUT"), rows), as_json=False)
    if name not in QUESTIONS:
        raise click.UsageError(f"There is no question {name}; accepted: {', '.join(QUESTIONS)}.")
    return emit(app.answers().query(name, **_spelt(QUESTIONS[name], given)), as_json=True)


def _parameters(question: Question) -> str:
    return ", ".join(one.name if one.required else f"[{one.name}]" for one in question.parameters)


def _spelt(question: Question, given: Sequence[str]) -> Mapping[str, Any]:
    """Return the values that a command line gives; a usage error for a parameter that the question does not have."""
    known = {one.name: one for one in question.parameters}
    values: dict[str, Any] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if name not in known or not equals:
            accepted = ", ".join(f"{one.name}={one.schema['type'].upper()}" for one in known.values())
            raise click.UsageError(f"{word!r} is no parameter of {question.name}; accepted: {accepted or 'none'}.")
        values[name] = known[name].of_text(text)
    return values

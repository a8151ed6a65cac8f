"""``slurmsched schema``."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND]")
def schema(words: Sequence[str]) -> None:
    """Print a JSON Schema of what COMMAND prints with --json.

    COMMAND may be "ask QUESTION". Without COMMAND, list the commands that have one. Later releases may add keys; a
    change or an end of one gives the key schema another value.
    """
    from ..json_answers import answer_schema, forms

    if not words:
        click.echo("\n".join(forms()))
        return
    command = " ".join(words)
    try:
        made = answer_schema(command)
    except KeyError as error:
        raise click.UsageError(f"{command!r} prints no JSON; accepted: {', '.join(forms())}.") from error
    click.echo(json.dumps(made, indent=2))

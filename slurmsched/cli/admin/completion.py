"""``slurmsched completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For bash: slurmsched completion bash > /etc/bash_completion.d/slurmsched
    """
    kind = get_completion_class(shell)
    assert kind is not None, shell
    click.echo(kind(context.find_root().command, {}, "slurmsched", "_SLURMSCHED_COMPLETE").source())

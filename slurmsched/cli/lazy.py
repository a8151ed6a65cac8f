"""A group of commands that imports each only when it is called."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from ..errors import SlurmschedError
from .command_table import CommandEntry
from .failure import Failed, open_files_limit
from .guests import GuestGroup


class LazyGroup(GuestGroup):
    """Finds its commands by module path; any SlurmschedError below it becomes one message and exit status 1."""

    def __init__(self, *args: Any, commands_at: Mapping[str, CommandEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands_at = commands_at

    def own_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(self.commands_at)

    def own_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return the command; None for an unknown name."""
        if name not in self.commands_at:
            return None
        place = self.commands_at[name]
        command = getattr(import_module(place.module), place.attribute)
        assert isinstance(command, click.Command), place
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; a usage error suggests one of a similar name."""
        near = [] if args[0] in self.commands_at else get_close_matches(args[0], self.list_commands(ctx), n=1)
        if near and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}: did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def own_lines(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return names and short helps of the table, without importing a single command."""
        return [(name, place.help) for name, place in self.commands_at.items()]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; external errors are shown without a traceback."""
        try:
            return super().invoke(ctx)
        except SlurmschedError as error:
            raise Failed(str(error)) from error
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            raise Failed(f"too many files are open; {open_files_limit()}") from error

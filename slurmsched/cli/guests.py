"""Commands that entry points add: those of the research, which may not be installed, and those of plug-ins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..extensions import COMMANDS, is_ours, is_there, load, registered
from .failure import Failed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

RESEARCH, PLUGINS = "Research", "Plug-ins"
"""The headings of commands that the research and plug-ins add."""


class GuestGroup(click.Group):
    """A group of commands that takes in those which entry points name after it, below a heading of their own.

    ``policy.check`` is the command ``check`` of the group that takes guests under ``policy``, and a name without a dot
    is the program's.
    """

    def __init__(self, *args: Any, guests_under: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prefix = f"{guests_under}." if guests_under else ""

    def own_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands that are no guests."""
        return super().list_commands(ctx)

    def own_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return a command that is no guest; None for an unknown name."""
        return super().get_command(ctx, name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands that are installed."""
        return [*self.own_commands(ctx), *(name for name, entry in self._guests(ctx) if is_there(entry))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command; None for an unknown name, ResearchMissing for one whose package is not installed."""
        if (own := self.own_command(ctx, cmd_name)) is not None:
            return own
        guests = dict(self._guests(ctx))
        if cmd_name not in guests or (ctx.resilient_parsing and not is_there(guests[cmd_name])):
            return None
        return _loaded(guests[cmd_name])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list for ``--help``, guests below headings of their own."""
        sections = {"Commands": self.own_lines(ctx)}
        for name, entry in self._guests(ctx):
            if is_there(entry):
                heading = RESEARCH if is_ours(entry) else PLUGINS
                sections.setdefault(heading, []).append((name, _help_line(entry)))
        for heading, lines in sections.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)

    def own_lines(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return names and short helps of the commands that are no guests."""
        commands = ((name, self.own_command(ctx, name)) for name in self.own_commands(ctx))
        return [(name, command.get_short_help_str(limit=200)) for name, command in commands if command is not None]

    def _guests(self, ctx: click.Context) -> Iterator[tuple[str, EntryPoint]]:
        """Yield the names here and the entry points of guests, in order of their names."""
        taken = set(self.own_commands(ctx))
        for entry in sorted(registered(COMMANDS), key=lambda entry: (not is_ours(entry), entry.name)):
            name = entry.name.removeprefix(self._prefix)
            if entry.name.startswith(self._prefix) and "." not in name and name not in taken:
                taken.add(name)
                yield name, entry


def _loaded(entry: EntryPoint) -> click.Command:
    """Return the command of *entry*; Failed names a plug-in that is broken."""
    what = f"the command {entry.name.replace('.', ' ')}"
    if is_ours(entry):
        command = load(entry, what)
    else:
        try:
            command = load(entry, what)
        except Exception as error:  # code of strangers may raise anything
            raise Failed(f"cannot load {what} ({entry.value}): {type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise Failed(f"cannot load {what} ({entry.value}): it is no command of click")
    return command


def _help_line(entry: EntryPoint) -> str:
    try:
        return _loaded(entry).get_short_help_str(limit=200)
    except Failed as error:
        return error.message

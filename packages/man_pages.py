#!/usr/bin/env python3
"""Write a manual page for each command of the slurmsched that Python imports: packages/man_pages.py DIRECTORY"""

from __future__ import annotations

import inspect
import os
import re
import sys
import time
from pathlib import Path

import click

from slurmsched import __version__
from slurmsched.cli import main as program

FILES = """\
.SH FILES
.TP
/etc/slurmsched/slurmsched.toml
The settings; files of conf.d beside it are read after it.
.TP
/opt/slurmsched/share/slurmsched
What an admin copies: drop\\-ins of slurm.conf, job_submit.lua.
"""


def escaped(text: str) -> str:
    """Return *text* as roff prints it: no character of it is a command."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def paragraphs(text: str) -> str:
    """Return the paragraphs of a command's help; those after a \\b keep their lines, as in click."""
    done = []
    for paragraph in inspect.cleandoc(text).split("\f")[0].split("\n\n"):
        kept = paragraph.startswith("\b\n")
        body = escaped(paragraph.removeprefix("\b\n").strip("\n"))
        done.append(f".PP\n.nf\n{body}\n.fi" if kept else f".PP\n{body}")
    return "\n".join(done)


def page(context: click.Context) -> str:
    """Return the page of a command."""
    command, name = context.command, context.command_path.replace(" ", "-")
    summary = command.get_short_help_str(limit=10_000).rstrip(".")
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f'.TH "{name.upper()}" "1" "{day}" "slurmsched {__version__}" "slurmsched"',
        f".SH NAME\n{escaped(name)} \\- {escaped(summary)}",
        f".SH SYNOPSIS\n.B {escaped(context.command_path)}\n{escaped(usage)}",
        f".SH DESCRIPTION\n{paragraphs(command.help or summary)}",
    ]
    rows = [row for parameter in command.get_params(context) if (row := parameter.get_help_record(context))]
    if rows:
        parts.append(".SH OPTIONS")
        parts += [f".TP\n\\fB{escaped(names)}\\fR\n{escaped(text or chr(32))}" for names, text in rows]
    if isinstance(command, click.Group):
        parts.append(".SH COMMANDS")
        for child in children(context):
            parts.append(f".TP\n\\fB{escaped(child.command_path.replace(' ', '-'))}\\fR(1)")
            parts.append(escaped(child.command.get_short_help_str(limit=10_000)))
    if program.epilog and context.parent is None:
        parts.append(f".SH EXIT STATUS\n{escaped(program.epilog.removeprefix('Exit status: '))}\n{FILES.rstrip()}")
    if context.parent is not None:
        parts.append(f".SH SEE ALSO\n\\fB{escaped(context.parent.command_path.replace(' ', '-'))}\\fR(1)")
    return "\n".join(parts) + "\n"


def children(context: click.Context) -> list[click.Context]:
    """Return the contexts of a group's commands, none of another command."""
    group = context.command
    if not isinstance(group, click.Group):
        return []
    commands = ((name, group.get_command(context, name)) for name in group.list_commands(context))
    return [click.Context(command, context, name, **command.context_settings) for name, command in commands if command]


def pages(context: click.Context) -> dict[str, str]:
    """Return the pages of a command and of all below it, by the names of their files."""
    found = {f"{context.command_path.replace(' ', '-')}.1": page(context)}
    for child in children(context):
        found |= pages(child)
    return found


def main() -> None:
    """Write the pages to the directory of the command line."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages(click.Context(program, None, "slurmsched", **program.context_settings)).items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main()

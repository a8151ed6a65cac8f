"""The reference pages, generated from the code: ``python -m slurmsched.cli.reference NAME`` with one of ``PAGES``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from ..cluster.reason_table import ADVICE, TEXTS, WORDS, Meaning, ReasonKind
from ..config.catalogue import Setting, catalogue, section_title
from ..config.example import example, toml_value
from ..config.levels import LEVELS
from . import main
from .study.simulate_keys import GONE, POLICY, TRACE, Key

COMMANDS_HEAD = """\
# Commands

Made from `--help` by `python -m slurmsched.cli.reference commands`; a test keeps it true.

Every command that reads takes `--json` and then prints one object with `"schema": "slurmsched/1"`, whose JSON Schema
`slurmsched schema COMMAND` prints. Exit status: 0 fine, 1 request failed, 2 wrong usage, 3 nothing found or no such
job. Tables are plain text with all their columns when piped. On a terminal a row is one line: long texts are cut and
the least important columns left out until it fits; `--wide` shows all columns, `--columns JOB,USER` those that you
name.
"""

SETTINGS_HEAD = """\
# Settings

Made by `python -m slurmsched.cli.reference settings`; a test keeps it true.

Settings are read from the file of `--config`, else of `$SLURMSCHED_CONFIG`, else `/etc/slurmsched/slurmsched.toml`;
then from `conf.d/*.toml` beside it in the order of their names; then, secrets only, from the environment or from
systemd credentials. The last source wins. Unknown keys and wrong types are errors, all reported at once. On SIGHUP the
daemon reads everything again; where that fails it keeps the old settings and logs why.

Each setting has a level. A site sets the basic ones first; those of the level power belong to a power or a promise and
matter where that is on; hardly any site changes the expert ones. In each section they stand in this
order. `slurmsched config show --level basic` leaves out the rest.
"""


REASONS_HEAD = """\
# Slurm's reasons

After this page you know what a reason of squeue means and what the owner of the job can do. `slurmsched why JOB` says
the same with the values of the job. `python -m slurmsched.cli.reference reasons` makes this page; a test keeps it true.

The words are those of Slurm 22.05 to 26.05. Squeue prints the word, or a text that begins as shown. What stands in
braces comes from the job. A reason that is not listed means that the job waits: `why` shows Slurm's word, and
`slurmsched_unknown_reason_jobs_total` counts such jobs.

Other words that begin with QOS, Assoc or Max are limits: `QOSMaxGRESPerUser` is the limit of a QOS (`MaxTRESPU`) on the
GPUs of one user. Where the daemon may read limits, `why` says whose it is, its amount, what is used and by which jobs.
"""


KEYS_HEAD = """\
# Keys of simulate

After this page you know every key of a policy and of a trace.

`slurmsched simulate` has few options. What else there is to say about a policy or a trace is a key of a file, or
`--set KEY=VALUE` for all that the files leave open. `slurmsched simulate --example policy` writes a file to begin with;
`cluster`, `trace` and `workload` are other examples. [The
simulator](../simulator.md#policies-clusters-and-sweeps-in-files) explains policy and cluster files,
[traces](../traces.md) the workloads. `python -m slurmsched.cli.reference simulate-keys` makes this page, and a test
keeps it true.

Until 2026-11 each key was an option; `slurmsched simulate` refuses those with what to write instead.
"""


def simulate_keys_page() -> str:
    """Return the text of ``docs/reference/simulate-keys.md``."""
    parts = [KEYS_HEAD]
    for title, keys in (("[policy] in a policy file (--policy FILE.toml)", POLICY), ("[trace] in a trace file", TRACE)):
        parts.append(f"## {title}\n\n| key | what it says | as an option it was |\n|---|---|---|")
        parts += [f"| `{key.name}` | {key.help.replace('|', ', ')} | {_was(key)} |" for key in keys]
        parts.append("")
    others = [(name, instead) for name, instead in GONE.items() if not instead.startswith("--set")]
    parts.append("## Options with other names\n\n| was | say |\n|---|---|")
    parts += [f"| `{name}` | `{instead}` |" for name, instead in others]
    return "\n".join([*parts, ""])


def _was(key: Key) -> str:
    return f"`{key.was}`" if key.was else "–"


def commands_page() -> str:
    """Return the text of ``docs/reference/commands.md``."""
    pages = [f"## {path}\n\n```text\n{text.rstrip()}\n```\n" for path, text in _helps(main, "slurmsched", None)]
    return "\n".join([COMMANDS_HEAD, *pages])


def settings_page() -> str:
    """Return the text of ``docs/reference/settings.md``."""
    every = [setting for keys in catalogue().values() for setting in keys.values()]
    first = [_basic(setting) for setting in every if setting.level == LEVELS[0]]
    parts = [
        SETTINGS_HEAD,
        "## What a site sets first\n\n| setting | what it says | default |\n|---|---|---|",
        *first,
        "",
    ]
    for section, keys in catalogue().items():
        parts.append(f"## [{section}]\n\n{section_title(section)}\n")
        by_level = sorted(keys.values(), key=lambda setting: LEVELS.index(setting.level))
        parts += [_setting(setting) for setting in by_level]
    return "\n".join(parts)


def reasons_page() -> str:
    """Return the text of ``docs/reference/reasons.md``."""
    texts = [(pattern.pattern.replace("[ _]", " "), meaning) for pattern, _, meaning in TEXTS]
    told = [(f"`{word}`", meaning) for word, meaning in WORDS.items() if word and word[0] != "("]
    told += [(f"`{_NAMED.sub('NAME', text).strip()}`", meaning) for text, meaning in texts]
    parts = [REASONS_HEAD]
    for kind in ReasonKind:
        rows = [(name, meaning) for name, meaning in told if meaning.kind is kind]
        parts.append(f"## {_KINDS[kind]}\n\n| reason | what it means | what you can do |\n|---|---|---|")
        parts += [f"| {name} | {_sentence(meaning)} | {meaning.advice or ADVICE[kind]} |" for name, meaning in rows]
        parts.append("")
    return "\n".join(parts)


_NAMED = re.compile(r"\(\?P<named>.*?\}\)|\\[dw]\+")
_KINDS = {
    ReasonKind.WAITS: "It waits, and Slurm goes on by itself",
    ReasonKind.LIMIT: "A limit blocks it",
    ReasonKind.HELD_BY_USER: "Its owner holds it",
    ReasonKind.HELD_BY_ADMIN: "An administrator holds it",
    ReasonKind.HELD_BY_SLURM: "Slurm holds it",
    ReasonKind.DEPENDENCY: "It depends on other jobs",
    ReasonKind.DEPENDENCY_NEVER: "It depends on what can no longer be",
    ReasonKind.BEGIN: "Its begin time has not come",
    ReasonKind.RESERVATION: "It belongs to a reservation",
    ReasonKind.CLOSED: "Its partition is closed",
    ReasonKind.CANNOT_RUN: "It cannot run as it is",
}


def _sentence(meaning: Meaning) -> str:
    return meaning.sentence or f"{meaning.clause[:1].upper()}{meaning.clause[1:]}."


PAGES = {
    "commands": commands_page,
    "settings": settings_page,
    "reasons": reasons_page,
    "simulate-keys": simulate_keys_page,
    "example": example,
}


def _helps(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    name = path.rpartition(" ")[2]
    context = click.Context(
        command, parent, name, terminal_width=100, max_content_width=100, **command.context_settings
    )
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, name
            yield from _helps(child, f"{path} {name}", context)


def _basic(setting: Setting) -> str:
    """Return the row of a basic setting, with a link to its heading."""
    anchor = re.sub(r"[^\w-]", "", setting.name)
    text = setting.help.replace("|", ", ")
    return f"| [{setting.name}](#{anchor}) | {text} | `{toml_value(setting.default)}` |"


def _setting(setting: Setting) -> str:
    lines = [f"### {setting.name}\n", f"{setting.help[:1].upper()}{setting.help[1:]}.\n"]
    lines += [f"* Level: {setting.level}", f"* Accepts: {setting.accepts}"]
    lines.append(f"* Default: `{toml_value(setting.default)}`")
    if setting.secret:
        lines.append(f"* Secret: also from `${setting.variable}` or the systemd credential `{setting.credential}`")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("page", type=click.Choice(list(PAGES)))
def reference(page: str) -> None:
    """Print a reference page."""
    click.echo(PAGES[page](), nl=False)


if __name__ == "__main__":
    reference()

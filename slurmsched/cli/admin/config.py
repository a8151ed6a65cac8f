"""``slurmsched config``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ...cluster.text.plural import count
from ...config import load
from ...config.catalogue import every_setting
from ...config.files import Problems
from ...config.json_schema import settings_schema
from ...config.levels import LEVELS
from ...daemon.validation import named_partitions, problems_of, unknown_partitions
from ...errors import SlurmError
from ..app import App
from ..output import TextTable, emit, json_option, table_options

if TYPE_CHECKING:
    from ..json_answers import SettingsChecked, SettingsShown


@click.group()
def config() -> None:
    """Check, show or describe the settings."""


@config.command()
@click.argument("file", required=False)
@json_option
@click.pass_obj
def check(app: App, file: str | None, as_json: bool) -> None:
    """Read the settings, or FILE in their place, and list everything wrong with them.

    A daemon starts with any settings that pass. Partitions in the settings are looked up where Slurm answers.
    """
    from ...daemon.policy_settings import notes_on, policy_of

    notes: list[str] = []
    try:
        if file:
            app.loaded = load(file, app.environ)
        loaded = app.loaded
        if problems := problems_of(loaded.settings) or _unknown_partitions(app, notes):
            raise Problems(problems)
    except Problems as error:
        if as_json:
            bad: SettingsChecked = {"problems": list(error.problems)}
            emit(bad, as_json=True)
        raise
    files = [str(path) for path in loaded.files]
    set_count = sum(origin != "default" for origin in loaded.origins.values())
    sentence = f"{', '.join(files) or 'no file'}: fine, {count(set_count, 'setting')} said, the rest at their defaults"
    notes += notes_on(policy_of(loaded.settings))
    facts: SettingsChecked = {"files": files, "said": set_count, "notes": notes, "problems": []}
    emit(facts, sentence, *notes, as_json=as_json)


def _unknown_partitions(app: App, notes: list[str]) -> list[str]:
    """Return the unknown partitions in the settings; *notes* gets the reason where they cannot be checked."""
    if not any(named_partitions(app.settings())):
        return []
    try:
        return unknown_partitions(app.settings(), app.partitions())
    except SlurmError as error:
        notes.append(f"the partitions that the settings name were not checked: {error}")
        return []


@config.command()
@click.option("--origin", is_flag=True, help="Show the origin of each setting.")
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default=LEVELS[-1],
    show_default=True,
    help="basic: what a site sets first. power: also what belongs to a power. expert: all.",
)
@table_options
@click.pass_obj
def show(app: App, origin: bool, level: str, as_json: bool) -> None:
    """Show every setting in force; secrets are hidden."""
    loaded, chosen = app.loaded, list(every_setting(level))
    facts: SettingsShown = {
        "settings": {one.name: one.shown(loaded.settings) for one in chosen},
        "levels": {one.name: one.level for one in chosen},
    }
    if origin:
        facts["origins"] = {one.name: loaded.origins[one.name] for one in chosen}
    columns = ("SETTING", "VALUE", "LEVEL", *(["ORIGIN"] if origin else []))
    rows = [(one.name, _text(facts["settings"][one.name]), one.level, loaded.origins[one.name]) for one in chosen]
    emit(facts, TextTable(columns, [row[: len(columns)] for row in rows]), as_json=as_json)


@config.command()
def schema() -> None:
    """Print a JSON Schema of the settings file, for editors that complete and check TOML."""
    click.echo(json.dumps(settings_schema(), indent=2))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, tuple) else str(value)

"""``slurmsched db``."""

from __future__ import annotations

import click

from ..app import App


@click.group()
def db() -> None:
    """Maintain the database."""


@db.command()
@click.pass_obj
def upgrade(app: App) -> None:
    """Upgrade the tables to this program's version; an SQLite file is copied first."""
    store = app.open_store()
    try:
        version = store.upgrade()
    finally:
        store.close()
    click.echo(f"{store.place}: the tables have version {version}")

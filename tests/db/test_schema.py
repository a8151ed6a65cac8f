"""The version of the tables: made, upgraded, refused."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from db_worlds import outcomes
from sqlalchemy import text

from slurmsched.db import schema
from slurmsched.db.store import Store
from slurmsched.db.tables import metadata
from slurmsched.errors import ConfigError, MemoryUnavailable, SchemaMismatch

VERSION = max(path.name[1:5] for path in (schema.UPGRADES / "versions").glob("v*.py"))
AFTER = f"{int(VERSION) + 1:04}"

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "{after}"
down_revision = "{version}"

def upgrade():
    with op.batch_alter_table("control") as control:
        control.add_column(sa.Column("why", sa.Text))
        control.alter_column("by", nullable=True)
    {trouble}
"""


@pytest.fixture
def next_version(tmp_path):
    def make(trouble=""):
        scripts = tmp_path / "100% newer"
        shutil.copytree(schema.UPGRADES, scripts, ignore=shutil.ignore_patterns("__pycache__"))
        text = NEXT.format(after=AFTER, version=VERSION, trouble=trouble)
        (scripts / "versions" / f"v{AFTER}_next.py").write_text(text)
        return scripts

    return make


def test_the_upgrades_make_the_tables_of_the_program(store):
    with store.database.transaction("comparing") as connection:
        opts = {"compare_type": True, "version_table": schema.VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, metadata) == []


def test_an_upgrade_twice_is_an_upgrade_once(store):
    assert store.upgrade() == store.upgrade() == store.version()
    store.check()


def test_a_database_without_tables_is_refused_with_what_to_do(url, tmp_path):
    store = Store(url)
    store.database.create_file()
    with pytest.raises(
        SchemaMismatch, match=f"have version none, this slurmsched needs {VERSION}: run 'slurmsched db up"
    ):
        store.check()
    store.close()


def test_newer_tables_are_refused_with_both_versions(store):
    with store.database.transaction("pretending", write=True) as connection:
        connection.execute(text("UPDATE slurmsched_version SET version_num = '0042'"))
    for step in (store.check, store.upgrade):
        with pytest.raises(SchemaMismatch, match=f"have version 0042, this slurmsched knows up to {VERSION}: install"):
            step()


def test_tables_from_before_the_first_release_are_refused_with_the_way_on_and_left_as_they_are(url, tmp_path):
    store = Store(url)
    store.database.create_file()
    with store.database.transaction("as an early commit made them", write=True) as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('0001')"))
        connection.execute(text("CREATE TABLE outcomes (job_id BIGINT)"))
        connection.execute(text("INSERT INTO outcomes VALUES (7)"))
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.db")}
    for step in (store.check, store.upgrade, store.version):
        with pytest.raises(
            SchemaMismatch, match=r"before the first release .* untouched: .* 'slurmsched history import'"
        ):
            step()
    with store.database.transaction("looking") as connection:
        assert connection.execute(text("SELECT job_id FROM outcomes")).all() == [(7,)]
    store.close()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.db")} == files


def test_older_tables_are_upgraded_and_keep_their_rows(store, next_version):
    scripts = next_version()
    store.add_outcomes("c", outcomes(5))
    store.pause("c", by="root", now_s=1)
    with pytest.raises(SchemaMismatch, match=f"needs {AFTER}"):
        schema.check(store.database, scripts)
    assert schema.upgrade(store.database, scripts) == AFTER
    assert store.history("c").equals(outcomes(5))
    assert store.control("c", 2).by == "root"


def test_an_upgrade_that_fails_changes_nothing(store, next_version):
    scripts = next_version('op.execute("SELECT nonsense FROM nowhere")')
    with pytest.raises(MemoryUnavailable, match=f"upgrading the tables to version {AFTER}"):
        schema.upgrade(store.database, scripts)
    store.check()
    store.pause("c", by="root", now_s=1)


def test_a_file_is_copied_before_its_upgrade(tmp_path, next_version):
    store = Store(f"sqlite:///{tmp_path}/a.db")
    store.upgrade()
    store.add_outcomes("c", outcomes(5))
    schema.upgrade(store.database, next_version())
    store.close()
    copy = tmp_path / f"a.db.before-{AFTER}"
    assert copy.stat().st_mode & 0o777 == 0o600
    before = Store(f"sqlite:///{copy}")
    assert before.version() == VERSION
    assert len(before.history("c")) == 5
    before.close()


def test_a_file_that_is_not_there_is_named_with_who_makes_it(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/a.db")
    with pytest.raises(MemoryUnavailable, match=r"no database .*a\.db .*'slurmsched db upgrade'"):
        store.check()
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_is_not_copied(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/a.db")
    store.upgrade()
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_server_that_cannot_hold_all_text_is_refused(server):
    url = server.new_database("SQL_ASCII")
    store = Store(url)
    with pytest.raises(ConfigError, match="encoding SQL_ASCII; create it with ENCODING 'UTF8'"):
        store.upgrade()
    store.close()

"""Addresses, files and who may open them, and what messages say."""

from __future__ import annotations

import os
import pwd
import subprocess
import traceback

import pytest
from db_worlds import outcomes

from slurmsched.db.database import Database, database_url
from slurmsched.db.store import Store
from slurmsched.errors import ConfigError, MemoryUnavailable


def test_without_an_address_the_file_is_in_the_state_directory():
    assert database_url("", "/var/lib/slurmsched") == "sqlite:////var/lib/slurmsched/slurmsched.db"
    assert database_url("postgresql://h/d", "/x") == "postgresql://h/d"


@pytest.mark.parametrize("url", ["postgresql://u@h/d", "postgres://u@h/d", "postgresql+psycopg://u@h/d"])
def test_every_way_to_write_postgresql_means_psycopg(url):
    database = Database(url, timeout_s=1)
    assert database.place == "postgresql+psycopg://u@h/d"
    assert database.path is None


@pytest.mark.parametrize("url", ["mysql://u:s3cret@h/d", "s3cret", "postgresql+asyncpg://u:s3cret@h/d"])
def test_another_address_is_refused_without_showing_its_password(url):
    with pytest.raises(ConfigError, match="write sqlite:////path") as caught:
        Database(url, timeout_s=1)
    assert "s3cret" not in str(caught.value)


def test_a_server_that_is_not_there_is_unavailable_and_the_password_stays_secret():
    store = Store("postgresql://u:s3cret@127.0.0.1:1/d", timeout_s=1)
    with pytest.raises(MemoryUnavailable, match=r"reading the history in postgresql\+psycopg://u:\*\*\*@") as caught:
        store.history("c")
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_file_that_is_not_there_is_unavailable_and_not_begun_anew(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/a.db")
    with pytest.raises(MemoryUnavailable, match="unable to open database file"):
        store.history("c")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_unavailable(tmp_path):
    (tmp_path / "a.db").write_bytes(b"hello" * 1000)
    store = Store(f"sqlite:///{tmp_path}/a.db")
    with pytest.raises(MemoryUnavailable, match="file is not a database"):
        store.upgrade()
    store.close()


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MemoryUnavailable, match=r"creating .*/none/a\.db: No such file"):
        Store(f"sqlite:///{tmp_path}/none/a.db").upgrade()


def test_a_file_that_was_replaced_is_noticed(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/a.db")
    store.upgrade()
    store.add_outcomes("c", outcomes(3))
    for name in list(tmp_path.iterdir()):
        name.unlink()
    with pytest.raises(MemoryUnavailable):
        store.add_outcomes("c", outcomes(5))
    store.upgrade()
    assert store.add_outcomes("c", outcomes(5)) == 5
    store.close()


def test_messages_of_errors_hold_no_rows(store):
    with pytest.raises(MemoryUnavailable) as caught, store.database.transaction("trying", write=True) as connection:
        connection.exec_driver_sql("SELECT nonsense FROM nowhere")
    assert "trying in " in str(caught.value)


def test_a_database_in_memory_serves_a_simulation():
    store = Store("sqlite://")
    store.upgrade()
    assert store.add_outcomes("c", outcomes(3)) == 3
    assert store.path is None
    store.close()


def test_only_its_owner_can_read_the_file(tmp_path):
    store = Store(f"sqlite:///{tmp_path}/a.db")
    store.upgrade()
    store.add_outcomes("c", outcomes(3))
    with store.database.transaction("looking"):
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}
    store.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_what_root_makes_the_daemons_user_can_open(tmp_path_factory):
    nobody = pwd.getpwnam("nobody")
    home = tmp_path_factory.mktemp("state")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    for parent in list(home.parents)[:-1]:
        if parent.stat().st_uid == 0 and parent.stat().st_mode & 0o001 == 0:
            parent.chmod(parent.stat().st_mode | 0o011)
    store = Store(f"sqlite:///{home}/a.db")
    store.upgrade()
    store.add_outcomes("c", outcomes(3))
    with store.database.transaction("keeping the log open"):
        program = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
            "c.execute('DELETE FROM outcomes WHERE job_id = 1'); c.commit()"
        )
        done = subprocess.run(
            ["/usr/bin/python3", "-c", program, f"{home}/a.db"],
            user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(store.history("c")) == 2
    assert {path.stat().st_uid for path in home.iterdir()} == {nobody.pw_uid}
    store.close()

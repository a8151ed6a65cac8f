"""A private PostgreSQL, made and ended by the tests that need one."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp

import pytest
from sqlalchemy import Engine, create_engine, text

from slurmsched.db.store import Store


@dataclass
class Server:
    """A PostgreSQL that listens in its own directory and nowhere else."""

    bin: Path
    home: Path
    as_user: list[str]

    def run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self.as_user, str(self.bin / program), *arguments], cwd="/", capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{program}: {done.stdout} {done.stderr}"

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self.home} -c fsync=off -c max_connections=50"
        log = str(self.home / "log")
        self.run("pg_ctl", "start", "-w", "-D", str(self.home / "data"), "-l", log, "-o", options)

    def stop(self) -> None:
        self.run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(self.home / "data"))

    def backends(self) -> list[int]:
        """The processes that serve connections."""
        postmaster = self.postmaster()
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        titles = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace") for pid in children}
        return [pid for pid, title in titles.items() if " postgres t" in title]

    def postmaster(self) -> int:
        """The process that takes new connections."""
        return int((self.home / "data" / "postmaster.pid").read_text().split()[0])

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.home}"

    @property
    def runs(self) -> bool:
        return (self.home / "data" / "postmaster.pid").exists()

    def remove(self) -> None:
        self._engine.dispose()
        if self.runs:
            self.stop()
        shutil.rmtree(self.home)

    def new_database(self, encoding: str = "UTF8", like: str = "template0") -> str:
        """The address of a new one, a copy of another."""
        name = f"t{secrets.token_hex(6)}"
        with self._engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE {like}"))
        return self.url(name)

    @cached_property
    def _engine(self) -> Engine:
        url = self.url("postgres").replace("postgresql:", "postgresql+psycopg:")
        return create_engine(url, isolation_level="AUTOCOMMIT", pool_pre_ping=True)

    @cached_property
    def with_tables(self) -> str:
        """The name of a database with tables as ``upgrade`` makes them; those for tests are its copies."""
        url = self.new_database()
        store = Store(url, timeout_s=60.0)
        store.upgrade()
        store.close()
        return url.partition("@/")[2].partition("?")[0]


def new_server() -> Server:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    home = Path(mkdtemp(prefix="slurmsched-pg-", dir="/tmp"))
    as_user: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        owner = pwd.getpwnam("postgres")
        os.chown(home, owner.pw_uid, owner.pw_gid)
        as_user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    server = Server(found[-1].parent, home, as_user)
    server.run("initdb", "-D", str(home / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
    return server

"""The lab's own MariaDB, for slurmdbd."""

from __future__ import annotations

import getpass
import pwd
import shutil
import subprocess
from collections.abc import Mapping

from slurmsched.errors import LabError
from slurmsched.lab.layout import Layout
from slurmsched.lab.programs import find

#: the data is discarded with the lab: small and never synced to disk
THRIFTY = (
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=32M",
    "--innodb-lock-wait-timeout=900",
    "--innodb-flush-method=nosync",
    "--innodb-flush-log-at-trx-commit=0",
    # On by default from MariaDB 11.6 and fatal to slurmdbd at the first conflict; older ones do not know it.
    "--loose-innodb-snapshot-isolation=OFF",
    "--skip-log-bin",
    "--skip-name-resolve",
)
INSTALL_S = 120.0
ASK_S = 20.0


def owner() -> str:
    """Return the unix user MariaDB runs as: its package's, if there is one."""
    try:
        pwd.getpwnam("mysql")
    except KeyError:
        return getpass.getuser()
    return "mysql"


def install(layout: Layout, env: Mapping[str, str]) -> None:
    """Create an empty data directory that only its owner can enter."""
    for directory in (layout.database, layout.database / "data", layout.database / "scratch"):
        directory.mkdir(mode=0o700)
        shutil.chown(directory, owner())
    argv = [
        find("mariadb-install-db") or "mariadb-install-db",
        "--no-defaults",
        f"--user={owner()}",
        *THRIFTY,
        *_places(layout),
    ]
    argv += ["--auth-root-authentication-method=socket", "--skip-test-db"]
    with layout.log("mariadb-install").open("wb") as log:
        done = subprocess.run(
            argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env, timeout=INSTALL_S, cwd="/", check=False
        )
    if done.returncode:
        raise LabError(f"mariadb-install-db failed; its log ends:\n{layout.log_tail('mariadb-install', lines=40)}")


def _places(layout: Layout) -> list[str]:
    # Two servers that share /tmp delete each other's temporary tables, and crash.
    return [f"--datadir={layout.database}/data", f"--tmpdir={layout.database}/scratch"]


def argv(layout: Layout, port: int) -> list[str]:
    """Return the command that runs the server."""
    where = [*_places(layout), f"--socket={layout.database_socket}", f"--pid-file={layout.database}/pid"]
    return [
        find("mariadbd") or "mariadbd",
        *("--no-defaults", f"--user={owner()}", *where, f"--port={port}", "--bind-address=127.0.0.1", *THRIFTY),
    ]


def grant(layout: Layout, password: str) -> bool:
    """Create slurmdbd's database and its one user; return False while the server does not answer yet."""
    if not layout.database_socket.exists():
        return False
    statements = (
        "CREATE DATABASE IF NOT EXISTS slurm_acct_db;"
        f"CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY '{password}';"
        "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';"
    )
    done = subprocess.run(
        [find("mariadb") or "mariadb", "--no-defaults", f"--socket={layout.database_socket}", "--user=root"],
        input=statements,
        capture_output=True,
        text=True,
        timeout=ASK_S,
        cwd="/",
        check=False,
    )
    return done.returncode == 0

"""slurmsched itself beside a lab: its commands and its daemon, run as the lab's operator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from .. import interpreter
from ..cluster.columns import Labels
from ..cluster.records.outcomes import OutcomeTable
from ..config.settings import ShareSettings
from ..db.database import database_url
from ..db.store import Store
from ..decide.policy import Policy
from ..decide.rules import Rules, SharingRules
from ..errors import LabError
from ..lab import Lab, wait_until
from ..policies.contract import find_ordering
from ..policies.sharing_candidates import CURVE_MARGIN
from .lab_burst import OPERATOR

READY_S = 60.0
STOP_S = 30.0
#: If the program is below a closed home directory, the lab's users still need to read it.
_READ_ALL = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
ORDERING = "qssf"
EVERY_S = 1.0
_SETTINGS = """\
[daemon]
mode = "act"
every_s = {every_s}
state_dir = "{home}/state"
run_dir = "{home}/run"

[slurm]
conf = "{slurm_conf}"

[power]
order = true

[policy]
ordering = "{ordering}"

[forecast]
learn_online = false

[predict]
enabled = false

[metrics]
listen = ""
"""


def settings(home: Path, slurm_conf: Path, ordering: str) -> str:
    """Return the settings file of the demo's daemon, whose files are below *home*."""
    return _SETTINGS.format(home=home, slurm_conf=slurm_conf, ordering=ordering, every_s=EVERY_S)


def policy(ordering: str) -> Policy:
    """Return the policy of a daemon with those settings."""
    usual = ShareSettings()
    nobody_shares = SharingRules(
        capacity=0,
        wait_s=2 * EVERY_S,
        least_speed=usual.least_speed,
        least_speed_each=usual.least_speed_each,
        margin=CURVE_MARGIN,
    )
    return Policy(find_ordering(ordering), Rules(powers=frozenset({"order"}), max_points=0, sharing=nobody_shares))


class Slurmsched:
    """The program installed beside *lab*, with a directory and settings of its own in it."""

    def __init__(self, lab: Lab, ordering: str = ORDERING) -> None:
        self._lab = lab
        self._home = lab.directory / "slurmsched"
        self._settings = self._home / "slurmsched.toml"
        self._open: tuple[str, ...] = ()
        self._home.mkdir()
        self._settings.write_text(settings(self._home, lab.layout.slurm_conf, ordering))
        for name in ("state", "run"):
            (self._home / name).mkdir()
            self._hand_over(name)
        self._check_readable()

    def run(self, *words: str, user: str = OPERATOR) -> str:
        """Run ``slurmsched`` *words* as *user* and return its output; `LabError` with its error text where it fails."""
        done = self._run(words, user)
        if done.returncode:
            raise LabError(f"slurmsched {' '.join(words)} said: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def history(self, users: Mapping[str, str]) -> OutcomeTable:
        """Return the history of this lab in the database, its unix names replaced by those in *users*."""
        with self._store() as store:
            return _renamed(store.history(self._lab.cluster), users)

    def remember(self, history: OutcomeTable, users: Mapping[str, str]) -> None:
        """Write the *history* of another lab to the database as this one's, with unix names from *users*."""
        with self._store() as store:
            store.upgrade()
            store.add_outcomes(self._lab.cluster, _renamed(history, users))

    @contextmanager
    def _store(self) -> Iterator[Store]:
        store = Store(database_url("", str(self._home / "state")))
        try:
            yield store
        finally:
            store.close()
            self._hand_over("state")

    @contextmanager
    def steering(self) -> Iterator[None]:
        """Run the daemon, from its first cycle to an orderly stop."""
        log = self._home / "daemon.log"
        with log.open("wb") as file:
            daemon = subprocess.Popen(
                self._argv(["run"], OPERATOR),
                env=interpreter.environment(self._lab.env(OPERATOR)),
                cwd=interpreter.DIRECTORY,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C is for the demo alone, which then stops the daemon
            )

        def steers() -> bool:
            if daemon.poll() is not None:
                raise LabError(f"the daemon ended with {daemon.returncode}; its log ends:\n{_tail(log.read_text())}")
            done = self._run(["status", "--json"], OPERATOR)
            return done.returncode == 0 and json.loads(done.stdout).get("cycle") is not None

        try:
            wait_until(steers, READY_S, "the daemon's first cycle", every_s=0.2)
            yield
        finally:
            _end(daemon)

    def _run(self, words: Sequence[str], user: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                self._argv(words, user),
                env=interpreter.environment(self._lab.env(user)),
                cwd=interpreter.DIRECTORY,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60.0,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"slurmsched {' '.join(words)} gave no answer within 60 s") from error

    def _argv(self, words: Sequence[str], user: str) -> list[str]:
        program = interpreter.command("slurmsched", "--config", str(self._settings), *words)
        setpriv, *rest = self._lab.command(program, user)
        return [setpriv, *self._open, *rest]

    def _check_readable(self) -> None:
        for self._open in ((), _READ_ALL):
            done = self._run(["--version"], OPERATOR)
            if not done.returncode:
                return
        raise LabError(
            f"the lab's users cannot run {sys.executable} with slurmsched from {os.path.dirname(__file__)}:"
            f" {_tail(done.stderr, 2)}; install it where every user can read it, below /opt say"
        )

    def _hand_over(self, name: str) -> None:
        """Give the operator ownership of a directory and its contents."""
        directory = self._home / name
        for path in (directory, *directory.iterdir()):
            shutil.chown(path, self._lab.user(OPERATOR))


def _renamed(history: OutcomeTable, users: Mapping[str, str]) -> OutcomeTable:
    return replace(history, user=Labels(history.user.codes, tuple(users[name] for name in history.user.names)))


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(STOP_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _tail(text: str, lines: int = 8) -> str:
    return "\n".join(text.splitlines()[-lines:])

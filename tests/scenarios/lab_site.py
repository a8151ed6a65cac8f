"""A site: a lab, a settings file, and slurmsched as its own processes, run by the lab's operator."""

from __future__ import annotations

import os
import random
import re
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import sysconfig
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from forked import PROGRAM, Forked, Nursery, as_text, for_all_labs, open_to_others
from json_forms import answer_of

import slurmsched
from slurmsched.cluster.actions import Action
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.errors import LabError
from slurmsched.lab import Lab
from slurmsched.lab.users import nobody_gid, uid_of
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

Process = subprocess.Popen[bytes] | Forked
DRIVER = Path(__file__).with_name("driver.py")
BACKEND = "SLURMSCHED_TEST_BACKEND"
"""The variable with the adapter that the sites here use, for runs with each of them."""
KINDS = ("longest", "long", "short", "shortest")
USERS = ("alice", "bob", "carol", "dave")
NEEDED = ("numpy*", "sqlalchemy*", "alembic*", "mako*", "markupsafe*", "click*", "prometheus_client*", "psycopg*")
UNANSWERED = re.compile(
    r'the daemon on \S+ gave no answer|: no daemon answers|^no daemon answers|"source": "record"'
    r"|the daemon is still starting|the answer takes longer than",
    re.MULTILINE,
)
"""What commands say where the daemon did not answer in time."""
PAUSE_S = 0.25
CYCLE_S = 2.0  #: longer than a cycle goes on after it wrote; those that are lost never end
UNCERTAIN = (KeyError, IndexError, ValueError, OSError, sqlite3.Error, LabError)
"""What a question raises of which no answer came, or only a part."""
ALSO_NEEDED = ("rich*", "markdown_it*", "mdurl*", "pygments*", "typing_extensions*")


def interpreter(lab_directory: Path, uid: int) -> tuple[str, str]:
    """A Python that *uid* may run, and its PYTHONPATH; a copy of what we need where our own is closed to others."""
    ours = uid == os.geteuid() or open_to_others()
    return (sys.executable, "") if ours else copied(lab_directory)


@cache
def copied(lab_directory: Path) -> tuple[str, str]:
    """A Python that every user may run and start again, and its PYTHONPATH: a copy of what we need."""
    copy = lab_directory / "python"
    site = Path(sysconfig.get_paths()["purelib"])
    for found in (path for pattern in (*NEEDED, *ALSO_NEEDED) for path in site.glob(pattern)):
        (shutil.copytree if found.is_dir() else shutil.copy)(found, _made(copy) / found.name)
    shutil.copytree(Path(slurmsched.__file__).parent, copy / "slurmsched")
    return f"/usr/bin/python3.{sys.version_info.minor}", str(copy)


def _made(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    return directory


nurseries: dict[tuple[Path, int], Nursery] = {}
"""By lab and user, those of other users than ours; a lab that is taken down takes them along."""


def fresh_names() -> list[str]:
    """Names of jobs that no test had before, the longest first; hexadecimal would be taken for varying parts."""
    word = "".join(random.choices("ghijklmnopqrstuvwxyz", k=6))
    return [f"{word}_{kind}" for kind in KINDS]


@dataclass
class Site:
    """One settings file and what runs by it; *settings* are lines of TOML by section."""

    lab: Lab
    directory: Path
    user: str | None = "operator"  #: None for who started the lab, its SlurmUser
    settings: dict[str, list[str]] = field(default_factory=dict)
    names: list[str] = field(default_factory=fresh_names)  #: no other site's
    daemons: list[Process] = field(default_factory=list)  #: of this site, those that are over too
    waits: int = 0  #: under way
    seen_after: int | None = None  #: cycles that had ended when the last wait did, if nothing was asked since

    @classmethod
    def of(cls, lab: Lab, user: str | None = "operator", **sections: str) -> Site:
        """A new one in the lab's directory; each of *sections* replaces the lines of that section."""
        directory = lab.layout.work / f"site-{secrets.token_hex(4)}"
        directory.mkdir(mode=0o755)
        site = cls(lab, directory, user)
        os.chown(directory, site.uid, nobody_gid())
        usual = {
            "daemon": "mode = 'act'\nevery_s = 1",
            "slurm": f"timeout_s = 20\nbackend = '{os.environ.get(BACKEND, 'auto')}'",
            "power": "order = true",
            "policy": "ordering = 'sjf'",
            "order": "scope = 'queue'",
            "database": "timeout_s = 0.5",
            "predict": "enabled = false",
            "metrics": f"listen = 'unix:{directory}/metrics.sock'",
        }
        site.write(**usual | sections)
        site.teach()
        return site

    def teach(self) -> None:
        """Give the database a history of the names that ``queue`` uses; it outweighs what ran in the lab before."""
        with closing(Store(self.url, timeout_s=10.0)) as store:
            store.upgrade()
            store.add_outcomes(self.lab.cluster, history(self.lab, self.names))

    def write(self, **sections: str) -> None:
        """Change sections of the settings file."""
        self.settings |= {name: text.split("\n") for name, text in sections.items()}
        places = [f"state_dir = '{self.directory}'", f"run_dir = '{self.directory}'"]
        lines: list[str] = []
        for name, section in self.settings.items():
            lines += [f"[{name}]", *section, *(places if name == "daemon" else [])]
        self.file.write_text("\n".join([*lines, ""]))

    @property
    def url(self) -> str:
        """The address of the database."""
        found = re.search(r"^url = '(.*)'", self.file.read_text(), re.MULTILINE)
        return found[1] if found else f"sqlite:///{self.directory}/slurmsched.db"

    @property
    def file(self) -> Path:
        return self.directory / "slurmsched.toml"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()

    @property
    def uid(self) -> int:
        """The number of the site's user."""
        return os.geteuid() if self.user is None else uid_of(self.lab.user(self.user))

    @property
    def environment(self) -> dict[str, str]:
        path = interpreter(self.lab.directory, self.uid)[1]
        return self.lab.env(self.user) | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}

    def argv(self, *words: str) -> list[str]:
        """The command line of slurmsched, as the site's user."""
        return self.python("-m", "slurmsched", "--config", str(self.file), *words)

    def driver(self, *words: object) -> list[str]:
        """The daemon that gets a signal at a moment of its life: see driver.py."""
        copy = self.directory / DRIVER.name  # the tree may be closed to the site's user
        shutil.copy(DRIVER, copy)
        return self.python(str(copy), str(self.file), *map(str, words))

    def python(self, *words: str) -> list[str]:
        return self.lab.command([interpreter(self.lab.directory, self.uid)[0], *words], user=self.user)

    @property
    def nursery(self) -> Nursery:
        """What forks our processes: most of what one takes to start is to read our modules."""
        shared = self.user is None and self.lab.spec.slurm_root is None
        return for_all_labs() if shared else self._own_nursery()

    @property
    def _promises(self) -> bool:
        return "enabled = true" in self.settings.get("deadline", [])

    def _own_nursery(self) -> Nursery:
        key = (self.lab.directory, self.uid)
        if key not in nurseries or not nurseries[key].alive:
            copy = self.directory / PROGRAM.name  # the tree may be closed to the site's user
            shutil.copy(PROGRAM, copy)
            nurseries[key] = Nursery(self.python("-P", str(copy)), self.environment, self.lab.layout.work)
        return nurseries[key]

    def completed(self, *words: str, timeout_s: float = 600.0) -> subprocess.CompletedProcess[bytes]:
        """One command to its end."""
        asked = ["-m", "slurmsched", "--config", str(self.file), *words]
        return self.nursery.run(asked, self.environment, self.directory, timeout_s, self._promises)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command to its end, and again while the daemon runs but was too slow to answer it."""
        self._let_cycle_end()
        until_s = time.monotonic() + 120.0
        while True:
            done = as_text(self.completed(*words))
            if not UNANSWERED.search(done.stdout + done.stderr) or time.monotonic() > until_s:
                return done
            if all(daemon.poll() is not None for daemon in self.daemons):
                return done

    def _let_cycle_end(self) -> None:
        """Wait until a daemon also answers from the cycle that did what was just waited for, if one runs."""
        seen, until_s = self.seen_after, time.monotonic() + CYCLE_S
        if self.waits or seen is None:
            return
        self.seen_after = None
        while self.cycles() == seen and time.monotonic() < until_s:
            if all(daemon.poll() is not None for daemon in self.daemons):
                return
            time.sleep(0.05)

    def said(self, *words: str) -> dict[str, Any]:
        """What a command answered as JSON, the daemon's own words while it runs; empty where it answered nothing."""
        done = self.run(*words, "--json")
        return answer_of(words, done.stdout) if done.stdout else {}

    def start(self, *argv: str) -> Process:
        """Start the daemon, or *argv* in its place; a Python is forked, unless ``env`` stands before its name."""
        command, python = list(argv) or self.argv("run"), self.python()
        with (self.directory / "log").open("ab") as log:
            if command[: len(python)] == python:
                words, file = command[len(python) :], log.fileno()
                return self.nursery.start(words, self.environment, self.directory, file, file, self._promises)
            return subprocess.Popen(command, env=self.environment, cwd=self.directory, stderr=log, stdout=log)

    def kill_at(self, moment: str, cycle: int = 1, patience_s: float | None = None) -> bool:
        """Run a daemon that is killed at a moment of a cycle (driver.py); return True if that moment came.

        With *patience_s* it is killed after so long where that moment does not come: there may be nothing to send. Of
        a later cycle that time begins with the end of the first one.
        """
        before, process = self.cycles(), self.start(*self.driver(cycle, moment))
        try:
            if patience_s and cycle > 1:
                self.until(lambda: self.cycles() > before or process.poll() is not None, "a first cycle")
            assert process.wait(patience_s or 120.0) == -signal.SIGKILL, self.log
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60.0)
            assert patience_s, self.log
            return False
        return True

    def kill_series(self, *moments: tuple[str, int]) -> int:
        """Run daemons one after the other, each killed at a moment of a cycle, or after a while; count the first."""
        return sum(self.kill_at(moment, cycle, patience_s=15.0) for moment, cycle in moments)

    def completed_without_a_daemon(self, jobs: Collection[int]) -> set[str]:
        """Wait until *jobs* have completed; return the reasons for which jobs waited meanwhile."""
        reasons: set[str] = set()

        def all_ran() -> bool:
            reasons.update(self.lab.ask(["squeue", "-h", "-t", "PD", "-o", "%r"]).splitlines())
            return {self.states()[job] for job in jobs} == {"COMPLETED"}

        self.until(all_ran, "all jobs run, without a daemon", 300.0)
        return reasons

    @contextmanager
    def daemon(self, *argv: str) -> Iterator[Process]:
        """The daemon from its first good cycle on; killed at the end if it is still there."""
        before = self.cycles()
        process = self.start(*argv)
        try:
            self.until(lambda: self.cycles() > before or process.poll() is not None, "a first cycle")
            assert process.poll() is None, self.log
            self.daemons.append(process)
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(90.0)

    def until(self, condition: Any, what: str, timeout_s: float = 120.0) -> Any:
        """Wait; a wait in vain tells the last failure of the condition and the end of the log.

        Where a busy machine lets a question go unanswered, the condition raises, and is tried again. What takes long is
        asked for less often: each question costs processors, here and in slurmctld.
        """
        failures, began_s = [""], time.monotonic()

        def holds() -> Any:
            time.sleep(min(PAUSE_S, 0.1 * (time.monotonic() - began_s)))
            try:
                return condition()
            except (*UNCERTAIN, subprocess.TimeoutExpired) as error:
                failures.append(f"{error!r}\n")
                return None

        self.waits += 1
        try:
            found = wait_until(holds, timeout_s, what, every_s=0.05)
            self.seen_after = self.cycles()
            return found
        except LabError as error:
            log = self.log if (self.directory / "log").exists() else ""
            raise AssertionError(f"{error}\n{failures[-1]}{log[-3000:]}") from error
        finally:
            self.waits -= 1

    def cycles(self) -> int:
        """How many cycles ended well, by the log."""
        return len(re.findall(r"INFO \S+: cycle \d+:", self.log)) if (self.directory / "log").exists() else 0

    def more_cycles(self, count: int = 1) -> None:
        """Wait for *count* whole cycles from now: the one under way does not count."""
        until = self.cycles() + count + 1
        self.until(lambda: self.cycles() >= until, f"{count} more cycles", 120.0 + 5 * count)

    def http(self, target: str) -> str:
        """What the metrics endpoint answers."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(60.0)
            stream.connect(str(self.directory / "metrics.sock"))
            stream.sendall(f"GET {target} HTTP/1.0\r\n\r\n".encode())
            with stream.makefile("rb") as answer:
                return answer.read().decode()

    # The database

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of the SQLite database."""
        with closing(sqlite3.connect(self.directory / "slurmsched.db", timeout=10.0)) as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The database through our own code."""
        with closing(Store(self.url, timeout_s=10.0)) as store:
            yield store

    # The cluster

    def cluster(self) -> SlurmCommand:
        """The cluster as the site's user sees it, in this process."""
        prefix = tuple(self.lab.command([], user=self.user))
        return SlurmCommand(CommandRunner(environment=self.lab.env(self.user), prefix=prefix))

    def act(self, *actions: Action) -> list[str | None]:
        """Do *actions* as a cycle would, remembered in the database before and after; what Slurm said to each.

        For a time when no daemon runs: it reads what was remembered at its start.
        """
        cluster, now_s = self.cluster(), time.time()
        with self.store() as store:
            memory = Memory(store, cluster=self.lab.cluster)
            memory.remember(cluster.observe(), now_s)
            number = memory.next_number(now_s)
            memory.intend(number, actions, now_s)
            answers = [(answer.action, answer.refused) for answer in cluster.act(actions)]
            memory.answered(number, answers, now_s)
        return [refused for _, refused in answers]

    def begin_times(self) -> dict[int, float]:
        """When pending jobs may begin that may not yet; Slurm's reason is not to be relied on after an update."""
        asked = ["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-t", "PD", "-O", "JobID:12,EligibleTime:20"]
        rows = (line.split() for line in self.lab.ask(asked).splitlines())
        return {int(job): float(at_s) for job, at_s in rows if at_s.isdigit() and float(at_s) > time.time()}

    def points(self) -> dict[int, int]:
        """SiteFactor by pending job, as sprio shows it."""
        rows = re.findall(r"(\d+)\s+(-?\d+)", self.lab.ask(["sprio", "-h", "-o", "%i %S"]))
        return {int(job_id): int(points) for job_id, points in rows}

    def states(self) -> dict[int, str]:
        """The state of every job that slurmctld knows."""
        rows = (line.split() for line in self.lab.ask(["squeue", "-h", "-t", "all", "-o", "%A %T"]).splitlines())
        return {int(job_id): state for job_id, state in rows}

    def fill(self) -> int:
        """Take the whole lab for as long as the test needs."""
        job = self.lab.submit("--gres=gpu:4", "-N4", "--exclusive", "-t", "30", "--wrap=sleep 1200", "-o/dev/null")
        self.until(lambda: self.states()[job] == "RUNNING", "a full lab")
        return job

    def queue(self, count: int = 3, *options: str) -> list[int]:
        """Up to four jobs that cannot start in a full lab, the longest by history first, one of each user."""
        return [
            self.lab.submit(
                "--gres=gpu:4", "-N4", "--exclusive", "-t20000", "--wrap=true", "-o/dev/null",
                f"-J{self.names[number]}", *options, user=USERS[number],
            )
                for number in range(count)
        ]  # fmt: skip

    def ordered(self, jobs: list[int]) -> bool:
        """Whether Slurm gives the last of *jobs* the highest priority, and so on to the first."""
        rows = (line.split() for line in self.lab.ask(["squeue", "-h", "-t", "PD", "-o", "%A %Q"]).splitlines())
        priority = {int(job_id): int(value) for job_id, value in rows}
        here = [priority[job] for job in jobs]
        return len(set(here)) == len(here) and here == sorted(here)


def history(lab: Lab, names: list[str]) -> OutcomeTable:
    """Five runs of each of *names* by each user, each name a hundred times shorter than the last, an hour ago."""
    runs = [(name, lab.user(user), 1e6 / 100**place) for place, name in enumerate(names) for user in USERS] * 5
    ended_s = time.time() - 3600.0 + np.arange(len(runs))
    runtime_s = np.array([took_s for *_, took_s in runs])
    ones, same = np.ones(len(runs), np.int64), {key: Labels.of(["x"] * len(runs)) for key in ("account", "qos")}
    return OutcomeTable(
        job_id=1_000_000 + np.arange(len(runs)),
        restart=0 * ones,
        name=Labels.of([name for name, *_ in runs]),
        user=Labels.of([user for _, user, _ in runs]),
        partition=Labels.of(["gpu"] * len(runs)),
        **same,
        gpus=16 * ones,
        nodes=4 * ones,
        cpus=32 * ones,
        time_limit_s=1.2e6 * ones,
        first_submit_s=ended_s - 2e6,
        eligible_s=ended_s - 2e6,
        started_s=ended_s - runtime_s,
        ended_s=ended_s,
        runtime_s=runtime_s,
        state=np.full(len(runs), JobState.COMPLETED, dtype=np.int64),
    )


def updates(lab: Lab) -> int:
    """How many REQUEST_UPDATE_JOB calls slurmctld has counted."""
    found = re.search(r"REQUEST_UPDATE_JOB\s*\(.*?count:(\d+)", lab.ask(["sdiag"]))
    return int(found[1]) if found else 0

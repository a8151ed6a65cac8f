"""A private Slurm on loopback: started, used, and removed without traces."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from slurmsched.errors import LabError
from slurmsched.lab import accounting, chores, database, files, ports, processes, programs, tree, users, waiting
from slurmsched.lab.daemons import START_S, STOP_S, ConfRefused, Daemons
from slurmsched.lab.directory import check_reachable, locked, new_directory
from slurmsched.lab.layout import Layout
from slurmsched.lab.manifest import Manifest, draft_of
from slurmsched.lab.spec import LabSpec
from slurmsched.lab.status import LabStatus, NodeStatus, ProcessStatus

STATUS_S = 5.0

REFUSED = "Unable to process configuration file"
"""The message of every program of Slurm that cannot read slurm.conf."""


class Lab:
    """A lab in a directory of its own; without *spec* the one that exists there."""

    def __init__(self, directory: Path | str, spec: LabSpec | None = None) -> None:
        self.directory = Path(directory).resolve()
        self.layout = Layout(self.directory)
        self._wanted = spec or LabSpec()

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    # What it is

    @property
    def manifest(self) -> Manifest:
        """The lab's record, read from disk because other processes change it too; `LabError` when there is none."""
        return Manifest.load(self.layout.manifest)

    @property
    def spec(self) -> LabSpec:
        """The requested shape of the lab."""
        return self.manifest.spec

    @property
    def cluster(self) -> str:
        """Slurm's ClusterName, unique to this lab."""
        return self.manifest.lab_id

    def user(self, name: str) -> str:
        """Return the unix name of the lab user *name*."""
        try:
            return self.manifest.users[name]
        except KeyError:
            names = ", ".join(self.manifest.users) or "none: a lab of an ordinary user has no others"
            raise LabError(f"the lab at {self.directory} has no user {name!r}; it has {names}") from None

    def env(self, user: str | None = None) -> dict[str, str]:
        """Return the environment in which Slurm's commands use only this lab, with *user*'s home."""
        environment = {key: value for key, value in os.environ.items() if not _is_slurms(key)}
        name = self.user(user) if user is not None else None
        own = {"USER": name, "LOGNAME": name, "HOME": str(self.layout.work)} if name is not None else {}
        return (
            environment
            | own
            | {
                "PATH": programs.search_path(),
                "SLURM_CONF": str(self.layout.slurm_conf),
                processes.MARK: self.manifest.lab_id,
            }
        )

    def command(self, argv: Sequence[str], user: str | None = None) -> list[str]:
        """Return *argv* wrapped to run in the lab's root tree and as the lab user *user*."""
        uid = gid = None
        if user is not None:
            uid = users.uid_of(self.user(user))
            gid = users.nobody_gid()
        if self.spec.slurm_root is not None:
            as_user = [f"--userspec={uid}:{gid}", "--groups="] if uid is not None else []
            inside = ["env", f"--chdir={self.layout.work}", *argv]
            return [_program_path("chroot"), *as_user, str(self.layout.root), *inside]
        if uid is None:
            return list(argv)
        return [_program_path("setpriv"), f"--reuid={uid}", f"--regid={gid}", "--clear-groups", *argv]

    def run(
        self,
        argv: Sequence[str],
        user: str | None = None,
        input: str | None = None,  # noqa: A002  subprocess calls it so
        timeout_s: float = 30.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command against the lab, as the lab user *user*; the caller checks its exit status."""
        command = self.command(argv, user)
        try:
            return subprocess.run(
                command,
                input=input,
                stdin=None if input is not None else subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="surrogateescape",
                timeout=timeout_s,
                env=self.env(user),
                cwd=self.layout.work,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{' '.join(command)} gave no answer within {timeout_s:g} s") from error
        except OSError as error:
            raise LabError(f"cannot run {' '.join(command)}: {error}") from error

    def ask(
        self,
        argv: Sequence[str],
        user: str | None = None,
        input: str | None = None,  # noqa: A002
        timeout_s: float = 30.0,
    ) -> str:
        """Run a command that must succeed and return its output; `LabError` with its error text when it fails."""
        done = self.run(argv, user, input, timeout_s)
        if done.returncode:
            message = done.stderr.strip() or done.stdout.strip() or "nothing"
            raise LabError(f"{' '.join(argv)} ended with {done.returncode} and said: {message}")
        return done.stdout

    def submit(self, *options: str, user: str | None = None, script: str | None = None) -> int:
        """Run ``sbatch`` with *options* (``--wrap=...``) or a *script* on stdin; return the job's id."""
        answer = self.ask(["sbatch", "--parsable", *options], user, script)
        return int(answer.split(";")[0])

    def cancel_all(self, timeout_s: float = 30.0) -> None:
        """End every job, by SIGKILL if necessary, and wait until the queue is empty."""

        def emptied() -> bool:
            if not self.ask(["squeue", "-h", "-o", "%A"]).strip():
                return True
            self.run(["scancel", "--quiet", "--state=PENDING"])
            self.run(["scancel", "--quiet", "--state=SUSPENDED"])
            # scancel's SIGTERM may be trapped, and then costs KillWait.
            self.run(["scancel", "--quiet", "--state=RUNNING", "--full", "--signal=KILL"])
            return False

        waiting.wait_until(emptied, timeout_s, "an empty queue", every_s=0.1)

    def status(self) -> LabStatus:
        """Return the current state of the lab."""
        record = self.manifest
        try:
            done = self.run(["sinfo", "-h", "-N", "-o", "%N %T"], timeout_s=STATUS_S)
            lines = done.stdout.splitlines() if done.returncode == 0 else None
        except LabError:
            lines = None
        return LabStatus(
            directory=str(self.directory),
            cluster=record.lab_id,
            slurm_conf=str(self.layout.slurm_conf),
            answers=lines is not None,
            processes=tuple(ProcessStatus(name, p.pid, p.state) for name, p in record.processes.items()),
            nodes=tuple(NodeStatus(*line.split()) for line in dict.fromkeys(lines or ())),
            users=record.users,
            ports=record.ports,
        )

    # Up and down

    def up(self) -> None:
        """Start the lab; when that fails, everything already created is removed.

        Returns when every node is idle and, with accounting, every user known to slurmdbd.
        """
        spec = self._wanted
        programs.check(spec)
        if os.geteuid() == 0:
            check_reachable(self.directory)
        with new_directory(self.layout), ports.hold_ports(3 + spec.nodes, random.SystemRandom()) as held:
            lab_id = f"ss{secrets.token_hex(4)}"
            record = Manifest(self.layout.manifest, lab_id, spec)
            record.ports = {"slurmctld": held[0], "slurmdbd": held[1], "mariadb": held[2], "slurmd": held[3]}
            if os.geteuid() == 0:
                record.users = users.unix_names((*spec.users, *spec.operators), lab_id)
            record.save()
            try:
                self._build(record)
            except BaseException:
                self._raze(record)
                raise

    def down(self) -> None:
        """Stop every process of the lab and remove all its files; do nothing if there is no lab."""
        if not self.directory.exists():
            return
        with locked(self.directory):
            try:
                record = Manifest.load(self.layout.manifest)
            except LabError:
                if self.layout.manifest.exists() or set(self.directory.iterdir()) - {draft_of(self.layout.manifest)}:
                    raise
                # `up` died before its first record, hence before anything else.
                shutil.rmtree(self.directory)
                return
            self._raze(record)

    def _build(self, record: Manifest) -> None:
        files.make_directories(self.layout, record.spec.gpus)
        for name in record.users.values():
            users.create(name, self.layout.work, record.lab_id)
        if record.spec.slurm_root is not None:
            self._mount_tree(record, Path(record.spec.slurm_root))
        password = secrets.token_hex(16)
        files.write_configuration(self.layout, record, password)
        daemons = self._daemons(record)
        daemons.start_munged()
        if record.spec.accounting:
            database.install(self.layout, self.env())
            daemons.start_database(password)
            daemons.start_slurmdbd()
            self._fill_accounting(record)
        daemons.start_controller()
        daemons.start_nodes()
        self.wait_for_nodes()

    def _fill_accounting(self, record: Manifest) -> None:
        """Load the accounts before slurmctld first reports, which would add the cluster without its QOS."""

        def sacctmgr(words: Sequence[str]) -> None:
            self.ask(["sacctmgr", "--immediate", "--quiet", *words])

        for words in accounting.qos_commands(record.spec):
            sacctmgr(words)
        cluster_file = self.layout.etc / "accounting.cfg"
        cluster_file.write_text(accounting.cluster_file(record.spec, record.lab_id, record.users))
        sacctmgr(["load", str(cluster_file)])

    def wait_for_nodes(self, timeout_s: float = START_S) -> None:
        """Wait until every node is up and idle or allocated, or switched off by power saving."""

        def all_up() -> bool:
            states = self.run(["sinfo", "-h", "-N", "-o", "%N %t"]).stdout.split()[1::2]
            return len(states) >= self.spec.nodes and all(map(is_there, states))

        try:
            waiting.wait_until(all_up, timeout_s, f"{self.spec.nodes} nodes to come up", every_s=0.05)
        except LabError as error:
            raise LabError(f"{error}; the first one's log ends:\n{self.layout.log_tail('slurmd.n1')}") from error

    def _mount_tree(self, record: Manifest, slurm_root: Path) -> None:
        def note(point: Path) -> None:
            record.mounts.append(str(point))
            record.save()

        tree.mount(self.layout, slurm_root, record.lab_id, note)
        with (self.layout.root / "etc/passwd").open("a") as passwd:
            passwd.write(users.passwd_lines(record.users))
        (self.layout.root / "etc/hosts").write_text(f"127.0.0.1 localhost {files.host_name()}\n")

    def _raze(self, record: Manifest) -> None:
        """Remove everything, the record last, so that an interrupted attempt can be repeated."""
        lab_id = record.lab_id
        waiting.wait_until(
            lambda: not processes.carrying(chores.MARK, lab_id), chores.TIMEOUT_S, "useradd or mount to end"
        )
        marks = (f"{processes.MARK}={lab_id}".encode(), f"SLURM_CLUSTER_NAME={lab_id}".encode())

        def ended() -> bool:
            left = processes.belonging(marks, users.uids_of(record.users), self.directory)
            left |= {process for process in record.processes.values() if process.alive}
            for process in left:
                process.send(signal.SIGKILL)
            return not left

        waiting.wait_until(ended, STOP_S, f"the processes of {self.directory} to end")
        for process in record.processes.values():
            process.reap()
        for name in record.users.values():
            users.remove(name, lab_id)
        tree.unmount(record.mounts, lab_id)
        if still := tree.mounted_below(self.directory):
            raise LabError(f"not removing {self.directory}: still mounted there: {', '.join(still)}")
        for entry in set(self.directory.iterdir()) - {self.layout.manifest}:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        shutil.rmtree(self.directory)

    # Daemons, one by one

    def stop_controller(self, *, kill: bool = False) -> None:
        """Stop slurmctld: in order, or with SIGKILL as in a crash."""
        self._stop("slurmctld", kill)

    def start_controller(self) -> None:
        """Start slurmctld on its saved state; return when it answers."""
        with locked(self.directory):
            self._daemons(self.manifest).start_controller()

    def restart_controller(self) -> None:
        """Stop and start slurmctld; running jobs continue."""
        self.stop_controller()
        self.start_controller()

    def pause_controller(self) -> None:
        """Send SIGSTOP to slurmctld: it accepts connections and answers none."""
        self._daemons(self.manifest).process("slurmctld").send(signal.SIGSTOP)

    def resume_controller(self) -> None:
        """Resume a paused slurmctld."""
        self._daemons(self.manifest).process("slurmctld").send(signal.SIGCONT)

    def stop_slurmdbd(self, *, kill: bool = False) -> None:
        """Stop slurmdbd; slurmctld queues its messages to it."""
        self._stop("slurmdbd", kill)

    def start_slurmdbd(self) -> None:
        """Start slurmdbd again; return when it answers."""
        with locked(self.directory):
            self._daemons(self.manifest).start_slurmdbd()

    def _stop(self, name: str, kill: bool) -> None:
        with locked(self.directory):
            self._daemons(self.manifest).stop(name, signal.SIGKILL if kill else signal.SIGTERM)

    def _daemons(self, record: Manifest) -> Daemons:
        def answers(argv: Sequence[str]) -> bool:
            done = self.run(argv)
            if REFUSED in done.stderr:
                raise ConfRefused(f"Slurm refuses {self.layout.slurm_conf}:\n{done.stderr.strip()}")
            return done.returncode == 0

        return Daemons(self.layout, record, self.env(), self.command, answers)


def is_there(state: str) -> bool:
    """Report whether a node, by its short state in sinfo(1), answers or is switched off, or about to be, to save power.

    A ``~`` behind the state means powered down, ``%`` powering down and ``!`` that it will be.
    """
    return state.rstrip("~%!") in {"idle", "mix", "alloc"} or state in {"powered_down", "pow_dn"}


def _is_slurms(variable: str) -> bool:
    """Report whether a command of Slurm might read *variable*; slurmsched's own select settings and are exempt."""
    theirs = ("SLURM", "SBATCH_", "SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_", "SALLOC_", "SPRIO_")
    return variable.startswith(theirs) and not variable.startswith("SLURMSCHED_")


def _program_path(program: str) -> str:
    programs.require([program])
    return programs.find(program) or program

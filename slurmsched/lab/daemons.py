"""The daemons of a lab: start, wait and stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slurmsched.errors import LabError
from slurmsched.lab import database
from slurmsched.lab.layout import Layout
from slurmsched.lab.manifest import Manifest
from slurmsched.lab.processes import Process, spawn
from slurmsched.lab.programs import find
from slurmsched.lab.waiting import wait_until

START_S = 60.0  #: how long one daemon may take to answer: a busy machine, not a normal start
STOP_S = 20.0


class ConfRefused(LabError):
    """Slurm cannot read the lab's slurm.conf; waiting does not help."""


@dataclass
class Daemons:
    """The daemons of one lab, all in the foreground, so that each pid is known from the start."""

    layout: Layout
    manifest: Manifest
    env: Mapping[str, str]
    enter: Callable[[Sequence[str]], list[str]]  #: puts a command into the lab's root tree
    answers: Callable[[Sequence[str]], bool]  #: whether a Slurm command succeeds

    def start_munged(self) -> None:
        """Start munged on a socket of its own."""
        at, secrets = self.layout, self.layout.secrets
        own = [f"--socket={at.munge_socket}", f"--key-file={secrets}/key", f"--seed-file={secrets}/seed"]
        own += [f"--pid-file={at.run}/munged.pid", f"--log-file={at.log('munged')}"]
        # --force: a lab in /tmp has world-writable parents, about which munged then only warns.
        self._start("munged", ["munged", "--foreground", "--force", *own])
        self._await("munged", at.munge_socket.exists)

    def start_database(self, password: str) -> None:
        """Start MariaDB, with slurmdbd's account in it."""
        port = self.manifest.ports["mariadb"]
        self._start("mariadbd", database.argv(self.layout, port), inside=False)
        self._await("mariadbd", lambda: database.grant(self.layout, password))

    def start_slurmdbd(self) -> None:
        """Start slurmdbd; return when it answers."""
        self._start("slurmdbd", ["slurmdbd", "-D"])
        self._await("slurmdbd", lambda: self.answers(["sacctmgr", "-n", "show", "cluster"]))

    def start_controller(self) -> None:
        """Start slurmctld; return when it answers."""
        self._start("slurmctld", ["slurmctld", "-D"])
        self._await("slurmctld", lambda: self.answers(["scontrol", "ping"]))

    def start_nodes(self) -> None:
        """Start a slurmd per node."""
        for name in self.manifest.spec.node_names:
            (self.layout.spool / name).mkdir(exist_ok=True)
            self._start(f"slurmd.{name}", ["slurmd", "-D", "-N", name], save=False)
        self.manifest.save()

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Signal the daemon *name* and wait until it is gone; do nothing if it does not run."""
        if process := self.manifest.processes.get(name):
            process.end(number, STOP_S)

    def process(self, name: str) -> Process:
        """Return the running daemon *name*; `LabError` when it does not run."""
        process = self.manifest.processes.get(name)
        if process is None or not process.alive:
            raise LabError(f"{name} of the lab at {self.layout.directory} does not run")
        return process

    def _start(self, name: str, argv: Sequence[str], *, inside: bool = True, save: bool = True) -> None:
        earlier = self.manifest.processes.get(name)
        if earlier and earlier.alive:
            raise LabError(f"{name} of the lab at {self.layout.directory} already runs as process {earlier.pid}")
        settled = ["env", f"--chdir={self.layout.logs}", *argv]
        command = self.enter(settled) if inside else settled
        program = find(command[0])
        if program is None:
            raise LabError(f"cannot start {name}: {command[0]} is not installed")
        self.manifest.processes[name] = spawn([program, *command[1:]], self.env, self.layout.log(name))
        if save:
            self.manifest.save()

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until *ready*; `LabError` with the end of its log when the daemon dies or does not answer in time."""
        process = self.manifest.processes[name]
        is_ready = False

        def ready_or_dead() -> bool:
            nonlocal is_ready
            is_ready = ready()
            return is_ready or not process.alive

        try:
            wait_until(ready_or_dead, START_S, f"{name} to answer")
        except ConfRefused:
            raise
        except LabError as error:
            raise LabError(f"{error}; its log ends:\n{self.layout.log_tail(name)}") from error
        if not is_ready:
            process.reap()
            raise LabError(f"{name} ended at once; its log ends:\n{self.layout.log_tail(name)}")

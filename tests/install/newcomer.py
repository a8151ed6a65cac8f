"""A site that never had slurmsched, and the course of pages that its admin and its users read on the first day."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs

sys.path.insert(0, str(Path(__file__).parent))

from fresh_host import (
    CHECKOUT,
    ENVIRONMENT,
    LIBRARIES,
    ROOT,
    FreshHost,
    NoHost,
    fresh_host,
    place_checkout,
    place_libraries,
)
from pages import Broken, Command, Reader, Shell, commands

COURSE: tuple[tuple[str, str | None], ...] = (
    ("README.md", "Two commands"),
    ("docs/install.md", "Packages, without a network"),
    ("docs/install.md", "A container image"),
    ("docs/install.md", "The program"),
    ("contrib/slurm.conf.d/00-readme.md", None),
    ("docs/install.md", "Slurm's side"),
    ("README.md", "An admin's first hour"),
    ("docs/install.md", "Start"),
    ("docs/users.md", None),
    ("docs/profiling.md", "Install on the nodes"),
    ("docs/install.md", "Slurm's releases, and pyslurm"),
    ("docs/install.md", "Remove"),
)
"""Pages and headings in the order of a first day; None takes the whole page."""

PACKAGE_COURSE: tuple[tuple[str, str | None], ...] = (("docs/observe.md", None),)
"""What an admin types who has the package, and a user after that."""

KEYS_A_SECOND = 5.0  #: of somebody who types 60 words a minute
WITHIN_S, TYPING_S = 600.0, 60.0
"""How long the course of the package may take, and how much of that is typing."""

VENV = "python3 -m venv /opt/slurmsched"
ITS_LIBRARIES = (
    "for place in /opt/slurmsched/lib/python3*/site-packages; do"
    f""" echo 'import sys; sys.path.insert(0, "{LIBRARIES}")' >$place/newcomer.pth; done"""
)
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""pip takes libraries that are there; of the flag that switches build isolation off it reads the value of isolation."""

PACKAGES = "/opt/packages"
"""Where an admin has put the package."""

NOT_HERE = {
    r"slurmsched eta\b": "needs the extra sim, whose code compiles for minutes",
    r"slurmsched deadline --check": "this site promises no deadlines",
    r"slurmsched warm-up": "compiles for minutes; tests/cli/test_warm_up.py runs it",
}
"""Commands that cannot run on this host, and why."""


class Site:
    """A fresh host with a Slurm of its own, which reads /etc/slurm; slurmsched is not there yet.

    It has a checkout and what pip needs, or where a *package* is given nothing but that.
    """

    def __init__(self, host: FreshHost, directory: Path, package: Path | None = None) -> None:
        self.host, self.lab = host, Lab(directory)
        if trouble := self._lab_command("up", "--nodes=2"):
            raise Broken(f"its Slurm does not come up: {trouble}")
        host.sh(f"mkdir -p /etc/slurm && mount --bind {self.lab.layout.etc} /etc/slurm")
        self._packaged = package is not None
        if package is None:
            place_libraries(host)
            place_checkout(host)
        else:
            host.sh(f"mount -t tmpfs host-log /var/log && mkdir -p {PACKAGES} && cp {package.resolve()} {PACKAGES}")
        self._place_systemctl()
        self.before = host.changes()
        self.waiting_job = 0
        self._program = host.directory / "program"

    def down(self) -> None:
        """End the Slurm."""
        if trouble := self._lab_command("down"):
            raise Broken(f"its Slurm does not end: {trouble}")

    def install_program(self) -> None:
        """Install as the page says, with the commands of "The program"; where that was done before, from a copy."""
        if not self._program.exists():
            play(Reader(self.shell, self.adapted, lambda line: None), [("docs/install.md", "The program")])
            self.host.sh(
                f"cp -a /opt/slurmsched {self._program} && rm -r /opt/slurmsched /etc/slurmsched /usr/bin/slurmsched"
            )
        self.host.sh(f"cp -a {self._program} /opt/slurmsched")

    def begin_day(self) -> None:
        """Have jobs of alice: two that have ended, one that runs on all GPUs, and two that wait."""
        self._submit("-J train10 --gres=gpu:1 --wrap='sleep 2'")
        self._submit("-J train20 --gres=gpu:1 --wrap='sleep 3' --wait")
        self.host.sh("until [ $(sacct -n -X -a -o state | grep -c COMPLETED) = 2 ]; do sleep 0.2; done")
        self._submit("-J long -N 2 --gres=gpu:4 -t 30 --wrap='sleep 3600'")
        self.host.sh("until squeue -h -t RUNNING -n long | grep -q .; do sleep 0.2; done")
        self.waiting_job = self._submit("-J train20 -N 2 --gres=gpu:4 -t 20 --wrap='sleep 60'")
        self._submit("-J train10 -N 2 --gres=gpu:4 -t 10 --wrap='sleep 60'")
        self.host.sh(f"printf '#!/bin/sh\\n#SBATCH -p gpu -G 1 -t 1:00\\ntrue\\n' >{self.lab.layout.work}/train.sh")

    def shell(self, who: str) -> Shell:
        """A shell of root in the checkout, of the service user there, or of a user of the cluster at home."""
        if who in ("root", "slurmsched"):
            where = PACKAGES if self._packaged else CHECKOUT
            return Shell(self.host.argv("" if who == "root" else who, where), env=ENVIRONMENT | OFFLINE)
        return Shell(self.host.argv(self.lab.user(who), self.lab.layout.work), env=ENVIRONMENT)

    def adapted(self, command: Command) -> tuple[str, str]:
        """What to run here for a command of a page, and why it is not the same."""
        for words, reason in ({} if self._packaged else NOT_HERE).items():
            if re.match(words, command.text):
                return "", reason
        if command.text.startswith("apt install"):
            return f"{command.text} --yes --no-install-recommends", "nobody answers its questions here"
        if self._packaged and command.text == "slurmsched eta":
            return f"until {command.text}; do sleep 1; done", "the first predictions come with the second cycle"
        if command.text.startswith(VENV):
            return f"{command.text}\n{ITS_LIBRARIES}", "libraries come from here, not from an index"
        if re.search(r"\bJOB\b", command.text):
            return re.sub(r"\bJOB\b", str(self.waiting_job), command.text), f"JOB is {self.waiting_job}, which waits"
        if "systemctl " in command.text:
            return command.text, "tests/install/systemctl stands in for systemd"
        return command.text, ""

    def _submit(self, options: str) -> int:
        done = self.host.run(
            "sh",
            "-c",
            f"sbatch --parsable -o /dev/null {options}",
            user=self.lab.user("alice"),
            cwd=self.lab.layout.work,
        )
        if done.returncode:
            raise Broken(f"sbatch {options}: {done.stderr}")
        return int(done.stdout)

    def _lab_command(self, *words: str) -> str:
        """What the command said where it failed."""
        lab = [sys.executable, "-m", "slurmsched", "lab", "--dir", str(self.lab.directory)]
        done = self.host.run(*lab, *words, cwd=ROOT)
        return done.stderr.strip() if done.returncode else ""

    def _place_systemctl(self) -> None:
        restart = (
            f"#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m slurmsched lab --dir {self.lab.directory} restart\n"
        )
        (self.host.directory / "restart-slurmctld").write_text(restart)
        # Scripts of packages look for it where systemd has its own.
        where = "/usr/bin" if self._packaged else "/usr/local/bin"
        self.host.sh(
            f"install -m 755 {ROOT}/tests/install/systemctl {where}/systemctl"
            f" && install -D -m 755 {self.host.directory}/restart-slurmctld /run/newcomer/restart-slurmctld"
            " && mkdir -p /run/systemd/system"
        )


@contextmanager
def site(package: Path | None = None) -> Iterator[Site]:
    """A site in temporary directories, without a network if for a *package*; `NoHost` where this machine has none."""
    try:
        programs.check(LabSpec())
    except LabError as error:
        raise NoHost(str(error)) from error
    # Short, and open to the users of the cluster.
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))
    try:
        with fresh_host(directory, network=package is None) as host:
            directory.chmod(0o755)
            found = Site(host, directory / "s", package)
            yield found
            found.down()
    finally:
        shutil.rmtree(directory)


def play(reader: Reader, course: Sequence[tuple[str, str | None]] = COURSE) -> str:
    """Everything that the commands of the pages printed."""
    output = ""
    for page, heading in course:
        output += reader.play(commands(ROOT, page, heading))
        reader.leave_page()
    return output


def typing_s(course: Sequence[tuple[str, str | None]]) -> float:
    """How long it takes to type the commands of a course that are run."""
    typed = [command for page, heading in course for command in commands(ROOT, page, heading) if not command.reason]
    return sum(len(command.text) + 1 for command in typed) / KEYS_A_SECOND


def main() -> int:
    """Play the course; 1 where a command fails or it takes too long, 2 where there is no site to be had."""
    parser = argparse.ArgumentParser(prog="scripts/newcomer", description=__doc__)
    parser.add_argument("--package", type=Path, help="play docs/observe.md with this .deb, on a host without a network")
    package = parser.parse_args().package
    course = PACKAGE_COURSE if package else COURSE
    try:
        with site(package) as here:
            here.begin_day()
            reader = Reader(here.shell, here.adapted, lambda line: print(line, flush=True))
            began_s = time.monotonic()
            play(reader, course)
            whole_s = time.monotonic() - began_s + typing_s(course)
            print(f"{reader.summary()}; {whole_s:.0f} s, of them {typing_s(course):.0f} s of typing")
            if package and not (whole_s <= WITHIN_S and typing_s(course) <= TYPING_S):
                raise Broken(f"more than {WITHIN_S:g} s, or {TYPING_S:g} s of typing")
    except Broken as error:
        print(f"\nnewcomer: {error}", file=sys.stderr)
        return 1
    except NoHost as error:
        print(f"newcomer: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A compute node without Slurm: its directories, a scripted NVML, and the programs run as slurmd would."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slurmsched.lab import waiting

PROGRAMS = Path(__file__).parents[2] / "slurmsched/prolog"

#: Two GPUs, the first at work.
TWO_GPUS = """
0 * gpus 2
0 * memory 1000
0 * power 100
0 * limit 400
0 0 util 40/10
0 0 processes 1
0 1 util 0/0
0 1 processes 0
"""

#: The NVLinks between four V100: `0-3` is one between two.
V100_LINKS = ("0-1", "0-2", "0-3", "0-3", "1-2", "1-2", "1-3", "2-3", "2-3")


def four_gpus(*links: str) -> str:
    """The script of four GPUs at work, with *links* like those of V100_LINKS; `0-99` leads to a switch."""
    script, used = "0 * gpus 4\n0 * util 40/10\n0 * processes 1\n", [0] * 100
    for one, other in (map(int, link.split("-")) for link in links):
        for gpu, far in ((one, other), (other, one)):
            script += f"0 {gpu} link{used[gpu]} {far}\n"
            used[gpu] += 1
    return script


#: Notes who waits for how long, and makes the long pauses of prolog and epilog longer: what they start gets its second
#: on a machine that is busy with other work, too.
SLEEP = """#!/bin/sh
echo "$PPID $1" >>"$0.log"
case $1 in 0.15 | 0.25) exec {sleep} {long_s} ;; *) exec {sleep} "$1" ;; esac
"""


def patient_path(directory: Path, long_s: float = 2.0) -> str:
    """A PATH on which a patient sleep comes first; it is made in *directory*, and a long pause takes *long_s*."""
    (directory / "bin").mkdir(exist_ok=True)
    (directory / "bin/sleep").write_text(SLEEP.format(sleep=shutil.which("sleep"), long_s=long_s))
    (directory / "bin/sleep").chmod(0o755)
    (directory / "bin/sleep.log").touch()
    (directory / "bin/sleep.log").chmod(0o666)
    return f"{directory}/bin:{os.environ['PATH']}"


def scripted_nvml(directory: Path) -> None:
    """Make a libnvidia-ml.so.1 there that follows a script, see nvml.c; skips where that cannot be."""
    pytest.importorskip("pynvml", reason="pynvml is not installed")
    shared_library(Path(__file__).parent / "nvml.c", directory / "libnvidia-ml.so.1")


def shared_library(source: Path, into: Path) -> None:
    """Compile a library of C; skips where that cannot be."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip(f"there is no C compiler for {source.name}")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", into, source], check=True)


def wait_until(true: Callable[[], object], what: str, timeout_s: float = 120.0, every_s: float = 0.01) -> None:
    waiting.wait_until(true, timeout_s, what, every_s=every_s)


def wait_on_lab(true: Callable[[], object], what: str, timeout_s: float = 120.0) -> None:
    """Wait for what a command of Slurm says, which takes some of a processor."""
    wait_until(true, what, timeout_s, every_s=0.15)


#: Questions that make two GPUs be asked once at least: those about what each is, then four about its load.
ROUND = 20


@dataclass
class Node:
    """Where one test's prolog and epilog run; settings go through a node.conf."""

    home: Path
    nvml: Path
    shell: str = "sh"
    programs: Path = PROGRAMS
    job: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.job = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_JOB_UID": "1000", "SLURM_JOB_GPUS": "0,1"}
        self.settings = {
            "PYTHON": sys.executable,
            "RUN_DIR": str(self.run_dir),
            "TASK_DIR": str(self.home / "tasks"),
            "SPOOL_DIR": str(self.spool),
            "EVERY_S": "0.02",
        }
        self.path = patient_path(self.home)
        self.script(TWO_GPUS)

    @property
    def run_dir(self) -> Path:
        return self.home / "run"

    @property
    def spool(self) -> Path:
        return self.home / "spool"

    @property
    def pid_file(self) -> Path:
        return self.run_dir / "7.n1.pid"

    @property
    def began(self) -> Path:
        """What the scripted NVML leaves when it is first called."""
        return self.home / "script.began"

    def script(self, text: str) -> None:
        (self.home / "script").write_text(text)

    @property
    def environ(self) -> dict[str, str]:
        conf = self.home / "node.conf"
        conf.write_text("# settings\n" + "".join(f"{key}={value}\n" for key, value in self.settings.items()))
        return {
            "PATH": self.path,
            "LD_LIBRARY_PATH": str(self.nvml),
            "FAKE_NVML_SCRIPT": str(self.home / "script"),
            "SLURMSCHED_NODE_CONF": str(conf),
            **self.job,
        }

    def run(self, program: str, **changes: str) -> tuple[int, float]:
        """Run a program as slurmd does: in a group of its own, which is killed when it has ended.

        Returns its exit status and the seconds for which it meant to wait, which do not depend on the machine.
        """
        done = subprocess.Popen(
            [self.shell, str(self.programs / program)],
            env=self.environ | changes,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            # Until nobody holds the pipe any more, as slurmd does, and only then it kills.
            assert done.communicate(timeout=300)[0] == b"", "it spoke"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)
        status = done.wait()
        pauses = (line.split() for line in (self.home / "bin/sleep.log").read_text().splitlines())
        return status, sum(float(pause_s) for pid, pause_s in pauses if int(pid) == done.pid)

    def sampler(self) -> int | None:
        """The pid of the job's sampler that runs; None if there is none."""
        try:
            pid = int((self.run_dir / f"{self.job['SLURM_JOB_ID']}.n1.pid").read_text().split()[0])
            running = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            return None
        return pid if b"sampler.py" in b" ".join(running) else None

    def measured(self) -> int:
        """The pid of the sampler that a prolog started and that has measured something."""
        self.asked.unlink(missing_ok=True)
        assert self.run("prolog")[0] == 0
        wait_until(lambda: self.questions() >= ROUND, "the sampler to measure")
        pid = self.sampler()
        assert pid is not None
        return pid

    @property
    def asked(self) -> Path:
        """The file to which the scripted NVML adds a byte at each question."""
        job, node = (self.job[name] for name in ("SLURM_JOB_ID", "SLURMD_NODENAME"))
        return self.home / f"script.asked.{job}.{node}"

    def questions(self) -> int:
        """How many questions to GPUs the scripted NVML has heard of the job."""
        return self.asked.stat().st_size if self.asked.exists() else 0

    def samplers(self) -> list[int]:
        """All samplers of this node, whatever the pid files say."""
        mark = f"SLURMSCHED_SPOOL_DIR={self.spool}".encode()
        found = []
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
            except OSError:
                continue
        return found

    def stop_all(self) -> None:
        for pid in self.samplers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.spool.iterdir()) if self.spool.exists() else []

    def records(self) -> list[dict[str, Any]]:
        return [json.loads((self.spool / name).read_text()) for name in self.files()]

    def measure(self, rounds: int = 2, then_s: float = 0.0, **changes: str) -> dict[str, Any]:
        """The record of the sampler alone, told to stop after the questions of so many rounds, or when it has ended."""
        self.began.unlink(missing_ok=True)
        pid_file = self.home / "measure.pid"
        program = subprocess.Popen(
            [self.settings["PYTHON"], "-I", str(self.programs / "sampler.py")],
            env=self.environ
            | {"SLURMSCHED_SPOOL_DIR": str(self.spool), "SLURMSCHED_EVERY_S": self.settings["EVERY_S"]}
            | {"SLURMSCHED_PID_FILE": str(pid_file)}
            | changes,
            preexec_fn=lambda: pid_file.write_text(str(os.getpid())) and None,
        )
        try:
            wait_until(lambda: self.began.exists() or program.poll() is not None, "the sampler to begin")
            wait_until(lambda: self.questions() >= rounds * ROUND or program.poll() is not None, "it to measure")
            time.sleep(then_s)
            program.terminate()
            assert program.wait(90.0) == 0
        finally:
            program.kill()
        records = self.records()
        return records[0] if records else {}

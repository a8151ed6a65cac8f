"""The programs of a node's prolog, tried on this machine in a private directory and with the node's own settings.

Other users of the machine are hostile. So every program starts in ``/`` with a fixed PATH and none of the caller's
variables, all its files are below a new directory of ours, and root works on a GPU only as another user.
"""

from __future__ import annotations

import json
import math
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .... import interpreter
from ....errors import SlurmschedError
from ....slurm.adapters.pipe_exchange import AnswerTooLong, talk

PROGRAMS = Path(__file__).resolve().parents[3] / "prolog"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NODE = "node-check"  #: name of the node in the files of this trial
JOBS = (1, 2)  #: numbers of the jobs of this trial
ANSWER_B = 2**20
LINE_B = 4096
SETTINGS_S, PROBE_S, JOIN_S, LEAVE_S, SAMPLER_S, READY_S, END_S = 10.0, 60.0, 30.0, 70.0, 20.0, 60.0, 5.0
"""Limits of each program, in seconds; beyond them it is killed or, if stuck inside the driver, left alone."""

_SETTINGS = """. "$1/node.sh" || exit; read_settings; cd / || exit
printf '%s\\n' "$settings" "$SLURMSCHED_PYTHON" "$SLURMSCHED_EVERY_S" "$SLURMSCHED_MPS"
command -v "$SLURMSCHED_MPS" || :"""
_UUID = """. "$1/node.sh" || exit; read_settings; shift
for number; do uuid_of "$number" && echo "$number $uuid"; done; :"""


class NodeTrouble(SlurmschedError):
    """A program of the node that failed, or did not answer in time."""


@dataclass(frozen=True)
class NodeSettings:
    """The settings of node.conf that matter here."""

    file: str
    python: str
    every_s: float
    mps: str
    mps_path: str  #: empty where there is no such program


@contextmanager
def private_directory() -> Iterator[Path]:
    """Make a directory below which other users find nothing but what is theirs; remove it at the end."""
    parent = "/run" if os.geteuid() == 0 and os.path.isdir("/run") else None
    home = Path(tempfile.mkdtemp(prefix="slurmsched-node-check.", dir=parent))
    try:
        home.chmod(0o711)  # for the user of the trial, whose directories lie below
        for name, mode in (("run", 0o700), ("spool", 0o700), ("mps", 0o755)):
            (home / name).mkdir()
            (home / name).chmod(mode)
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


class GpuNode:
    """This machine as a node: its settings, what NVML answers, and the programs of prolog and epilog."""

    def __init__(self, home: Path, user: pwd.struct_passwd, conf: str | None) -> None:
        self.home, self.user = home, user
        self.environment = {"PATH": PATH, "LC_ALL": "C"} | ({"SLURMSCHED_NODE_CONF": conf} if conf else {})
        self.settings = self._settings()

    def gpus(self) -> dict[str, Any]:
        """Return what NVML has: versions, and a list of GPUs with their processes."""
        return self.probe("gpus")

    def probe(self, *words: str) -> dict[str, Any]:
        """Run our probe with the node's Python; NodeTrouble where it fails or hangs."""
        text = self.run(self.settings.python, "-I", str(PROGRAMS / "probe.py"), *words, limit_s=PROBE_S)
        return answer_of(text)

    def uuids(self, minors: list[int]) -> dict[int, str]:
        """Return the UUIDs that the prolog finds for these device numbers."""
        words = [str(minor) for minor in minors]
        text = self.run("/bin/sh", "-c", _UUID, "sh", str(PROGRAMS), *words, limit_s=SETTINGS_S)
        return {int(number): uuid for number, uuid in (line.split() for line in text.splitlines())}

    def run(self, *command: str, limit_s: float, **more: str) -> str:
        """Run a program to its end and return its output; NodeTrouble where it fails, with its last words."""
        try:
            process = self.start(command, more)
        except OSError as error:
            raise NodeTrouble(f"{command[0]} does not start: {error.strerror}") from error
        try:
            out, words = talk(process, b"", time.perf_counter() + limit_s, ANSWER_B)
            code = process.wait(END_S)
        except (subprocess.TimeoutExpired, AnswerTooLong) as error:
            raise NodeTrouble(f"no answer within {limit_s:g} s") from error
        finally:
            end(process)
        complaint = words.decode("utf-8", "replace").strip()
        if code or (complaint and not out):
            raise NodeTrouble(complaint.rpartition("\n")[2] or f"{command[0]} ended with status {code}")
        return out.decode("utf-8", "replace")

    def start(
        self, command: tuple[str, ...], variables: Mapping[str, str], user: pwd.struct_passwd | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own, as *user* if it is another."""
        other: dict[str, Any] = {}
        if user is not None and user.pw_uid != os.geteuid():
            groups = os.getgrouplist(user.pw_name, user.pw_gid)
            other = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}
        return subprocess.Popen(
            command,
            env=self.environment | dict(variables),
            cwd=interpreter.DIRECTORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **other,
        )

    def end_leftovers(self) -> list[str]:
        """End the processes that use our directory, after a moment for those that are ending; return their names."""
        until_s = time.monotonic() + END_S
        while (running := self._leftovers()) and time.monotonic() < until_s:
            time.sleep(0.05)
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return [f"{name} ({pid})" for pid, name in running.items()]

    def _leftovers(self) -> dict[int, str]:
        found, ours = {}, {os.geteuid(), self.user.pw_uid}
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                environment = process / "environ"
                if not process.name.isdigit() or environment.stat().st_uid not in ours:
                    continue
                if os.fsencode(self.home) in environment.read_bytes():
                    found[int(process.name)] = (process / "comm").read_text().strip()
        return found

    def variables(self, job_id: int) -> dict[str, str]:
        """Return the environment of the prolog's programs for one job of the trial."""
        return {
            "SLURM_JOB_ID": str(job_id),
            "SLURM_JOB_UID": str(self.user.pw_uid),
            "SLURMD_NODENAME": NODE,
            "SLURMSCHED_RUN_DIR": str(self.home / "run"),
            "SLURMSCHED_SPOOL_DIR": str(self.home / "spool"),
            "SLURMSCHED_MPS_DIR": str(self.home / "mps"),
            "SLURMSCHED_MPS": self.settings.mps,
            "SLURMSCHED_EVERY_S": f"{self.settings.every_s:g}",
            "SLURMSCHED_TASK_FILE": str(self.home / "run" / f"{job_id}.env"),
        }

    def _settings(self) -> NodeSettings:
        text = self.run("/bin/sh", "-c", _SETTINGS, "sh", str(PROGRAMS), limit_s=SETTINGS_S)
        file, python, every_s, mps, *path = text.splitlines()
        try:
            return NodeSettings(file, python, float(every_s), mps, "".join(path))
        except ValueError as error:
            raise NodeTrouble(f"EVERY_S = {every_s} in {file} is not a number") from error


class TrialSampler:
    """The sampler of a job, started as prolog starts it."""

    def __init__(self, node: GpuNode, minors: list[int], every_s: float | None = None) -> None:
        self._node = node
        variables = node.variables(JOBS[0]) | {"SLURM_JOB_GPUS": ",".join(map(str, minors))}
        if every_s is not None:
            variables["SLURMSCHED_EVERY_S"] = f"{every_s:g}"
        self._process = node.start((node.settings.python, "-I", str(PROGRAMS / "sampler.py")), variables)

    def ready(self) -> None:
        """Wait until it has loaded NVML, or has ended."""
        until_s = time.monotonic() + SAMPLER_S
        maps = Path(f"/proc/{self._process.pid}/maps")
        while self._process.poll() is None and time.monotonic() < until_s:
            with suppress(OSError):
                if b"libnvidia-ml" in maps.read_bytes():
                    return
            time.sleep(0.02)

    def cpu_s(self) -> float:
        """Return the CPU seconds that it has used; NaN where the kernel does not count them finely."""
        try:
            tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
            return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
        except OSError:
            return math.nan

    def stop(self) -> bytes:
        """End it as the epilog does and return its record; NodeTrouble with its reason where there is none."""
        try:
            self._process.terminate()
            _, words = talk(self._process, b"", time.perf_counter() + SAMPLER_S, ANSWER_B)
        except (subprocess.TimeoutExpired, AnswerTooLong) as error:
            raise NodeTrouble(f"the sampler did not end within {SAMPLER_S:g} s") from error
        finally:
            self.kill()
        records = sorted((self._node.home / "spool").glob("*.json"))
        if not records:
            raise NodeTrouble(words.decode("utf-8", "replace").strip() or "the sampler wrote no record")
        body = records[-1].read_bytes()
        for record in records:
            record.unlink()
        return body

    def kill(self) -> None:
        """End it by force, if it runs."""
        end(self._process)


class GpuWork:
    """A job that keeps a GPU busy, as an ordinary user.

    The speeds of two are comparable if both do turns of as many *loops*; 0 is as many as 5 ms take.
    """

    def __init__(
        self, node: GpuNode, shape: str, uuid: str, variables: Mapping[str, str] | None = None, loops: int = 0
    ) -> None:
        # The user may not be able to read our files; its environment has nothing of ours.
        program = (PROGRAMS / "probe.py").read_text()
        nowhere = {"CUDA_MPS_PIPE_DIRECTORY": str(node.home / "run" / "none"), "CUDA_CACHE_DISABLE": "1"}
        command = (node.settings.python, "-I", "-c", program, "work", shape, str(loops))
        try:
            environment = {**nowhere, "CUDA_VISIBLE_DEVICES": uuid, **(variables or {})}
            self.process = node.start(command, environment, node.user)
        except OSError as error:
            raise NodeTrouble(f"{node.user.pw_name} cannot start {node.settings.python}: {error.strerror}") from error
        self._read = b""

    def ready(self) -> int:
        """Wait until it can begin; return the loops of its turns."""
        return int(self._answer(READY_S)["loops"])

    def begin(self, seconds: float) -> None:
        """Let it work for so long."""
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{seconds}\n".encode())
            self.process.stdin.flush()

    def rate(self, limit_s: float) -> float:
        """Wait for the end of the work and return its turns per second."""
        return float(self._answer(limit_s)["rate"])

    def end(self) -> None:
        """End it."""
        end(self.process)

    def _answer(self, limit_s: float) -> dict[str, Any]:
        assert self.process.stdout
        handle, until_s = self.process.stdout.fileno(), time.monotonic() + limit_s
        while b"\n" not in self._read:
            if not select.select([handle], [], [], max(0.0, until_s - time.monotonic()))[0]:
                raise NodeTrouble(f"the GPU job did not answer within {limit_s:g} s")
            chunk = os.read(handle, LINE_B)
            if not chunk or len(self._read) > LINE_B:
                raise NodeTrouble(f"the GPU job ended at once: {self._last_words()}")
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return answer_of(line.decode("utf-8", "replace"))

    def _last_words(self) -> str:
        assert self.process.stderr
        handle = self.process.stderr.fileno()
        words = os.read(handle, LINE_B) if select.select([handle], [], [], END_S)[0] else b""
        return words.decode("utf-8", "replace").strip().rpartition("\n")[2]


class TrialMps:
    """The control daemon of MPS for one GPU and two jobs, started and stopped by the program of prolog and epilog."""

    def __init__(self, node: GpuNode, minor: int, uuid: str) -> None:
        self._node, self._gpu, self._uuid = node, str(minor), uuid
        self._set = node.home / "run" / f"mps.{NODE}" / f"{minor}.{node.user.pw_uid}"
        self.ready_s = self.stop_s = 0.0

    def start(self) -> dict[str, str]:
        """Let both jobs join and return the variables of their tasks; NodeTrouble where the daemon does not start."""
        began_s = time.monotonic()
        for job_id in JOBS:
            variables = self._node.variables(job_id)
            tasks = Path(variables["SLURMSCHED_TASK_FILE"])
            tasks.touch(0o600)
            self._run("join", self._gpu, self._uuid, "0", "0", limit_s=JOIN_S, **variables)
            self.ready_s = self.ready_s or time.monotonic() - began_s
        return dict(line.split("=", 1) for line in tasks.read_text().splitlines())

    def stop(self) -> None:
        """Let both jobs leave: the last one ends the daemon and removes its files. NodeTrouble with any complaint."""
        began_s, troubles = time.monotonic(), []
        for job_id in JOBS:
            try:
                self._run("leave", str(self._set), limit_s=LEAVE_S, **self._node.variables(job_id))
            except NodeTrouble as error:
                troubles.append(error)
        self.stop_s = time.monotonic() - began_s
        if troubles:
            raise troubles[0]

    def remains(self) -> list[str]:
        """End what is left behind, and return it: processes, files and faults."""
        running = self._node.end_leftovers()
        files = [*(self._node.home / "mps").iterdir(), *([self._set] if self._set.exists() else [])]
        faults = [*(self._node.home / "spool").glob("*.fault")]
        return [*running, *(str(path) for path in [*files, *faults])]

    def _run(self, *words: str, limit_s: float, **variables: str) -> None:
        self._node.run(self._node.settings.python, "-I", str(PROGRAMS / "mps.py"), *words, limit_s=limit_s, **variables)


def answer_of(text: str) -> dict[str, Any]:
    """Parse an answer of the probe; NodeTrouble where it is trouble, or no answer."""
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise NodeTrouble("our probe did not answer") from error
    if not isinstance(answer, dict) or "trouble" in answer:
        raise NodeTrouble(str(answer.get("trouble")) if isinstance(answer, dict) else "our probe did not answer")
    return answer


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program and all in its session; one that is stuck inside the driver is left alone."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()

"""For the script of a job: know when to stop, save the work, and stop on all ranks after the same iteration.

Standard library only, and it imports nothing of slurmsched: the file may be copied beside a training script.

    from slurmsched.job import Lease

    lease = Lease("checkpoints")
    for step in range(lease.resume_at(), steps):
        train(step)
        if lease.should_stop(step):
            save(step + 1)
            lease.checkpoint_done(step + 1)
            break

In a shell: ``python -m slurmsched.job run --dir checkpoints -- ./train.sh`` starts a command in a process group of its
own, passes SIGTERM and SIGUSR1 on to all of it, and ends as it ends; ``python -m slurmsched.job stopping --dir
checkpoints`` says by its exit status (0 or 1) whether to stop.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""What asks a job to stop: a requeue sends the first one, an owner or admin the other."""

Agree = Callable[[bool], bool]
"""Given whether this rank was asked to stop, whether any was; called by all ranks after the same iteration."""


class Lease:
    """The right to run, which may end; *directory* is shared by all ranks of the job.

    Where *agree* is given, such as an ``all_reduce`` by maximum, ranks agree by it at every call. Else they agree
    through a file in two phases: a rank that was asked writes down an iteration *margin* ahead of its own, and all
    ranks stop after that one. *margin* must be more than ranks can be apart, which for synchronous training is 1.
    """

    def __init__(
        self, directory: str | Path, *, agree: Agree | None = None, ranks: int | None = None, margin: int = 2
    ) -> None:
        if margin < 1:
            raise ValueError(f"margin={margin}: accepted are 1 and more iterations")
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._agree, self._margin = agree, margin
        self._ranks = int(os.environ.get("SLURM_NTASKS", "1")) if ranks is None else ranks
        self._run = f"{os.environ.get('SLURM_JOB_ID', '0')}.{os.environ.get('SLURM_RESTART_COUNT', '0')}"
        self._asked = False
        for each in SIGNALS:
            signal.signal(each, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True

    def should_stop(self, iteration: int) -> bool:
        """Whether to stop after *iteration*: true on every rank after the same one. Call it once per iteration."""
        asked = self._asked or (self.directory / f"stop.{self._run}").exists()
        if self._agree is not None:
            return self._agree(asked)
        if self._ranks <= 1:
            return asked
        last = self._last_iteration()
        if last is None and asked:
            # The first to link wins; who comes second reads what the first one wrote.
            _link_once(self.directory / f"last.{self._run}", str(iteration + self._margin))
            last = self._last_iteration()
        return last is not None and iteration >= last

    def checkpoint_done(self, iteration: int) -> None:
        """Say that the work is saved and goes on at *iteration*; one rank is enough."""
        _replace(self.directory / "resume", str(iteration))
        _replace(self.directory / f"done.{self._run}", str(time.time()))

    def resume_at(self, default: int = 0) -> int:
        """The iteration that the last ``checkpoint_done`` said; *default* where there was none."""
        try:
            return int((self.directory / "resume").read_text())
        except FileNotFoundError:
            return default

    def _last_iteration(self) -> int | None:
        try:
            return int((self.directory / f"last.{self._run}").read_text())
        except FileNotFoundError:
            return None


def _replace(path: Path, text: str) -> None:
    """Write *text* so that a reader sees the old file or the new one, also after a power cut."""
    part = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _link_once(path: Path, text: str) -> None:
    """Make *path* with *text*, whole at once, unless it is there."""
    part = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}")
    part.write_text(text)
    try:
        os.link(part, path)
    except FileExistsError:
        pass
    finally:
        part.unlink()


def run(directory: Path, command: Sequence[str]) -> int:
    """Run *command*, passing on what asks it to stop; its exit status, 128 + the number of the signal that ended it."""
    directory.mkdir(parents=True, exist_ok=True)
    job, restart = os.environ.get("SLURM_JOB_ID", "0"), os.environ.get("SLURM_RESTART_COUNT", "0")
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def told(number: int, frame: FrameType | None) -> None:
        (directory / f"stop.{job}.{restart}").touch()
        if process is None:
            early.append(number)
        elif process.poll() is None:
            os.killpg(process.pid, number)

    for each in SIGNALS:
        signal.signal(each, told)
    process = subprocess.Popen(command, start_new_session=True)
    for number in early:
        os.killpg(process.pid, number)
    status = process.wait()
    return status if status >= 0 else 128 - status


def main(words: Sequence[str]) -> int:
    """The shell form: ``run [--dir DIR] -- COMMAND...`` or ``stopping [--dir DIR]``."""
    from argparse import ArgumentParser

    parser = ArgumentParser(prog="python -m slurmsched.job", description="Stop a job in good order.")
    parser.add_argument("what", choices=("run", "stopping"))
    parser.add_argument("--dir", type=Path, default=Path("."), help="directory shared by all ranks")
    at = words.index("--") if "--" in words else len(words)
    said, command = parser.parse_args(words[:at]), words[at + 1 :]
    if said.what == "run":
        if not command:
            parser.error("say what to run after --")
        return run(said.dir, command)
    job, restart = os.environ.get("SLURM_JOB_ID", "0"), os.environ.get("SLURM_RESTART_COUNT", "0")
    return 0 if (said.dir / f"stop.{job}.{restart}").exists() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

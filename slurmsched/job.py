"""Library for training scripts: detect a stop request, save the work, stop all ranks after the same iteration.

It uses only the standard library and nothing of slurmsched: the file may be copied beside a training script.

    from slurmsched.job import Lease

    lease = Lease("checkpoints")
    for step in range(lease.resume_at(), steps):
        train(step)
        if lease.should_stop(step):
            save(step + 1)
            lease.checkpoint_done(step + 1)
            if lease.give_way():
                break
        elif lease.report(step, loss=loss):
            save(step + 1)
            break

A job with ``slurmsched:gpus=2-8,ckpt`` in its comment may go on with another number of GPUs: ``gpus()`` is that of this
run, and ``lease.batch(samples, most)`` the micro-batch and the accumulation that keep the samples of a step the same.
With ``slurmsched:gpus=2-8,batch=256-1024,ckpt`` a step may have more samples on more GPUs, ``lease.batch(samples, most,
up_to)``; ``noise_scale()`` is what the job reports so that it gets no GPUs that would not help.

A report goes to slurmsched in a thread, at most every half minute. It is answered with a stop if the job's comment has
``slurmsched:stop=`` and the training has what this asks for. ``report(step, loss=loss)`` does the same without a Lease.

In a shell: ``python -m slurmsched.job run --dir checkpoints -- ./train.sh`` starts a command in its own process group,
forwards stop signals to the whole group, and exits with the command's status; if the command saved its work first, the
job is queued again. The exit status of ``python -m slurmsched.job stopping --dir checkpoints`` says whether to stop
(0 yes, 1 no), and ``python -m slurmsched.job done --dir checkpoints --iteration N`` records that the work is saved.
``python -m slurmsched.job gpus`` prints the GPUs of this run, and ``python -m slurmsched.job batch --samples 256 --most
32`` the micro-batch and the accumulation.

``python -m slurmsched.job report --iteration N --loss X`` reports progress; its exit status is 0 if the job is to end.

``lightning_callback()`` and ``transformers_callback()`` report from trainers of these packages, and end their training.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, NamedTuple

SIGNALS = (signal.SIGTERM, signal.SIGURG, signal.SIGUSR1, signal.SIGUSR2)
"""The signals that ask a job to stop: the end of a run sends the first; a request to requeue sends another."""

PATIENCE_S = 600.0
"""Maximum time that a job waits for the end of its run after saving its work; then it goes on."""

MEASURE_S = 60.0
"""Time for which iterations are measured before the job reports its iteration time."""

LEAST = 10
"""Minimum number of measured iterations for a report."""

AGAIN_S = 600.0
"""Minimum interval between reports; a new one is made only if the time has changed by more than ``MOVED``."""

MOVED = 0.25

REPORT_S = 30.0
"""Minimum interval between reports of progress."""

UNREACHED_S = 300.0
"""The interval after a report that nobody received, or that was refused."""

ANSWER_S = 20.0

NODE_CONF = "/etc/slurmsched/node.conf"

Agree = Callable[[bool], bool]
"""A logical OR over ranks of "this rank was asked to stop"; all ranks call it after the same iteration."""


class Batch(NamedTuple):
    """How one optimiser step is cut into passes: on each GPU *accumulation* passes of *micro* samples."""

    micro: int
    accumulation: int


def gpus() -> int:
    """Return the number of GPUs of this run of the job, over all its nodes; 0 where Slurm gave it none."""
    numbers = os.environ.get("SLURM_JOB_GPUS") or os.environ.get("CUDA_VISIBLE_DEVICES") or ""
    here = os.environ.get("SLURM_GPUS_ON_NODE") or len([number for number in numbers.split(",") if number])
    nodes = os.environ.get("SLURM_JOB_NUM_NODES") or os.environ.get("SLURM_NNODES") or 1
    return int(here) * int(nodes)


def batch_of(samples: int, most: int, count: int, up_to: int | None = None) -> Batch:
    """Return the passes by which *count* GPUs go through *samples* in a step, each with *most* samples at once at most.

    They go through exactly as many where some accumulation divides them evenly without passes of less than half that
    size; else through a few more. With *up_to* they go through as many as they take at once, if that is more than
    *samples* and at most *up_to*.
    """
    if min(samples, most) < 1:
        raise ValueError(f"samples={samples}, most={most}: accepted are 1 and more")
    if up_to is not None and up_to < samples:
        raise ValueError(f"up_to={up_to}: accepted are {samples} samples and more")
    count = max(count, 1)
    if up_to is not None:
        samples = max(samples, min(most, up_to // count) * count)
    fewest = -(-samples // (count * most))
    for accumulation in range(fewest, 2 * fewest + 1):
        if samples % (count * accumulation) == 0:
            return Batch(samples // (count * accumulation), accumulation)
    return Batch(-(-samples // (count * fewest)), fewest)


def noise_scale(one_sqr: float, mean_sqr: float, one: int, whole: int) -> float | None:
    """Return the gradient noise scale in samples: with so many, noise and gradient are of equal size.

    *one_sqr* is the squared norm of a gradient over *one* samples, such as that of one GPU before the gradients are
    averaged, and *mean_sqr* that of the mean gradient, over *whole* samples: both as means over many steps. Return None
    where these show no noise, or nothing but noise.
    """
    if not 0 < one < whole:
        raise ValueError(f"one={one}, whole={whole}: accepted are samples of a part and of the whole step")
    gradient_sqr = (whole * mean_sqr - one * one_sqr) / (whole - one)
    variance = (one_sqr - mean_sqr) / (1 / one - 1 / whole)  # of the gradient of one sample
    noise = variance / gradient_sqr if variance > 0 and gradient_sqr > 0 else 0.0
    return noise if 0 < noise < float("inf") else None


def own_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return *environment* without the GPUs, and with the tasks, of this run, where the job asked for others first.

    sbatch exports what the job asked for, and srun in the job would ask for it again.
    """
    tasks = _tasks_of(environment)
    if tasks and "SLURM_STEP_NUM_TASKS" not in environment:
        named = {name: str(tasks) for name in ("SLURM_NTASKS", "SLURM_NPROCS") if name in environment}
        environment = environment | named
    has = {"SLURM_GPUS": str(gpus()), "SLURM_GPUS_PER_NODE": environment.get("SLURM_GPUS_ON_NODE")}
    stale = [name for name in has if name in environment and environment[name].rpartition(":")[2] != has[name]]
    return {name: value for name, value in environment.items() if name not in stale}


def _tasks_of(environment: dict[str, str]) -> int:
    """Return the tasks of this run over all its nodes, from a list such as 4(x2),3; 0 where there is none."""
    parts = re.findall(r"([0-9]+)(?:\(x([0-9]+)\))?", environment.get("SLURM_TASKS_PER_NODE", ""))
    return sum(int(tasks) * int(nodes or 1) for tasks, nodes in parts)


class Lease:
    """The right to run, which may end; *directory* is shared by all ranks of the job.

    If *agree* is given, such as an ``all_reduce`` by maximum, ranks agree through it at every call. Otherwise they
    agree through a file in two phases: a rank that was asked to stop writes an iteration *margin* ahead of its own, and
    all ranks stop after that one. *margin* must exceed the distance between ranks: 1 for synchronous training.

    If the job's comment has ``slurmsched:iterations=N``, the first rank adds the time of one iteration
    (``pace=SECONDS``), measured for *measure_s* and at least ``LEAST`` iterations, and the number done before this run
    (``done=N``); a requeue by the job updates ``done``.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        agree: Agree | None = None,
        ranks: int | None = None,
        margin: int = 2,
        measure_s: float = MEASURE_S,
    ) -> None:
        if margin < 1:
            raise ValueError(f"margin={margin}: accepted are 1 and more iterations")
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._agree, self._margin = agree, margin
        self._ranks = int(os.environ.get("SLURM_NTASKS", "1")) if ranks is None else ranks
        self._run = _run_name()
        self._stop_requested = self._ends = self._finishes = False
        self._saved: int | None = None  # the iteration at which the saved work resumes
        self._first: int | None = None  # the first iteration of this run
        self._samples: int | None = None  # of a step, by ``batch``
        self._meter = Meter(measure_s) if _speaks_for_the_job() else None
        for each in SIGNALS:
            signal.signal(each, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._stop_requested = True
        self._ends = self._ends or number == signal.SIGTERM

    def should_stop(self, iteration: int) -> bool:
        """Return whether to stop after *iteration*, the same on every rank. Call it once per iteration."""
        self._first = iteration if self._first is None else self._first
        pace_s = self._meter.mark(iteration, time.monotonic()) if self._meter else None
        if pace_s is not None:
            # Training does not wait for Slurm.
            threading.Thread(target=_say_progress, args=(pace_s, self._first), daemon=True).start()
        stop_requested = self._stop_requested or (self.directory / f"stop.{self._run}").exists()
        if self._agree is not None:
            return self._agree(stop_requested)
        return stop_requested if self._ranks <= 1 else self._agreed("last", stop_requested, iteration)

    def _agreed(self, name: str, wanted: bool, iteration: int) -> bool:
        """Return whether all ranks stop after *iteration*, by a file that the first rank to want it writes."""
        last = self._last_iteration(name)
        if last is None and wanted:
            # The first rank to link wins; all others read what it wrote.
            _link_once(self.directory / f"{name}.{self._run}", str(iteration + self._margin))
            last = self._last_iteration(name)
        return last is not None and iteration >= last

    def report(
        self,
        iteration: int,
        loss: float | None = None,
        accuracy: float | None = None,
        noise: float | None = None,
        samples: int | None = None,
    ) -> bool:
        """Report progress; return whether to save and end for good after *iteration*, the same on every rank.

        Call it on all ranks, once per iteration; the first rank's values count. ``give_way`` then queues nothing.
        Without *samples*, a step has those of the last ``batch``.
        """
        finished = report(iteration, loss, accuracy, noise, self._samples if samples is None else samples)
        if self._agree is not None:
            finished = self._agree(finished)
        elif self._ranks > 1:
            finished = self._agreed("finished", finished, iteration)
        self._finishes = self._finishes or finished
        return finished

    def batch(self, samples: int, most: int, up_to: int | None = None) -> Batch:
        """Return the micro-batch and the accumulation for a step of *samples*, on the GPUs that this run has.

        *most* is how many samples a GPU takes at once. The same *samples* in each run keep the learning rate right.
        With *up_to* a step has as many samples as these GPUs take at once, between *samples* and *up_to*, and the job
        sets its learning rate by them.
        """
        batch = batch_of(samples, most, gpus(), up_to)
        self._samples = batch.micro * batch.accumulation * max(gpus(), 1)
        return batch

    def checkpoint_done(self, iteration: int) -> None:
        """Record that the work is saved and resumes at *iteration*; one rank is enough."""
        _say_saved(self.directory, iteration)
        self._saved = iteration

    def give_way(self, patience_s: float = PATIENCE_S) -> bool:
        """Queue the job again once its work is saved, and wait for the end of this run; called by all ranks.

        Return True if the run ends now: exit. Return False if nothing ended it within *patience_s*: go on with the next
        iteration. Outside Slurm, return True at once.
        """
        if "SLURM_JOB_ID" not in os.environ or self._finishes:
            return True
        if self._saved is not None:
            _say_progress(None, self._saved)
            if not self._ends:
                _queue_again()
        # The rank that saved removes the files first, so that no other rank mistakes the old request for a new one.
        until_s = time.monotonic() + patience_s + (2.0 if self._saved is None else 0.0)
        while not self._ends and time.monotonic() < until_s:
            time.sleep(0.1)
        if self._ends:
            return True
        for name in (f"stop.{self._run}", f"last.{self._run}"):
            (self.directory / name).unlink(missing_ok=True)
        if self._saved is not None and self._first is not None:
            _say_progress(None, self._first)
        self._stop_requested, self._saved = False, None
        return False

    def resume_at(self, default: int = 0) -> int:
        """Return the iteration recorded by the last ``checkpoint_done``; *default* if there was none."""
        try:
            at = int((self.directory / "resume").read_text())
        except FileNotFoundError:
            at = default
        self._first = at if self._first is None else self._first
        return at

    def _last_iteration(self, name: str) -> int | None:
        try:
            return int((self.directory / f"{name}.{self._run}").read_text())
        except FileNotFoundError:
            return None


def _run_name() -> str:
    return f"{os.environ.get('SLURM_JOB_ID', '0')}.{os.environ.get('SLURM_RESTART_COUNT', '0')}"


def _say_saved(directory: Path, iteration: int) -> None:
    _replace(directory / "resume", str(iteration))
    _replace(directory / f"done.{_run_name()}", str(time.time()))


def _queue_again() -> None:
    """Ask Slurm for a requeue; if that fails, slurmsched requeues the job when its time to save is over."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["scontrol", "requeue", "incomplete", os.environ["SLURM_JOB_ID"]],
            timeout=60,
            check=False,
            capture_output=True,
        )


def _speaks_for_the_job() -> bool:
    """Return whether this is the first rank of a job with its own id."""
    return os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0" and _has_own_id()


def _has_own_id() -> bool:
    """Return whether this job has its own id, unlike an array, whose id stands for all its tasks."""
    return "SLURM_JOB_ID" in os.environ and "SLURM_ARRAY_JOB_ID" not in os.environ


Progress = tuple[int, float | None, float | None, float | None, int | None]
"""An iteration, with the loss, the accuracy and the gradient noise scale after it, and the samples of a step."""


class Reporter:
    """Sends the latest progress of this job to slurmsched, from a thread: training never waits for it."""

    def __init__(self, send: Callable[[int, float | None, float | None, float | None, int | None], str]) -> None:
        self._send = send
        self._news = threading.Event()
        self._next_s, self._started, self._finished = -float("inf"), False, False
        self._latest: Progress = 0, None, None, None, None

    def report(
        self,
        iteration: int,
        loss: float | None,
        accuracy: float | None,
        noise: float | None = None,
        samples: int | None = None,
    ) -> bool:
        """Hand the progress to the thread if a report is due; return whether an answer asked the job to end."""
        if time.monotonic() >= self._next_s and not self._finished:
            self._next_s = float("inf")  # until there is an answer
            self._latest = iteration, loss, accuracy, noise, samples
            self._news.set()
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="progress", daemon=True).start()
        return self._finished

    def _run(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            answer = ""
            with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
                answer = self._send(*self._latest)
            self._finished = answer.startswith("stop:")
            wait_s = {"ok": REPORT_S, "later": REPORT_S}.get(answer.partition(":")[0], UNREACHED_S)
            with contextlib.suppress(ValueError):
                wait_s = max(wait_s, float(answer.partition("later: ")[2]))
            self._next_s = time.monotonic() + wait_s


def report(
    iteration: int,
    loss: float | None = None,
    accuracy: float | None = None,
    noise: float | None = None,
    samples: int | None = None,
) -> bool:
    """Report progress; return whether to save the work and end for good. Only the first rank's reports are sent.

    *noise* is the gradient noise scale in samples (``noise_scale``), *samples* are those of a step. It takes
    microseconds. Without slurmsched, or where no report reaches it, it returns False.
    """
    return _leads_the_job() and _REPORTER.report(iteration, loss, accuracy, noise, samples)


def _leads_the_job() -> bool:
    """Return whether this is the first rank of a job."""
    return os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0" and "SLURM_JOB_ID" in os.environ


def _send_report(
    iteration: int, loss: float | None, accuracy: float | None, noise: float | None, samples: int | None
) -> str:
    """Send a report with a proof of this user; return the answer, empty where no collector is set."""
    settings = _node_settings()
    host, _, port = settings.get("COLLECTOR", "").rpartition(":")
    if not port:
        return ""
    values = {"progress": int(iteration), "loss": _plain(loss), "accuracy": _plain(accuracy), "noise": _plain(noise)}
    values |= {"samples": None if samples is None else int(samples)}
    about = {
        "version": 1,
        "job_id": int(os.environ["SLURM_JOB_ID"]),
        "restart": int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        "node": os.environ.get("SLURMD_NODENAME", os.uname().nodename.partition(".")[0]),
    }
    if settings.get("COLLECTOR_CA"):
        return _send_with_token(host.strip("[]"), int(port), settings["COLLECTOR_CA"], about | values)
    munge = [settings.get("MUNGE", "munge"), "--restrict-uid=" + settings.get("COLLECTOR_USER", "slurmsched")]
    if settings.get("MUNGE_SOCKET"):
        munge.append("--socket=" + settings["MUNGE_SOCKET"])
    payload = json.dumps(about | values, allow_nan=False).encode()
    made = subprocess.run(munge, input=payload, timeout=ANSWER_S, check=True, capture_output=True, cwd="/")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S) as stream:
        stream.sendall(made.stdout.strip() + b"\n")
        return stream.makefile("rb").readline(1000).decode("ascii", "replace").strip()


def _send_with_token(host: str, port: int, authority: str, record: dict[str, Any]) -> str:
    """Send *record* with the token in $SLURM_JWT, through TLS, to a daemon with a certificate of *authority*."""
    import ssl  # few jobs need it

    token = os.environ.get("SLURM_JWT", "")
    if not token:
        return "refused: the job has no SLURM_JWT (scontrol token)"
    line = json.dumps({"token": token, "request": {"ask": "deliver", "record": record}}, allow_nan=False)
    context = ssl.create_default_context(cafile=authority)
    with (
        socket.create_connection((host, port), timeout=ANSWER_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as stream,
        stream.makefile("rb") as lines,
    ):
        lines.readline(4096)
        stream.sendall(line.encode() + b"\n")
        answer = json.loads(lines.readline(4096))
    return str(answer.get("answer") or f"refused: {answer.get('error')}")


_REPORTER = Reporter(_send_report)


Report = Callable[..., bool]
"""``report``, or where a job has several ranks ``Lease.report``, by which all end after the same step."""


def lightning_callback(report: Report = report, accuracy: str = "", noise: str = "") -> Any:
    """Return a callback for Lightning's Trainer that reports after each batch and sets ``trainer.should_stop``.

    It reports the loss of the training step, and the logged metrics *accuracy* and *noise* where they are given.
    ImportError without Lightning.
    """
    older = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
    package = import_module("pytorch_lightning" if older else "lightning.pytorch")

    class LightningReport(package.Callback):  # type: ignore[misc, name-defined]  # imported only where it is used
        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            logged = trainer.callback_metrics
            scale = {"noise": logged.get(noise)} if noise else {}
            if report(trainer.global_step, loss, logged.get(accuracy) if accuracy else None, **scale):
                trainer.should_stop = True

    return LightningReport()


def transformers_callback(report: Report = report, accuracy: str = "eval_accuracy") -> Any:
    """Return a callback for Transformers' Trainer that reports after each step, and has it save and end.

    It reports the loss that was logged last, and the metric *accuracy* of the last evaluation. ImportError without
    Transformers.
    """
    package = import_module("transformers")

    class TransformersReport(package.TrainerCallback):  # type: ignore[misc, name-defined]  # as above
        latest: dict[str, Any] = {}  # noqa: RUF012  # replaced, never changed

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
            known = {name: logs[name] for name in ("loss", accuracy) if name in (logs or {})}
            self.latest = self.latest | known

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if report(state.global_step, self.latest.get("loss"), self.latest.get(accuracy)):
                control.should_training_stop = control.should_save = True

    return TransformersReport()


def _plain(value: float | None) -> float | None:
    """Return a number, also of an array of one; None where there is none, or one that is not finite."""
    number = None if value is None else float(value)
    return number if number is None or number - number == 0 else None


def _node_settings() -> dict[str, str]:
    """Return the settings of this node's node.conf; none where it cannot be read."""
    settings: dict[str, str] = {}
    with contextlib.suppress(OSError, UnicodeError), open(os.environ.get("SLURMSCHED_NODE_CONF", NODE_CONF)) as file:
        for line in file:
            name, equals, value = line.rstrip("\n").partition("=")
            if equals:
                settings.setdefault(name, value)
    return settings


class Meter:
    """A meter of iteration time: the median of the last iterations."""

    def __init__(self, measure_s: float = MEASURE_S) -> None:
        self._measure_s = measure_s
        self._took_s: deque[float] = deque(maxlen=1000)
        self._last: tuple[int, float] | None = None
        self._next_s = float("inf")
        self._said_s: float | None = None

    def mark(self, iteration: int, monotonic_s: float) -> float | None:
        """Record that *iteration* ends now; return seconds per iteration if a report is due, else None."""
        if self._last is None:
            self._next_s = monotonic_s + self._measure_s
        elif iteration > self._last[0]:
            self._took_s.append((monotonic_s - self._last[1]) / (iteration - self._last[0]))
        self._last = iteration, monotonic_s
        if monotonic_s < self._next_s or len(self._took_s) < LEAST:
            return None
        self._next_s = monotonic_s + AGAIN_S
        pace_s = median(self._took_s)
        if self._said_s is not None and abs(pace_s - self._said_s) <= MOVED * self._said_s:
            return None
        self._said_s = pace_s
        return pace_s


def with_progress(comment: str, pace_s: float | None, done: int) -> str | None:
    """Return *comment* with ``done`` set, ``pace`` set unless it is None, and the rest unchanged.

    Return None if it has no ``iterations``, or characters that cannot be written back. ``done`` is left out if it
    is 0 or exceeds the planned number.
    """
    planned = _PLANNED.search(comment)
    if planned is None or not _PLAIN.fullmatch(comment):
        return None
    news = [] if pace_s is None else [f"pace={min(max(pace_s, 1e-6), 999_999.0):.6f}"]
    news += [f"done={done}"] if 0 < done <= int(planned[1]) else []
    old = ("done=",) if pace_s is None else ("done=", "pace=")

    def updated(token: re.Match[str]) -> str:
        items = [each for each in token[1].split(",") if not each.startswith(old)]
        if any(each.startswith("iterations=") for each in items):
            items += news
        return "slurmsched:" + ",".join(items) if items else ""

    return _TOKEN.sub(updated, comment)


_PLAIN = re.compile(r"[A-Za-z0-9_.,:;=+@%/-]*")
_TOKEN = re.compile(r"(?<![A-Za-z0-9_])slurmsched:([^;]*)")
_PLANNED = re.compile(r"(?<![A-Za-z0-9_])slurmsched:(?:[^;]*,)?iterations=([0-9]{1,12})(?![^,;])")
_SPEAKING = threading.Lock()  # two threads must not interleave reading and writing the comment


def _say_progress(pace_s: float | None, done: int) -> None:
    """Write progress into this job's comment if that has a number of planned iterations; failures are silent."""
    if not _has_own_id():
        return
    job = os.environ["SLURM_JOB_ID"]
    with _SPEAKING, contextlib.suppress(OSError, subprocess.SubprocessError, UnicodeError):
        comment = _slurm("squeue", "--noheader", f"--jobs={job}", "--format=%k").removesuffix("\n")
        changed = with_progress(comment, pace_s, done)
        if changed is not None and changed != comment:
            _slurm("scontrol", "update", f"jobid={job}", f"comment={changed}")


def _slurm(*command: str) -> str:
    return subprocess.run(command, timeout=60, check=True, capture_output=True, text=True).stdout


def _replace(path: Path, text: str) -> None:
    """Replace *path* by *text* atomically and durably: readers see the old file or the new one."""
    part = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _link_once(path: Path, text: str) -> None:
    """Create *path* with *text* atomically, unless it exists."""
    part = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}")
    part.write_text(text)
    try:
        os.link(part, path)
    except FileExistsError:
        pass
    finally:
        part.unlink()


class _Command:
    """A command in its own process group, to which stop signals are forwarded."""

    def __init__(self, directory: Path) -> None:
        self.stop_requested = self.ends = False
        self._stop = directory / f"stop.{_run_name()}"
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        # A signal that arrives just before the sleep would go unnoticed until its end: each signal writes a byte here.
        self._rings, bell = os.pipe()
        os.set_blocking(bell, False)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # writes a byte too
        for each in SIGNALS:
            signal.signal(each, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop.touch()
        self.stop_requested = True
        self.ends = self.ends or number == signal.SIGTERM
        if self._process is None:
            self._early.append(number)
        else:
            self._pass_on(self._process, number)

    def _pass_on(self, process: subprocess.Popen[bytes], number: int) -> None:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may end just now
                os.killpg(process.pid, number)

    def _sleep(self, most_s: float | None) -> None:
        """Sleep until a signal, the end of a child, or *most_s* seconds (None: no limit)."""
        if select.select([self._rings], [], [], most_s)[0]:
            os.read(self._rings, 512)

    def status(self, command: Sequence[str]) -> int:
        """Run *command* to its end and return its exit status, 128 + N if signal N ended it."""
        environment = own_environment(dict(os.environ))
        self._process = process = subprocess.Popen(command, start_new_session=True, env=environment)
        for number in self._early:
            self._pass_on(process, number)
        while process.poll() is None:
            self._sleep(None)
        status = process.wait()
        return status if status >= 0 else 128 - status

    def ended_within(self, patience_s: float) -> bool:
        """Wait up to *patience_s* for the end of the run; return whether it ended."""
        until_s = time.monotonic() + patience_s
        while not self.ends and (left_s := until_s - time.monotonic()) > 0:
            self._sleep(left_s)
        return self.ends

    def go_on(self) -> None:
        """Clear the stop request."""
        self._stop.unlink(missing_ok=True)
        self.stop_requested, self._process, self._early = False, None, []


def run(directory: Path, command: Sequence[str], patience_s: float = PATIENCE_S) -> int:
    """Run *command*, forward stop signals, and return its exit status, or 128 + N if signal N ended it.

    If it was asked to stop, saved its work and succeeded, the job is queued again; if nothing ends this run within
    *patience_s*, the command is started again.
    """
    directory.mkdir(parents=True, exist_ok=True)
    done, child = directory / f"done.{_run_name()}", _Command(directory)
    began = 0
    with contextlib.suppress(OSError, ValueError):  # nothing was saved, or the file is somebody else's
        began = int((directory / "resume").read_text())
    while True:
        done.unlink(missing_ok=True)
        status = child.status(command)
        if status or not child.stop_requested or child.ends or not done.exists() or "SLURM_JOB_ID" not in os.environ:
            return status
        _queue_again()
        if child.ended_within(patience_s):
            return status
        child.go_on()
        _say_progress(None, began)


def _report_once(*progress: Any) -> int:
    """Send one report and write the answer to stderr; return 0 if the job is to end, else 1."""
    try:
        answer = _send_report(*progress) if "SLURM_JOB_ID" in os.environ else "not in a job"
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        answer = f"no report was sent: {error}"
    sys.stderr.write((answer or f"no COLLECTOR in {NODE_CONF}") + "\n")
    return 0 if answer.startswith("stop:") else 1


def _sizes(what: str, samples: int | None, most: int, up_to: int | None) -> str:
    if what == "gpus":
        return f"{gpus()}\n"
    return "{} {}\n".format(*batch_of(1 if samples is None else samples, most, gpus(), up_to))


def main(words: Sequence[str]) -> int:
    """Run the command line: ``run [--dir DIR] -- COMMAND...``, or one of the other words."""
    from argparse import ArgumentParser

    parser = ArgumentParser(prog="python -m slurmsched.job", description="Stop a job in good order.")
    parser.add_argument("what", choices=("run", "stopping", "done", "report", "gpus", "batch"))
    parser.add_argument("--dir", type=Path, default=Path("."), help="directory shared by all ranks")
    parser.add_argument("--iteration", type=int, default=0, help="where the work goes on, written to DIR/resume")
    parser.add_argument("--loss", type=float, help="for report: the loss after this iteration")
    parser.add_argument("--accuracy", type=float, help="for report: the accuracy after this iteration, 0 to 1")
    parser.add_argument("--noise", type=float, help="for report: the gradient noise scale, in samples")
    parser.add_argument("--samples", type=int, help="for batch and report: the samples of one step, on all GPUs")
    parser.add_argument("--most", type=int, default=1, help="for batch: the samples that a GPU takes at once")
    parser.add_argument("--up-to", type=int, help="for batch: the most samples of one step, where more GPUs take more")
    at = words.index("--") if "--" in words else len(words)
    options, command = parser.parse_args(words[:at]), words[at + 1 :]
    if options.what == "run":
        if not command:
            parser.error("say what to run after --")
        return run(options.dir, command)
    if options.what == "report":
        return _report_once(options.iteration, options.loss, options.accuracy, options.noise, options.samples)
    if options.what in ("gpus", "batch"):
        sys.stdout.write(_sizes(options.what, options.samples, options.most, options.up_to))
        return 0
    stop_requested = (options.dir / f"stop.{_run_name()}").exists()
    if options.what == "done":
        _say_saved(options.dir, options.iteration)
        if stop_requested:
            _say_progress(None, options.iteration)
        return 0
    return 0 if stop_requested else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Watches the GPUs that a job shares while another uses them, and writes a record where the two clash.

A program of its own, started as root by the Slurm prolog of the job that came later: Python 3.6 or newer, the standard
library, pynvml, and the sampler beside it. Its arguments are the numbers of the job's GPUs (0+1) and their UUIDs or
device numbers. The files JOB.NODE.share of RUN_DIR list the jobs on a node's GPUs: GPUs, MiB of each that the job may
use (0: unspecified), and its number of restarts. The settings of node.conf come in the environment as SLURMSCHED_NAME.
docs/sharing.md describes the record field by field.
"""

import contextlib
import importlib
import json
import math
import os
import re
import subprocess
import sys
import syslog
import time

# ruff: noqa: B905, UP006, UP035, UP045 - newer spellings do not run on Python 3.6
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional

VERSION = 1
SETTLING = 60  #: samples skipped after a job joins or leaves: starting is no instability
BLOCKS_MOST = 20  #: then the spread restarts, so that a long-stable pair is watched as closely
AGAIN = 60  #: samples between two attempts to deliver a record
FULL = 0.95  #: of a GPU's memory: limit of a pair where no other limit is known

SHARE = re.compile(r"([0-9]+)\.(.+)\.share")

# -I keeps our own directory out of sys.path.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sampler: Any = importlib.import_module("sampler")


class ShareHolder(NamedTuple):
    """A job with a share of GPUs; earlier ones compare as less."""

    since_ns: int
    job_id: int
    restart: int
    gpus: FrozenSet[str]
    mib: int


def sharers(directory: str, node: str) -> Dict[int, ShareHolder]:
    """Return the jobs that share GPUs of this node now, by job id."""
    found = {}
    for entry in os.scandir(directory):
        name = SHARE.fullmatch(entry.name)
        if name and name.group(2) == node:
            with contextlib.suppress(OSError, ValueError), open(entry.path) as file:
                gpus, mib, restart = file.read().split()
                job_id, since_ns = int(name.group(1)), os.fstat(file.fileno()).st_mtime_ns
                found[job_id] = ShareHolder(since_ns, job_id, int(restart), frozenset(gpus.split("+")), int(mib))
    return found


class SharedLoad:
    """The joint load of the same jobs on one GPU that they share."""

    def __init__(self, uuid: str, limit_mib: float) -> None:
        self._uuid, self._limit_mib = uuid, limit_mib
        self._processes: Optional[float] = None
        self._samples, self._steadiness = 0, sampler.Steadiness()

    def note(self, readings: Dict[str, float]) -> str:
        """Add the readings of one moment; return why the jobs clash, in figures, else empty."""
        mib, processes = readings.get("memory_mib", 0.0), readings.get("processes", self._processes)
        if mib > self._limit_mib:
            return f"{mib:.0f} MiB of {self._uuid} were used, more than {self._limit_mib:.0f}"
        if processes != self._processes:
            self._processes, self._samples, self._steadiness = processes, 0, sampler.Steadiness()
        if "gpu_util" not in readings or (processes is not None and processes < 2):
            return ""
        self._samples += 1
        if self._samples > SETTLING:
            self._steadiness.add(readings["gpu_util"])
        means = self._steadiness.means
        if self._steadiness.unstable:
            return (
                f"utilisation of {self._uuid}: {means.mean:.0f} % in the mean of {means.count} blocks, with a standard"
                f" deviation of {math.sqrt(means.variance):.0f}, more than {sampler.UNSTEADY:.0f}"
            )
        if means.count >= BLOCKS_MOST:
            self._steadiness = sampler.Steadiness()
        return ""


def loads(gpus: List[Any], together: List[ShareHolder]) -> List[SharedLoad]:
    """Return loads of these GPUs, started anew: a partner that joins or leaves changes the level."""
    pinned_mib = [sharer.mib for sharer in together]
    said_mib = float(sum(pinned_mib)) if all(pinned_mib) else math.inf
    return [SharedLoad(gpu.uuid, min(said_mib, FULL * (gpu.memory_mib or math.inf))) for gpu in gpus]


def watch(numbers: str, visible: str) -> None:
    """Watch until no earlier job is left, or the one record is written.

    The later job watches: so each pair has one watcher, and a job that is alone has none.
    """
    environ = os.environ
    job_id, node, directory = int(environ["SLURM_JOB_ID"]), environ["SLURMD_NODENAME"], environ["SLURMSCHED_RUN_DIR"]
    every_s = sampler.setting("EVERY_S", 1.0, 0.01, 3600.0)
    gpus: List[Any] = []
    before: List[ShareHolder] = []
    watched: List[SharedLoad] = []
    due, start_s = time.monotonic(), 0
    while True:
        there = sharers(directory, node)
        mine = there.get(job_id)
        together = sorted(one for one in there.values() if mine and one <= mine and one.gpus & mine.gpus)
        if mine is None or len(together) < 2:
            return
        if not gpus:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            gpus = sampler.find_gpus(nvml, "", visible)
        if together != before:
            before, watched, start_s = together, loads(gpus, together), int(time.time())
        why = [text for text in (load.note(gpu.read()) for gpu, load in zip(gpus, watched)) if text]
        if why:
            report_clash(mine, together[:-1], numbers, start_s, why[0])
            return
        if all(gpu.lost for gpu in gpus):
            return
        now = time.monotonic()
        due += every_s * (1 + max(0, int((now - due) / every_s)))
        time.sleep(due - now)


def report_clash(mine: ShareHolder, others: List[ShareHolder], numbers: str, start_s: int, why: str) -> None:
    """Write to the spool that the jobs clash, and send it at once."""
    node = os.environ["SLURMD_NODENAME"]
    complain(f"job {mine.job_id} and {[one.job_id for one in others]} on GPUs {numbers}: {why}")
    body = {
        "version": VERSION,
        "job_id": mine.job_id,
        "restart": mine.restart,
        "node": node,
        "uid": int(os.environ.get("SLURM_JOB_UID") or -1),
        "start_s": start_s,
        "end_s": max(start_s, int(time.time())),
        "gpus": [int(gpu) for gpu in numbers.split("+")],
        "with": [one.job_id for one in others],
        "with_restarts": [one.restart for one in others],
        "unstable": why,
    }
    name = f"{mine.job_id}.{node}.{start_s}.unstable"
    sampler.put_down(name, json.dumps(body).encode("ascii"), *sampler.limits())
    if os.environ.get("SLURMSCHED_COLLECTOR"):
        deliver(
            os.path.join(os.environ["SLURMSCHED_SPOOL_DIR"], name),
            AGAIN * sampler.setting("EVERY_S", 1.0, 0.01, 3600.0),
        )


def deliver(record: str, pause_s: float) -> None:
    """Send the spool until the daemon has *record*: it may be away, and the next epilog may be hours off."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deliver.py")
    while True:
        subprocess.call([sys.executable, "-I", program], cwd="/")
        if not os.path.exists(record):
            return
        time.sleep(pause_s)


def complain(text: str) -> None:
    """Write to syslog, for the admin."""
    syslog.openlog("slurmsched")
    syslog.syslog(syslog.LOG_NOTICE, text.encode("ascii", "backslashreplace").decode()[:500])


def main(argv: List[str]) -> None:
    """Watch one job's GPUs; a signal ends it at any moment, and errors go to syslog."""
    os.closerange(3, 256)  # inherited from slurmd, whose sockets would stay open after it ends
    try:
        watch(argv[0], argv[1])
    except Exception as error:  # no error here may affect the job
        complain("watching job {}: {}: {}".format(os.environ.get("SLURM_JOB_ID"), type(error).__name__, error))


if __name__ == "__main__":
    main(sys.argv[1:])

"""What a look at the queue costs, through commands and through pyslurm: ``python -m tests.bench.backends``."""

from __future__ import annotations

import platform
import resource
import statistics
import tempfile
import time
from pathlib import Path

from slurmsched.lab import Lab, LabSpec
from slurmsched.slurm.adapters.backend import SlurmBackend
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.versions import SlurmRelease

from .__main__ import Meter, fill, rpc_s

RUNS = 7
SIZES = (1_000, 10_000)


def main() -> None:
    """Both adapters before queues of both sizes, on a lab of this machine's release."""
    conf = "SchedulerParameters=bf_interval=30,bf_continue,default_queue_depth=100"
    for pending in SIZES:
        with Lab(Path(tempfile.mkdtemp(prefix="ssbench-", dir="/tmp")), LabSpec(extra_conf=(conf,))) as lab:
            fill(lab, pending)
            for wanted in ("command", "pyslurm"):
                bench(lab, wanted, pending)


def bench(lab: Lab, wanted: str, pending: int) -> None:
    """Median seconds up to finished columns, bytes read, and what slurmctld spent on it."""
    meter = Meter()
    console = CommandRunner(
        environment=lab.env(), prefix=tuple(lab.command([], user="operator")), called=meter, timeout_s=60
    )
    cluster = SlurmBackend.of(console, "auto" if wanted == "pyslurm" else wanted)
    facts = cluster.facts()
    if wanted == "pyslurm" and not facts.backend.startswith("pyslurm"):
        print(f"  {facts.backend_reason}")
        return
    cluster.observe()  # asks once about what pyslurm does not tell
    took_s, spent_s, sizes_b, ours_s = [], [], [], []
    for _ in range(RUNS):
        meter.take()
        before_s, began, cpu_s = rpc_s(lab), time.perf_counter(), _cpu_s()
        state = cluster.observe()
        took_s.append(time.perf_counter() - began)
        ours_s.append(_cpu_s() - cpu_s)
        spent_s.append(rpc_s(lab) - before_s)
        sizes_b.append(meter.take()[1])
    assert len(state.pending) == pending, len(state.pending)
    middle = statistics.median
    print(
        f"  Slurm {SlurmRelease(facts.version)}, Python {platform.python_version()}, "
        f"{pending:>6,} pending, {facts.backend}:"
        f" {middle(took_s):.3f} s (median of {RUNS}; target at 10,000: 0.4), read {middle(sizes_b) / 1e6:.1f} MB,"
        f" slurmctld {middle(spent_s) * 1e3:.0f} ms, our own CPU {middle(ours_s):.3f} s"
    )


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

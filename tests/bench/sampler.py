"""``python -m tests.bench.sampler [SECONDS]``: the share of a core that a sampler of 8 GPUs takes at 1 Hz."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "prolog"))

from node_worlds import Node, scripted_nvml, wait_until

GPUS = 8
SECONDS = 120.0
SETTLED_S = 5.0
SCRIPT = f"0 * gpus {GPUS}\n0 * memory 1000\n0 * power 100\n0 * limit 400\n0 * util 40/10\n0 * processes 1\n"


def main() -> None:
    """Start a sampler as the prolog does, and compare its processor time with the clock."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        scripted_nvml(home)
        node = Node(home, home)
        node.script(SCRIPT)
        node.settings["EVERY_S"] = "1"
        node.job["SLURM_JOB_GPUS"] = ",".join(map(str, range(GPUS)))
        assert node.run("prolog")[0] == 0
        wait_until(lambda: node.questions() >= 10 * GPUS, "the sampler to measure")
        pid = node.sampler()
        assert pid is not None
        began_s = processor_s(pid)
        time.sleep(SETTLED_S)
        first_s, at_s = processor_s(pid), time.monotonic()
        time.sleep(seconds)
        share = (processor_s(pid) - first_s) / (time.monotonic() - at_s)
        resident = next(
            line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
        )
        print(f"{GPUS} GPUs at 1 Hz: {share:.3%} of a core, {began_s * 1e3:.0f} ms to start, {resident}")
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the sampler")


def processor_s(pid: int) -> float:
    """Return the processor time of a process so far, all of its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


if __name__ == "__main__":
    main()

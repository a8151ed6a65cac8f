"""``python -m tests.bench.queue_time PATH...``: predicted queue times on logs with real waits, as rows of the page.

PATH is a file or a directory of files of one format, as ``slurmsched models queue-time`` takes it. All jobs are asked
for where many share a moment, else 2,000.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from slurmsched.research.queue_time.benchmark import benchmark, questions
from slurmsched.research.queue_time.readers import read_waits
from slurmsched.research.queue_time.scores import QueueTimes
from slurmsched.research.queue_time.wait_log import WaitLog

SOME, ALL = 2_000, 1_000_000
MOMENTS = 400  #: play-forwards of all jobs, one for each moment
NAMES = ("off, min", "within 2x", "within 3x", "pinball, min", "pinball, log", "covered", "by high end", "width, min")


def main(paths: list[str]) -> None:
    """Print a table for each of *paths*."""
    for path in paths:
        began_s, data = time.process_time(), read_waits(path)
        result = benchmark(Path(path).name, data, asked(data.log))
        for line in table(result):
            print(line)
        print(f"\n{time.process_time() - began_s:.0f} s of processor time\n", flush=True)


def asked(log: WaitLog) -> int:
    """How many jobs to ask for."""
    return ALL if len(np.unique(log.asked_s[questions(log, ALL)])) <= MOMENTS else SOME


def table(result: QueueTimes) -> list[str]:
    """The scores in Markdown, minutes for seconds."""
    scored = result.scores[0].asked
    head = f"{result.data}: {scored:,} jobs scored of {result.jobs:,}, median wait {result.median_wait_s / 60:.0f} min"
    names = (
        "off, min",
        "within 2x",
        "within 3x",
        "pinball, min",
        "pinball, log",
        "covered",
        "by high end",
        "width, min",
    )
    lines = [head, "", "| predictor | " + " | ".join(names) + " |", "|---" * (1 + len(names)) + "|"]
    for one in result.scores:
        part = "" if one.answered == one.asked else f" ({one.answered / one.asked:.0%} answered)"
        shares = (f"{100 * share:.1f} %" for share in (one.within_2x, one.within_3x))
        cells = (f"{one.error_s / 60:.0f}", *shares, f"{one.pinball_s / 60:.1f}", f"{one.pinball_log:.3f}")
        ends = (f"{100 * one.covered:.1f} %", f"{100 * one.by_high:.1f} %", f"{one.width_s / 60:.0f}")
        lines.append("| " + " | ".join((one.predictor + part, *cells, *ends)) + " |")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])

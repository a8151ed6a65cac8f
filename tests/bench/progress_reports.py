"""``python -m tests.bench.progress_reports``: what reports of progress cost the jobs, the daemon and a decision.

A minute of 2,000 jobs of 250 users that report once a minute, with a munged of its own; a call of `report` in a loop of
training; and the scores of 2,048 waiting jobs by a learned ordering. Processor time; the first with that of unmunge.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from slurmsched import job
from slurmsched.clock import SystemClock
from slurmsched.cluster.state import ClusterState
from slurmsched.daemon.profiles.profile_receiver import ProfileReceiver, Receiver
from slurmsched.daemon.progress_book import ProgressBook
from slurmsched.policies.ordering.mlfs_rl import Actor

from ..daemon.munge_worlds import munged
from ..decide.views import jobs, running_jobs, view

JOBS, USERS, FIRST_UID = 2_000, 250, 2_000
FEATURES = 16


def processor_s() -> float:
    """Return the processor time of the other threads of this process and of its ended children."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) - time.thread_time()


def minute_of_reports() -> tuple[float, Counter[str]]:
    """Return the processor time that a minute of reports takes, and the answers."""
    users = [f"u{row % USERS}" for row in range(JOBS)]
    told = {
        "job_id": np.arange(1, JOBS + 1),
        "user": users,
        "node_list": ["n1"] * JOBS,
        "iterations": np.full(JOBS, 1000),
    }
    world = view(jobs(0), running=running_jobs(JOBS, **told))
    book = ProgressBook(time.monotonic, lambda uid: f"u{uid - FIRST_UID}")
    book.observe(ClusterState(world.pending, world.running, jobs(0), world.nodes, world.partitions, world.qos))
    with munged() as munge:

        def credential(row: int) -> bytes:
            about = {"version": 1, "job_id": row + 1, "restart": 0, "node": "n1"}
            payload = json.dumps(about | {"progress": row % 900 + 1, "loss": 0.5, "accuracy": None}).encode()
            return munge.credential(payload, uid=FIRST_UID + row % USERS)

        with ThreadPoolExecutor(4) as pool:
            lines = list(pool.map(credential, range(JOBS)))
        desk = Receiver(
            addresses=lambda node: frozenset({"127.0.0.1", munge.address}),
            ran=lambda job_id, node: True,
            save=lambda profile: None,
            report=book.take,
        )
        collector = ProfileReceiver(("127.0.0.1", 0), desk, SystemClock(), unmunge=munge.unmunge)
        collector.start()
        begin_s = processor_s()
        answers = [_answer(collector, line) for line in lines]
        took_s = processor_s() - begin_s
        collector.close()
    return took_s, Counter(answers)


def _answer(collector: ProfileReceiver, line: bytes) -> str:
    with socket.create_connection(collector.address, timeout=60.0) as stream:
        stream.sendall(line)
        return stream.makefile().readline().strip()


def seconds_of_a_report(calls: int = 200_000) -> float:
    """Return the processor time of a call of ``slurmsched.job.report`` by the first rank of a job."""
    os.environ |= {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0"}
    begin_s = time.process_time()
    for iteration in range(calls):
        job.report(iteration, loss=0.5)
    return (time.process_time() - begin_s) / calls


def seconds_of_scores(waiting: int, hidden: int) -> float:
    """Return the processor time of the scores of so many jobs, with so many hidden units, from their features on."""
    random = np.random.default_rng(0)
    rows = random.random((waiting, FEATURES))
    low, high = np.zeros(FEATURES), np.ones(FEATURES)
    into, offset, out = random.random((FEATURES, hidden)), random.random(hidden), random.random(hidden)
    actor = Actor(random.random(FEATURES), low, high, into, offset, out)
    times = []
    for _ in range(101):
        begin_s = time.process_time()
        actor.scores(rows)
        times.append(time.process_time() - begin_s)
    return statistics.median(times)


def main() -> None:
    """Print the figures."""
    took_s, answers = minute_of_reports()
    print(f"{JOBS:,} reports in a minute: {took_s:.2f} s, {took_s / 60:.1%} of a core (goal 10 %)")
    print("  answers:", ", ".join(f"{count} {answer!r}" for answer, count in answers.most_common()))
    print(f"a call of report: {seconds_of_a_report() * 1e6:.1f} us (goal 50)")
    print(f"scores of 2,048 jobs: {seconds_of_scores(2_048, 0) * 1e3:.3f} ms beyond features (goal 1)")
    print(f"the same with 16 hidden units: {seconds_of_scores(2_048, 16) * 1e3:.3f} ms")


if __name__ == "__main__":
    main()

"""Deadlines on a real Slurm: a burst of strict, soft and best-effort jobs, each as wide as the lab."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from lab_site import Site, history

TOOK_S = 4.0
DEADLINE = "enabled = true\nlead_s = 3\nreserve = 0"


@pytest.fixture
def promising(new_site):
    """Promises, and knows that every job of its names takes four seconds."""
    site = new_site(deadline=DEADLINE, power="order = true\nhold = true", policy="ordering = 'fifo'")
    known = history(site.lab, site.names)
    ended_s = time.time() - 20_000.0 + 60.0 * np.arange(len(known))
    times = dict.fromkeys(("first_submit_s", "eligible_s", "started_s"), ended_s - TOOK_S)
    runtime_s = np.full(len(known), TOOK_S)
    taught = replace(known, runtime_s=runtime_s, ended_s=ended_s, job_id=known.job_id + 1000, **times)
    with site.store() as store:
        store.prune(time.time(), 1.0, 1.0)
        store.add_outcomes(site.lab.cluster, taught)
    return site


def submit(site: Site, comment: str = "", *options: str) -> int:
    return site.lab.submit(
        "--gres=gpu:4", "-N4", "--exclusive", "-t1", f"--wrap=sleep {TOOK_S}", "-o/dev/null", f"-J{site.names[0]}",
        f"--comment={comment}", *options, user="alice",
    )  # fmt: skip


def answer(site: Site, job: int) -> str:
    return str(site.said("deadline", str(job)).get("deadline", {}).get("answer"))


def end_s(site: Site, job: int) -> float:
    """When the job ended, after it has."""
    site.until(lambda: site.states().get(job) == "COMPLETED", f"the end of job {job}", 60.0)
    asked = ["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-t", "all", "-j", str(job), "-O", "EndTime:20"]
    return float(site.lab.ask(asked).strip())


def test_guaranteed_deadlines_are_met_in_a_burst_and_an_impossible_one_is_refused_at_once(promising):
    site = promising
    with site.daemon():
        begun_s = time.time()
        others = [submit(site) for _ in range(4)]
        strict = submit(site, "slurmsched:deadline=+22s")
        soft = submit(site, "slurmsched:deadline=+5s,50@+50s")
        never = submit(site, "slurmsched:deadline=+2s")
        for job, expected in ((strict, "promised met"), (soft, "promised met"), (never, "refused")):
            site.until(
                lambda job=job, expected=expected: answer(site, job) in expected.split(), f"{expected}: job {job}", 8.0
            )
        told = site.said("deadline", str(never))["deadline"]
        assert told["earliest_s"] > told["deadline_s"]
        assert site.said("deadline", str(soft))["deadline"]["worth"] == 0.5
        assert "No promise for its deadline" in site.run("why", str(never)).stdout
        options = f"-p gpu -N4 --gres=gpu:4 -t1 -J {site.names[0]} --comment=slurmsched:deadline=+1h"
        asked = site.run("deadline", "--check", options)
        assert asked.returncode == 0, asked.stderr
        assert site.run("deadline", "--check", options.replace("+1h", "+2s")).returncode == 1
        assert never in {row["job_id"] for row in site.said("deadline")["deadlines"]}
        assert end_s(site, strict) <= begun_s + 24
        assert end_s(site, soft) <= begun_s + 52
        assert end_s(site, others[-1]) > end_s(site, strict), "stock Slurm runs those that came first before"
        site.until(lambda: {answer(site, strict), answer(site, soft)} == {"met"}, "both met")
    site.lab.ask(["scancel", *map(str, (*others, never))])

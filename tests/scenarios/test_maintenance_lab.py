"""A maintenance of all nodes a few minutes ahead, with forty jobs of mixed limits before it.

It runs in real time on a scaled-down site: minutes stand for hours, in the window as in the limits of the jobs.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deadline_jobs import answer
from lab_site import Site, history

from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.text.tres import seconds
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until

AHEAD_MIN, LASTS_MIN = 4, 2
JOBS, ENOUGH = 40, 34
LIMITS_MIN = (1, 2, 3, 5, 8, 20)
MEDIANS_S, SIGMA = (18.0, 30.0, 45.0), 0.2
PROBES, PROBE_S = 12, 10.0
"""Jobs that fill the lab and show what a start and an end add to the time that a job sleeps on this machine."""

MOST_S = 48.0
"""No job reaches the shortest limit."""

LOOK_S = 5.0
"""Between questions to the accounting, which would take the machine from the lab."""

WAVES, WAVE = 2, 35
"""Jobs that the daemon has predicted and seen end before, as on a site."""

WIDEST = 2.5
"""The bounds of half of the jobs are at most that much farther ahead than their ends."""

DEADLINES = ("+12m", "+12m", "+15m", "+15m", "+15m")
"""Of the last jobs: so far ahead that the daemon delays no others for them."""

CONF = ("SchedulerParameters=bf_interval=2,bf_resolution=1,bf_continue,sched_interval=2,batch_sched_delay=0",)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if os.geteuid():
        pytest.skip("only root brings up accounting")
    directory = Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))
    directory.chmod(0o755)
    with Lab(directory / "lab", LabSpec(nodes=3, gpus=4, extra_conf=CONF)) as one:
        yield one


def sleeps_s(random: np.random.Generator, kind: np.ndarray) -> np.ndarray:
    return np.minimum(np.array(MEDIANS_S)[kind] * random.lognormal(0.0, SIGMA, len(kind)), MOST_S)


def overheads_s(lab: Lab) -> list[float]:
    words = ("--gres=gpu:1", "-N1", "-c1", "--mem=100", "-t2", "-o/dev/null", f"--wrap=sleep {PROBE_S}")
    jobs = [lab.submit(*words, user="carol") for _ in range(PROBES)]
    wait_for(lab, jobs)
    return [end_s - start_s - PROBE_S for start_s, end_s in runs(lab, jobs).values()]


def past(site: Site, random: np.random.Generator) -> OutcomeTable:
    """Twenty runs of each kind by each user, an hour ago."""
    known = history(site.lab, site.names[: len(MEDIANS_S)])
    known = known.take(np.tile(np.arange(len(known)), 4))
    kind = np.array([site.names.index(name) for name in known.name])
    runtime_s = sleeps_s(random, kind) + random.choice(overheads_s(site.lab), len(kind))
    ended_s = time.time() - 3600.0 - 10.0 * np.arange(len(known))
    times = dict.fromkeys(("first_submit_s", "eligible_s", "started_s"), ended_s - runtime_s)
    shape = {name: np.ones(len(known), dtype=np.int64) for name in ("gpus", "nodes", "cpus")}
    ids = 3_000_000 + np.arange(len(known))
    return replace(known, job_id=ids, runtime_s=runtime_s, ended_s=ended_s, **times, **shape)


def submit(site: Site, random: np.random.Generator, deadlines: Sequence[str]) -> dict[int, float]:
    """Submit a job for each of *deadlines*, which may be empty; return their limits in seconds."""
    kinds, jobs = random.integers(0, len(MEDIANS_S), len(deadlines)), {}
    for place, (kind, takes_s) in enumerate(zip(kinds.tolist(), sleeps_s(random, kinds).tolist(), strict=True)):
        limit_min, gpus = int(random.choice(LIMITS_MIN)), int(random.choice([1, 2, 4], p=(0.4, 0.4, 0.2)))
        comment = [f"--comment=slurmsched:deadline={deadlines[place]}"] if deadlines[place] else []
        words = (f"--gres=gpu:{gpus}", "-N1", "-c1", "--mem=100", f"-t{limit_min}", f"-J{site.names[kind]}", *comment)
        wrap = f"--wrap=sleep {takes_s:.1f}"
        job = site.lab.submit(*words, "-o/dev/null", wrap, user=("alice", "bob")[place % 2])
        jobs[job] = 60.0 * limit_min
    return jobs


def predicted(site: Site) -> bool:
    """Whether the daemon can say when a new job would end."""
    rows = site.said("eta", "--check", "-p gpu -G 1 -t 2").get("eta", [])
    return any(row["finish_s"] is not None for row in rows)


def told(site: Site, jobs: Collection[int]) -> dict[int, dict[str, Any]]:
    """What the daemon says first of each of *jobs* once all are there."""
    asked_s, known = time.time(), {}

    def all_of_them() -> bool:
        rows = site.said("eta", "--all", "--limit=1000").get("eta", [])
        first = {row["job_id"]: row for row in rows if row["as_of_s"] >= asked_s and row["finish_by_s"] is not None}
        known.update(first | known)
        return known.keys() >= set(jobs)

    wait_until(all_of_them, 120.0, "a time for each job", every_s=2.0)
    return known


def runs(lab: Lab, jobs: Collection[int]) -> dict[int, tuple[float, float]]:
    """Start and end of each of *jobs* that has ended, by the accounting."""
    asked = ["env", "SLURM_TIME_FORMAT=%s", "sacct", "-a", "-X", "-n", "-P", "-o", "JobID,Start,End"]
    rows = (line.split("|") for line in lab.ask(asked).splitlines())
    found = {int(job): (start, end) for job, start, end in rows if job.isdigit()}
    return {job: (float(start), float(end)) for job, (start, end) in found.items() if job in jobs and end.isdigit()}


def wait_for(lab: Lab, jobs: Collection[int]) -> None:
    """Wait until *jobs* have ended."""
    wait_until(lambda: len(runs(lab, jobs)) == len(jobs), 1500.0, "all jobs ran", every_s=LOOK_S)


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.draws
def test_jobs_before_a_maintenance_end_by_the_moment_told_and_no_promise_is_broken(lab):
    random, deadline = np.random.default_rng(7), "enabled = true\nlead_s = 20\nreserve = 0\nuser_share = 1"
    sections = {"daemon": "mode = 'act'\nevery_s = 2", "policy": "ordering = 'fifo'", "deadline": deadline}
    sections |= {"power": "order = true\nhold = true", "predict": "enabled = true\nevery_s = 1"}
    site = Site.of(lab, None, **sections)  # whose processes start others
    known = past(site, random)
    with site.store() as store:
        store.prune(time.time(), 1.0, 1.0)  # what the site was taught of these names
        store.add_outcomes(lab.cluster, known)
    with site.daemon():
        wait_until(lambda: predicted(site), 900.0, "a prediction, with its code compiled", every_s=LOOK_S)
        for _ in range(WAVES):
            wait_for(lab, submit(site, random, [""] * WAVE))
        lab.ask(["scontrol", "update", "nodename=ALL", "state=drain", "reason=until all are submitted"])
        jobs = submit(site, random, [""] * (JOBS - len(DEADLINES)))
        when = (f"starttime=now+{AHEAD_MIN}minutes", f"duration={LASTS_MIN}")
        words = ("reservationname=repair", "users=root", "nodes=ALL", "flags=maint,ignore_jobs", *when)
        lab.ask(["scontrol", "create", "reservation", *words])
        window = site.cluster().observe().reservations
        lab.ask(["scontrol", "update", "nodename=ALL", "state=resume"])
        site.more_cycles(1)  # a job with a deadline that comes while it sees them drained is refused
        jobs |= submit(site, random, DEADLINES)
        said, now_s = told(site, jobs), time.time()
        demand_words(site, jobs, float(window.start_s[0]))
        answers = {job: site.said("deadline", str(job)) for job in list(jobs)[-len(DEADLINES) :]}
        promised = [job for job in answers if answer(site, job) == "promised"]
        wait_for(lab, jobs)
        site.more_cycles(2)
        assert {answer(site, job) for job in promised} <= {"met"}
    ran, begin_s, end_s = runs(lab, jobs), float(window.start_s[0]), float(window.end_s[0])
    basis = max(one["finish_basis"] for one in said.values())
    print(lab.ask(["sbatch", "--version"]).strip(), "past predictions", basis, "promised", promised)
    print("window", f"{begin_s - now_s:.0f} {end_s - now_s:.0f}")
    for job, (start_s, finish_s) in sorted(ran.items(), key=lambda one: one[1]):
        times_s = (start_s, finish_s, *(said[job][name] for name in ("start_s", "finish_s", "finish_by_s")))
        late = "late" if finish_s > said[job]["finish_by_s"] + 1 else ""
        print(job, f"limit {jobs[job]:.0f}", *(f"{at_s - now_s:.0f}" for at_s in times_s), late)
    assert all(start_s + jobs[job] <= begin_s + 1 or start_s >= end_s for job, (start_s, _) in ran.items())
    assert promised, answers
    wide = [(said[job]["finish_by_s"] - now_s) / (finish_s - now_s) for job, (_, finish_s) in ran.items()]
    print("as far ahead as the ends, by tenths", np.percentile(wide, range(0, 101, 10)).round(2))
    assert sum(finish_s <= said[job]["finish_by_s"] + 1 for job, (_, finish_s) in ran.items()) >= ENOUGH
    assert np.median(wide) <= WIDEST


def demand_words(site: Site, jobs: Mapping[int, float], begin_s: float) -> None:
    """Demand that each job which the window keeps out is told when it begins, and a limit that ends before."""
    ahead_s = begin_s - time.time()
    kept_out = [job for job, limit_s in jobs.items() if limit_s > ahead_s]
    assert len(kept_out) >= JOBS // 4
    for job in kept_out:
        one = site.said("why", str(job))["why"]
        assert "a maintenance of nodes that it needs begins in" in one["reason"], one
        limit = re.search(r"timelimit=(\S+)'", one["advice"])
        assert limit is not None, one
        assert 60.0 <= seconds(limit[1]) < ahead_s

"""A maintenance of all nodes a few minutes ahead, with forty jobs of mixed limits before it.

It runs in real time on a scaled-down site: minutes stand for hours, in the window as in the limits of the jobs.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from deadline_jobs import answer
from lab_site import Site, history

from slurmsched.cluster.plan import Plan
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.state import ClusterState, View
from slurmsched.cluster.text.tres import seconds
from slurmsched.decide.rules import Rules
from slurmsched.explain.why import why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

AHEAD_MIN, LASTS_MIN = 4, 2
JOBS, ENOUGH = 40, 34
LIMITS_MIN = (1, 2, 3, 5, 8, 20)
MEDIANS_S, SIGMA = (18.0, 30.0, 45.0), 0.2
PROBES, PROBE_S = 12, 10.0
"""Jobs that fill the lab and show what a start and an end add to the time that a job sleeps on this machine."""

MOST_S = 48.0
"""No job reaches the shortest limit."""

LOOKS_S = 6.0
"""Until Slurm has looked at each job."""

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
    wait_until(lambda: len(runs(lab, jobs)) == PROBES, 240.0, "the probes ran", every_s=2.0)
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


def submit(site: Site, random: np.random.Generator, deadlines: Sequence[str]) -> list[int]:
    """Submit a job for each of *deadlines*, which may be empty."""
    kinds, jobs = random.integers(0, len(MEDIANS_S), len(deadlines)), []
    for place, (kind, takes_s) in enumerate(zip(kinds.tolist(), sleeps_s(random, kinds).tolist(), strict=True)):
        limit_min, gpus = int(random.choice(LIMITS_MIN)), int(random.choice([1, 2, 4], p=(0.4, 0.4, 0.2)))
        comment = [f"--comment=slurmsched:deadline={deadlines[place]}"] if deadlines[place] else []
        words = (f"--gres=gpu:{gpus}", "-N1", "-c1", "--mem=100", f"-t{limit_min}", f"-J{site.names[kind]}", *comment)
        wrap = f"--wrap=sleep {takes_s:.1f}"
        jobs.append(site.lab.submit(*words, "-o/dev/null", wrap, user=("alice", "bob")[place % 2]))
    return jobs


def view_of(state: ClusterState, model: RuntimeModel, now_s: float) -> View:
    pending = replace(state.pending, first_submit_s=state.pending.submitted_s)
    names = ("running", "nodes", "partitions", "qos", "accounts", "limits", "reservations")
    forecasts = {"forecast": model.forecast(pending, now_s), "forecast_running": model.forecast(state.running, now_s)}
    return View(now_s=now_s, pending=pending, **{name: getattr(state, name) for name in names}, **forecasts)


def runs(lab: Lab, jobs: list[int]) -> dict[int, tuple[float, float]]:
    """Start and end of each of *jobs* that has ended, by the accounting."""
    asked = ["env", "SLURM_TIME_FORMAT=%s", "sacct", "-a", "-X", "-n", "-P", "-o", "JobID,Start,End"]
    rows = (line.split("|") for line in lab.ask(asked).splitlines())
    found = {int(job): (start, end) for job, start, end in rows if job.isdigit()}
    return {job: (float(start), float(end)) for job, (start, end) in found.items() if job in jobs and end.isdigit()}


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.draws
def test_jobs_before_a_maintenance_end_by_the_moment_told_and_no_promise_is_broken(lab):
    random, deadline = np.random.default_rng(7), "enabled = true\nlead_s = 20\nreserve = 0\nuser_share = 1"
    power = "order = true\nhold = true"
    site = Site.of(lab, daemon="mode = 'act'\nevery_s = 2", deadline=deadline, power=power, policy="ordering = 'fifo'")
    known = past(site, random)
    model = RuntimeModel.fit(known)
    with site.store() as store:
        store.prune(time.time(), 1.0, 1.0)  # what the site was taught of these names
        store.add_outcomes(lab.cluster, known)
    lab.ask(["scontrol", "update", "nodename=ALL", "state=drain", "reason=until all are submitted"])
    jobs = submit(site, random, [""] * (JOBS - len(DEADLINES)))
    when = (f"starttime=now+{AHEAD_MIN}minutes", f"duration={LASTS_MIN}")
    words = ("reservationname=repair", "users=root", "nodes=ALL", "flags=maint,ignore_jobs", *when)
    lab.ask(["scontrol", "create", "reservation", *words])
    with site.daemon():
        lab.ask(["scontrol", "update", "nodename=ALL", "state=resume"])
        jobs += submit(site, random, DEADLINES)
        time.sleep(LOOKS_S)
        now_s, cluster = time.time(), site.cluster()
        view = view_of(cluster.observe(), model, now_s)
        plan = decide(view, find_ordering("fifo"), Rules())
        told = predict_completion(view, plan.jobs.rank, plan.jobs.standing, cluster.facts().config)
        demand_words(view, plan)
        site.more_cycles(2)
        promised = [job for job in jobs[-len(DEADLINES) :] if answer(site, job) == "promised"]
        site.until(lambda: len(runs(lab, jobs)) == JOBS, "all jobs ran", 1500.0)
        site.more_cycles(2)
        assert {answer(site, job) for job in promised} <= {"met"}
    ran, begin_s, end_s = runs(lab, jobs), float(view.reservations.start_s[0]), float(view.reservations.end_s[0])
    by_s = {job: float(told.finish_by_s[told.row_of(job)]) for job in jobs}
    for job, (start_s, finish_s) in sorted(ran.items(), key=lambda one: one[1]):
        row = told.row_of(job)
        times_s = (start_s, finish_s, float(told.start_s[row]), float(told.finish_s[row]), by_s[job])
        print(job, *(f"{at_s - now_s:.0f}" for at_s in times_s), "late" if finish_s > by_s[job] + 1 else "")
    print("promised", promised, "window", begin_s - now_s, end_s - now_s)
    limits_s = {job: float(told.time_limit_s[told.row_of(job)]) for job in jobs}
    assert all(start_s + limits_s[job] <= begin_s + 1 or start_s >= end_s for job, (start_s, _) in ran.items())
    assert promised
    assert sum(finish_s <= by_s[job] + 1 for job, (_, finish_s) in ran.items()) >= ENOUGH


def demand_words(view: View, plan: Plan) -> None:
    """Demand that each job which the window keeps out is told when it begins, and a limit that ends before."""
    begins_s = float(view.reservations.start_s[0]) - view.now_s
    rows = [row for row in range(len(view.pending)) if view.pending.time_limit_s[row] > begins_s]
    assert len(rows) >= JOBS // 4
    for row in rows:
        one = why(view, plan, Rules(), int(view.pending.job_id[row]))
        assert "a maintenance of nodes that it needs begins in" in one.reason, one
        limit = re.search(r"timelimit=(\S+)'", one.advice)
        assert limit is not None, one
        assert 60.0 <= seconds(limit[1]) < begins_s

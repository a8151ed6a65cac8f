"""kill -9 at any moment: Slurm goes on, the database is whole, the next start puts everything right."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice

import pytest
from lab_site import USERS, Site

from slurmsched.cluster.jobs import JobState
from slurmsched.cycle import PHASES

pytestmark = pytest.mark.attack

BATCH = 7

HALVES = (
    "SELECT count(*) FROM cycle_blobs LEFT JOIN blobs USING (digest) WHERE body IS NULL",
    "SELECT count(*) FROM cycles WHERE number NOT IN (SELECT number FROM cycle_blobs WHERE part = 'key')",
    "SELECT count(*) FROM (SELECT 1 FROM outcomes GROUP BY job_id, restart HAVING count(*) > 1)",
    "SELECT count(*) FROM (SELECT 1 FROM job_events WHERE kind IN ('submitted', 'ended') GROUP BY job_id, kind"
    " HAVING count(*) > 1)",
    "SELECT count(*) FROM outcomes o WHERE job_id < 1000000 AND NOT EXISTS"
    " (SELECT 1 FROM job_events e WHERE e.job_id = o.job_id AND e.kind = 'ended')",
    "SELECT count(*) FROM outcomes o JOIN jobs j USING (job_id) WHERE j.phase != 2",
)
"""Each counts records of which a part is missing, or that are there twice."""


def burst(site: Site, count: int = BATCH) -> list[int]:
    """Short jobs of all users with limits that are not in submit order, so that there is always an order to write."""
    return [
        site.lab.submit(
            "--gres=gpu:4", f"-t{1 + number * 5 % 7}", f"--wrap=sleep {number % 2}.5", "-o/dev/null", user=user
        )
        for number, user in enumerate(islice(cycle(USERS), count))
    ]


def kill(site: Site, cycle_to_die: int, phase: str) -> list[int]:
    """Start a daemon and let it die there; the jobs it took to have something to write by then."""
    process = site.start(*site.driver(cycle_to_die, phase))
    try:
        jobs: list[int] = []
        until_s = time.monotonic() + 300.0
        while process.poll() is None:
            if Counter(site.states().values())["PENDING"] < BATCH:
                jobs += burst(site)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.3)
            assert time.monotonic() < until_s, f"never came to {phase}: {site.log[-3000:]}"
        assert process.returncode == -signal.SIGKILL, site.log[-3000:]
        return jobs
    finally:
        process.kill()


def kill_at_random(site: Site, after_s: float) -> None:
    """Start a daemon and kill it in the middle of whatever it is doing."""
    process = site.start()
    with pytest.raises(subprocess.TimeoutExpired):  # it would live on; the moment is the test
        process.wait(after_s)
    process.kill()
    assert process.wait(90.0) == -signal.SIGKILL


def demand_that_slurm_goes_on(site: Site) -> list[int]:
    """No job is kept from starting by anything of ours, and jobs do end while no daemon is there.

    All may have ended by now: more are submitted then, which are returned.
    """
    for line in site.lab.ask(["squeue", "-h", "-t", "PD", "-o", "%A %r %p"]).splitlines():
        _, reason, priority = line.split()
        assert reason in {"None", "Priority", "Resources"}, line
        assert float(priority) > 0, line
    more = [] if (left := unfinished(site)) else burst(site)
    left |= set(more)
    site.until(lambda: left - unfinished(site), "a job that ends without us")
    return more


def unfinished(site: Site) -> set[int]:
    return {job for job, state in site.states().items() if state in {"PENDING", "RUNNING", "COMPLETING"}}


def demand_whole(site: Site) -> None:
    """The database opens and holds nothing half and nothing twice."""
    assert site.sql("PRAGMA integrity_check") == [("ok",)]
    for halves in HALVES:
        assert site.sql(halves) == [(0,)], halves


def demand_reconciled(site: Site) -> None:
    """One cycle, and every pending job has the points that its plan says.

    The only write that may be refused is one to a job that ended between the look and the write.
    """
    done = site.run("once")
    if done.returncode:
        latest = "(SELECT max(number) FROM cycles)"
        refused = site.sql(f"SELECT refused FROM intents WHERE refused IS NOT NULL AND cycle = {latest}")
        assert refused, done.stderr
        assert all("Job has already finished" in words for (words,) in refused), refused
    with site.store() as store:
        record = store.latest_decision()
    assert record is not None
    wanted = dict(zip(record.view.pending.job_id.tolist(), record.plan.jobs.points.tolist(), strict=True))
    have = {job: points for job, points in site.points().items() if job in wanted}
    assert have == {job: wanted[job] for job in have}


def kills(seed: int, count: int) -> Iterator[tuple[int, str]]:
    """Every phase in turn, then the moments between; the first cycle of a life more often than later ones."""
    chance = random.Random(seed)
    moments = islice(cycle([*PHASES, "any"]), count)
    return ((chance.choice((1, 1, 2)), phase) for phase in moments)


def survive(site: Site, count: int, seed: int = 7) -> None:
    jobs: list[int] = []
    chance = random.Random(seed)
    numbers = [0]
    for cycle_to_die, phase in kills(seed, count):
        jobs += burst(site)
        if phase == "any":
            kill_at_random(site, chance.uniform(0.5, 2.5))
        else:
            jobs += kill(site, cycle_to_die, phase)
        jobs += demand_that_slurm_goes_on(site)
        demand_reconciled(site)
        demand_whole(site)
        numbers.append(site.sql("SELECT max(number) FROM cycles")[0][0])
        assert numbers[-1] > numbers[-2]
    # The rest drains with no daemon there, and what happened meanwhile is known to the next one.
    site.until(lambda: {site.states().get(job, "COMPLETED") for job in jobs} == {"COMPLETED"}, "the end of all", 300.0)
    demand_reconciled(site)
    demand_whole(site)
    query = "SELECT job_id, state, restart FROM outcomes WHERE job_id BETWEEN ? AND ? ORDER BY job_id"
    outcomes = site.sql(query, jobs[0], jobs[-1])
    assert outcomes == [(job, JobState.COMPLETED, 0) for job in sorted(jobs)]
    assert site.sql("SELECT count(*) FROM intents WHERE closed_s IS NULL") == [(0,)]


def test_a_daemon_killed_in_every_phase_leaves_slurm_and_the_database_whole(site):
    survive(site, 10)


@pytest.mark.soak
def test_two_hundred_kills(site):
    survive(site, 200)

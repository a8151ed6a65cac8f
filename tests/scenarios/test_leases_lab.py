"""Leases on a real Slurm: a job that had its lease makes room for jobs that come before it in the order, cheaply."""

from __future__ import annotations

import shutil
import time

import pytest
from bench.lease_rpcs import ROUNDS, leased
from deadline_jobs import POWER, STEP_S, STEPS, done_steps, ended, saver, saving, story, submit, taught

LONG, SHORT = 400, 16  #: steps of the jobs of a burst
SHORT_JOBS = 4


def leasing(new_site, ordering):
    return new_site(
        deadline="lead_s = 20\nstop_s = 6\nrestart_s = 0\nrestart_doubling_s = 0",
        power=POWER,
        policy=f"ordering = '{ordering}'\npreemption = 'lease 5s'",
    )


def test_a_job_that_had_its_lease_makes_room_for_a_new_one_and_loses_no_work(new_site):
    site = taught(leasing(new_site, "las"))
    with saving(site) as (job, home), site.daemon():
        new = submit(site)
        site.until(lambda: "asked to stop" in story(site, job), "the question to the running job")
        assert ended(site, job) > ended(site, new), "the new one has not run at all, so las puts it first"
        assert done_steps(home) == list(range(STEPS)), "no step is lost and none is done twice"
        assert {"asked to stop", "requeued"} <= set(story(site, job))


def mean_jct_s(site):
    """The mean JCT of a long job and of short ones behind it, all with ckpt and each on all nodes."""
    with site.daemon():
        began_s, jobs = time.time(), {}
        with saving(site, steps=LONG, again_s=STEP_S) as (long, long_home):
            homes = {long: (long_home, LONG)}
            jobs[long] = began_s
            for _ in range(SHORT_JOBS):
                began_s = time.time()
                short, home = saver(site, SHORT, STEP_S)
                jobs[short], homes[short] = began_s, (home, SHORT)
            ends = {job: ended(site, job) for job in reversed(jobs)}
            for home, steps in homes.values():
                assert done_steps(home) == list(range(steps)), "each step is done once"
            for job in set(homes) - {long}:
                shutil.rmtree(homes[job][0])
    return sum(ends[job] - jobs[job] for job in jobs) / len(jobs)


@pytest.mark.soak
def test_a_burst_behind_a_long_job_ends_sooner_with_las_and_leases_than_with_fifo(new_site):
    fifo_s = mean_jct_s(leasing(new_site, "fifo"))
    las_s = mean_jct_s(leasing(new_site, "las"))
    assert las_s < fifo_s, "with fifo the short jobs wait for the whole long one, of 100 s"


def rpcs_of_jobs_that_go_on(site, count):
    """The RPCs of slurmsched's user in some cycles, none of which writes; one query for each job would be more."""
    site.fill(count)
    spent = site.going_on()
    assert not {"REQUEST_UPDATE_JOB", "REQUEST_KILL_JOB", "REQUEST_JOB_REQUEUE"} & set(spent.kinds)
    assert site.central().kinds["REQUEST_JOB_INFO_SINGLE"] == ROUNDS * count
    return site.operators(spent)


def test_a_lease_that_goes_on_costs_slurmctld_nothing_and_to_revoke_one_takes_a_few_updates(lab, tmp_path):
    with leased(lab, tmp_path) as site:
        few = rpcs_of_jobs_that_go_on(site, 4)
        lab.cancel_all()
        assert rpcs_of_jobs_that_go_on(site, 16) == few, "the same in each cycle, whatever the number of jobs"
        revoked, acted = site.revoked(3)
        assert (acted["AskToStop"], acted["Requeue"], acted["Release"]) == (3, 3, 3)
        assert revoked.kinds["REQUEST_KILL_JOB"] == 2 * 3, "one signal for the steps of a job, one for its script"
        assert revoked.kinds["REQUEST_JOB_REQUEUE"] == 3
        assert revoked.kinds["REQUEST_UPDATE_JOB"] == 3 + acted["Rank"]

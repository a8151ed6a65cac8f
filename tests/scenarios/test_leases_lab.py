"""Leases on a real Slurm: a job that had its lease makes room for one that comes before it in the order."""

from __future__ import annotations

from deadline_jobs import POWER, STEPS, ended, saving, story, submit, taught


def test_a_job_that_had_its_lease_makes_room_for_a_new_one_and_loses_no_work(new_site):
    site = taught(
        new_site(
            deadline="lead_s = 20\nstop_s = 6\nrestart_s = 0",
            power=POWER,
            policy="ordering = 'las'\npreemption = 'lease 5s'",
        )
    )
    with saving(site) as (saver, home), site.daemon():
        new = submit(site)
        site.until(lambda: "asked to stop" in story(site, saver), "the question to the running job")
        assert ended(site, saver) > ended(site, new), "the new one has not run at all, so las puts it first"
        steps = [int(line) for line in (home / "steps").read_text().split()]
        assert steps == list(range(STEPS)), "no step is lost and none is done twice"
        assert {"asked to stop", "requeued"} <= set(story(site, saver))

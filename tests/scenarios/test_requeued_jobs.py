"""A requeue makes Slurm forget when a job came and makes it wait two minutes; we do neither."""

from __future__ import annotations

import time

from lab_site import Site

from slurmsched.cluster.actions import Requeue
from slurmsched.cluster.jobs import SETTLE_S, JobState

SLURM_WAITS_S = 120  #: between a requeue and the next start, without us
ONCE_MORE = "[ \"$SLURM_RESTART_COUNT\" ] && exit 0; trap '' TERM; while :; do sleep 0.2; done"
"""Runs until it is requeued, takes KillWait to end, and ends well the second time."""


def running(site: Site, *options: str, script: str = ONCE_MORE) -> int:
    job = site.lab.submit(
        "--gres=gpu:1", "--requeue", f"--wrap={script}", "-t20", "-o/dev/null", *options, user="alice"
    )
    site.until(lambda: site.states()[job] == "RUNNING", "a running job")
    return job


def times(site: Site, job: int) -> tuple[int, int, int]:
    """Submit time, start time and restarts, as Slurm shows them now."""
    text = site.lab.ask(["env", "SLURM_TIME_FORMAT=%s", "squeue", "-h", "-t", "all", "-j", str(job), "-O",
                         "SubmitTime:20,StartTime:20,RestartCnt:9"])  # fmt: skip
    submitted, started, restarts = (int(word) if word.isdigit() else 0 for word in text.split())
    return submitted, started, restarts


def told(site: Site, job: int) -> list[str]:
    kinds = [event["kind"] for event in site.said("story", str(job)).get("story", [])]
    return [kind for kind in kinds if kind in {"submitted", "started", "requeued", "ended"}]


def test_a_job_requeued_by_an_admin_keeps_its_first_submit_time(site):
    with site.daemon():
        job = running(site)
        first_s = times(site, job)[0]
        site.until(lambda: "started" in told(site, job), "a start in the story")
        site.until(lambda: time.time() > first_s + 5, "a submit time well before the requeue")
        site.lab.ask(["scontrol", "requeue", str(job)])
        site.until(lambda: times(site, job)[0] >= first_s + 5, "a Slurm that has forgotten")
        assert times(site, job)[2] == 1
        site.until(lambda: site.states()[job] == "PENDING", "a job in the queue again")
        site.until(lambda: told(site, job)[-1] == "requeued", "the requeue in the story")
        rows = site.said("queue")["queue"]
        waited_s = next(row["waited_s"] for row in rows if row["job_id"] == job)
        assert (waited_s or 0.0) < 5, "it ran as soon as it was submitted, and a run is no wait"
        # After the delay that keeps the new run from the old one's revoked credential.
        site.until(lambda: time.time() > times(site, job)[0] + SETTLE_S + 1, "a settled requeue")
        site.lab.ask(["scontrol", "update", f"jobid={job}", "starttime=now"])
        site.until(lambda: site.states()[job] == "COMPLETED", "the end")
        site.until(lambda: told(site, job)[-1] == "ended", "the end in the story")
        assert told(site, job) == ["submitted", "started", "requeued", "started", "ended"]
    query = "SELECT restart, first_submit_s, state FROM outcomes WHERE job_id = ? ORDER BY restart"
    runs = site.sql(query, job)
    assert runs == [(0, first_s, JobState.REQUEUED), (1, first_s, JobState.COMPLETED)]

    def in_accounting() -> bool:
        rows = site.lab.ask(["sacct", "-n", "-X", "-D", "-P", "-o", "state", "-j", str(job)]).split()
        return sorted(rows) == ["COMPLETED", "REQUEUED"]

    site.until(in_accounting, "both runs in sacct", 120.0)
    assert site.run("history", "import", "--days", "1").returncode == 0
    assert site.sql(query, job) == runs


def test_our_own_requeue_starts_again_at_once_but_never_in_the_same_breath(new_site):
    site = new_site(power="order = true\nrequeue = true")
    job = running(site, "--comment=slurmsched:ckpt", script='[ "$SLURM_RESTART_COUNT" ] || sleep 600')
    assert site.act(Requeue(job)) == [None]
    with site.daemon():
        site.until(lambda: site.states()[job] == "COMPLETED", "the second run")
        submitted_s, started_s, restarts = times(site, job)
        assert restarts == 1
        assert SETTLE_S <= started_s - submitted_s < SLURM_WAITS_S
        site.until(lambda: "ended" in told(site, job), "the end in the story")
        assert "released" in [event["kind"] for event in site.said("story", str(job))["story"]]

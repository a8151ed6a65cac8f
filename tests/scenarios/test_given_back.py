"""However we leave in order, Slurm gets its jobs back: no points, no begin times; a restart keeps them."""

from __future__ import annotations

import re
import signal
import time

import pytest
from lab_site import Site, updates

from slurmsched.cluster.actions import Hold, Rank


def crowd(site: Site) -> tuple[list[int], int]:
    """A full lab with an order to make, a job that depends on another and one that we hold; the first and the last."""
    site.fill()
    jobs = site.queue(3)
    site.lab.submit(f"--dependency=afterok:{jobs[0]}", "--wrap=true", "-o/dev/null", user="dave")
    held = site.lab.submit("--gres=gpu:1", "-N1", "--wrap=true", "-t1", "-o/dev/null", user="dave")
    assert site.act(Hold(held, time.time() + 3600)) == [None]
    site.until(lambda: held in site.begin_times(), "a hold")
    return jobs, held


def demand_nothing_of_ours(site: Site) -> None:
    site.until(lambda: set(site.points().values()) == {0}, "no points")
    assert site.begin_times() == {}
    site_factors = site.lab.ask(["scontrol", "show", "job"])
    assert "SiteFactor" not in site_factors or "SiteFactor=0" in site_factors


def test_sigterm_gives_every_job_back(new_site):
    site = new_site(power="order = true\nhold = true")
    jobs, _ = crowd(site)
    with site.daemon() as process:
        site.until(lambda: site.ordered(jobs), "an order")
        assert max(site.points().values()) > 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(90.0) == 0
    demand_nothing_of_ours(site)
    assert "gave back" in site.log


def test_an_array_with_tasks_that_are_over_is_given_back(site):
    filler = site.fill()
    whole = ["--gres=gpu:4", "-N4", "--exclusive", "-t20000", "-o/dev/null"]
    longer = site.lab.submit(*whole, "--wrap=true", f"-J{site.names[0]}", user="bob")
    array = site.lab.submit(*whole, "--array=1-60", "--wrap=sleep 5", f"-J{site.names[1]}", user="alice")
    tasks = ["squeue", "-h", "-t", "COMPLETED", "-j", str(array), "-o", "%K"]
    with site.daemon() as process:
        site.until(lambda: site.ordered([longer, array]) and site.points()[array] > 0, "an order")
        site.lab.run(["scancel", str(filler)])
        site.until(lambda: len(site.lab.ask(tasks).split()) > 1, "tasks that are over")
        process.send_signal(signal.SIGTERM)
        assert process.wait(90.0) == 0, site.log[-3000:]
    assert "a cycle was lost" not in site.log
    assert site.points()[array] == 0
    assert site.act(Rank(array, 77)) == [None]
    done = site.run("release-all")
    assert done.returncode == 0, done.stdout
    demand_nothing_of_ours(site)


def test_release_all_gives_back_what_a_killed_daemon_left(site):
    jobs, held = crowd(site)
    with site.daemon() as process:
        site.until(lambda: site.ordered(jobs), "an order")
        process.kill()
        process.wait(90.0)
    assert max(site.points().values()) > 0
    assert held in site.begin_times()
    done = site.run("release-all")
    assert done.returncode == 0, done.stderr
    assert "holds of 1 job ended" in done.stdout
    demand_nothing_of_ours(site)


def test_without_its_database_release_all_still_takes_the_points(site):
    site.fill()
    jobs = site.queue(3)
    with site.daemon() as process:
        site.until(lambda: site.ordered(jobs), "an order")
        process.kill()
        process.wait(90.0)
    for file in site.directory.glob("slurmsched.db*"):
        file.unlink()
    assert site.run("release-all").returncode == 0
    demand_nothing_of_ours(site)


def answered(site: Site) -> set[int]:
    """Return the jobs that wait or run with an answer of ours in their AdminComment."""
    records = site.lab.ask(["scontrol", "show", "job", "-o"])
    ours = re.findall(r"^JobId=(\d+) .* JobState=(?:PENDING|RUNNING) .* AdminComment=slurmsched", records, re.M)
    return set(map(int, ours))


@pytest.mark.parametrize(
    "leave", ["an ordered stop", "a kill", pytest.param("a kill and a lost database", marks=pytest.mark.soak)]
)
def test_no_answer_of_ours_stays_in_an_admin_comment_however_we_leave(new_site, leave):
    site = new_site(None, power="order = true\nhold = true\ncomment = true", deadline="enabled = true\nreserve = 0")
    whole = ("--gres=gpu:4", "-N4", "--exclusive", "-t30", "--wrap=sleep 1200", "-o/dev/null")
    filler = site.fill()
    with site.daemon() as process:
        jobs = [site.lab.submit(*whole, "--comment=slurmsched:deadline=+9h", user="alice") for _ in range(3)]
        theirs = site.lab.submit(*whole, "-H", user="alice")
        site.lab.ask(["scontrol", "update", f"jobid={theirs}", "admincomment=ticket 12"])
        site.until(lambda: answered(site) == {*jobs}, "an answer to each")
        site.lab.ask(["scancel", str(filler)])
        site.until(lambda: "RUNNING" in {site.states()[job] for job in jobs}, "one of them running")
        if leave == "an ordered stop":
            process.send_signal(signal.SIGTERM)
            assert process.wait(90.0) == 0, site.log[-3000:]
        else:
            process.kill()
            process.wait(90.0)
    if leave == "a kill and a lost database":
        for file in site.directory.glob("slurmsched.db*"):
            file.unlink()
    if leave != "an ordered stop":
        assert answered(site) == {*jobs}
        done = site.run("release-all")
        assert "answers taken from the AdminComment of 3 jobs" in done.stdout
        assert done.returncode == 0, done.stdout
    assert answered(site) == set()
    assert "AdminComment=ticket 12" in site.lab.ask(["scontrol", "show", "job", str(theirs)])
    demand_nothing_of_ours(site)
    if leave == "a kill":
        with site.daemon():
            site.until(lambda: answered(site) == {*jobs}, "the answers of the next daemon")


def test_a_hold_of_ours_ends_by_itself_when_nobody_is_there(site):
    job = site.lab.submit("--gres=gpu:1", "--begin=now+1hour", "--wrap=true", "-o/dev/null", user="alice")
    assert site.act(Hold(job, time.time() + 4)) == [None]
    site.until(lambda: site.states()[job] == "COMPLETED", "a job that was held and ran")


def test_a_job_that_we_delayed_has_waited_since_slurm_first_let_it_wait(site):
    site.fill()
    job = site.queue(1)[0]
    began_s = time.time()
    site.until(lambda: time.time() > began_s + 5, "a job that has waited")
    assert site.act(Hold(job, time.time() + 4)) == [None]
    site.until(lambda: site.begin_times() == {}, "a hold that is over")

    def waited_s() -> float:
        return next((row["waited_s"] or 0.0 for row in site.said("queue")["queue"] if row["job_id"] == job), 0.0)

    with site.daemon():
        site.until(lambda: waited_s() > 0, "a queue")
        assert waited_s() >= 8


def test_a_restart_leaves_the_order_to_the_next_daemon(site):
    site.fill()
    jobs = site.queue(3)
    with site.daemon() as process:
        site.until(lambda: site.ordered(jobs), "an order")
        site.more_cycles()  # the one that made the order may have more to write
        points = site.points()
        process.send_signal(signal.SIGUSR1)
        assert process.wait(90.0) == 0
    assert site.points() == points
    before = updates(site.lab)
    with site.daemon():
        site.more_cycles()
        assert site.points() == points
    assert updates(site.lab) == before, "the next daemon knows what is there"


def test_a_stop_that_cannot_give_back_is_a_failure_that_the_release_unit_mends(site):
    site.write(slurm="timeout_s = 25")
    site.fill()
    jobs = site.queue(3)
    with site.daemon() as process:
        site.until(lambda: site.ordered(jobs), "an order")
        site.lab.pause_controller()
        try:
            began_s = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(300.0) == 1
            assert time.monotonic() - began_s < 80, "systemd kills it after 90 s"
        finally:
            site.lab.resume_controller()
    assert "not every job was given back" in site.log
    assert max(site.points().values()) > 0
    assert site.run("release-all").returncode == 0
    demand_nothing_of_ours(site)

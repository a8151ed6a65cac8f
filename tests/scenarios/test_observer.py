"""Looking only: no write reaches slurmctld in observe mode or while paused; what a reload may and may not change."""

from __future__ import annotations

import signal

from lab_site import Site, updates

from slurmsched.cluster.jobs import JobState


def test_an_observer_writes_nothing_while_jobs_come_and_go(new_site):
    site: Site = new_site(daemon="mode = 'observe'\nevery_s = 1")
    site.fill()
    jobs = site.queue(4)
    short = site.lab.submit("--gres=gpu:1", "--wrap=true", "-t1", "-o/dev/null", user="dave")
    before = updates(site.lab)
    with site.daemon() as process:
        site.more_cycles()
        site.lab.run(["scancel", "--state=RUNNING"])  # all that waits runs and ends
        site.until(lambda: {site.states()[job] for job in [*jobs, short]} == {"COMPLETED"}, "the end of all jobs")
        waiting = site.lab.submit("--hold", "--wrap=true", "-o/dev/null", user="alice")
        site.more_cycles()
        assert "would write" in site.log
        assert site.points().get(waiting, 0) == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(90.0) == 0
    assert updates(site.lab) == before
    assert site.sql("SELECT count(*) FROM intents") == [(0,)]
    seen = site.sql("SELECT job_id, state FROM outcomes WHERE job_id BETWEEN ? AND ? ORDER BY job_id", jobs[0], short)
    assert seen == [(job, JobState.COMPLETED) for job in [*jobs, short]]


def test_a_fresh_configuration_observes(new_site):
    site: Site = new_site()
    site.file.write_text(
        f"[daemon]\nstate_dir = '{site.directory}'\nrun_dir = '{site.directory}'\n[metrics]\nlisten = ''\n"
    )
    site.fill()
    site.queue(3)
    before = updates(site.lab)
    assert site.said("once")["mode"] == "observe"
    assert updates(site.lab) == before


def test_observing_takes_an_ordinary_user_and_nothing_of_slurm_conf(lab):
    conf = lab.layout.slurm_conf.read_bytes()
    assert b"slurmsched" not in conf
    controller = lab.manifest.processes["slurmctld"].pid
    site = Site.of(lab, "alice", daemon="every_s = 1", power="", order="")
    site.fill()
    jobs = site.queue(3)
    before = updates(lab)
    with site.daemon():
        site.until(lambda: len(site.said("queue").get("queue", ())) == 3, "the queue with forecasts")
        rows = site.said("queue")["queue"]
        assert [row["job_id"] for row in rows] == jobs[::-1], "the shortest first"
        assert all(row["forecast_s"] > 0 for row in rows)
        status = site.said("status")
        assert (status["mode"], status["configured_mode"], status["problem"]) == ("observe", "observe", "")
    assert updates(lab) == before
    assert lab.layout.slurm_conf.read_bytes() == conf
    assert lab.manifest.processes["slurmctld"].pid == controller


def test_a_pause_and_its_end_take_effect_with_the_next_cycle(site):
    site.fill()
    first = site.queue(2)
    with site.daemon():
        site.until(lambda: site.ordered(first), "an order")
        assert site.run("pause").returncode == 0
        site.more_cycles()  # the one under way may still write; the one after it does not
        before, points = updates(site.lab), site.points()
        second = site.queue(3)
        site.more_cycles()
        assert updates(site.lab) == before
        assert {job: site.points().get(job, 0) for job in first} == {job: points[job] for job in first}
        assert not site.ordered(second)
        status = site.said("status")
        assert (status["mode"], status["paused"], status["configured_mode"]) == ("observe", True, "act")
        assert site.said("queue")["order_off"].startswith("paused by")
        assert "Our order is not in force (paused by" in site.run("why", str(second[0]), "--details").stdout
        assert site.run("resume").returncode == 0
        site.until(lambda: site.said("queue")["order_off"] == "", "an order in force")
        site.until(lambda: site.ordered(second), "an order")
        assert updates(site.lab) > before


def test_a_pause_outlives_the_daemon(site):
    site.fill()
    jobs = site.queue(3)
    assert site.run("db", "upgrade").returncode == 0
    assert site.run("pause", "--until", "+1h").returncode == 0
    before = updates(site.lab)
    with site.daemon():
        site.more_cycles()
        assert updates(site.lab) == before
        assert not site.ordered(jobs)


def test_a_reload_takes_all_or_nothing(site):
    site.fill()
    jobs = site.queue(3)
    good = site.file.read_text()
    with site.daemon() as process:
        site.until(lambda: site.ordered(jobs), "an order")
        for bad in ("[policy]\nordering = 'magic'\n", "[daemon]\nmode = 'advise'\nevry_s = 2\n", "no TOML at all ["):
            told = site.log.count("the old settings stay")
            site.file.write_text(bad)
            process.send_signal(signal.SIGHUP)
            site.until(lambda told=told: site.log.count("the old settings stay") > told, "a refusal")
        site.more_cycles()
        assert site.ordered(jobs)
        site.file.write_text(good.replace("sjf", "fifo"))
        process.send_signal(signal.SIGHUP)
        site.until(lambda: set(site.points().values()) == {0}, "Slurm's own order")
        assert process.poll() is None

"""A bound on the load on a real Slurm: jobs come in one after the other, and a killed daemon leaves nothing behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from lab_site import Site


def standings(site: Site) -> dict[int, str]:
    return {row["job_id"]: row["standing"] for row in site.said("queue")["queue"]}


def starts(site: Site, jobs: list[int]) -> list[str]:
    asked = ["squeue", "-h", "-t", "all", "-j", ",".join(map(str, jobs)), "-o", "%A %S"]
    start_of = dict(line.split() for line in site.lab.ask(asked).splitlines())
    return [start_of[str(job)] for job in jobs]


def line_outside(site: Site, count: int) -> tuple[int, list[int]]:
    """A full lab and *count* jobs that are held outside, the longest first."""
    filler = site.fill()
    jobs = site.queue(count)
    site.until(lambda: set(jobs) <= set(site.begin_times()), "holds of all jobs outside")
    return filler, jobs


@contextmanager
def salloc(site: Site, name: str, *options: str) -> Iterator[int]:
    """An interactive job of one GPU that waits."""
    lab, quiet = site.lab, subprocess.DEVNULL
    argv = lab.command(["salloc", "--no-shell", f"-J{name}", "--gres=gpu:1", *options], user="bob")
    environment = {"env": lab.env("bob"), "cwd": lab.layout.work}
    with subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet, **environment) as waiting:
        try:
            site.until(lambda: lab.ask(["squeue", "-h", "-t", "PD", "-n", name, "-o", "%A"]).split() != [], "a salloc")
            yield int(lab.ask(["squeue", "-h", "-n", name, "-o", "%A"]))
        finally:
            waiting.terminate()


def test_jobs_come_in_as_they_came_and_start_by_themselves_after_the_daemon_was_killed(new_site):
    site = new_site(
        daemon="mode = 'act'\nevery_s = 5",
        power="order = true\nhold = true",
        policy="ordering = 'sjf'\nadmission = 'load:1'",
    )
    with site.daemon() as process:
        filler, jobs = line_outside(site, 3)
        site.until(lambda: standings(site) == dict.fromkeys(jobs, "outside"), "three jobs outside")
        words = site.said("why", str(jobs[2]))["why"]["reason"]
        assert "Outside: 16 of 16 x 1 GPUs are asked for; 2 jobs came before it." in words
        site.lab.run(["scancel", str(filler)])
        site.until(lambda: {site.states()[job] for job in jobs} == {"COMPLETED"}, "three jobs that ran")
        assert starts(site, jobs) == sorted(starts(site, jobs)), "sjf alone would run the last one first"
        filler, jobs = line_outside(site, 2)
        process.kill()
        process.wait(90.0)
    site.until(lambda: site.begin_times() == {}, "holds that are over")
    assert set(site.points().values()) <= {0}
    site.lab.run(["scancel", str(filler)])
    site.until(lambda: {site.states()[job] for job in jobs} == {"COMPLETED"}, "jobs that start by themselves")


def test_off_begin_times_and_heterogeneous_jobs_are_no_way_past_the_line_and_release_all_frees_them(new_site):
    site = new_site(
        daemon="mode = 'act'\nevery_s = 5",
        power="order = true\nhold = true",
        policy="ordering = 'sjf'\nadmission = 'load:1'",
    )
    plain = ["--gres=gpu:1", "-t5", "-o/dev/null"]
    with site.daemon():
        site.fill()
        off = site.lab.submit(*plain, "--comment=slurmsched:off", "--wrap=true", user="alice")
        begins = site.lab.submit(*plain, "--begin=now+8", "--wrap=true", user="alice")
        leader = site.lab.submit(*plain, ":", "--gres=gpu:2", "-t5", "--wrap=true", user="alice")
        site.until(lambda: {off, leader, leader + 1} <= set(site.begin_times()), "holds of off and of a whole hetjob")
        site.until(lambda: standings(site).get(begins) == "outside", "a begin time that comes, in line")
        assert standings(site)[off] == "outside"
        held = site.lab.submit(*plain, "--hold", "--wrap=true", user="alice")
        site.until(lambda: held in site.begin_times(), "a begin time of a job that its user holds")
        assert standings(site)[held] == "held_by_user"
        assert site.lab.run(["scontrol", "release", str(held)], user="alice").returncode == 0
        site.until(lambda: standings(site).get(held) == "outside", "a job that its user let go, in line")
        assert held in site.begin_times()
        after = site.lab.submit(*plain, f"--dependency=afterany:{held}", "--wrap=true", user="alice")
        site.until(lambda: after in site.begin_times(), "a begin time of a job that waits for another one")
        assert standings(site)[after] == "waits_for_dependency"
        site.lab.run(["scancel", str(held)])
        site.until(lambda: standings(site).get(after) == "outside", "a job whose dependency ended, in line")
        assert after in site.begin_times()
    assert site.run("release-all").returncode == 0
    site.until(lambda: site.begin_times() == {}, "nothing that is held any more")


def test_an_interactive_job_beyond_the_allowance_of_its_user_waits_in_line_and_starts_from_there(new_site):
    site = new_site(
        daemon="mode = 'act'\nevery_s = 5",
        power="order = true\nhold = true",
        policy="ordering = 'sjf'\nadmission = 'load:1'\ninteractive_gpu_hours = 1",
    )
    with site.daemon():
        filler = site.fill()
        with salloc(site, "long", "-t300") as long, salloc(site, "short", "-t5") as short:
            site.until(lambda: long in site.begin_times(), "a hold of the long one")
            site.until(lambda: standings(site) == {long: "outside", short: "ranked"}, "the cycle that held it")
            assert short not in site.begin_times()
            words = site.said("why", str(long))["why"]["reason"]
            assert "and this job asks for 5 by its time limit." in words
            site.lab.run(["scancel", str(filler)])
            site.until(lambda: {site.states()[job] for job in (long, short)} == {"RUNNING"}, "both in their GPUs")

"""What attackers and accidents did to a site once, each tried again: ``pytest -m attack`` runs these and their kin."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from deadline_jobs import DEADLINE, POWER, answer, taught
from lab_site import USERS, Site
from test_footprint import peak_mib

from slurmsched.lab import Lab, LabSpec

pytestmark = [pytest.mark.soak, pytest.mark.attack]

DAY_S = 86_400
MOST_MIB = 500  #: of a daemon with thousands of jobs
WRONG_CLOCK = Path(__file__).with_name("wrong_clock.py")


def quiet(site: Site) -> None:
    assert "BUG" not in site.log
    assert "a bug" not in site.log
    assert "Traceback" not in site.log


# A clock that is wrong


@pytest.mark.parametrize("wrong_s", [DAY_S, -DAY_S])
def test_a_clock_that_is_a_day_wrong_for_a_while_strands_no_job_and_breaks_no_promise(new_site, wrong_s):
    site = new_site(deadline=DEADLINE, power=POWER)
    site.fill()
    jobs = site.queue(3)
    promised = site.lab.submit(
        "--gres=gpu:4", "-N4", "--exclusive", "-t1", "--wrap=true", "-o/dev/null", f"-J{site.names[3]}",
        "--comment=slurmsched:deadline=+10h", user="alice",
    )  # fmt: skip
    clock, program = site.directory / "clock", site.directory / WRONG_CLOCK.name
    shutil.copy(WRONG_CLOCK, program)
    clock.write_text("0")
    with site.daemon(*site.python(str(program), str(site.file), str(clock))):
        site.until(lambda: answer(site, promised) == "promised", "a promise")
        site.until(lambda: site.ordered(jobs), "an order")
        clock.write_text(str(wrong_s))
        site.until(lambda: "of slurmctld's" in site.log or "behind slurmctld's" in site.log, "a clock that is noticed")
        site.until(lambda: "the clock of this host" in site.said("status")["last_error"], "a status that tells")
        late = site.queue(2)
        site.until(lambda: "503" in site.http("/healthz"), "bad health")
        clock.write_text("0")
        site.until(lambda: site.said("status")["last_error"] == "", "the right time again")
        site.until(lambda: site.ordered(late), "an order of those that came meanwhile")
        assert answer(site, promised) == "promised"
        assert all(at_s < time.time() + 3600 for at_s in site.begin_times().values()), site.begin_times()
        quiet(site)
    site.lab.cancel_all()


# A database that accepts and does not answer


def test_a_postgresql_that_hangs_stops_no_order_and_no_answer(new_site, server):
    site = new_site(database=f"url = '{server.new_database()}'\ntimeout_s = 2")
    site.fill()
    jobs = site.queue(3)
    with site.daemon() as process:
        site.until(lambda: site.ordered(jobs), "an order")
        hung = [*server.backends(), server.postmaster()]
        for pid in hung:
            os.kill(pid, signal.SIGSTOP)
        try:
            site.until(lambda: site.said("status").get("database_available") is False, "a status that tells", 180.0)
            site.until(lambda: "503" in site.http("/healthz"), "bad health")
            cycles = site.cycles()
            site.until(lambda: site.cycles() > cycles + 1, "cycles without the database", 180.0)
            assert process.poll() is None
        finally:
            for pid in hung:
                os.kill(pid, signal.SIGCONT)
        site.until(lambda: site.said("status")["mode"] == "act", "the lead again", 180.0)
        more = site.queue(2)
        site.until(lambda: site.ordered(more), "an order afterwards", 180.0)
        site.until(lambda: "200 OK" in site.http("/healthz"), "good health")
        quiet(site)
    site.lab.cancel_all()


# Numbers of jobs that come again


FIRST, LAST = 2_000, 2_011


@pytest.fixture
def few_numbers(lab_directory: Path) -> Iterator[Site]:
    """A site on a lab of its own, where the numbers of jobs come again after a dozen."""
    conf = (f"FirstJobId={FIRST}", f"MaxJobId={LAST}", "MinJobAge=2")
    with Lab(lab_directory, LabSpec(extra_conf=conf)) as lab:
        site = taught(Site.of(lab, deadline=DEADLINE, power=POWER, policy="ordering = 'sjf'"))
        yield site
        shutil.rmtree(site.directory)


def test_a_number_that_comes_again_inherits_nothing(few_numbers):
    site, lab = few_numbers, few_numbers.lab
    with site.daemon():
        blocker = site.fill()
        old = site.queue(3, "--comment=slurmsched:deadline=+10h")
        site.until(lambda: answer(site, old[0]) == "promised", "a promise")
        site.until(lambda: set(site.points()) >= set(old), "points")
        lab.ask(["scancel", *map(str, old)])
        site.until(lambda: not set(old) & set(site.states()), "slurmctld to forget them", 180.0)
        seen: dict[int, str] = {}
        while not set(old) <= set(seen):
            user = USERS[len(seen) % 4]
            job = lab.submit("--gres=gpu:4", "-N4", "--exclusive", "-t1", "--wrap=true", "-o/dev/null", user=user)
            assert job not in seen, "the numbers went round without those of before"
            seen[job] = user
            if job not in old:
                lab.ask(["scancel", str(job)])
        site.more_cycles(2)
        for job in old:
            assert answer(site, job) == "unasked", "nobody promised this one anything"
            assert "deadline" not in str(site.said("why", str(job))["why"])
            kinds = [event["kind"] for event in site.said("story", str(job))["story"]]
            assert kinds.count("submitted") == 1, kinds
            assert "ended" not in kinds, kinds
        lab.ask(["scancel", str(blocker)])
        site.until(lambda: {site.states().get(job, "COMPLETED") for job in old} == {"COMPLETED"}, "all to run", 300.0)
        count = "SELECT count(*) FROM outcomes WHERE job_id = ?"
        site.until(lambda: [site.sql(count, job) for job in old] == [[(2,)]] * 3, "both of each number to be history")
        quiet(site)


# Very many jobs at once


def submit_many(site: Site, count: int, options: str, program: str = "true") -> None:
    """Submit *count* jobs, an equal part by each user; ``$i`` in the options is the number of the job."""
    each = f"sbatch -Q {options} --wrap={program} -o/dev/null"
    for user in USERS:
        site.lab.ask(
            ["bash", "-c", f"for i in $(seq {count // len(USERS)}); do {each} || exit; done"], user, timeout_s=1200.0
        )


def first_in_line(site: Site) -> int:
    """The pending job to which Slurm gives the highest priority."""
    rows = (line.split() for line in site.lab.ask(["squeue", "-h", "-t", "PD", "-o", "%Q %A"]).splitlines())
    return max((int(priority), int(job)) for priority, job in rows)[1]


def test_thousands_of_deadlines_at_once_are_all_answered_and_the_order_is_right_when_they_are_gone(new_site):
    site = new_site(deadline="enabled = true", power=POWER, daemon="mode = 'act'\nevery_s = 5")
    site.fill()
    times = "-t$((1 + i % 60)) --comment=slurmsched:deadline=+$((1 + i % 90))h"
    submit_many(site, 4900, f"--gres=gpu:1 {times} -J train_$((i % 7))")
    with site.daemon("env", *site.argv("run")) as process:
        site.more_cycles()

        def answers() -> Counter[str]:
            return Counter(row["answer"] for row in site.said("deadline")["deadlines"])

        site.until(lambda: answers()["promised"] + answers()["refused"] == 4900, "all answers", 300.0)
        short = site.queue(4)[3]
        site.more_cycles(3)
        assert "200 OK" in site.http("/healthz")
        assert site.said("why", str(short))["why"]["reason"]
        for kind in range(7):
            site.lab.ask(["scancel", "--state=PENDING", f"--name=train_{kind}"], timeout_s=300.0)
        site.until(lambda: first_in_line(site) == short, "the shortest job before all others", 300.0)
        assert peak_mib(process.pid) <= MOST_MIB
        quiet(site)
    site.lab.cancel_all(300.0)


PROCESSES = 2  #: of predictions, and of the policy
POLICIES = {
    "auto": "ordering = 'auto orderings=fifo,sjf loads=all rounds=1 arrivals=0'\nauto = 'act'\nshadow = 'qssf'",
    "plug-in": "ordering = 'widest-first'\nshadow = 'sjf'",
}
PLUGIN = """
from slurmsched.policies.contract import ordering

@ordering('widest-first')
def widest_first(view):
    'Widest jobs first.'
    return -1.0 * view.pending.gpus
"""


@pytest.mark.parametrize("kind", POLICIES)
def test_ten_thousand_jobs_and_the_processes_of_policies_that_die_cost_no_cycle(lab_directory, kind):
    with Lab(lab_directory, LabSpec(extra_conf=("MaxJobCount=30000",))) as lab:
        site = Site.of(
            lab,
            None,  # whose processes start others, which the operator may not where the interpreter is closed to others
            daemon="mode = 'act'\nevery_s = 5",
            policy=POLICIES[kind],
            predict="enabled = true\nevery_s = 10",
        )
        info = site.directory / "widest-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: widest\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[slurmsched.policies]\nwidest = widest\n")
        (site.directory / "widest.py").write_text(PLUGIN)
        site.fill()
        submit_many(site, 10_000, "--gres=gpu:$((1 + i % 4)) -t$((1 + i % 60)) -J train_$((i % 7))")
        with site.daemon("env", f"PYTHONPATH={site.directory}", *site.argv("run")) as process:
            site.more_cycles(3)
            site.until(lambda: len(workers(process.pid)) >= PROCESSES, "the processes", 300.0)
            killed = workers(process.pid)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            site.more_cycles(3)
            site.until(lambda: len(set(workers(process.pid)) - set(killed)) >= PROCESSES, "other processes", 300.0)
            site.until(lambda: site.said("status")["cycle"]["plugin_trouble"] == "", "the ordering again", 300.0)
            status = site.said("status")["cycle"]
            assert status["pending"] == 10_000, status
            assert peak_mib(process.pid) <= MOST_MIB
            site.until(lambda: "200 OK" in site.http("/healthz"), "good health")
            quiet(site)
        shutil.rmtree(site.directory)


def workers(daemon: int) -> list[int]:
    """The processes that any thread of a daemon has started and that run on."""
    lists = Path(f"/proc/{daemon}/task").glob("*/children")
    return [int(child) for children in lists for child in children.read_text().split()]

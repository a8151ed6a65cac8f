"""Deadlines on a real Slurm: a burst of strict, soft and best-effort jobs, each as wide as the lab."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass

import pytest
from deadline_jobs import DEADLINE, POWER, STEPS, answer, done_steps, ended, saver, saving, story, submit, taught
from lab_site import Site

from slurmsched.cluster.actions import SetAdminComment
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner


@dataclass(frozen=True)
class Burst:
    """Jobs that each want the whole lab, and by when those with deadlines want to be done."""

    saver: int
    others: list[int]
    strict: int
    soft: int
    never: int
    due_s: dict[int, float]


def burst(site: Site, saver: int) -> Burst:
    others = [submit(site) for _ in range(2)]
    at_s = time.time()
    strict, soft = (submit(site, f"slurmsched:deadline={text}") for text in ("+75s", "+5s,50@+130s"))
    never = submit(site, "slurmsched:deadline=+2s")
    return Burst(saver, others, strict, soft, never, {strict: at_s + 75, soft: at_s + 130})


def test_guaranteed_deadlines_are_met_an_impossible_one_is_refused_and_a_job_that_agreed_makes_room(new_site):
    """The daemon is killed while the job that was asked saves its work; the next one goes on."""
    site = taught(new_site(deadline=DEADLINE, power=POWER, policy="ordering = 'fifo'"))
    with saving(site) as (saver, home):
        with site.daemon():
            jobs = burst(site, saver)
            expected = {jobs.strict: "promised", jobs.soft: "promised", jobs.never: "refused"}
            site.more_cycles()
            assert {job: answer(site, job) for job in expected} == expected, "each is answered within a cycle"
            assert site.said("deadline", str(jobs.soft))["deadline"]["worth"] == 0.5
            told = site.said("deadline", str(jobs.never))["deadline"]
            assert told["earliest_s"] > told["deadline_s"]
            assert "No promise for its deadline" in " ".join(told["sentences"])
            site.until(lambda: "asked to stop" in story(site, saver), "the question to the running job")
        with site.daemon():
            assert ended(site, jobs.strict) <= jobs.due_s[jobs.strict] + 1
            assert ended(site, jobs.soft) <= jobs.due_s[jobs.soft] + 1
            site.until(lambda: {answer(site, jobs.strict), answer(site, jobs.soft)} == {"met"}, "both met")
            assert ended(site, saver) > ended(site, jobs.strict)
        steps = done_steps(home)
        assert steps == list(range(STEPS)), "no step is lost and none is done twice"
        kinds = [kind for kind in story(site, saver) if kind in {"asked to stop", "requeue asked", "requeued"}]
        assert sorted(kinds) == ["asked to stop", "requeued"], "it queued itself again"
    assert ended(site, jobs.others[-1]) > ended(site, jobs.strict), "stock Slurm runs those that came first before"
    site.lab.ask(["scancel", *map(str, (*jobs.others, jobs.never))])
    with site.daemon():  # on its own: the code for such an answer may have to be compiled, which delays cycles
        options = f"-p gpu -N4 --gres=gpu:4 -t1 -J {site.names[0]} --comment=slurmsched:deadline=+1h"
        site.until(lambda: site.run("deadline", "--check", options).returncode == 0, "an answer", 300.0)
        assert site.run("deadline", "--check", options.replace("+1h", "+2s")).returncode == 1


def test_a_promised_job_makes_room_for_another_promise_and_both_are_kept(new_site):
    site = taught(new_site(deadline=f"{DEADLINE}\npromised_lease_s = 1", power=POWER, policy="ordering = 'fifo'"))
    with site.daemon():
        options = ("--gres=gpu:4", "-N4", "--exclusive", "-t1", "-o/dev/null", f"-J{site.names[0]}")
        # The next job waits for this one, and is answered meanwhile.
        filler = site.lab.submit(*options, "--wrap=sleep 50", user="alice")
        first, home = saver(site, STEPS, 0.01, comment="slurmsched:ckpt,deadline=+30m")
        site.until(lambda: answer(site, first) == "promised", "the answer to the first one", 300.0)
        site.lab.run(["scancel", str(filler)])
        site.until((home / "steps").exists, "its first step")
        at_s, urgent = time.time(), submit(site, "slurmsched:deadline=+75s")
        site.until(lambda: answer(site, urgent) == "promised", "the answer to the second one")
        assert ended(site, urgent) <= at_s + 75 + 1
        assert ended(site, first) > ended(site, urgent)
        site.until(lambda: {answer(site, first), answer(site, urgent)} == {"met"}, "both met")
        assert done_steps(home) == list(range(STEPS))
        assert {"asked to stop", "requeued"} <= set(story(site, first))
    shutil.rmtree(home)


def test_answers_are_written_into_admin_comments_with_the_right_to_and_never_over_another(lab):
    job = lab.submit("-H", "-t1", "--wrap=true", "-o/dev/null", user="alice")
    ours, answers = (
        SlurmCommand(CommandRunner(environment=lab.env())),
        [SetAdminComment(job, "slurmsched:guaranteed,finish-by=x")],
    )
    operator = SlurmCommand(
        CommandRunner(environment=lab.env("operator"), prefix=tuple(lab.command([], user="operator")))
    )
    assert "denied" in operator.act(answers)[0].refused
    assert ours.act(answers)[0].refused is None
    assert "AdminComment=slurmsched:guaranteed,finish-by=x" in lab.ask(["scontrol", "show", "job", str(job)])
    assert ours.act([SetAdminComment(job, "slurmsched:met")])[0].refused is None
    lab.ask(["scontrol", "update", f"jobid={job}", "admincomment=ticket 12"])
    assert "somebody else" in ours.act(answers)[0].refused
    assert "AdminComment=ticket 12" in lab.ask(["scontrol", "show", "job", str(job)])
    lab.ask(["scancel", str(job)])


@pytest.mark.soak
def test_stock_slurm_misses_deadlines_of_the_same_burst(new_site):
    site = taught(new_site(daemon="mode = 'observe'\nevery_s = 1", deadline=DEADLINE, policy="ordering = 'fifo'"))
    with saving(site) as (saver, _), site.daemon():
        jobs = burst(site, saver)
        late_s = {job: ended(site, job) - due_s for job, due_s in jobs.due_s.items()}
    assert max(late_s.values()) > 0, late_s

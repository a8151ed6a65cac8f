"""A daemon under each ordering, mode and cap of points answers every question."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from cli.fake_site import FakeSite
from daemon.daemon_worlds import wait_until

from slurmsched.cli.daemon.build import Daemon, build
from slurmsched.clock import SystemClock
from slurmsched.daemon.api.query_arguments import AnswerRefused
from slurmsched.daemon.api.questions.table import QUESTIONS
from slurmsched.policies.contract import ORDERINGS
from slurmsched.slurm.adapters.fake import FakeSlurm

pytest.importorskip("numba")

WEIGHTS = ({}, {"PriorityWeightFairShare": "5"}, {"PriorityWeightQOS": "1000", "PriorityWeightFairShare": "100000"})
NEW_JOB = "-p gpu -G 2 -t 30"


def questions(pending: int, running: int) -> Iterator[dict[str, object]]:
    """Each kind of question, and those about a job for one that waits and one that runs."""
    for kind in QUESTIONS:
        if kind in ("why", "explain", "story", "deadline", "chart", "gpus"):
            yield from ({"ask": kind, "job_id": job} for job in (pending, running))
        elif kind == "check":
            yield {"ask": kind, "options": f"{NEW_JOB} --comment=slurmsched:deadline=+2h"}
        elif kind == "eta_check":
            yield {"ask": kind, "options": NEW_JOB}
        else:
            yield {"ask": kind}


def settings(window: int, ordering: str, mode: str, scope: str, max_points: int, shadow: str) -> str:
    """Settings under which much is explained: promises, an ordering in shadow; the *window* tells them from others."""
    return (
        f"mode = '{mode}'\nevery_s = 1\n[power]\norder = true\nhold = true\n[predict]\nevery_s = 1\n"
        f"[policy]\nordering = '{ordering}'\nshadow = '{shadow}'\n"
        f"[order]\nscope = '{scope}'\nmax_points = {max_points}\nwindow = {window}\n"
        "[deadline]\nenabled = true\n[metrics]\nlisten = ''\n"
    )


def while_running(daemon: Daemon, steps: Callable[[], None]) -> None:
    """Run *daemon* in this thread, which gets its signals, and *steps* beside it."""

    def ended() -> None:
        try:
            steps()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(ended)
        daemon.service.run()
        done.result()


@pytest.mark.parametrize(
    "orderings",
    [
        pytest.param(list(ORDERINGS)[::3], id="a third"),
        pytest.param(list(ORDERINGS), id="all", marks=pytest.mark.soak),
    ],
)
def test_every_question_is_answered_under_every_ordering_whatever_caps_the_points(tmp_path, request, orderings):
    slurm = FakeSlurm(now_s=time.time(), qos={"normal": 0, "high": 10})
    running = slurm.submit(7200.0, gpus=16, time_limit_s=7200.0)
    slurm.advance(1.0)
    pending = [slurm.submit(600.0 * (1 + n), gpus=1 + n, qos=("normal", "high")[n % 2]) for n in range(6)]
    random.seed(42)
    modes, scopes = ("observe", "advise", "act"), ("points", "points", "qos", "queue")
    site = FakeSite(tmp_path, settings(99, "fifo", "observe", "points", 0, ""), slurm, clock=SystemClock())
    daemon = build(site)
    request.addfinalizer(daemon.close)

    def window() -> int:
        """Return the window of the last cycle."""
        status = daemon.service.status()
        return status["cycle"]["window"] if "cycle" in status else 0

    def steps() -> None:
        wait_until(lambda: _answered(daemon, {"ask": "eta_check", "options": NEW_JOB}), 600.0)
        for number, ordering in enumerate(orderings, 100):
            mode, scope, max_points = random.choice(modes), random.choice(scopes), random.choice((0, 0, 1, 1000))
            slurm.config = {**FakeSlurm().config, **random.choice(WEIGHTS)}
            case = ordering, mode, scope, max_points, random.choice(("", "srtf"))
            site.write(settings(number, *case))
            os.kill(os.getpid(), signal.SIGHUP)
            wait_until(lambda number=number: window() == number or daemon.service.status()["bug"])
            status = daemon.service.status()
            assert (status["bug"], status["degraded"], status["mode"]) == ("", "", mode), case
            for question in questions(pending[-1], running):
                assert daemon.service.questions.answer(question, os.getuid()), (case, question)

    while_running(daemon, steps)


def _answered(daemon: Daemon, question: dict[str, object]) -> bool:
    try:
        return bool(daemon.service.questions.answer(question, os.getuid()))
    except AnswerRefused:
        return False

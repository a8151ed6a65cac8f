"""The helper in a job's script: asked to stop, it stops in good order, on all ranks after the same iteration."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurmsched.job import Lease

FILE = Path(__file__).parent.parent / "slurmsched/job.py"

RANK = """
import sys, time
sys.path.insert(0, {folder!r})
from job import Lease
lease = Lease(sys.argv[1], ranks=2)
step = lease.resume_at()
print("ready", flush=True)
while True:
    time.sleep(0.01)
    if lease.should_stop(step):
        break
    step += 1
if sys.argv[2] == "0":
    lease.checkpoint_done(step + 1)
print(step)
"""


@pytest.fixture
def alone(tmp_path):
    """The helper copied to where no slurmsched is."""
    (tmp_path / "job.py").write_text(FILE.read_text())
    return tmp_path


def start(*argv, cwd=None):
    return subprocess.Popen([sys.executable, "-I", *map(str, argv)], stdout=subprocess.PIPE, text=True, cwd=cwd)


def test_all_ranks_stop_after_the_same_iteration_when_one_is_asked(alone):
    shared = alone / "shared"
    (alone / "rank.py").write_text(RANK.format(folder=str(alone)))
    ranks = [start(alone / "rank.py", shared, number) for number in range(2)]
    for rank in ranks:
        assert rank.stdout.readline() == "ready\n"
    time.sleep(0.2)
    ranks[1].send_signal(signal.SIGUSR1)
    steps = [int(rank.communicate(timeout=20)[0]) for rank in ranks]
    # These two do not wait for each other, as training does: one may have passed the iteration already.
    assert min(steps) > 0
    last = int(next(shared.glob("last.*")).read_text())
    assert all(step >= last for step in steps)
    assert last in steps
    assert int((shared / "resume").read_text()) == steps[0] + 1


@pytest.fixture
def signals():
    """Handlers as they were."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_a_job_of_one_rank_stops_where_it_is_and_goes_on_there(tmp_path, signals):
    lease = Lease(tmp_path, ranks=1)
    assert lease.resume_at() == 0
    assert not lease.should_stop(7)
    os.kill(os.getpid(), signal.SIGTERM)
    assert lease.should_stop(8)
    lease.checkpoint_done(9)
    assert Lease(tmp_path, ranks=1).resume_at() == 9


def test_ranks_in_step_stop_together_through_the_file(tmp_path, signals):
    ranks = [Lease(tmp_path, ranks=3) for _ in range(3)]
    stopped = {}
    for step in range(10):
        for number, lease in enumerate(ranks):
            if step == 4 and number == 1:
                lease._ask(signal.SIGUSR1, None)
            if number not in stopped and lease.should_stop(step):
                stopped[number] = step
    assert stopped == {0: 6, 1: 6, 2: 6}


def test_ranks_can_agree_by_a_call_of_their_own(tmp_path, signals):
    told = []

    def agree(asked):
        told.append(asked)
        return True

    assert Lease(tmp_path, agree=agree).should_stop(0)
    assert told == [False]


def test_a_margin_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="accepted are 1 and more"):
        Lease(tmp_path, margin=0)


def test_the_shell_form_passes_the_signal_on_and_says_that_it_came(alone):
    script = "trap 'echo asked; exit 3' USR1; echo ready; while :; do sleep 0.05; done"
    running = start(alone / "job.py", "run", "--dir", alone / "d", "--", "sh", "-c", script)
    assert running.stdout.readline() == "ready\n"
    stopping = [sys.executable, "-I", str(alone / "job.py"), "stopping", "--dir", str(alone / "d")]
    assert subprocess.run(stopping, timeout=20, check=False).returncode == 1
    running.send_signal(signal.SIGUSR1)
    assert running.communicate(timeout=20)[0] == "asked\n"
    assert running.returncode == 3
    assert subprocess.run(stopping, timeout=20, check=False).returncode == 0

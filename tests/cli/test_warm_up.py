"""What root compiled once nobody compiles again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from json_forms import answer_of

import slurmsched
from slurmsched.policies.compiled import HAVE_NUMBA

pytestmark = pytest.mark.skipif(not HAVE_NUMBA, reason="there is nothing to compile without Numba")

ALICE = 60_001
TESTS = Path(__file__).parents[1]
PROGRAM = """\
import pickle
from math import inf

from numba.core import event

from decide.test_promises import HOUR_S, NOW_S, jobs, later, planned, seen, states
from simulator.test_composition_outlooks import FIFO, SJF, outlooks
from simulator.test_predict_completion import told, view
from simulator.worlds import trace
from slurmsched.policies.compiled import compiled
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.foresee.whatif import Option, compare

@compiled
def compiled_here(number):
    return number

with event.install_recorder("numba:compile") as recorder:
    some = view((100.0, 4), (50.0, 1), (10.0, 2), (10.0, 2), running=((30.0, 1), (60.0, 2)))
    table = told(some, rank=[3, 2, 1, 0])
    assert len(table) == 6
    sent = pickle.loads(pickle.dumps(some))  # as a child process gets it, with columns that can be written
    assert len(told(sent, rank=[3, 2, 1, 0])) == 6
    outlooks(sent, FIFO, SJF)
    compare(some, {}, [Option("as now", None)], 30.0)
    hours, gpus, ckpt = [10, 10, 10, 1, inf, inf], [8, 8, 4, 8, 8, 8], [False, True] * 3
    due_s, limit_s = [NOW_S + HOUR_S * hour for hour in hours], [HOUR_S * hour for hour in (2, 2, 2, 2, 2, 20)]
    due = seen(jobs(6, deadline_s=due_s, time_limit_s=limit_s, ckpt=ckpt, gpus=gpus))
    for rules in ({"yields": False}, {"yields": True, "slack_s": 600.0}):
        plan = planned(due, margin=0.5, **rules)
        assert states(plan) == ["OPEN"] * 3 + ["REFUSED"]
        planned(pickle.loads(pickle.dumps(later(due, plan, now_s=NOW_S + 60.0))), margin=0.5, **rules)
    for name in ("fifo", "srtf"):
        simulate(trace((0.0, 10.0, 4), (1.0, 9.0, 2), (2.0, 5.0, 4)), ClusterSpec.of(2, 4), Setup.of(name))
    compiled_here(1)
print(sorted({record.data["dispatcher"].__name__ for _, record in recorder.buffer}))
"""


def warm_up() -> dict[str, object]:
    argv = [sys.executable, "-P", "-m", "slurmsched", "warm-up", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return answer_of(["warm-up"], done.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
@pytest.mark.skipif("NUMBA_CACHE_DIR" in os.environ, reason="compiled code is kept elsewhere")
def test_after_root_has_warmed_up_other_users_compile_nothing():
    said = warm_up()
    beside = Path(slurmsched.__file__).parent / "foresee" / "__pycache__"
    assert (said["compiled"], said["kept"]) == (True, str(beside))
    path = [str(Path(slurmsched.__file__).parents[1]), str(TESTS), str(TESTS / "simulator"), *filter(None, sys.path)]
    as_alice = ["setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups"]
    done = subprocess.run(
        [*as_alice, sys.executable, "-P", "-B", "-W", "ignore", "-c", PROGRAM],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": os.pathsep.join(path)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=600,
    )
    if "Permission denied" in done.stderr:
        pytest.skip("this Python is closed to other users")
    assert done.stdout == "['compiled_here']\n", done.stderr

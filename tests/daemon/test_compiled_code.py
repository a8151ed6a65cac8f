"""Code that answers run is compiled beside the cycles, by a process of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing

import pytest
from daemon_worlds import wait_until

from slurmsched.daemon.compiled_code import STARTING, CompiledCode

pytest.importorskip("numba")

WORKER = "slurmsched.foresee.warm_up_worker"


def compiling() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "compilation"]


def test_answers_wait_until_the_code_is_compiled_and_no_longer():
    with closing(CompiledCode(WORKER, lambda: True)) as code:
        code.start()
        assert code.missing() == STARTING
        assert not code.wait(0.0)
        wait_until(lambda: not code.missing(), 600.0)
        assert code.wait(0.0)
    assert not compiling()


def test_nothing_is_compiled_before_somebody_needs_it():
    needed = threading.Event()
    with closing(CompiledCode(WORKER, needed.is_set)) as code:
        code.start()
        assert (code.missing(), compiling(), code.wait(0.0)) == ("", [], True)
        needed.set()
        assert code.missing() == STARTING
        assert compiling()


def test_a_process_that_fails_leaves_the_compiling_to_the_answers(caplog):
    with closing(CompiledCode("slurmsched.no_such_module", lambda: True)) as code:
        code.start()
        wait_until(lambda: not code.missing())
    assert "the code of promises was not compiled in advance" in caplog.text


DECIDES = """
from slurmsched.daemon.compiled_code import OF_DECISIONS, CompiledCode
from slurmsched.policies.compiled import Compiled
from slurmsched.foresee.warm_up import promises

def loaded():
    functions = [one for module in OF_DECISIONS for one in vars(module).values() if isinstance(one, Compiled)]
    return {(one.__name__, str(types)) for one in functions for types in one.dispatcher.signatures}

if {loads}:
    CompiledCode("not started", lambda: True).before_first_cycle()
before = loaded()
promises()
print(len(before), len(loaded() - before))
"""


def test_a_daemon_has_loaded_the_stored_code_before_its_first_cycle_decides():
    nothing, stored = (loaded(loads) for loads in (False, True))
    assert nothing[0] == 0
    assert stored[0] >= nothing[1] > 0 == stored[1]


def loaded(loads: bool) -> tuple[int, ...]:
    """How many functions a new process has loaded before decisions with promises, and how many more after them."""
    program = [sys.executable, "-c", DECIDES.replace("{loads}", str(loads))]
    return tuple(map(int, subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()))

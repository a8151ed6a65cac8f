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
    with closing(CompiledCode("tests.daemon.sleeping_worker", needed.is_set)) as code:
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

functions = [one for module in OF_DECISIONS for one in vars(module).values() if isinstance(one, Compiled)]

def loaded():
    return {(one.__name__, str(types)) for one in functions for types in one.dispatcher.signatures}

at_first = loaded()
CompiledCode("not started", lambda: True).before_first_cycle()
before, called, call = loaded(), set(), Compiled.__call__

def noted(one, *arguments):
    called.update({one.__name__} if one in functions else ())
    return call(one, *arguments)

Compiled.__call__ = noted
promises()
print(len(at_first), len(before), len(called), len(loaded() - before))
"""


def test_a_daemon_has_loaded_the_stored_code_before_its_first_cycle_decides():
    at_first, before, called, more = loaded()
    assert at_first == more == 0
    assert before >= called > 0


def loaded() -> tuple[int, ...]:
    """In a new process: the functions of decisions loaded at first and before the first cycle; those that decisions
    with promises then call, and those loaded for them."""
    program = [sys.executable, "-c", DECIDES]
    return tuple(map(int, subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()))

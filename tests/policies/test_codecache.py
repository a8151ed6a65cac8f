"""Compiled code is found by those who may not write it, and never taken from those who should not have written it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurmsched
from slurmsched.policies.codecache import clean
from slurmsched.policies.compiled import HAVE_NUMBA

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="several unix users need root"),
    pytest.mark.skipif(not HAVE_NUMBA, reason="there is nothing to compile without Numba"),
]

ALICE, SERVICE, EVE = 60_001, 60_002, 60_003
PROGRAM = """\
import site_code
print(site_code.twice(21), *["loaded" if site_code.twice.dispatcher.stats.cache_hits else "compiled"])
"""
MODULE = """\
from slurmsched.policies.compiled import compiled

@compiled
def twice(number):
    return 2 * number
"""


FORKER = """\
import json, os, runpy, sys, traceback
import numba
import slurmsched.policies.compiled

numba.njit(lambda number: number)(1)
for name in ("codecache", "compiled", "fingerprint"):
    del sys.modules[f"slurmsched.policies.{name}"]  # each process imports them for itself
for line in sys.stdin:
    program, user, environment, printed = json.loads(line)
    child = os.fork()
    if not child:
        for number in (1, 2):
            os.dup2(os.open(printed[number - 1], os.O_WRONLY | os.O_CREAT), number)
        try:
            if user:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            os.environ.clear()
            os.environ.update(environment)
            sys.path.insert(0, os.path.dirname(program))
            runpy.run_path(program, run_name="__main__")
            sys.stdout.flush()
        except BaseException:  # SystemExit too: no child may go on with the loop of its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs programs, each in a process of its own that has Numba and Python's modules already, which saves most of it.

Other users could not read them where Python is root's alone.
"""


@pytest.fixture(scope="module")
def forker() -> Iterator[subprocess.Popen[str]]:
    # A source of the same length written within a second is stale in Python's own cache.
    path = os.pathsep.join([str(Path(slurmsched.__file__).parents[1]), *filter(None, sys.path)])
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": path}
    argv = [sys.executable, "-P", "-c", FORKER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, env=environment, cwd="/", text=True, **pipes) as process:
        yield process
        process.stdin.close()


class Install:
    """A directory that all may read, with a module of compiled code that root alone may write, and a cache for all."""

    def __init__(self, directory: Path, forker: subprocess.Popen[str]) -> None:
        self.directory, self._forker = directory, forker
        directory.chmod(0o755)
        (directory / "code").mkdir(mode=0o755)
        (directory / "code" / "site_code.py").write_text(MODULE)
        (directory / "code" / "program.py").write_text(PROGRAM)
        for name, user in (("service", SERVICE), ("alice", ALICE)):
            (directory / name).mkdir(mode=0o755)
            os.chown(directory / name, user, user)

    def __truediv__(self, name: str) -> Path:
        return self.directory / name

    def run(self, user: int, environment: dict[str, str]) -> tuple[int, str, str]:
        """Run the program as *user*; return its exit status, and what it printed and complained about."""
        printed = [self.directory / "stdout", self.directory / "stderr"]
        for file in printed:
            file.write_text("")
        words = [str(self.directory / "code" / "program.py"), user, environment, [*map(str, printed)]]
        self._forker.stdin.write(f"{json.dumps(words)}\n")
        self._forker.stdin.flush()
        status = int(self._forker.stdout.readline())
        return status, *(file.read_text() for file in printed)


@pytest.fixture
def install(forker: subprocess.Popen[str]) -> Iterator[Install]:
    directory = Path(tempfile.mkdtemp(prefix="sscode-", dir="/tmp"))
    yield Install(directory, forker)
    shutil.rmtree(directory)


def run(install: Install, user: int = 0, **environment: str) -> str:
    """What the program prints for *user*: the result, and whether its code was compiled or loaded."""
    everything = {
        "PATH": os.environ["PATH"],
        "HOME": str(install / "alice") if user == ALICE else "/nonexistent",
        "CACHE_DIRECTORY": str(install / "service"),
    }
    status, printed, complaint = install.run(user, everything | environment)
    if "Permission denied" in complaint and not printed:
        pytest.skip("this Python is closed to other users")
    assert status == 0, complaint
    return printed.strip()


def test_what_root_compiled_is_there_for_everybody(install):
    assert run(install) == "42 compiled"
    assert [run(install, user) for user in (0, SERVICE, ALICE)] == ["42 loaded"] * 3


def test_a_narrow_umask_keeps_nobody_from_reading(install):
    (install / "code" / "__pycache__").mkdir(mode=0o755)
    (install / "code" / "program.py").write_text("import os\nos.umask(0o077)\n" + PROGRAM)
    assert run(install) == "42 compiled"
    assert run(install, ALICE) == "42 loaded"


def test_the_daemons_user_compiles_once_for_itself_and_all_users(install):
    assert run(install, SERVICE) == "42 compiled"
    assert [run(install, user) for user in (SERVICE, ALICE)] == ["42 loaded"] * 2


def test_root_runs_nothing_that_the_daemons_user_compiled(install):
    run(install, SERVICE)
    assert run(install) == "42 compiled"


def test_a_user_compiles_once_for_themselves_alone(install):
    assert run(install, ALICE) == "42 compiled"
    assert [run(install, ALICE), run(install, SERVICE), run(install)] == ["42 loaded", "42 compiled", "42 compiled"]


def test_a_user_compiles_once_where_no_daemon_was_ever_started(install):
    nowhere = {"CACHE_DIRECTORY": str(install / "nowhere")}
    assert [run(install, ALICE, **nowhere), run(install, ALICE, **nowhere)] == ["42 compiled", "42 loaded"]


def test_without_any_place_of_their_own_a_user_compiles_each_time(install):
    nowhere = {"CACHE_DIRECTORY": str(install / "nowhere")}
    assert [run(install, EVE, **nowhere), run(install, EVE, **nowhere)] == ["42 compiled"] * 2


def test_changed_source_is_compiled_again(install):
    run(install)
    (install / "code" / "site_code.py").write_text(MODULE.replace("2 * number", "3 * number"))
    assert [run(install, ALICE), run(install, ALICE)] == ["63 compiled", "63 loaded"]


@pytest.mark.parametrize("file", ["inner_code.py", "site_code.py"])
def test_code_imported_before_an_upgrade_is_not_stored_as_that_of_the_new_sources(install, file):
    """A daemon goes on while a new version is installed, and calls a function for the first time."""
    for name, text in {"site_code": CALLER, "inner_code": CALLEE, "constants": "FACTOR = 2\n"}.items():
        (install / "code" / f"{name}.py").write_text(text)
    upgraded = (install / "code" / file).read_text().replace("number * factor", "number + factor")
    upgraded = upgraded.replace("(number, FACTOR)", "(number + 2, FACTOR)")
    upgrade = (
        f"import pathlib, site_code\npathlib.Path(site_code.__file__).with_name({file!r}).write_text({upgraded!r})\n"
    )
    (install / "code" / "program.py").write_text(upgrade + PROGRAM)
    assert run(install) == "42 compiled"
    (install / "code" / "program.py").write_text(PROGRAM)
    assert run(install) == {"inner_code.py": "23 compiled", "site_code.py": "46 compiled"}[file]


CALLER = """\
from inner_code import FACTOR
from slurmsched.policies.compiled import compiled
import inner_code

times = inner_code.times

@compiled
def twice(number):
    return times(number, FACTOR)
"""
CALLEE = """\
from slurmsched.policies.compiled import compiled
from constants import FACTOR

@compiled
def times(number, factor):
    return number * factor
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "result"), [("inner_code.py", "* factor", "+ factor", 23), ("constants.py", "2", "3", 63)]
)
def test_a_changed_callee_or_constant_of_another_module_is_compiled_again(install, file, old, new, result):
    for name, text in {"site_code": CALLER, "inner_code": CALLEE, "constants": "FACTOR = 2\n"}.items():
        (install / "code" / f"{name}.py").write_text(text)
    assert [run(install), run(install)] == ["42 compiled", "42 loaded"]
    changed = install / "code" / file
    changed.write_text(changed.read_text().replace(old, new))
    assert [run(install), run(install)] == [f"{result} compiled", f"{result} loaded"]


BOTH_WAYS = """\
from slurmsched.policies.compiled import borrowing, compiled, inner

def total(numbers):
    return numbers.sum()

outer_total, inner_total, borrowing_total = compiled(total), inner(total), borrowing(total)

@compiled
def through_inner(numbers):
    return inner_total(numbers)

@compiled
def through_borrowing(numbers):
    return borrowing_total(numbers)
"""
WAYS = ("through_borrowing", "through_inner", "outer_total")


@pytest.mark.parametrize("first", WAYS)
def test_code_of_one_function_for_python_and_for_compiled_callers_is_kept_apart(install, first):
    """Code without an entry from Python that was taken for code with one ended the process."""
    (install / "code" / "site_code.py").write_text(BOTH_WAYS)
    call = "import numpy, site_code\nfor way in {ways}: print(getattr(site_code, way)(numpy.ones(42)), end=' ')"
    for ways in ((first,), WAYS, WAYS[::-1]):
        (install / "code" / "program.py").write_text(call.format(ways=ways))
        assert run(install) == " ".join(["42.0"] * len(ways))


def test_code_of_earlier_sources_is_removed_and_no_other(install, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)  # the tests' own code may be kept elsewhere
    run(install)
    first = compiled_files(install)
    (install / "code" / "site_code.py").write_text(MODULE.replace("2 * number", "3 * number"))
    run(install)
    second = compiled_files(install) - first
    assert second
    assert clean(install / "code") == len(first)
    assert compiled_files(install) == second
    assert run(install) == "63 loaded"


def compiled_files(install: Install) -> set[str]:
    return {file.name for file in (install / "code" / "__pycache__").glob("*.nb?")}


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_cache_that_another_user_could_have_written_is_not_read(install, mode):
    """NUMBA_CACHE_DIR as admins set it, below /tmp, where somebody else may come first."""
    chosen = install / "chosen"
    chosen.mkdir(mode=0o700)
    os.chown(chosen, EVE, EVE)
    assert run(install, EVE, NUMBA_CACHE_DIR=str(chosen)) == "42 compiled"
    assert run(install, EVE, NUMBA_CACHE_DIR=str(chosen)) == "42 loaded"
    chosen.chmod(mode)
    if mode == 0o777:
        os.chown(chosen, ALICE, ALICE)
    assert [run(install, ALICE, NUMBA_CACHE_DIR=str(chosen)) for _ in range(2)] == ["42 compiled"] * 2


def test_a_chosen_cache_of_ones_own_serves_also_through_a_link(install):
    (install / "alice" / "chosen").symlink_to(install / "alice" / "real")
    chosen = {"NUMBA_CACHE_DIR": str(install / "alice" / "chosen")}
    (install / "alice" / "real").mkdir()
    os.chown(install / "alice" / "real", ALICE, ALICE)
    assert [run(install, ALICE, **chosen) for _ in range(2)] == ["42 compiled", "42 loaded"]


def test_damaged_code_is_compiled_again(install):
    run(install)
    for file in (install / "code" / "__pycache__").glob("*.nb?"):
        file.write_bytes(file.read_bytes()[:-20])
    assert [run(install), run(install)] == ["42 compiled", "42 loaded"]


def test_settings_of_numba_in_the_working_directory_change_nothing(install):
    hostile = install / "hostile"
    hostile.mkdir()
    (hostile / ".numba_config.yaml").write_text(f"cache_dir: {hostile}/cache\ndisable_jit: 1\nopt: 0\n")
    code = "import site_code; site_code.twice(1); import numba; print(numba.config.DISABLE_JIT, numba.config.OPT == 3)"
    path = os.pathsep.join([str(install / "code"), str(Path(slurmsched.__file__).parents[1]), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        cwd=hostile,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "0 True", done.stderr
    assert [*hostile.iterdir()] == [hostile / ".numba_config.yaml"]

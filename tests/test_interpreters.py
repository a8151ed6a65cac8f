"""Whatever this package starts, no code of the directory it is called from runs: that may be any user's."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from slurmsched import interpreter

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "slurmsched"

STARTS = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|os\.(exec\w+|spawn\w+|posix_spawnp?|system|popen|fork|forkpty)|pty\.\w+"
    r"|(multiprocessing.*|context)\.(Process|Pool)"
    r"|(.*\.)?(ProcessPoolExecutor|LocalCluster|Parallel|create_subprocess_\w+)"
)
"""Calls by which a process comes into being."""
SAYS_SO = re.compile(
    r"subprocess\s*\.|create_subprocess|\bos\s*\.\s*(exec|spawn|posix_spawn|system|popen|fork)|\bpty\s*\."
    r"|\.\s*(Process|Pool)\b|ProcessPoolExecutor|LocalCluster|Parallel\b"
)
"""A word that every text with such a call has: reading the others as code would take long."""

ANYWHERE = {
    "job.py:_queue_again": "the job's own user, in a job",
    "job.py:_slurm": "the job's own user, in a job",
    "job.py:status": "the command that the job's own user gives",
    "cli/admin/lab.py:shell": "the command or shell that the caller asks for, where the caller is",
    "lab/lab.py:run": "commands of Slurm, which write where a lab's users call them; no Python",
    "lab/processes.py:spawn": "daemons by their whole path; no Python",
    "prolog/mps.py:leave": "replaces a process that is in / already",
}
"""Starts that stay in the directory of the caller, and why they may."""


class Start(NamedTuple):
    """A call that starts a process."""

    place: str
    call: ast.Call
    guarded: bool  #: inside of `with interpreter.safe_children()`


def dotted(node: ast.expr) -> str:
    """The text of what is called; that of a name with dots needs no ``unparse``, which takes long."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)


def starts(source: str, file: str) -> Iterator[Start]:
    """The calls in *source* that start a process, each with the function that it stands in."""

    def walk(node: ast.AST, function: str, guarded: bool) -> Iterator[Start]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.With):
            guarded = guarded or any("safe_children()" in ast.unparse(item) for item in node.items)
        if isinstance(node, ast.Call) and STARTS.fullmatch(dotted(node.func)):
            yield Start(f"{file}:{function}", node, guarded)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function, guarded)

    if SAYS_SO.search(source):
        yield from walk(ast.parse(source), "", False)


def in_root(call: ast.Call) -> bool:
    """Whether the process works in the root directory."""
    where = [ast.unparse(word.value) for word in call.keywords if word.arg == "cwd"]
    return where in (["'/'"], ["interpreter.DIRECTORY"])


def every_start() -> list[Start]:
    files = sorted(PACKAGE.rglob("*.py"))
    return [start for file in files for start in starts(file.read_text(), str(file.relative_to(PACKAGE)))]


def test_every_process_is_started_in_the_root_directory_or_has_a_reason():
    found = every_start()
    assert len(found) > 15
    elsewhere = {start.place for start in found if not in_root(start.call) and not start.guarded}
    assert elsewhere == set(ANYWHERE)


def test_every_python_of_ours_is_started_without_the_directory_it_is_called_from():
    argvs = [
        (file.name, ast.unparse(node))
        for file in sorted(PACKAGE.rglob("*.py"))
        if "executable" in file.read_text()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.List | ast.Tuple) and "sys.executable" in ast.unparse(node)
    ]
    assert len(argvs) >= 3
    assert [each for each in argvs if not re.search(r"sys\.executable, '-(I|P)'", each[1])] == []


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    subprocess.run(['squeue'])",
        "def f():\n    subprocess.Popen(['squeue'], cwd=somewhere)",
        "def f():\n    multiprocessing.get_context('spawn').Process(target=g)",
        "def f():\n    joblib.Parallel(2)(g)",
        "def f():\n    os.system('true')",
        "def f():\n    with safe():\n        distributed.LocalCluster()",
    ],
)
def test_an_unsafe_start_is_found(source):
    assert [start.place for start in starts(source, "x.py") if not in_root(start.call) and not start.guarded] == [
        "x.py:f"
    ]


def test_units_start_programs_by_their_whole_path_in_the_root_directory():
    lines = [line for unit in (ROOT / "systemd").rglob("*.service") for line in unit.read_text().splitlines()]
    commands = [line.partition("=")[2] for line in lines if line.startswith("Exec")]
    assert len(commands) >= 4
    assert [command for command in commands if not command.lstrip("-").startswith("/")] == []
    assert [command for command in commands if "python" in command] == []
    assert {line for line in lines if line.startswith("WorkingDirectory=")} <= {"WorkingDirectory=/"}


@pytest.mark.parametrize("script", ["prolog", "epilog"])
def test_scripts_of_nodes_start_python_alone_and_from_the_root_directory(script):
    text = (PACKAGE / "prolog" / script).read_text()
    calls = re.findall(r"\$SLURMSCHED_PYTHON\" (\S+)", re.sub(r"command -v .*", "", text))
    assert calls
    assert set(calls) == {"-I"}
    assert text.index("    cd / || return\n") < text.index("$SLURMSCHED_PYTHON")


def test_no_script_that_slurmctld_runs_starts_a_process():
    scripts = list((ROOT / "contrib").rglob("*.lua"))
    assert scripts
    assert [script for script in scripts if re.search(r"os\.execute|io\.popen", script.read_text())] == []


def test_children_find_this_package_and_no_relative_path():
    environment = interpreter.environment({"PYTHONPATH": os.pathsep.join(["", "here", "/opt/site"]), "HOME": "/root"})
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/opt/site"]
    assert environment["HOME"] == "/root"


HOSTILE = (
    *("pyslurm", "numpy", "numba", "click", "sqlalchemy", "joblib", "pulp", "highspy", "slurmsched", "sitecustomize"),
    *("usercustomize", "multiprocessing", "types", "contextlib", "runpy", "json", "subprocess", "pickle"),
)
LEFT = "ran-as-somebody-else"


@pytest.fixture
def hostile(tmp_path) -> Path:
    """A directory in which a user put modules under the names of ours, of libraries and of Python's own."""
    directory = tmp_path / "users"
    directory.mkdir()
    evil = f"open({str(directory / LEFT)!r}, 'a').write(__name__ + '\\n')\n"
    for name in HOSTILE:
        package = directory / name
        package.mkdir()
        (package / "__init__.py").write_text(evil)
        (package / "__main__.py").write_text(evil)
    for name in ("simulator", "slurm"):
        (directory / "slurmsched" / name).mkdir()
        (directory / "slurmsched" / name / "__init__.py").write_text(evil)
    for name in ("scontrol", "squeue", "sinfo", "sacct", "sacctmgr", "munge", "unmunge", "id"):
        program = directory / name
        program.write_text(f"#!/bin/sh\necho {name} >>{directory / LEFT}\n")
        program.chmod(0o755)
    (directory / ".numba_config.yaml").write_text("cache_dir: evil-cache\ndisable_jit: 1\n")
    return directory


def left(directory: Path) -> str:
    """What code of the directory has left behind."""
    file = directory / LEFT
    return file.read_text() if file.exists() else ""


def call(directory: Path, *words: str, conf: str = "/nonexistent/slurm.conf") -> subprocess.CompletedProcess[str]:
    """A command of ours, called in *directory* by somebody whose PATH leads there too."""
    settings = directory.parent / "slurmsched.toml"
    places = f"state_dir = '{directory.parent}'\nrun_dir = '{directory.parent}'\n"
    settings.write_text(f"[daemon]\n{places}[slurm]\nconf = '{conf}'\ntimeout_s = 5\n")
    installed = directory.parent / "slurmsched"  # as pip writes it, whose own directory is the first of Python's path
    installed.write_text("from slurmsched.cli import main\n\nmain()\n")
    environment = os.environ | {"PATH": f".:{os.environ['PATH']}"}
    argv = [sys.executable, str(installed), "--config", str(settings), *words]
    return subprocess.run(argv, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)


ALONE = ("db upgrade", "once", "status")
"""Commands that are called where no Slurm answers too."""
COMMANDS = ("db upgrade", "once", "what-if --policy sjf", "status")
OTHERS = (
    *("what-if --policy sjf", "check", "history import", "pause", "resume", "release-all --budget 5", "queue"),
    *("config show", "lab status"),
)


@pytest.mark.parametrize("words", [*ALONE, *(pytest.param(words, marks=pytest.mark.soak) for words in OTHERS)])
def test_no_command_runs_code_of_the_directory_it_is_called_from(hostile, words):
    done = call(hostile, *words.split())
    assert left(hostile) == "", done.stderr
    assert "Traceback" not in done.stderr


def test_no_command_does_so_on_a_cluster_that_answers(hostile, lab):
    conf = str(lab.layout.slurm_conf)
    lab.ask(["sbatch", "--array=1-40", "--gres=gpu:1", "--time=10", "--wrap=sleep 300"], user="alice")
    ends = {words: call(hostile, *words.split(), conf=conf) for words in COMMANDS}
    assert left(hostile) == ""
    assert {words for words, done in ends.items() if done.returncode} <= {"status"}, ends  # there is no daemon


PARENTS = {
    "the reader of pyslurm": (
        "from slurmsched.slurm.adapters.command_runner import CommandRunner\n"
        "from slurmsched.slurm.adapters.pyslurm_worker import PyslurmMissing, Worker\n"
        "try:\n    Worker(CommandRunner(conf='/nonexistent'), lambda *_: None).start()\n"
        "except PyslurmMissing:\n    pass\n"
    ),
    "the process that predicts": (
        "from slurmsched.daemon.predictions.prediction_process import PredictionFailed, PredictionWorker\n"
        "worker = PredictionWorker('slurmsched.foresee.prediction_worker', timeout_s=120)\n"
        "try:\n    worker.predict(None, None, None, {})\n"
        "except PredictionFailed:\n    pass\n"
    ),
    "the solver": (
        "from slurmsched.child_process import ChildFailed\n"
        "from slurmsched.policies.deadlines.lease_solver import LeaseSolver\n"
        "from types import SimpleNamespace\n"
        "question = SimpleNamespace(problem=None, first=None, is_news_after=lambda last: True)\n"
        "try:\n    LeaseSolver().solve(question, 1.0)\n"
        "except ChildFailed:\n    pass\n"
    ),
    "the processes of a sweep": (
        "import os\n"
        "from slurmsched.simulator.worker_pool import Workers, crew\n"
        "if __name__ == '__main__':\n"
        "    with crew(Workers('loky', 2)) as spread:\n"
        "        assert sorted(spread(abs, [-1, -2, -3])) == [(0, 1), (1, 2), (2, 3)]\n"
    ),
    "the processes of a sweep on Dask": (
        "from slurmsched.simulator.worker_pool import Workers, crew\n"
        "if __name__ == '__main__':\n"
        "    with crew(Workers('dask', 1)) as spread:\n"
        "        assert sorted(spread(abs, [-1, -2])) == [(0, 1), (1, 2)]\n"
    ),
}
"""Programs that have each kind of child started."""


@pytest.mark.parametrize("parent", PARENTS)
def test_no_child_runs_code_of_the_directory_it_is_started_from(hostile, parent):
    program = hostile.parent / "parent.py"
    program.write_text(PARENTS[parent])
    argv = [sys.executable, str(program)]
    done = subprocess.run(argv, cwd=hostile, capture_output=True, text=True, timeout=300)
    assert left(hostile) == "", done.stderr
    assert done.returncode == 0, done.stderr


def test_a_module_of_ours_called_by_its_name_takes_none_of_the_libraries_from_there(tmp_path):
    """``python -m slurmsched`` without -P: Python itself has looked there before we can say no, but no later."""
    (tmp_path / "click.py").write_text(f"open({str(tmp_path / LEFT)!r}, 'a').write(__name__)\n")
    done = subprocess.run(
        [sys.executable, "-m", "slurmsched", "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, left(tmp_path)) == (0, ""), done.stderr


@pytest.mark.parametrize(("before", "after"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_linear_algebra_has_one_thread_unless_the_environment_says_otherwise(before, after):
    look = "import os, sys, slurmsched.cli; print(os.environ['OPENBLAS_NUM_THREADS'], 'numpy' in sys.modules)"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | before
    printed = subprocess.run([sys.executable, "-c", look], env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.split() == [after, "False"]

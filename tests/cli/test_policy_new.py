"""``slurmsched policy new`` writes packages that pass the check as soon as they are installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from contextlib import chdir
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from json_forms import answer_of

from slurmsched.cli import main
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.nodes import NodeTable
from slurmsched.cluster.outlook.remaining import Remaining
from slurmsched.cluster.state import View
from slurmsched.errors import ConfigError
from slurmsched.research.commands.policy_package import HOOKS, package_files, write_package
from slurmsched.research.conformance.demands import demands_on

ROOT = Path(__file__).parents[2]


def python(*words: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    places = [str(place) for place in (path, ROOT) if place is not None]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "SLURMSCHED_CONFIG": ""}
    return subprocess.run(
        [sys.executable, "-P", *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=1800
    )


PAGE = (ROOT / "docs/policies.md").read_text().partition("## From nothing to an ordering of your own")[2]
WALK, _, VIEW = PAGE.partition("## What a view has")
BLOCKS = re.findall(r"```python\n(.*?)```", WALK, re.DOTALL)


def command(name: str) -> list[str]:
    """The words of the command of the walk that begins with *name*."""
    (line,) = re.findall(rf"^    ({re.escape(name)}.*)$", WALK, re.MULTILINE)
    return shlex.split(str(line))


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A directory with a new package for each hook, and the one of the walk, both orderings written by the command."""
    directory = tmp_path_factory.mktemp("packages")
    with chdir(directory):
        done = CliRunner().invoke(main, ["policy", "new", "my-ordering", "--json"])
        assert done.exit_code == 0, done.output
        files = answer_of(["policy", "new"], done.stdout)["files"]
        assert files == ["README.md", "my_ordering.py", "pyproject.toml", "test_my_ordering.py"]
        for hook in set(HOOKS) - {"ordering"}:
            write_package(hook, f"my-{hook}", directory)
        assert CliRunner().invoke(main, command("slurmsched policy new")[1:]).exit_code == 0
    module, test = (directory / "mylas" / name for name in ("mylas.py", "test_mylas.py"))
    module.write_text(BLOCKS[0])
    first, _ = re.findall(r"^def test_.*?(?=^def |\Z)", test.read_text(), re.MULTILINE | re.DOTALL)
    test.write_text(test.read_text().replace(first, f"{BLOCKS[1]}\n\n"))
    return directory


TRIED = ("ordering", "placement")
"""The hooks whose packages ``make test`` installs; ``make soak`` installs all."""


@pytest.fixture(scope="module")
def installed(packages, tmp_path_factory) -> Path:
    """The packages of the walk and of some hooks as pip installs them, without a network."""
    return pip_install(TRIED, packages, tmp_path_factory.mktemp("installed"))


def pip_install(hooks: Iterable[str], packages: Path, target: Path) -> Path:
    """Install the package of the walk, and those of *hooks*, into the directory *target*."""
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    words = command("pip install")
    done = python("-m", *words, *options, *(f"./my-{hook}" for hook in hooks), cwd=packages)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def own_tests(packages, installed) -> str:
    """What pytest says of one test of a new package, and of the one of the walk."""
    options = ["-m", "pytest", "-v", "-p", "no:cacheprovider", "-c", os.devnull]
    files = ["my-ordering/test_my_ordering.py", "mylas/test_mylas.py"]
    chosen = "(my_ordering and submitted_first) or (mylas and least_service)"
    done = python(*options, "-k", chosen, *files, cwd=packages, path=installed)
    assert done.returncode == 0, done.stdout
    return done.stdout


USE = {hook: package_files(hook, "mine")["README.md"].splitlines()[6].strip() for hook in HOOKS}
"""How the README of a package of each hook says that it is used."""


@pytest.fixture(scope="module")
def replayed(packages, installed) -> list[list[Any]]:
    """Exit statuses and outputs of the replays of a README and of the walk, in one process that reads all it needs."""
    use = [word.replace("mine", "my-placement").replace("2000", "50") for word in USE["placement"].split()[1:]]
    walk = [*(word.replace("2000", "200") for word in command("slurmsched simulate")[1:]), "--json"]
    program = (
        "import json, sys; from click.testing import CliRunner; from slurmsched.cli import main\n"
        "done = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]\n"
        "print(json.dumps([[one.exit_code, one.stdout] for one in done]))\n"
    )
    done = python("-c", program, json.dumps([use, walk]), cwd=packages, path=installed)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_ordering_of_the_walk_passes_the_check(packages, installed):
    done = python(
        "-m", "slurmsched", "policy", "check", "mylas", "--views", "5", "--json", cwd=packages, path=installed
    )
    document = answer_of(["policy", "check"], done.stdout)
    assert (done.returncode, document["failed"]) == (0, []), done.stderr
    assert [(part["hook"], part["part"]) for part in document["parts"]] == [("ordering", "mylas")]
    assert {*document["parts"][0]["demands"]} == {*demands_on("ordering")}


@pytest.mark.soak
def test_the_packages_of_all_hooks_pass_the_check_as_they_are(packages, tmp_path):
    path = pip_install(HOOKS, packages, tmp_path)
    done = python("-m", "slurmsched", "policy", "check", "--views", "20", "--json", cwd=packages, path=path)
    document = answer_of(["policy", "check"], done.stdout)
    assert document["failed"] == []
    parts = {(part["hook"], part["part"]) for part in document["parts"]}
    assert parts == {*((hook, f"my-{hook}") for hook in HOOKS), ("ordering", "mylas")}
    assert done.returncode == 0


def test_the_tests_of_a_package_pass_and_its_readme_says_how_it_is_used(own_tests, replayed):
    assert re.search(r"test_my_ordering.py::test_\w*submitted_first\w* PASSED", own_tests), own_tests
    assert USE["placement"].endswith("--set placement=mine")
    assert replayed[0][0] == 0, replayed[0]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("My", "is no name for a package"),
        ("../up", "is no name for a package"),
        ("a--b", "is no name for a package"),
        ("2fast", "is no name for a package"),
        ("a" * 41, "is no name for a package"),
        ("lambda", "is no name for a package"),
        ("numpy", "there is a Python module 'numpy' already"),
        ("las", "there is the ordering 'las' already"),
        ("there", "exists already"),
    ],
)
def test_a_name_that_does_not_fit_is_refused_and_nothing_is_written(tmp_path, name, complaint):
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match=complaint):
        write_package("ordering", name, tmp_path)
    assert [*tmp_path.rglob("*")] == [tmp_path / "there"]


def test_a_package_that_cannot_be_written_whole_leaves_nothing(tmp_path):
    command = f"ulimit -f 0; exec {sys.executable} -P -m slurmsched policy new mine"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SLURMSCHED_CONFIG": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_hook_that_does_not_exist_is_refused_with_those_that_do(tmp_path):
    with chdir(tmp_path):
        done = CliRunner().invoke(main, ["policy", "new", "mine", "--hook", "sharing"])
    assert done.exit_code == 2
    assert "'sharing' is not one of 'ordering', 'admission', 'selection'" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_the_walk_of_the_page_ends_with_an_ordering_that_is_las(own_tests, replayed):
    assert len([line for line in BLOCKS[0].splitlines() if line]) <= 10
    assert command("slurmsched policy check") == ["slurmsched", "policy", "check", "mylas"]
    assert re.search(r"test_mylas.py::test_\w*least_service\w* PASSED", own_tests), own_tests
    assert "2 passed" in own_tests
    rows = {row["policy"]: row for row in json.loads(replayed[1][1])["policies"]}
    assert rows["mylas"]["jct_s"] == rows["las"]["jct_s"]
    assert rows["mylas"]["preemptions"] == rows["las"]["preemptions"] > 0


def test_the_page_names_columns_that_a_view_has():
    table = VIEW.partition("\n## ")[0]
    parts = {"pending": JobTable, "running": JobTable, "forecast": Forecast, "nodes": NodeTable, "remaining": Remaining}
    columns = {column.name for kind in parts.values() for column in fields(kind)}
    named = re.findall(r"`\.([a-z_]+)`", table)
    assert len(named) > 25
    assert set(named) - columns == set()
    assert set(re.findall(r"`view\.([a-z_]+)`", table)) <= {*dir(View), *(column.name for column in fields(View))}

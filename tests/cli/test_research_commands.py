"""Commands and parts of the research: listed apart where installed, and named with their package where not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from scenarios.forked import PROGRAM, Nursery, as_text

from slurmsched.cli import main
from slurmsched.cli.guests import GuestGroup
from slurmsched.cli.json_answers import answer_schema
from slurmsched.extensions import ANSWERS, COMMANDS, PACKAGE, is_ours, registered
from slurmsched.policies.research_names import RESEARCH_PARTS

ROOT = Path(__file__).parents[2]


def python(program: str, path: Path = ROOT, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *argv],
        env=os.environ | {"PYTHONPATH": str(path)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


PLAIN = "import sys; sys.meta_path[:] = [one for one in sys.meta_path if 'Editable' not in repr(one)]"
"""Without what finds the packages of a checkout that is installed in editable form."""


def call(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of what lies in *path*."""
    return python(f"{PLAIN}; from slurmsched.cli import main; main()", path, *words)


@pytest.fixture(scope="module")
def without_research(tmp_path_factory) -> Path:
    """A directory with slurmsched as its own package installs it: without the research."""
    directory = tmp_path_factory.mktemp("site")
    (directory / "slurmsched").mkdir()
    for path in (ROOT / "slurmsched").iterdir():
        if path.name not in ("research", "__pycache__"):
            (directory / "slurmsched" / path.name).symlink_to(path)
    return directory


@pytest.fixture(scope="module")
def called(without_research) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Calls commands of what lies there, each in a process that one forks which has read all but the research."""
    reads = "import runpy, slurmsched.cli.study.simulate, slurmsched.simulator.sweep"
    program = f"{PLAIN}; {reads}; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    environment = os.environ | {"PYTHONPATH": str(without_research)}
    nursery = Nursery([sys.executable, "-c", program], environment, Path("/"))

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return as_text(nursery.run(["-m", "slurmsched", *words], environment, Path("/"), 300.0))

    yield call
    nursery.close()


def test_commands_of_the_research_stand_below_a_heading_of_their_own():
    own, _, guests = CliRunner().invoke(main, ["--help"]).output.partition("\nResearch:\n")
    assert {"pareto", "tune"} <= {line.split()[0] for line in guests.splitlines() if line.startswith("  ")}
    assert "simulate" in own
    assert "pareto" not in own
    policy = CliRunner().invoke(main, ["policy", "--help"]).output
    assert policy.index("  set ") < policy.index("\nResearch:\n") < policy.index("  check ")


def test_each_command_of_the_research_prints_json_with_a_schema():
    commands = {entry.name for entry in registered(COMMANDS) if is_ours(entry)}
    assert commands == {entry.name for entry in registered(ANSWERS) if is_ours(entry)}
    for name in commands:
        assert answer_schema(name.replace(".", " "))["type"] == "object"


def test_the_names_of_parts_are_those_that_the_research_registers():
    program = (
        "import json\n"
        "from slurmsched.policies import contract\n"
        "from slurmsched.policies.presets import PRESETS\n"
        "hooks = [one for one in vars(contract).values() if isinstance(one, contract.Registry)]\n"
        "def names(): return {one.hook: set(one) for one in hooks} | {'preset': set(PRESETS)}\n"
        "before = names()\n"
        "import slurmsched.research.parts\n"
        "print(json.dumps({hook: sorted(now - before[hook]) for hook, now in names().items() if now != before[hook]}))"
    )
    done = python(program)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {hook: sorted(names) for hook, names in RESEARCH_PARTS.items()}


def test_a_part_of_the_research_is_loaded_when_it_is_named_and_no_sooner():
    program = (
        "import sys\n"
        "import slurmsched.cli.daemon.build\n"
        "from slurmsched.policies.contract import find_ordering\n"
        "find_ordering('sjf'); print('slurmsched.research' in sys.modules)\n"
        "print(find_ordering('themis').built_in, 'slurmsched.research' in sys.modules)\n"
    )
    done = python(program)
    assert done.stdout.split() == ["False", "True", "True"], done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("tune",),
        ("pareto", "--gpus", "8", "--trace", "synthetic:10"),
        ("policy", "check"),
        ("models", "curves", "x.csv"),
        ("models", "queue-time", "x.csv"),
        ("fill", "nodes.csv", "pods.csv"),
        ("simulate", "synthetic:20", "--nodes", "2", "--policy", "graphene"),
        ("simulate", "synthetic:20", "--nodes", "2", "--preset", "3sigma"),
        ("simulate", "synthetic:20", "--nodes", "2", "--policy", "sjf", "--set", "placement=tiresias-plus"),
        ("simulate", "synthetic:20", "--nodes", "2", "--policy", "sjf", "--set", "placement=fgd"),
        ("simulate", "synthetic:20", "--nodes", "2", "--policy", "sjf", "--set", "selection=yarn-cs"),
        ("simulate", "synthetic:20", "--nodes", "2", "--policy", "optimus", "--set", "applications=/tmp"),
        ("simulate", "synthetic:20", "--nodes", "2", "--policy", "sjf", "--executor", "tasks"),
        ("train", "--model", "actor", "--trace", "synthetic:20"),
    ],
    ids=" ".join,
)
def test_what_is_not_installed_is_answered_with_the_package(called, words):
    done = called(*words)
    assert done.returncode in (1, 2)
    assert f"install the package {PACKAGE}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_settings_file_that_names_what_is_not_installed_is_refused_with_the_package(without_research, tmp_path):
    files = []
    for line in ('ordering = "themis"', 'preset = "yarn-cs"', 'shadow = "gavel"'):
        files.append(tmp_path / f"{line.split()[0]}.toml")
        files[-1].write_text(f"[policy]\n{line}\n")
    checks = "[CliRunner().invoke(main, ['config', 'check', file]) for file in sys.argv[1:]]"
    program = f"import json; from click.testing import CliRunner; from slurmsched.cli import main; done = {checks}"
    told = "print(json.dumps([[one.exit_code, one.output] for one in done]))"
    found = json.loads(python(f"{PLAIN}; {program}; {told}", without_research, *map(str, files)).stdout)
    assert len(found) == 3
    for (status, text), file in zip(found, files, strict=True):
        assert status == 1, file
        assert f"install the package {PACKAGE}" in text, file


def test_without_the_research_all_else_works_and_help_does_not_list_it(without_research, called):
    shown = call(without_research, "--help")
    assert shown.returncode == 0, shown.stderr
    assert "Research" not in shown.stdout
    done = called("simulate", "synthetic:50", "--nodes", "2", "--policy", "sjf", "--no-baseline")
    assert done.returncode == 0, done.stderr
    unknown = called("simulate", "synthetic:50", "--nodes", "2", "--policy", "mine")
    assert "there are: afs-l, " in unknown.stderr


def test_a_plug_in_may_add_a_command_and_a_broken_one_breaks_no_other(tmp_path):
    def install(module: str, source: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(
            f"[{COMMANDS}]\n{module} = {module}:command\nwhy = {module}:command\n"
        )

    install("hello", "import click\n@click.command()\ndef command():\n    '''Greet.'''\n    print('hello')\n")
    install("wrong", "raise RuntimeError('not today')\n")
    path = Path(os.pathsep.join([str(tmp_path), str(ROOT)]))
    shown = call(path, "--help").stdout
    assert "Plug-ins:\n  hello  Greet.\n  wrong  cannot load the command wrong" in shown
    assert call(path, "hello").stdout == "hello\n"
    assert "RuntimeError: not today" in call(path, "wrong").stderr
    assert "Explain why JOB" in call(path, "why", "--help").stdout


def test_groups_that_take_guests_find_each_under_their_name():
    groups = {name: main.get_command(click.Context(main), name) for name in ("policy", "models")}
    for name, group in groups.items():
        assert isinstance(group, GuestGroup)
        context = click.Context(group, **main.context_settings)
        for guest in [entry.name for entry in registered(COMMANDS) if entry.name.startswith(f"{name}.")]:
            assert group.get_command(context, guest.partition(".")[2]) is not None
    assert main.get_command(click.Context(main), "policy.check") is None

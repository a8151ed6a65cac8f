"""The frame of the command line: help, errors, exit statuses, laziness."""

from __future__ import annotations

import errno
import math
import os
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from slurmsched.cli import main
from slurmsched.cli.command_table import COMMANDS, CommandEntry
from slurmsched.cli.failure import NotFound
from slurmsched.cli.lazy import LazyGroup
from slurmsched.errors import SlurmUnavailable

HEAVY = ("numpy", "sqlalchemy", "rich", "alembic", "prometheus_client")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)


def imported_by(code: str) -> list[str]:
    done = python(f"{code}\nimport sys\nprint(' '.join(m for m in {HEAVY!r} if m in sys.modules))")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_command_line_loads_nothing_heavy():
    assert imported_by("import slurmsched.cli") == []


def test_no_command_loads_anything_heavy_before_it_runs():
    modules = sorted({place.module for place in COMMANDS.values()})
    assert imported_by("\n".join(f"import {module}" for module in modules)) == []


def test_a_question_to_the_daemon_loads_nothing_heavy():
    assert (
        imported_by(
            "import slurmsched.cli.query, slurmsched.daemon.api.query_protocol, slurmsched.daemon.api.remote_client"
        )
        == []
    )


def test_help_is_there_within_200_ms():
    script = Path(sys.executable).with_name("slurmsched")
    if not script.exists():
        pytest.skip("slurmsched is not installed as a script beside this Python")
    took_s: dict[tuple[str, ...], float] = {}
    for _ in range(5):
        for command in ((str(script), "--help"), (sys.executable, "-c", "import click")):
            before_s = _children_s()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
            took_s[command] = min(took_s.get(command, math.inf), _children_s() - before_s)
    help_s, click_s = took_s.values()
    assert help_s <= max(0.2, 4 * click_s), "what click itself takes tells how slow a machine is now"


def _children_s() -> float:
    """CPU time of ended children: what a command costs whatever else this machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_in_the_list_is_the_one_the_command_has(name):
    context = click.Context(main, **main.context_settings)
    command = main.get_command(context, name)
    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(limit=200) == COMMANDS[name].help


def test_help_names_every_command():
    output = CliRunner().invoke(main, ["--help"]).output
    assert [name for name in COMMANDS if f"\n  {name} " not in output] == []


def test_a_word_that_is_no_command_is_wrong_usage():
    result = CliRunner().invoke(main, ["queueu"])
    assert result.exit_code == 2
    assert "No such command 'queueu': did you mean queue?" in result.stderr
    assert "did you mean" not in CliRunner().invoke(main, ["zzzz"]).stderr


def test_the_version_is_told():
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.output.split()[0]) == (0, "slurmsched,")


def test_python_dash_m_runs_it():
    done = subprocess.run(
        [sys.executable, "-m", "slurmsched", "--version"], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.startswith("slurmsched, version ")


@click.command()
def away() -> None:
    """Fail."""
    raise SlurmUnavailable("squeue did not answer:\x1b[31m rc 1\nsecond line")


@click.command()
def nothing() -> None:
    """Find nothing."""
    raise NotFound("no such job")


@click.command()
def crowded() -> None:
    """Open one file too many."""
    raise OSError(errno.EMFILE, "Too many open files")


@click.command()
def unplugged() -> None:
    """Read from a disk that is gone."""
    raise OSError(errno.EIO, "Input/output error")


def group() -> LazyGroup:
    here = {name: CommandEntry(__name__, name, "") for name in ("away", "nothing", "crowded", "unplugged")}
    return LazyGroup("x", commands_at=here)


def test_what_the_world_did_is_one_clean_message_and_status_1():
    result = CliRunner().invoke(group(), ["away"])
    assert result.exit_code == 1
    assert result.stderr == "slurmsched: squeue did not answer:\\x1b[31m rc 1\nsecond line\n"
    assert result.stdout == ""


def test_a_limit_of_open_files_that_is_too_low_is_one_line_that_names_it(tmp_path):
    (tmp_path / "slurmsched.toml").write_text(f"[daemon]\nstate_dir = '{tmp_path}'\nrun_dir = '{tmp_path}'\n")
    words = [sys.executable, "-m", "slurmsched", "--config", str(tmp_path / "slurmsched.toml"), "run"]
    limited = ["sh", "-c", 'ulimit -n 16; exec "$@"', "sh", *words]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr == (
        "slurmsched: the daemon needs 256 open files; the limit of this process is 16"
        " (ulimit -n, LimitNOFILE= of systemd)\n"
    )


@pytest.mark.parametrize("command", ["crowded", "unplugged"])
def test_a_file_too_many_is_one_line_and_other_trouble_with_files_is_not_hidden(command):
    result = CliRunner().invoke(group(), [command])
    told = "slurmsched: too many files are open; the limit of this process is" in result.stderr
    assert (told, isinstance(result.exception, OSError)) == ((True, False) if command == "crowded" else (False, True))


def test_finding_nothing_is_status_3():
    result = CliRunner().invoke(group(), ["nothing"])
    assert (result.exit_code, result.stderr) == (3, "slurmsched: no such job\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion_script(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_SLURMSCHED_COMPLETE" in result.output


def test_completion_knows_the_commands():
    environ = os.environ | {"_SLURMSCHED_COMPLETE": "bash_complete", "COMP_WORDS": "slurmsched re", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from slurmsched.cli import main; main(prog_name='slurmsched')"],
        env=environ, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert {line.partition(",")[2] for line in done.stdout.split()} == {"replay", "report", "resume", "release-all"}

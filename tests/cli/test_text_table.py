"""Tables on terminals of any width: one line a row, nothing broken."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scenarios.forked import PROGRAM, Nursery

from slurmsched.cli import main
from slurmsched.cli.output import TextTable, emit, table_options
from slurmsched.cli.terminal_text import width
from slurmsched.cli.text_table import fitted, plain

JOBS = TextTable(
    ("RANK", "JOB", "USER", "NOTE"),
    [(1, 12345678, "alice", "it waits for what it depends on"), (2, 9, "a-rather-long-user-name", "")],
    order=("JOB", "RANK"),
    cut=("USER", "NOTE"),
)


def lines(sheet: TextTable, most: int) -> list[str]:
    return plain(fitted(sheet, most)[0]).splitlines()


def test_a_table_that_fits_stays_whole():
    assert fitted(JOBS, 200) == (JOBS, [])


def test_long_texts_are_cut_before_a_column_goes():
    shown, gone = fitted(JOBS, 45)
    assert gone == []
    assert [width(line) <= 45 for line in plain(shown).splitlines()] == [True] * 3
    assert "…" in plain(shown)


def test_the_least_important_columns_go_first_and_are_named():
    shown, gone = fitted(JOBS, 24)
    assert (shown.columns, gone) == (("RANK", "JOB", "USER"), ["NOTE"])
    shown, gone = fitted(JOBS, 12)
    assert (shown.columns, gone) == (("JOB",), ["RANK", "USER", "NOTE"])
    assert "12345678" in plain(shown)


def test_the_most_important_column_is_never_broken():
    assert lines(JOBS, 3) == ["     JOB", "12345678", "       9"]


@given(
    st.integers(1, 120),
    st.lists(st.tuples(st.integers(0, 10**9), st.text(max_size=40), st.floats(), st.text(max_size=90)), max_size=5),
)
def test_every_row_is_one_line_that_fits_whatever_is_in_it(most, rows):
    sheet = TextTable(("JOB", "NAME", "MEAN WAIT", "NOTE"), rows, cut=("NAME", "NOTE"))
    shown, gone = fitted(sheet, most)
    printed = plain(shown).split("\n")
    assert len(printed) == len(rows) + 1
    assert {*shown.columns, *gone} == set(sheet.columns)
    assert all(name in printed[0] for name in shown.columns)
    if len(shown.columns) > 1:
        assert max(map(width, printed)) <= most
    assert [str(row[0]) in line for row, line in zip(rows, printed[1:], strict=True)] == [True] * len(rows)


@click.command()
@table_options
def show(as_json: bool) -> None:
    """Show the table."""
    emit({"rows": 2}, "two jobs", JOBS, as_json=as_json)


def test_columns_can_be_chosen_in_any_case_and_order():
    result = CliRunner().invoke(show, ["--columns", "user,Job"])
    assert result.output.splitlines()[1].split() == ["USER", "JOB"]


def test_a_column_that_is_not_there_is_wrong_usage_with_the_list():
    result = CliRunner().invoke(show, ["--columns", "JOB,WHEN"])
    assert result.exit_code == 2
    assert "no column WHEN" in result.stderr
    assert "RANK, JOB, USER, NOTE" in result.stderr


def test_a_pipe_gets_every_column():
    assert "it waits for what it depends on" in CliRunner().invoke(show).output


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    started = Nursery([sys.executable, "-P", str(PROGRAM)], os.environ, Path("/"))
    yield started
    started.close()


def on_a_terminal(cells: int, start: Callable[[dict[str, str], int], Any]) -> list[str]:
    """The lines that a process prints on a terminal so many cells wide, which *start* starts on it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, cells, 0, 0))
    variables = {"PATH": os.environ["PATH"], "TERM": "xterm"}
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        child = start(variables, theirs)
        os.close(theirs)
        chunks = []
        while True:
            try:
                chunk = terminal.read(65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not chunk:
                break
            chunks.append(chunk)
        assert child.wait(60) == 0
    text = b"".join(chunks).decode()
    for code in ("\x1b[1m", "\x1b[0m"):
        text = text.replace(code, "")
    return text.splitlines()


FOLDERS = {"whatif": "study", "comparison": "study", "accuracy": "models"}
SHEETS = "from slurmsched.cli.{2} import {0}; from slurmsched.cli.output import *; emit({{}}, {1}, as_json=False)"
LONG = {
    "queue": "TextTable(queue.COLUMNS, [[n, 12345678, 1, 'a_user_name', 'train_resnet_152_on_imagenet', 'gpu-long',"
    " 128, '2d05h03m20s', '23h59m59s', 123456, 'waits for dependency'] for n in range(3)], queue.ORDER, queue.CUT)",
    "eta": "TextTable(eta.COLUMNS, [[12345678, 'gpu-long', 128, 'not counted', *['2026-11-22 12:00:00'] * 4, 55,"
    " 'It stands so far back in a long queue that it was not played forward.']] * 3, eta.ORDER, eta.CUT)",
    "deadline": "TextTable(deadline.COLUMNS, [[12345678, 'a_user_name', 'promised', *['2026-11-22 12:00:00'] * 3,"
    " '2d05h03m20s', '2026-11-22 12:00:00']] * 3, deadline.ORDER, deadline.CUT)",
    "whatif": "TextTable(whatif.COLUMNS, [['qssf + 12 nodes', 12345, *['2d05h03m20s'] * 3, '2026-11-22 12:00:00', 12,"
    " 3, '1.56x (1.21 to 2.04)']] * 3, whatif.ORDER)",
    "accuracy": "TextTable(accuracy.COLUMNS, [['gpu-long', '5-8', *[123, '2d05h03m20s', '90%', '2d05h03m20s'], 123,"
    " '2d05h03m20s', '90%', '90%', '2d05h03m20s', 12, '2d05h03m20s', '2d05h03m20s']] * 3,"
    " accuracy.ORDER, accuracy.CUT)",
    "comparison": "TextTable((*comparison.COLUMNS, 'GAIN'), [['tiresias-promoting', 'preemptive', *['2d05h03m20s'] * 7,"
    " '99.9 %', 12345, '1.56x (1.21 to 2.04)']] * 3, comparison.ORDER[3:6])",
}


@pytest.mark.parametrize("cells", [60, 80])
@pytest.mark.parametrize("name", LONG)
def test_the_tables_of_commands_fit_terminals_of_60_and_80_cells(name, cells, nursery, tmp_path):
    program = tmp_path / "show.py"
    program.write_text(SHEETS.format(name, LONG[name], FOLDERS.get(name, "jobs")))
    words = [str(program)]
    printed = on_a_terminal(cells, lambda known, terminal: nursery.start(words, known, Path("/"), terminal, 2))
    assert max(map(width, printed)) <= cells
    assert len(printed) == 2 + 3 + 1, printed
    assert "--wide" in printed[-1]
    if "12345678" in LONG[name]:
        assert sum("12345678" in line for line in printed) == 3


def test_wide_shows_all_on_a_narrow_terminal(tmp_path):
    (tmp_path / "s.toml").write_text("")
    command = [sys.executable, "-m", "slurmsched", "--config", str(tmp_path / "s.toml"), "config", "show", "--origin"]

    def start(variables: dict[str, str], terminal: int, *more: str) -> subprocess.Popen[bytes]:
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen([*command, *more], stdout=terminal, env=variables | path)

    narrow = on_a_terminal(60, start)
    assert max(map(width, narrow)) <= 60
    wide = on_a_terminal(60, lambda variables, terminal: start(variables, terminal, "--wide"))
    assert len(wide) == len(narrow) - ("--wide" in narrow[-1])
    assert any("models.interpretable_only" in line and "default" in line for line in wide)


def test_no_two_columns_of_a_table_have_one_name():
    from slurmsched.cli.jobs import advice, deadline, eta, queue
    from slurmsched.cli.models import accuracy
    from slurmsched.cli.study import comparison, whatif

    for module in (accuracy, advice, comparison, deadline, eta, queue, whatif):
        assert len(set(module.COLUMNS)) == len(module.COLUMNS), module.__name__


def test_every_command_with_a_table_takes_the_options():
    for words in (
        ["queue"],
        ["eta"],
        ["deadline"],
        ["history", "stats"],
        ["config", "show"],
        ["simulate"],
        ["what-if"],
    ):
        assert "--columns" in CliRunner().invoke(main, [*words, "--help"]).output, words

from __future__ import annotations

import json
import math
import os
import pty
import subprocess
import sys

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cli import output
from slurmsched.cli.output import TextTable, emit, plain
from slurmsched.cli.terminal_text import clean, clean_lines, width

HOSTILE = "a\x1b[31m\x9b2J\u202eevil\u2066\x07\r\n\t[bold]x[/bold]\udcff"


def printed(capsys, *parts: str | TextTable, as_json: bool = False, **facts: object) -> str:
    emit(facts, *parts, as_json=as_json)
    return capsys.readouterr().out


@given(st.text(st.characters()))
def test_nothing_a_terminal_would_obey_survives_cleaning(text):
    assert clean(text).isprintable()


@given(st.text(st.characters(categories=["Lu", "Ll", "Nd", "Po", "Lo"])))
def test_ordinary_text_is_left_as_it_is(text):
    assert clean(text) == text


def test_only_line_ends_survive_in_messages():
    assert clean_lines("a\tb\nc\x1b") == "a\\tb\nc\\x1b"


def test_wide_characters_count_twice_and_combining_ones_not_at_all():
    assert [width("ab"), width("計算"), width("e\u0301")] == [2, 4, 1]


def test_a_piped_table_is_aligned_text_without_tabs_borders_or_colours():
    sheet = TextTable(("JOB", "USER", "WAIT"), [(7, "alice", 1.5), (123, "計算", math.nan), (8, "", None)])
    assert plain(sheet) == "JOB  USER   WAIT\n  7  alice   1.5\n123  計算      -\n  8  -         -"


def test_a_table_without_rows_is_its_heading():
    assert plain(TextTable(("JOB", "USER"), [])) == "JOB  USER"


def test_text_of_users_is_escaped_in_tables_and_sentences(capsys):
    out = printed(capsys, HOSTILE, TextTable(("NAME",), [(HOSTILE,)]))
    assert len(out.splitlines()) == 3
    assert all(line.isprintable() for line in out.splitlines())
    assert "[bold]x[/bold]" in out


def test_json_is_ascii_has_the_schema_and_no_numbers_that_are_none(capsys):
    out = printed(capsys, as_json=True, name=HOSTILE, waited_s=math.inf, rows=[{"x": math.nan}], pair=(1, 2))
    assert out.isascii()
    assert "\x1b" not in out
    read = json.loads(out)
    assert read == {"schema": "slurmsched/1", "name": HOSTILE, "waited_s": None, "rows": [{"x": None}], "pair": [1, 2]}


def on_a_terminal(code: str, **environ: str) -> str:
    """What *code* prints on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        variables = {"PATH": os.environ["PATH"], "TERM": "xterm", "COLUMNS": "80"} | environ
        subprocess.run([sys.executable, "-c", code], stdout=theirs, env=variables, check=True, timeout=300)
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
    return b"".join(chunks).decode()


SHOW = f"from {output.__name__} import *; emit({{}}, TextTable(('NAME', 'N'), [({HOSTILE!r}, 1)]), as_json=False)"


def test_a_terminal_gets_a_table_with_a_ruled_heading_and_markup_left_alone():
    shown = on_a_terminal(SHOW)
    assert "─" in shown
    assert "[bold]x[/bold]" in shown
    assert "\x1b[31m" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown


def test_no_color_is_obeyed_on_a_terminal():
    codes = on_a_terminal(SHOW, NO_COLOR="1").replace("\x1b[0m", "").replace("\x1b[1m", "")
    assert "\x1b[3" not in codes
    assert "\x1b[9" not in codes


def test_a_dumb_terminal_gets_plain_text():
    assert "─" not in on_a_terminal(SHOW, TERM="dumb")


def test_a_c_locale_prints_every_name():
    code = "import sys; from slurmsched.cli import main; main(['config', 'show'], prog_name='slurmsched')"
    environ = {"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_runner_output_is_plain(tmp_path):
    from slurmsched.cli import main

    assert "─" not in CliRunner().invoke(main, ["config", "show"]).output

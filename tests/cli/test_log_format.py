"""The daemon's log as lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import logging
from slurmsched.cli.logs import log_to_stderr
log_to_stderr("info", {environ!r}, "json")
logging.getLogger("a.b").warning("two\\nlines \\x1b[31m %s", "é")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("a.b").exception("a bug")
"""


@pytest.mark.parametrize(("environ", "marks"), [({}, ["", ""]), ({"JOURNAL_STREAM": "8:1"}, ["<4>", "<3>"])])
def test_each_message_is_one_line_of_json_with_the_same_keys(environ, marks):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(environ=environ)], capture_output=True, text=True, check=True
    )
    lines = done.stderr.splitlines()
    assert [line[: len(mark)] for line, mark in zip(lines, marks, strict=True)] == marks
    warning, bug = (json.loads(line[len(mark) :]) for line, mark in zip(lines, marks, strict=True))
    assert list(warning) == ["time", "level", "logger", "message"]
    assert (warning["level"], warning["logger"], warning["message"]) == ("warning", "a.b", "two\nlines \x1b[31m é")
    assert list(bug) == ["time", "level", "logger", "message", "traceback"]
    assert "ZeroDivisionError" in bug["traceback"]
    assert "\x1b" not in done.stderr

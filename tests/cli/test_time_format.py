from __future__ import annotations

import math
import time

import pytest

from slurmsched.cli.time_format import as_of, moment, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (12.4, "12 s"), (59.7, "1m00s"), (200, "3m20s"), (18200, "5h03m20s"), (191000, "2d05h03m20s"),
        (math.inf, "unlimited"), (math.nan, "-"), (None, "-"), (-90, "-1m30s"),
    ],
)  # fmt: skip
def test_a_span_is_never_taken_for_a_time_of_day(seconds, text):
    assert span(seconds) == text


def test_an_answer_says_how_old_it_is(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert as_of(1_700_000_000.0, 812, 1_700_000_012.0) == "as of 22:13:20, cycle 812, 12 s ago"
    assert as_of(1_700_000_000.0, 812, 1_700_090_000.0) == "as of 2023-11-14 22:13:20, cycle 812, 1d01h00m00s ago"
    assert moment(None) == "-"

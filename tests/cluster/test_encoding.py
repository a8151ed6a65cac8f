"""Tables to bytes and back, and the columns that make them."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.encoding import decode, encode
from slurmsched.cluster.forecast import Forecast, no_forecast
from slurmsched.cluster.jobs import JobTable, job_table

# Lone surrogates are what Python makes of bytes that are no UTF-8.
TEXT = st.text(st.characters(exclude_categories=[]), max_size=12)


@st.composite
def forecasts(draw):
    length = draw(st.integers(0, 12))
    columns = [draw(arrays(np.float64, length)) for _ in range(3)]
    return Forecast(*columns, Labels.of(draw(st.lists(TEXT, min_size=length, max_size=length))))


@st.composite
def job_tables(draw):
    length = draw(st.integers(0, 8))
    integers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=length, max_size=length)
    columns = {
        "job_id": draw(integers),
        "priority": draw(integers),
        "submitted_s": draw(st.lists(st.floats(), min_size=length, max_size=length)),
        "name": draw(st.lists(TEXT, min_size=length, max_size=length)),
        "comment": draw(st.lists(TEXT, min_size=length, max_size=length)),
        "ckpt": draw(st.lists(st.booleans(), min_size=length, max_size=length)),
        "deadline_s": draw(st.lists(st.floats(), min_size=length, max_size=length)),
    }
    return job_table(length, **columns)


@given(forecasts())
def test_a_forecast_comes_back_bit_for_bit(forecast):
    back = decode(Forecast, encode(forecast))
    assert back.equals(forecast)
    for name in ("runtime_s", "low_s", "high_s"):
        assert getattr(back, name).tobytes() == getattr(forecast, name).tobytes()


@given(job_tables())
def test_jobs_come_back_bit_for_bit_and_encode_to_the_same_bytes(jobs):
    blob = encode(jobs)
    back = decode(JobTable, blob)
    assert back.equals(jobs)
    assert encode(back) == blob


@given(job_tables())
def test_a_record_from_before_deadlines_has_none(jobs):
    head, _, rest = zlib.decompress(encode(jobs)).partition(b"\n")
    header = json.loads(head)
    at = [entry["name"] for entry in header].index("deadline_s")
    begin = sum(entry["bytes"] for entry in header[:at])
    older = rest[:begin] + rest[begin + header.pop(at)["bytes"] :]
    back = decode(JobTable, zlib.compress(json.dumps(header).encode() + b"\n" + older))
    assert back.equals(replace(jobs, deadline_s=np.full(len(jobs), np.inf)))


def test_forecasts_of_a_release_that_knew_no_floors_have_none():
    header, rest = zlib.decompress(encode(no_forecast(2))).split(b"\n", 1)
    columns = [entry for entry in json.loads(header) if entry["name"] != "floor_s"]
    older = rest[: sum(entry["bytes"] for entry in columns)]
    back = decode(Forecast, zlib.compress(json.dumps(columns).encode() + b"\n" + older))
    assert back.floor_s.tolist() == [0.0, 0.0]


@given(job_tables(), st.data())
def test_some_rows_encode_without_the_texts_of_the_others(jobs, data):
    rows = np.array(data.draw(st.lists(st.integers(0, max(0, len(jobs) - 1)), max_size=len(jobs))), dtype=np.int64)
    some = jobs.take(rows)
    back = decode(JobTable, encode(some))
    assert back.equals(some)
    assert set(back.name.names) == set(some.name)


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused(blob):
    for body in (blob, zlib.compress(blob)):
        with pytest.raises(ValueError, match=r"."):
            decode(JobTable, body)


def test_a_table_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="these bytes hold no JobTable"):
        decode(JobTable, encode(no_forecast(2)))


def test_a_truncated_table_is_refused():
    whole = zlib.decompress(encode(job_table(3)))
    with pytest.raises(ValueError, match=r"."):
        decode(JobTable, zlib.compress(whole[:-16]))


@given(st.lists(TEXT))
def test_labels_hold_each_text_once_in_order_of_appearance(texts):
    column = Labels.of(texts)
    assert list(column) == texts
    assert column.names == tuple(dict.fromkeys(texts))


def test_a_table_with_one_changed_column_shares_the_others_and_leaves_the_first_as_it_was():
    first = job_table(3)
    second = first.changed(ran_s=np.array([1.0, 2.0, 3.0]))
    assert second.equals(replace(first, ran_s=np.array([1.0, 2.0, 3.0])))
    assert (first.ran_s.tolist(), second.gpus is first.gpus) == ([0, 0, 0], True)
    assert not second.ran_s.flags.writeable
    for name, count in (("ran_s", 2), ("ran", 3)):
        with pytest.raises(ValueError, match=f"JobTable has no column {name} of {count} rows"):
            first.changed(**{name: np.zeros(count)})


def test_ragged_columns_are_refused():
    with pytest.raises(ValueError, match="ragged Forecast"):
        Forecast(np.zeros(1), np.zeros(2), np.zeros(1), Labels.of(["x"]))


def test_columns_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        no_forecast(2).runtime_s[0] = 1.0

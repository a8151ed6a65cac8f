"""Tables as what differs from earlier ones: every bit comes back, whatever the two have in common."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.jobs import JobTable, job_table
from slurmsched.cluster.plan import Placing
from slurmsched.cluster.row_matching import Matching
from slurmsched.cluster.table_delta import changed, changes, normal

TIMES = st.sampled_from([0.0, -0.0, 1.5, 1e9, 1e9 + 15.0, 5e-324, math.inf, -math.inf, math.nan])
NAMES = st.sampled_from(["", "a", "train_1", "\udcff", "x" * 300, "\x00"])


@st.composite
def tables(draw, most=12):
    ids = draw(st.lists(st.integers(1, 20), max_size=most))
    count = len(ids)

    def column(values):
        return draw(st.lists(values, min_size=count, max_size=count))

    return job_table(
        count,
        job_id=ids,
        name=column(NAMES),
        user=column(NAMES),
        started_s=column(TIMES),
        submitted_s=column(st.floats()),
        priority=column(st.integers(-(2**63), 2**63 - 1)),
        age_points=column(st.integers(0, 3)),
        gpu_util=column(st.floats()),
        off=column(st.booleans()),
    )


def bits(table):
    """All of a table, texts and their numbers too, as it lies in memory."""
    found = {}
    for name in table.__dataclass_fields__:
        column = getattr(table, name)
        found[name] = (column.names, column.codes.tobytes()) if isinstance(column, Labels) else column.tobytes()
    return found


def there_and_back(table, before):
    table, before = normal(table), normal(before)
    matching = Matching.of(table.job_id, before.job_id)
    return bits(changed(type(table), changes(table, before, matching), before)) == bits(table)


@given(tables(), tables())
def test_any_table_comes_back_from_any_other(table, before):
    assert there_and_back(table, before)
    assert there_and_back(table, job_table(0))


@given(tables(), tables())
def test_texts_that_a_column_holds_twice_are_stored_once(table, before):
    """Two jobs that share GPUs have a text each for what they requested, often the same one."""
    twice = Labels(np.arange(len(table)), tuple(table.name))
    assert there_and_back(replace(table, name=twice), before)
    assert there_and_back(before, replace(table, name=twice))
    assert normal(replace(table, name=twice)).equals(table)


@given(tables(40), st.randoms(use_true_random=False))
def test_a_table_of_which_a_little_changed_comes_back(before, random):
    rows = sorted(random.sample(range(len(before)), len(before) - len(before) // 4))
    table = before.take(np.array(rows, dtype=np.int64)).joined(before.take(slice(0, 2)))
    assert there_and_back(table, before)


@given(st.lists(st.integers(-1, 30), max_size=30), st.lists(st.integers(-1, 30), max_size=30))
def test_any_ranks_come_back_from_any_other(ranks, before):
    now, then = (table_of(Placing, len(some), {}, {"rank": some}) for some in (ranks, before))
    matching = Matching.in_place(len(now), len(then))
    assert bits(changed(Placing, changes(now, then, matching), then)) == bits(now)


def queue(count=4900, seed=0):
    random = np.random.default_rng(seed)
    runtime_s = np.repeat(random.lognormal(8, 1, count // 10), 10)
    return Forecast(runtime_s, 0.3 * runtime_s, 3.0 * runtime_s, Labels.of(["median"] * count))


def test_forecasts_that_move_together_take_a_bit_each():
    before, count = queue(4900), 4900
    now = Forecast(1.0001 * before.runtime_s, 1.0002 * before.low_s, 0.9997 * before.high_s, before.source)
    blob = zlib.compress(changes(now, before, Matching.in_place(count, count)))
    assert bits(changed(Forecast, blob and zlib.decompress(blob), before)) == bits(now)
    assert len(blob) < 2 * count // 8


def test_where_rows_come_and_go_the_others_keep_their_order_for_nothing():
    random, rows = np.random.default_rng(1), 4900
    order = random.permutation(rows)
    before = table_of(Placing, rows, {}, {"rank": np.argsort(order)})
    stay = np.flatnonzero(random.random(rows) < 0.99)
    rank = np.argsort(np.argsort(before.rank[stay])) + 1
    now = table_of(Placing, len(stay) + 1, {}, {"rank": np.append(rank, 0)})
    blob = changes(now, before, Matching(np.append(stay, -1)))
    assert bits(changed(Placing, blob, before)) == bits(now)
    assert len(blob) < 1500


def test_bytes_of_something_else_are_refused():
    table = job_table(3, job_id=[1, 2, 3])
    blob = changes(normal(table), job_table(0), Matching.of(table.job_id, table.job_id[:0]))
    for bad in (b"", blob[:10], blob[:-1], b"\x00\x00\x00\x02[]"):
        with pytest.raises(ValueError, match=r"."):
            changed(JobTable, bad, job_table(0))


def test_a_table_with_other_columns_is_refused_with_their_names():
    table = job_table(2, job_id=[1, 2])
    blob = changes(normal(table), normal(job_table(0)), Matching(np.array([-1, -1])))
    for other in (b'"deadline_x",', b'"deadline_s","deadline_x",'):
        strange = blob.replace(b'"deadline_s",', other)
        strange = (int.from_bytes(blob[:4], "big") - len(blob) + len(strange)).to_bytes(4, "big") + strange[4:]
        with pytest.raises(ValueError, match=r"columns of another version: .*deadline_x"):
            changed(JobTable, strange, normal(job_table(0)))

"""Tables of columns."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slurmsched.cluster
from slurmsched.cluster.columns import Labels, Table, among, places_of, rows_with
from slurmsched.cluster.forecast import Forecast, no_forecast
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.nodes import AccountTable

# Lone surrogates are what Python makes of bytes that are no UTF-8.
TEXT = st.text(st.characters(exclude_categories=[]), max_size=12)


@given(st.lists(TEXT))
def test_labels_hold_each_text_once_in_order_of_appearance(texts):
    column = Labels.of(texts)
    assert list(column) == texts
    assert column.names == tuple(dict.fromkeys(texts))


@given(st.lists(st.integers(-3, 9)), st.lists(st.integers(-3, 9)))
def test_numbers_are_found_at_their_last_place_or_their_first(wanted, values):
    last = {value: place for place, value in enumerate(values)}
    ints = [np.array(numbers, dtype=np.int64) for numbers in (wanted, values)]
    assert places_of(*ints).tolist() == [last.get(number, -1) for number in wanted]
    first = [values.index(number) if number in values else -1 for number in wanted]
    assert places_of(*ints, first=True).tolist() == first
    assert among(*ints).tolist() == np.isin(*ints).tolist()
    assert rows_with(ints[1], wanted) == [row for row, value in enumerate(values) if value in wanted]


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


def accounts(rows):
    return AccountTable(Labels.of([name for name, _ in rows]), np.array([gpus for _, gpus in rows], dtype=np.int64))


def rows_of(table):
    return list(zip(table.name, table.gpus.tolist(), strict=True))


@given(st.data())
def test_rows_of_rows_are_the_same_in_whatever_order_their_columns_are_asked_for(data):
    wanted = [(f"account{at % 3}", at) for at in range(data.draw(st.integers(0, 9)))]
    table = accounts(wanted)
    for _ in range(data.draw(st.integers(0, 12))):
        match data.draw(
            st.sampled_from(["rows", "mask", "slice", "changed", "joined", "followed", "asked", "pickled"])
        ):
            case "rows":
                rows = data.draw(st.lists(st.integers(-len(wanted), len(wanted) - 1), max_size=9)) if wanted else []
                given_rows = np.array(rows, dtype=np.int64)
                table, wanted = table.take(given_rows), [wanted[row] for row in rows]
                given_rows[:] = 0  # the caller may use it for something else
            case "mask":
                mask = [data.draw(st.booleans()) for _ in wanted]
                kept = [row for row, keep in zip(wanted, mask, strict=True) if keep]
                as_array = not mask or data.draw(st.booleans())
                table, wanted = table.take(np.array(mask, dtype=np.bool_) if as_array else mask), kept
            case "slice":
                part = slice(*data.draw(st.tuples(*[st.none() | st.integers(-3, 9)] * 2)))
                table, wanted = table.take(part), wanted[part]
            case "changed":
                wanted = [(name, gpus + 100) for name, gpus in wanted]
                table = table.changed(gpus=table.gpus + 100)
            case "joined":
                table, wanted = table.joined(accounts([("x", 7)])), [*wanted, ("x", 7)]
            case "followed":
                table, wanted = table.followed_by(accounts([("y", 8)])), [*wanted, ("y", 8)]
            case "asked":
                assert list(table.name) == [name for name, _ in wanted]
            case "pickled":
                table = pickle.loads(pickle.dumps(table))
        assert len(table) == len(wanted)
    assert rows_of(table) == wanted
    assert not table.take(slice(None)).gpus.flags.writeable


def test_a_table_of_rows_has_no_other_columns():
    with pytest.raises(AttributeError, match="'AccountTable' object has no attribute 'nodes'"):
        accounts([("a", 1)]).take(slice(0, 1)).nodes  # noqa: B018


def kinds_of_tables(kind=Table):
    for known in kind.__subclasses__():
        yield known
        yield from kinds_of_tables(known)


def test_no_kind_of_table_has_a_column_as_an_attribute_of_its_class():
    for module in pkgutil.walk_packages(slurmsched.cluster.__path__, "slurmsched.cluster."):
        importlib.import_module(module.name)
    kinds = list(kinds_of_tables())
    assert len(kinds) > 20
    # It would be found in place of the column of a table of rows, which is made when somebody asks for it.
    assert {kind.__name__: [f.name for f in fields(kind) if hasattr(kind, f.name)] for kind in kinds} == {
        kind.__name__: [] for kind in kinds
    }

"""Tables of columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast, no_forecast
from slurmsched.cluster.jobs import job_table

# Lone surrogates are what Python makes of bytes that are no UTF-8.
TEXT = st.text(st.characters(exclude_categories=[]), max_size=12)


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

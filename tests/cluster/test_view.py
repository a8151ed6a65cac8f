"""A view with other parts keeps what was computed of the parts that stay, and nothing else."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cached_property

import numpy as np
import pytest
from decide.processor_cycles import lively_view

from slurmsched.cluster.state import COMPUTED_OF, View

COMPUTED = {name for name, value in vars(View).items() if isinstance(value, cached_property)}


def test_each_computed_property_says_of_what_parts():
    assert set(COMPUTED_OF) == COMPUTED


@pytest.mark.parametrize("part", sorted(View.__dataclass_fields__))
def test_after_a_change_of_one_part_every_property_is_as_if_computed_anew(part):
    one, other = (lively_view(np.random.default_rng(number)) for number in (1, 2))
    view = one if part in ("running", "forecast_running") else other  # rows of these belong together
    before = View(**{name: getattr(view, name) for name in View.__dataclass_fields__})
    for name in COMPUTED:
        getattr(before, name)
    value = getattr(one, part)
    after = before.changed(**{part: value})
    kept = COMPUTED & set(vars(after))
    assert kept == {name for name, of in COMPUTED_OF.items() if part not in of}
    fresh = View(**{name: getattr(after, name) for name in View.__dataclass_fields__})
    for name in kept:
        np.testing.assert_equal(vars_of(getattr(after, name)), vars_of(getattr(fresh, name)))


def vars_of(value):
    """The arrays in the fields of an object of ours; a tuple or an array itself."""
    if not is_dataclass(value):
        return value
    of = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: each for name, each in of.items() if isinstance(each, np.ndarray)}

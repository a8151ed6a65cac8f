"""Training gives the same forecasts on processors with other vector units and numbers of threads."""

from __future__ import annotations

from models.trained_forecasts import forecasts
from processors import printed_elsewhere


def test_models_that_are_trained_without_vector_units_give_the_same_forecasts():
    here, there = forecasts(), printed_elsewhere("models.trained_forecasts")
    assert list(there) == list(here)
    assert [name for name in here if here[name] != there[name]] == []

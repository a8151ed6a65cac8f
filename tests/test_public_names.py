"""The names that plug-ins import: they stand in one place, and one that goes or comes is noticed here."""

from __future__ import annotations

import subprocess
import sys

import pytest

import slurmsched
from slurmsched.policies import contract, placement

NAMES = {
    *("AskToStop", "Hold", "JobTable", "Steer", "View", "__version__", "find_ordering"),
    *("admission", "ordering", "placement", "power", "preemption", "scaling", "selection", "sharing", "stopping"),
}


def test_the_public_names_are_these():
    assert set(slurmsched.__all__) == NAMES


def test_each_is_there_and_the_same_as_where_it_is_made():
    for name in NAMES - {"__version__"}:
        assert getattr(slurmsched, name).__module__.startswith("slurmsched.")
    assert (slurmsched.ordering, slurmsched.power) == (contract.ordering, contract.power)
    assert slurmsched.placement is placement.placement


def test_another_name_is_refused_in_the_words_of_python():
    with pytest.raises(AttributeError, match="module 'slurmsched' has no attribute 'orderings'"):
        slurmsched.orderings  # noqa: B018 - the question is whether it is there


def test_the_package_itself_loads_nothing_heavy():
    look = "import sys, slurmsched; print(sorted({'numpy', 'numba'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout == "[]\n"

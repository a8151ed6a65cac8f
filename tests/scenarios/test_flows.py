"""The modelled slurmctld beside a real one: whole flows of jobs, by the daemon's own cycle on both."""

from __future__ import annotations

import os
import statistics

import pytest
from bench.flows import FLOWS, RUNS, compare
from bench.front_burst import moves

from slurmsched.errors import LabError
from slurmsched.lab import LabSpec, programs

pytestmark = [pytest.mark.lab, pytest.mark.soak]

OFF = 10.0
"""Per cent; the mean JCT of two runs on the lab differs by as much, since a job that starts a second later may find its
GPUs taken."""


ALONG = 15.0
"""Per cent by which the mean JCT may change otherwise than a front says, and points for the mean error."""


@pytest.fixture(autouse=True)
def labs():
    if os.geteuid() != 0:
        pytest.skip("users of a lab need root")
    try:
        programs.check(LabSpec())
    except LabError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", FLOWS)
def test_the_modelled_slurm_takes_as_long_as_the_lab(name):
    off = [compare(FLOWS[name](), False) for _ in range(RUNS)]
    assert abs(statistics.mean(off)) <= OFF, off


def test_a_burst_moves_along_the_front_as_far_as_said():
    jct, error = moves()
    assert jct.real < 0.9, "the settings are far apart"
    assert abs(jct.real / jct.model - 1.0) <= ALONG / 100.0
    assert error.real > 0.0
    assert abs(error.real - error.model) <= ALONG

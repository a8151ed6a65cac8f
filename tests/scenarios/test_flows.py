"""The modelled slurmctld beside a real one: whole flows of jobs, by the daemon's own cycle on both."""

from __future__ import annotations

import os
import statistics

import pytest
from bench.flows import FLOWS, RUNS, compare

from slurmsched.errors import LabError
from slurmsched.lab import LabSpec, programs

pytestmark = [pytest.mark.lab, pytest.mark.soak]

OFF = 10.0
"""Per cent; the mean JCT of two runs on the lab differs by as much, since a job that starts a second later may find its
GPUs taken."""


@pytest.mark.parametrize("name", FLOWS)
def test_the_modelled_slurm_takes_as_long_as_the_lab(name):
    if os.geteuid() != 0:
        pytest.skip("users of a lab need root")
    try:
        programs.check(LabSpec())
    except LabError as error:
        pytest.skip(str(error))
    off = [compare(FLOWS[name](), False) for _ in range(RUNS)]
    assert abs(statistics.mean(off)) <= OFF, off

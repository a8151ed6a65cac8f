"""Sessions of Open OnDemand are batch jobs to Slurm; their names say that somebody waits for them."""

from __future__ import annotations

import pytest

from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.portal_sessions import with_sessions
from slurmsched.config import Settings

NAMES = {
    "sys/dashboard/sys/jupyter": True,
    "ondemand/sys/dashboard/sys/bc_desktop": True,
    "hpc-portal/sys/dashboard/dev/rstudio": True,
    "ondemand/sys/myjobs/basic": False,
    "train": False,
    "dashboard": False,
    "": False,
}


@pytest.mark.parametrize("batch", [True, False])
def test_a_job_is_interactive_by_its_name_or_because_it_has_no_script(batch):
    jobs = job_table(len(NAMES), name=list(NAMES), interactive=[not batch] * len(NAMES))
    seen = with_sessions(jobs, Settings().policy.interactive_names)
    assert seen.interactive.tolist() == [named or not batch for named in NAMES.values()]


def test_without_patterns_nothing_changes():
    jobs = job_table(len(NAMES), name=list(NAMES))
    assert with_sessions(jobs, ()) is jobs

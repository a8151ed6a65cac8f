"""A site without multifactor: only a fixed Priority counts there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurmsched.cluster.actions import Rank
from slurmsched.cluster.forecast import no_forecast
from slurmsched.cluster.state import View
from slurmsched.decide.rules import Rules
from slurmsched.lab import Lab, LabSpec, wait_until
from slurmsched.policies.contract import Ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner
from slurmsched.slurm.write.release import release_all

LAST_FIRST = Ordering("last-first", lambda view: -view.pending.job_id.astype(np.float64), "The youngest job first.")
ORDER = Rules(powers=frozenset({"order"}), scope="queue")


@pytest.fixture
def basic(lab_directory: Path):
    with Lab(lab_directory, LabSpec(accounting=False, extra_conf=("PriorityType=priority/basic",))) as lab:
        yield lab


def view_of(cluster: SlurmCommand) -> View:
    state = cluster.observe()
    forecasts = no_forecast(len(state.pending)), no_forecast(len(state.running))
    return View(0.0, state.pending, state.running, state.nodes, state.partitions, state.qos, *forecasts)


def in_slurms_order(view: View) -> list[int]:
    return view.pending.job_id[np.lexsort((view.pending.job_id, -view.pending.priority))].tolist()


def test_under_priority_basic_the_order_is_fixed_priorities_and_giving_back_ends_them(basic):
    cluster = SlurmCommand(CommandRunner(environment=basic.env()))
    assert not cluster.facts().multifactor
    for _ in range(4):
        basic.submit("--gres=gpu:4", "--output=/dev/null", "--wrap=sleep 300")
    jobs = [basic.submit("--gres=gpu:4", "--output=/dev/null", "--wrap=sleep 300") for _ in range(5)]
    wait_until(lambda: len(cluster.observe().running) == 4, 120.0, "four running jobs")
    view = view_of(cluster)
    assert in_slurms_order(view) == jobs
    assert (view.pending.site_points == 0).all()

    plan = decide(view, LAST_FIRST, ORDER)
    assert not [answer.refused for answer in cluster.act(plan.actions) if answer.refused]
    view = view_of(cluster)
    assert in_slurms_order(view) == jobs[::-1]
    assert decide(view, LAST_FIRST, ORDER).actions == (), "an order that stands is not written again"

    report = release_all(cluster, (), (), now_s=0.0)
    assert (report.refused, report.left) == ((), 0)
    view = view_of(cluster)
    assert (view.pending.site_points == 0).all()
    assert in_slurms_order(view) == jobs
    assert cluster.act([Rank(jobs[0], 0)])[0].refused is None, "giving back what was never taken does no harm"

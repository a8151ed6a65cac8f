"""The rigid forms of AFS and Themis. What every ordering promises is tested elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from decide.views import NOW_S, jobs, nodes, running_jobs, view
from simulator.worlds import simulate

from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.workload import workload

themis = find_ordering("themis")


def test_afs_starts_what_gains_most_speed_per_gpu():
    seen = view(jobs(3, gpus=[1, 2, 4], ran_s=[0.0, 900.0, 0.0]), [300.0, 1000.0, 100.0])
    assert np.argsort(find_ordering("afs-l")(seen)).tolist() == [1, 0, 2]


def test_a_job_alone_is_behind_by_what_it_waited():
    seen = view(jobs(1, first_submit_s=[NOW_S - 60]), [60.0])
    assert themis(seen).tolist() == [-2.0]


def test_who_is_farther_behind_for_its_length_is_first():
    seen = view(jobs(3, first_submit_s=NOW_S - np.array([100.0, 100.0, 4000.0])), [50.0, 5000.0, 5000.0])
    assert np.argsort(themis(seen)).tolist() == [0, 2, 1]


def test_a_job_wider_than_its_equal_share_may_take_longer():
    """Eight GPUs and four jobs: two each; a job on eight is on its fair share after four times its runtime."""
    seen = view(jobs(2, gpus=[2, 8], first_submit_s=[NOW_S, NOW_S]), [100.0, 100.0], running=running_jobs(2))
    assert themis(seen).tolist() == pytest.approx([-1.0, -0.25])


def test_time_it_ran_is_no_time_it_needs():
    seen = view(jobs(1, first_submit_s=[NOW_S - 50], ran_s=[50.0]), [100.0], room=nodes((1,)))
    assert themis(seen).tolist() == [-1.0]


def test_in_a_simulation_fair_shares_are_of_the_gpus_there_are():
    """The wide job is on its share for long, so the narrow one that came later goes first as soon as it is behind."""
    runs = workload(3, job_id=[1, 2, 3], submit_s=[0.0, 1.0, 1.0], runtime_s=[100.0, 100.0, 100.0], gpus=[4, 4, 1])
    replay = simulate(runs, ClusterSpec.of(1, 4), Setup.of("themis", "backfill"))
    assert replay.start_s.tolist() == [0.0, 200.0, 100.0]

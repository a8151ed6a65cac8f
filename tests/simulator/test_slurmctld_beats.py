"""When the loops of the modelled slurmctld run: the main loop each full second, backfill on seconds of its own."""

from __future__ import annotations

import numpy as np
import pytest
from simulator.worlds import modelled_slurm

from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.slurmctld.multifactor import Weights
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig
from slurmsched.simulator.workload.workload import workload

PLAIN = Weights(age=0.0, fair_share=0.0, size=0.0, qos=0.0)
LAB = SlurmctldConfig(batch_sched_delay_s=0.0, bf_interval_s=2.0, bf_resolution_s=1.0)


def starts(*rows: tuple[float, float, int], rules: SlurmctldConfig = LAB, launch_s: float = 0.05) -> list[float]:
    """Starts on one node of 4 GPUs of jobs as (submit, runtime, GPUs), which ask for a minute each."""
    jobs = workload(
        len(rows),
        job_id=np.arange(1, len(rows) + 1),
        submit_s=[row[0] for row in rows],
        runtime_s=[row[1] for row in rows],
        gpus=[row[2] for row in rows],
        time_limit_s=np.full(len(rows), 60.0),
    )
    cluster = modelled_slurm(jobs, ClusterSpec.of(1, 4), SlurmConf(rules, PLAIN).with_overheads(launch_s, 0.01))
    cluster.advance(np.inf)
    return [float(start_s) for start_s in cluster.model.stage.life.first_s]


def test_a_job_that_ends_just_after_the_main_loop_ran_is_followed_by_the_backfill_loop():
    assert starts((0, 10, 4), (0, 10, 4)) == [0, 10.5]


def test_a_job_that_ends_just_after_the_backfill_loop_ran_is_followed_by_the_main_loop():
    assert starts((0, 9.5, 4), (0, 10, 4)) == [0, 10]


def test_between_two_passes_the_backfill_loop_sleeps_for_its_interval():
    # It runs at 0.5 and, as the first job ends at 1.05, could at 1.5; the main loop is there first.
    assert starts((0, 1, 4), (0, 10, 4)) == [0, 2]


@pytest.mark.parametrize("interval_s", [2.0, 30.0])
def test_a_loop_that_found_nothing_to_do_looks_again_each_second(interval_s):
    rules = LAB._replace(bf_interval_s=interval_s, batch_sched_delay_s=1000.0)
    assert starts((0, 100, 4), (0, 10, 4), rules=rules) == [0, 100.5]


def test_a_batch_job_waits_for_a_loop_even_where_nothing_stands_before_it():
    assert starts((5.3, 10, 4)) == [5.5]
    assert starts((5.7, 10, 4)) == [6.0]

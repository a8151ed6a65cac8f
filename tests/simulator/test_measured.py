"""Figures of some of the jobs of a trace, while the others run beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulator.test_direct import jobs_of

from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of
from slurmsched.simulator.report.metrics import summary
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.sweep import Cell, sweep
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.traces.trace import TraceError

JOBS = jobs_of((0, 100, 2), (10, 20, 2), (20, 10, 2), (30, 500, 2), (40, 5, 2))
ONE_NODE = ClusterSpec.of(1, 2)
ONE_OF_ITS_KIND = replace(ONE_NODE, nodes=nodes_of(1, 2, cpus=np.array([500])))
TRACE = "submit_s,runtime_s,gpus\n0,100,2\n10,20,2\n20,10,9\n30,50,2\n40,500,2\n"


@pytest.fixture
def case(tmp_path) -> Case:
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return Case(Source.of(str(path), 2), left_out=(2,))


def test_only_measured_jobs_count_and_the_others_run_on():
    replay = simulate(JOBS, ONE_NODE, Setup.of("fifo"))
    figures = summary(replace(replay, measured=slice(1, 3)))
    assert figures.jobs == 2
    assert figures.jct_s.mean == pytest.approx((110 + 110) / 2)
    assert figures.response_s.mean == pytest.approx((90 + 100) / 2)
    assert figures.makespan_s == summary(replay).makespan_s, "the cluster's figures are those of all jobs"


def test_measured_jobs_are_counted_by_submission_before_jobs_that_do_not_fit_leave(case):
    assert replace(case, measure="1:4").measured() == slice(1, 3)
    (_, run), *_ = sweep([Cell(replace(case, measure="3:4"), Setup.of("fifo"))], ONE_NODE)
    assert (run.summary.jobs, run.summary.jct_s.mean) == (1, 140)
    with pytest.raises(TraceError, match="no job of 2:3 could ever run on this cluster"):
        replace(case, measure="2:3").measured()
    with pytest.raises(TraceError, match="the trace has no such jobs, only 0:5"):
        replace(case, measure="9:").measured()


@pytest.mark.parametrize("selection", ["strict", "backfill", "preemptive", "conservative", "leases"])
@pytest.mark.parametrize("fleet", [ONE_NODE, ONE_OF_ITS_KIND], ids=["pool", "machine"])
def test_a_replay_ends_with_the_awaited_jobs_and_is_the_same_until_then(selection, fleet):
    jobs = replace(JOBS, time_limit_s=JOBS.runtime_s, ckpt=np.ones(len(JOBS), dtype=bool))
    setup = Setup.of("srtf", selection)
    whole, stopped = simulate(jobs, fleet, setup), simulate(jobs, fleet, setup, awaited=slice(1, 3))
    last_s = whole.end_s[1:3].max()
    happened = whole.end_s <= last_s
    assert stopped.end_s[happened].tolist() == whole.end_s[happened].tolist()
    assert np.isnan(stopped.end_s[~happened]).all()
    assert not np.isfinite(stopped.end_s[3])
    figures = summary(replace(stopped, measured=slice(1, 3)))
    assert figures.jct_s == summary(replace(whole, measured=slice(1, 3))).jct_s
    assert figures.makespan_s == last_s
    assert np.isnan(figures.utilisation)


def test_so_it_does_beside_a_modelled_slurmctld():
    jobs = replace(JOBS, time_limit_s=JOBS.runtime_s + 60)
    for setup in (Setup.of("slurm"), Setup.of("sjf", executor="slurm")):
        whole, stopped = (simulate(jobs, ONE_NODE, setup, awaited=rows) for rows in (slice(None), slice(0, 3)))
        assert stopped.end_s[:3].tolist() == whole.end_s[:3].tolist()
        assert np.isnan(stopped.end_s[3])

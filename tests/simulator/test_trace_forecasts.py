"""Forecasts learnt from a trace: what the model would have said, and never more than it could have known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.simulator.trace_forecasts import learnt
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.synthetic_users import SyntheticUsers
from slurmsched.simulator.workload.workload import Workload, workload

NUMBERS = ("runtime_s", "low_s", "high_s")


def outcomes(jobs: Workload) -> OutcomeTable:
    """The jobs as runs that started when they were submitted."""
    told = {name: getattr(jobs, name) for name in ("job_id", "name", "user", "gpus", "time_limit_s", "runtime_s")}
    times = {"first_submit_s": jobs.submit_s, "started_s": jobs.submit_s, "ended_s": jobs.submit_s + jobs.runtime_s}
    return table_of(OutcomeTable, len(jobs), {"state": JobState.COMPLETED}, told | times)


def ahead(model: RuntimeModel, jobs: Workload):
    told = {name: getattr(jobs, name) for name in ("job_id", "name", "user", "gpus", "time_limit_s")}
    return model.forecast(job_table(len(jobs), **told))


def test_each_job_is_told_what_the_model_of_its_hour_says():
    everything = synthetic(SyntheticSpec(jobs=600, cluster_gpus=8, seed=5, habits=SyntheticUsers(users=12)))
    history, jobs = everything.take(slice(0, 200)), everything.take(slice(200, 600))
    every_s = 3600.0
    told = learnt(jobs, history, every_s)
    steps = np.floor((jobs.submit_s - jobs.submit_s[0]) / every_s)
    runs = outcomes(everything)
    assert len(np.unique(steps)) > 50
    for step in np.unique(steps):
        rows = np.flatnonzero(steps == step)
        said = ahead(RuntimeModel.fit(runs, until_s=jobs.submit_s[0] + step * every_s), jobs.take(rows))
        for name in NUMBERS:
            assert getattr(told, name)[rows] == pytest.approx(getattr(said, name), rel=1e-9)
        assert list(told.source.take(rows)) == list(said.source)


JOB = st.tuples(
    st.integers(0, 5000),
    st.integers(1, 20_000),
    st.sampled_from([1, 2, 8]),
    st.sampled_from("ab"),
    st.sampled_from("xy"),
)


@st.composite
def one_runtime_changed(draw: st.DrawFn) -> tuple[Workload, Workload, int]:
    rows = draw(st.lists(JOB, min_size=2, max_size=60))
    gap_s, runtime_s, gpus, user, name = (list(column) for column in zip(*rows, strict=True))
    jobs = workload(
        len(rows),
        job_id=np.arange(len(rows)),
        submit_s=np.cumsum(gap_s),
        runtime_s=runtime_s,
        gpus=gpus,
        user=Labels.of(user),
        name=Labels.of(name),
    )
    row = draw(st.integers(0, len(rows) - 1))
    other_s = jobs.runtime_s.copy()
    other_s[row] = draw(st.integers(1, 200_000))
    return jobs, replace(jobs, runtime_s=other_s), row


@given(one_runtime_changed(), st.integers(0, 60), st.sampled_from([60.0, 3600.0]))
def test_nobody_knows_a_runtime_before_the_job_has_ended(changed, before, every_s):
    jobs, other, row = changed
    end_s = min(jobs.submit_s[row] + jobs.runtime_s[row], jobs.submit_s[row] + other.runtime_s[row])
    split = min(before, len(jobs) - 1)
    early = jobs.submit_s[split:] <= end_s
    told, otherwise = (
        learnt(those.take(slice(split, None)), those.take(slice(0, split)), every_s) for those in (jobs, other)
    )
    for name in NUMBERS:
        # Sums over more runs are rounded otherwise.
        assert getattr(told, name)[early] == pytest.approx(getattr(otherwise, name)[early], rel=1e-9)


def two(runtimes_s: tuple[float, float], submits_s: tuple[float, float]) -> Workload:
    return workload(
        2, job_id=[1, 2], submit_s=submits_s, runtime_s=runtimes_s, gpus=[1, 1],
        user=Labels.of("aa"), name=Labels.of("xx"), time_limit_s=[9000.0, 9000.0],
    )  # fmt: skip


def test_a_run_is_known_at_the_first_step_after_its_end():
    told = learnt(two((100.0, 100.0), (0.0, 7300.0)))
    assert list(told.source) == ["no history: the time limit", "median of 1 run of a/x"]
    told = learnt(two((7250.0, 100.0), (0.0, 7300.0)))  # the step at 7200 s came before that
    assert list(told.source) == ["no history: the time limit"] * 2


def test_history_is_known_from_its_end_too():
    jobs, history = two((100.0, 100.0), (0.0, 4000.0)), two((50.0, 3000.0), (-100.0, -100.0))
    told = learnt(jobs, history)
    assert list(told.source) == ["median of 1 run of a/x", "median of 3 runs of a/x"]


def test_no_jobs_have_no_forecasts():
    assert len(learnt(workload(0))) == 0


def test_a_step_without_length_is_refused():
    with pytest.raises(ValueError, match="accepted are seconds above 0"):
        learnt(workload(0), every_s=0.0)

"""What kinds of jobs use of a node at most, from earlier runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.records.usage import NO_USAGE, UsageTable
from slurmsched.cluster.usage_history import LAST, LEAST, UsageHistory, bound
from slurmsched.slurm.adapters.fake import FakeSlurm


def runs(cpus, memory_mib=1000.0, **columns):
    count = len(cpus)
    ordinary = {
        "job_id": np.arange(count),
        "user": ["alice"] * count,
        "name": [f"train_{number}" for number in range(count)],
        "gpus": np.ones(count),
        "nodes": np.ones(count),
        "cpus": cpus,
        "memory_mib": np.broadcast_to(memory_mib, count),
        "runtime_s": np.full(count, 600.0),
        "ended_s": np.arange(count, dtype=np.float64),
        "state": np.full(count, JobState.COMPLETED),
    }
    return table_of(UsageTable, count, {}, ordinary | columns)


def use_of(history, **columns):
    pending = job_table(1, **({"user": ["alice"], "name": ["train_7"], "gpus": [1]} | columns))
    state = replace(FakeSlurm().observe(), pending=pending)
    filled = history.filled(state).pending
    return float(filled.used_cpus[0]), float(filled.used_memory_mib[0])


def learned(*tables):
    history = UsageHistory()
    for table in tables:
        history.learn(table)
    return history


def test_the_largest_of_nineteen_runs_bounds_the_next_one_and_fewer_say_nothing():
    assert use_of(learned(runs(list(range(1, 20)), 500.0))) == (19.0, 500.0)
    assert all(map(math.isnan, use_of(learned(runs(list(range(1, 19)))))))
    assert LEAST == 19


def test_of_a_hundred_runs_four_may_use_more():
    assert bound(np.arange(1.0, 101.0)) == 96.0


def test_the_bound_holds_for_nineteen_of_twenty_runs_to_come():
    random = np.random.default_rng(7)
    for draw in (random.pareto(2.0, 40_000), random.normal(5, 1, 40_000), random.integers(1, 4, 40_000).astype(float)):
        rows = draw.reshape(1_000, 40)
        kept = [after <= bound(before) for *before, after in rows for before in [np.array(before)]]
        assert np.mean(kept) > 0.93


def test_only_the_newest_runs_count():
    assert use_of(learned(runs([50.0] * 30), runs([2.0] * LAST)))[0] == 2.0


@pytest.mark.parametrize(
    "columns",
    [
        {"runtime_s": np.full(40, 30.0)},
        {"state": np.full(40, JobState.FAILED)},
        {"state": np.full(40, JobState.CANCELLED)},
        {"user": ["bob"] * 40},
        {"gpus": np.full(40, 2)},
        {"gpus": np.zeros(40)},
    ],
)
def test_runs_that_say_nothing_of_this_kind_do_not_count(columns):
    assert all(map(math.isnan, use_of(learned(runs([1.0] * 40, **columns)))))


def test_one_run_out_of_memory_keeps_the_kind_from_losing_any():
    states = np.full(40, JobState.COMPLETED)
    states[3] = JobState.OUT_OF_MEMORY
    memory = np.where(states == JobState.OUT_OF_MEMORY, np.inf, 900.0)
    assert use_of(learned(runs([1.0] * 40, memory, state=states))) == (1.0, math.inf)


def test_a_site_that_measures_cpus_alone_knows_those():
    history = learned(runs([1.5] * 30, np.nan))
    cpus, memory_mib = use_of(history)
    assert cpus == 1.5
    assert math.isnan(memory_mib)
    assert [(one.kind, one.runs) for one in history.table()] == [("alice/train_#", 30)]


def test_nothing_learned_changes_nothing():
    state = FakeSlurm().observe()
    assert learned(NO_USAGE).filled(state) is state
    assert isinstance(state.pending.name, Labels)

"""The project's own database, replayed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.db.store import Store
from slurmsched.simulator.traces import TraceError, from_outcomes, from_store


def runs(*rows: dict[str, object]) -> OutcomeTable:
    """Runs of jobs; what is not said is the same for all."""
    known = {
        "job_id": 1, "restart": 0, "name": "train", "user": "ann", "account": "astro", "qos": "normal",
        "partition": "gpu", "gpus": 4, "nodes": 2, "cpus": 9, "time_limit_s": 3600.0, "first_submit_s": 100.0,
        "eligible_s": 100.0, "started_s": 200.0, "ended_s": 300.0, "runtime_s": 100.0, "state": JobState.COMPLETED,
    }  # fmt: skip
    said = [known | row for row in rows]
    columns = {name: [row[name] for row in said] for name in known}
    made = {name: Labels.of(cells) if isinstance(cells[0], str) else np.array(cells) for name, cells in columns.items()}
    return OutcomeTable(**made)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'slurmsched.db'}")
    store.upgrade()
    yield store
    store.close()


def test_a_site_replays_its_history(store):
    store.add_outcomes("c1", runs({}, {"job_id": 2, "first_submit_s": 50.0, "eligible_s": 50.0}))
    trace = from_store(store, "c1")
    jobs = trace.workload
    assert trace.format == "database"
    assert jobs.job_id.tolist() == [2, 1]
    assert (jobs.gpus[0], jobs.nodes[0], jobs.cpus[0], jobs.time_limit_s[0]) == (4, 2, 5, 3600)
    assert (jobs.user[0], jobs.partition[0], jobs.qos[0], jobs.account[0], jobs.name[0]) == (
        "ann", "gpu", "normal", "astro", "train",
    )  # fmt: skip
    assert [note.rule for note in trace.notes] == ["order"]


def test_a_requeued_job_is_one_job():
    trace = from_outcomes(
        runs(
            {"state": JobState.REQUEUED},
            {"restart": 1, "eligible_s": 320.0, "started_s": 400.0, "ended_s": 450.0, "runtime_s": 50.0},
        )
    )
    assert trace.workload.submit_s.tolist() == [100]
    assert trace.workload.runtime_s.tolist() == [50]
    assert {note.rule: note.rows for note in trace.notes} == {"eligible": 1, "requeues": 1}


def test_a_job_arrives_when_it_is_eligible():
    trace = from_outcomes(runs({"eligible_s": 170.0}))
    assert trace.workload.submit_s.tolist() == [170]


def test_what_never_ran_and_what_was_lost_sight_of_is_noted():
    never = {"job_id": 2, "started_s": math.nan, "runtime_s": 0.0, "state": JobState.CANCELLED}
    trace = from_outcomes(runs({"state": JobState.OTHER}, never, {"job_id": 3, "gpus": 0}))
    assert trace.workload.job_id.tolist() == [1]
    assert {note.rule: note.rows for note in trace.notes} == {"unseen": 1, "runtime": 1, "gpus": 1}


def test_an_id_that_came_again_is_another_job():
    later = {"first_submit_s": 9e5, "eligible_s": 9e5, "started_s": 9e5, "ended_s": 9.1e5}
    trace = from_outcomes(runs({}, later))
    assert trace.workload.job_id.tolist() == [1, 2]
    assert trace.workload.submit_s.tolist() == [100, 9e5]


def test_a_history_without_jobs_is_an_error(store):
    with pytest.raises(TraceError, match=r"cluster c1 .*: no run ended in that time; try: slurmsched history import"):
        from_store(store, "c1")
    store.add_outcomes("c1", runs({"gpus": 0}))
    with pytest.raises(TraceError, match="no job is left: 1 job without GPUs left out"):
        from_store(store, "c1")
    assert len(from_store(store, "c1", cpu_jobs=True)) == 1

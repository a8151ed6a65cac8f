"""The project's own database, replayed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.events import JobSubmitted
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.db.pending_writes import PendingWrites
from slurmsched.db.store import Store
from slurmsched.db.tracking.story import Submission, story_of
from slurmsched.simulator.traces import TraceError
from slurmsched.simulator.traces.database import from_outcomes, from_store


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


def test_jobs_that_ended_before_the_span_are_its_earlier_jobs(store):
    before = {"job_id": 1, "first_submit_s": 100.0, "ended_s": 300.0}
    again = {"restart": 1, "started_s": 320.0, "ended_s": 400.0}
    spanned = {"job_id": 2, "first_submit_s": 350.0, "eligible_s": 350.0, "started_s": 500.0, "ended_s": 900.0}
    store.add_outcomes("c1", runs(before, before | again, spanned))
    trace = from_store(store, "c1", 600.0)
    assert trace.workload.job_id.tolist() == [2]
    assert trace.earlier.submit_s.tolist() == [100.0]
    assert trace.earlier.gpus.tolist() == [4]


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


SAVES = Submission("gpu,profile", "slurmsched:deadline=+1h,ckpt,amp,50@+2h")


def test_a_job_keeps_the_partitions_deadline_and_consent_of_its_submission():
    trace = from_outcomes(runs({"partition": "shared"}, {"job_id": 2}), {(1, 100): SAVES, (2, 99): SAVES})
    jobs = trace.workload
    assert [*jobs.partition] == ["gpu,profile", "gpu"]
    assert (jobs.ckpt.tolist(), jobs.amp.tolist(), jobs.best_effort.tolist()) == ([True, False],) * 2 + ([False, True],)
    assert (jobs.deadline_s.tolist(), [*jobs.rewards]) == ([3700.0, math.inf], ["1@3600,0.5@7200", ""])


def test_a_job_that_saves_its_work_needs_the_time_of_all_its_runs():
    again = {"restart": 1, "eligible_s": 320.0, "started_s": 400.0, "ended_s": 450.0, "runtime_s": 50.0}
    trace = from_outcomes(runs({"state": JobState.REQUEUED}, again), {(1, 100): SAVES})
    assert trace.workload.runtime_s.tolist() == [150]


def test_the_database_knows_how_jobs_were_submitted_and_what_they_use(store):
    store.add_outcomes("c1", runs({"partition": "shared"}, {"job_id": 2}))
    event = JobSubmitted(1, 100.0, "ann", "gpu", "slurmsched:ckpt", first_submit_s=100.0)
    store.save("c1", PendingWrites(story=[story_of(event)]))
    use = (0.9, 0.4, 0.1, 0.2, 6000.0, 100.0, 0.0)
    spans = {1: (205, 300), 2: (5, 9)}
    store.add_profiles("c1", [NodeProfile(job, 0, "n1", *span, 4, 4.0, *use) for job, span in spans.items()])
    jobs = from_store(store, "c1").workload
    assert ([*jobs.partition], jobs.ckpt.tolist()) == (["gpu", "gpu"], [True, False])
    assert (jobs.gpu_util[0], jobs.memory_util[0], jobs.gpu_memory_mib[0]) == (0.4, 0.2, 1500.0)
    assert np.isnan(jobs.gpu_util[1]), "what was measured at another time was of another job with its id"


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

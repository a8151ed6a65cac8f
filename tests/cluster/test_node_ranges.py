"""Ranges of nodes that jobs say are remembered while Slurm does not show them."""

from __future__ import annotations

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.node_ranges import NodeRanges
from slurmsched.cluster.nodes import PartitionTable, QosTable
from slurmsched.cluster.state import ClusterState
from slurmsched.research.conformance.random_views import nodes


def state(pending=(), running=()):
    """Jobs by id, range and restarts."""

    def jobs(rows, state):
        ids, ranges, restarts = zip(*rows, strict=True) if rows else ((), (), ())
        columns = {"job_id": ids, "node_range": ranges, "restarts": restarts, "state": [state] * len(rows)}
        return job_table(len(rows), **columns)

    waiting, runs = jobs(pending, JobState.PENDING), jobs(running, JobState.RUNNING)
    parts, qos = table_of(PartitionTable, 0, {}, {}), table_of(QosTable, 0, {}, {})
    return ClusterState(waiting, runs, job_table(0), nodes(), parts, qos)


def ranges(seen):
    return {
        job: said
        for jobs in (seen.pending, seen.running)
        for job, said in zip(jobs.job_id, jobs.node_range, strict=True)
    }


def test_a_range_that_a_job_waited_with_is_known_while_it_runs_and_when_it_waits_again():
    memory = NodeRanges()
    assert ranges(memory.filled(state(pending=[(1, "1-2", 0), (2, "", 0)]))) == {1: "1-2", 2: ""}
    assert ranges(memory.filled(state(running=[(1, "", 0), (2, "", 0)]))) == {1: "1-2", 2: ""}
    assert ranges(memory.filled(state(pending=[(1, "", 1)], running=[(2, "", 0)]))) == {1: "1-2", 2: ""}
    assert ranges(memory.filled(state(pending=[(1, "2-4", 1)]))) == {1: "2-4"}


def test_a_range_is_forgotten_with_its_job_and_where_the_owner_takes_it_back():
    memory = NodeRanges()
    memory.filled(state(pending=[(1, "1-2", 0), (2, "1-2", 0)]))
    assert ranges(memory.filled(state(pending=[(1, "", 0)]))) == {1: ""}
    assert ranges(memory.filled(state(running=[(1, "", 0), (2, "", 0)]))) == {1: "", 2: ""}


def test_where_no_job_says_a_range_the_state_stays_as_it_is():
    seen = state(pending=[(1, "", 0)], running=[(2, "", 0)])
    assert NodeRanges().filled(seen) is seen

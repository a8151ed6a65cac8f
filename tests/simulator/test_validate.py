"""The checks of the simulator's own state: true while it runs, and false once anything of it was changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import modelled_slurm

from examples import examples
from slurmsched.policies.placement import FIRST_FREE
from slurmsched.policies.selection import resources, sorted_rows
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.engine import calendar, heaps, job_state
from slurmsched.simulator.fast import allocations, context, queue
from slurmsched.simulator.fast.loops import Keys
from slurmsched.simulator.machine.controller import controller
from slurmsched.simulator.machine.direct import rules_of
from slurmsched.simulator.machine.event_loop import advance
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld import slurmctld
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import ACTIVE, ARRIVED, Controller
from slurmsched.simulator.workload.workload import workload

SIZES = [3, 4, 2, 4, 1]


def busy() -> Controller:
    """Four jobs on two nodes of four GPUs at second 5: two of them run, the others wait; a fifth is to come."""
    jobs = workload(
        len(SIZES),
        job_id=np.arange(1, len(SIZES) + 1),
        submit_s=[0.0, 1.0, 2.0, 3.0, 900.0],
        runtime_s=[100.0] * len(SIZES),
        gpus=SIZES,
    )
    cluster = modelled_slurm(jobs, ClusterSpec.of(2, 4))
    cluster.advance(5.0)
    assert cluster.observe().running.job_id.tolist() == [1, 2]
    return cluster.model


def set_item(array: np.ndarray, at: object, value: float) -> None:
    array[at] = value


def test_a_heap_out_of_order_is_noticed():
    keys, rows = np.array([9.0, 1.0, 2.0, 1.0]), np.array([9, 5, 6, 7])
    heaps.validate(keys, rows, 1, 3)
    rows[3] = 4
    with pytest.raises(AssertionError, match="out of order"):
        heaps.validate(keys, rows, 1, 3)
    with pytest.raises(AssertionError, match="longer than its room"):
        heaps.validate(keys, rows, 1, 4)


def test_a_line_out_of_order_is_noticed():
    line = sorted_rows.empty_line(4)
    for row, key in ((7, 2.0), (5, 1.0), (6, 2.0)):
        sorted_rows.line_up(line, row, key)
    sorted_rows.validate(line)
    line.rows[2] = 5
    with pytest.raises(AssertionError, match="out of order"):
        sorted_rows.validate(line)
    line.keys[2] = 3.0
    with pytest.raises(AssertionError, match="twice"):
        sorted_rows.validate(line)


def test_an_event_of_no_known_rank_is_noticed():
    entries = calendar.blank(4)
    for at_s in (5.0, 3.0, 4.0):
        calendar.note(entries, at_s, calendar.OPENS, 7)
    calendar.validate(entries)
    entries.what[2] += calendar.SERIALS
    with pytest.raises(AssertionError, match="no known rank"):
        calendar.validate(entries)


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda c: set_item(c.stage.resources.free.gpus, 0, 2), "free and held GPUs"),
        (lambda c: set_item(c.stage.resources.free.cpus, 0, 0), "free and held CPUs"),
        (lambda c: set_item(c.stage.resources.free.memory_mib, 0, -5.0), "free and held memory"),
        (lambda c: set_item(c.stage.resources.free.gpus, 1, -1), "more GPUs than it has"),
        (lambda c: set_item(c.stage.held.first, 2, c.stage.held.first[0]), "in two allocations"),
        (lambda c: set_item(c.stage.held.first, 0, resources.NONE), "neither in use nor spare"),
        (lambda c: set_item(c.stage.held.spare, 0, c.stage.held.first[0]), "a spare link is in use"),
        (lambda c: set_item(c.stage.held.links, (resources.NODE, c.stage.held.first[0]), 2), "does not exist"),
    ],
)
def test_resources_that_are_not_those_of_the_nodes_are_noticed(spoil: Callable[[Controller], None], names: str):
    model = busy()
    stage = model.stage
    resources.validate(stage.resources, stage.held, stage.requests)
    spoil(model)
    with pytest.raises(AssertionError, match=names):
        resources.validate(stage.resources, stage.held, stage.requests)


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda c: set_item(c.stage.life.state, 0, job_state.PENDING), "line of running jobs"),
        (lambda c: set_item(c.stage.life.due_s, 0, 77.0), "not in the calendar"),
        (lambda c: set_item(c.stage.life.due_s, 2, 77.0), "does not run has an end"),
        (lambda c: set_item(c.stage.life.guests, 0, 1), "not that of the guests"),
        (lambda c: set_item(c.stage.life.partner, 2, 0), "does not run is a guest"),
        (lambda c: set_item(c.stage.requests.gpus, 0, 2), "not the GPUs it requests"),
        (lambda c: set_item(c.stage.running.keys, 0, c.stage.running.keys[1] + 1), "out of order"),
        (lambda c: set_item(c.stage.calendar.what, 0, -1), "no known rank"),
    ],
)
def test_a_state_of_jobs_that_contradicts_itself_is_noticed(spoil: Callable[[Controller], None], names: str):
    model = busy()
    job_state.validate(model.stage)
    spoil(model)
    with pytest.raises(AssertionError, match=names):
        job_state.validate(model.stage)


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda c: set_item(c.queue.many, 0, 1), "queue is not the pending jobs"),
        (lambda c: set_item(c.queue.keys, 0, c.queue.keys[1] + 1), "out of order"),
        (lambda c: set_item(c.caps.used, 0, 8), "counted for an account"),
        (lambda c: set_item(c.clock, ARRIVED, 3), "number of admitted jobs"),
        (lambda c: set_item(c.clock, ACTIVE, 3), "GPUs of admitted jobs"),
    ],
)
def test_a_controller_that_does_not_agree_with_its_jobs_is_noticed(spoil: Callable[[Controller], None], names: str):
    model = busy()
    slurmctld.validate(model)
    spoil(model)
    with pytest.raises(AssertionError, match=names):
        slurmctld.validate(model)


def test_a_modelled_slurm_that_is_checked_says_at_its_next_step_what_is_broken():
    jobs = workload(1, job_id=[1], submit_s=[0.0], runtime_s=[100.0], gpus=[2])
    for checked in (True, False):
        cluster = SimulatedCluster(jobs, ClusterSpec.of(1, 4), checked=checked)
        cluster.advance(5.0)
        cluster.model.stage.resources.free.gpus[0] = 3
        if checked:
            with pytest.raises(AssertionError, match="free and held GPUs"):
                cluster.advance(6.0)
        else:
            cluster.advance(6.0)


@examples(40)
@given(data=st.data(), selection=st.sampled_from(["strict", "backfill", "easy", "conservative", "preemptive"]))
def test_the_state_of_a_direct_machine_holds_at_every_second(data: st.DataObject, selection: str):
    count = data.draw(st.integers(1, 12))
    jobs = workload(
        count,
        job_id=np.arange(1, count + 1),
        submit_s=sorted(data.draw(st.lists(st.integers(0, 20), min_size=count, max_size=count))),
        runtime_s=data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)),
        gpus=data.draw(st.lists(st.integers(1, 8), min_size=count, max_size=count)),
        time_limit_s=[10.0] * count,
    )
    shortest_first = Keys(jobs.runtime_s[np.newaxis].copy(), np.zeros(count), np.zeros(0))
    model = controller(jobs, ClusterSpec.of(2, 4), SlurmConf(rules_of(selection, 0.0, 1000)), given=shortest_first)
    for second in range(20 + 10 * count):
        advance(model, float(second))
        slurmctld.validate(model)
    assert (model.stage.life.state == job_state.COMPLETED).all()


def pool(gpus: list[int]) -> context.PoolContext:
    """Jobs of these sizes, all there, on two nodes of four GPUs; none was admitted yet."""
    count = len(gpus)
    trace = context.PoolTrace(np.zeros(count), np.full(count, 10.0), np.array(gpus), np.zeros(count))
    site = allocations.PoolNodes(np.array([4, 4]), 4, np.full(count, FIRST_FREE))
    return context.stage(trace, site, np.inf, 0.0, allocations.no_segments())


CAPACITY = np.array([4, 4])


@given(st.lists(st.integers(0, 5), max_size=40))
@examples(60)
def test_allocations_hold_whatever_is_granted_and_given_back(rows: list[int]):
    stage, running = pool([1, 2, 3, 4, 5, 8]), set()
    for row in rows:
        if row in running:
            allocations.give_back(stage.site, stage.books, row)
            running.remove(row)
        elif allocations.grant(stage.site, stage.books, row, stage.trace.gpus[row]):
            running.add(row)
        allocations.validate(stage.site, stage.books, CAPACITY)


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda s: set_item(s.site.free, 0, 1), "free and held GPUs"),
        (lambda s: set_item(s.site.free, 0, -1), "more GPUs than it has"),
        (lambda s: set_item(s.books.unused, 0, 7), "not their sum"),
        (lambda s: set_item(s.books.first, 1, s.books.first[0]), "in two allocations"),
        (lambda s: set_item(s.books.first, 0, allocations.NONE), "neither in use nor spare"),
        (lambda s: set_item(s.books.first, -1, s.books.first[0]), "a spare pair is in use"),
        (lambda s: set_item(s.books.pairs, (1, s.books.first[0]), 0), "without a GPU"),
        (lambda s: set_item(s.books.pairs, (2, s.books.first[0]), 99), "leads nowhere"),
    ],
)
def test_broken_allocations_of_a_pool_are_noticed(spoil: Callable[[context.PoolContext], None], names: str):
    stage = pool([6, 1])
    assert allocations.grant(stage.site, stage.books, 0, 6) == 2
    allocations.validate(stage.site, stage.books, CAPACITY)
    spoil(stage)
    with pytest.raises(AssertionError, match=names):
        allocations.validate(stage.site, stage.books, CAPACITY)


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda s: set_item(s.gate.inside, 0, 3), "admitted than have arrived"),
        (lambda s: set_item(s.gate.requested_gpus, 0, 5), "GPUs of admitted jobs"),
        (lambda s: set_item(s.result.start_s, 0, 99.0), "ended before it started"),
        (lambda s: set_item(s.site.free, 0, 1), "free and held GPUs"),
    ],
)
def test_a_pool_that_does_not_agree_with_its_jobs_is_noticed(spoil: Callable[[context.PoolContext], None], names: str):
    stage = pool([4, 2])
    stage.gate.arrived[0], stage.gate.inside[0], stage.gate.requested_gpus[0] = 2, 2, 2
    stage.result.start_s[0], stage.result.end_s[0] = 0.0, 10.0
    context.validate(stage, CAPACITY)
    spoil(stage)
    with pytest.raises(AssertionError, match=names):
        context.validate(stage, CAPACITY)


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda q: set_item(q.rows, 1, 0), "waits twice"),
        (lambda q: set_item(q.rows, 1, 2), "of another kind"),
        (lambda q: set_item(q.keys, 1, 0.0), "out of order"),
        (lambda q: set_item(q.length, 0, 4), "longer than its room"),
    ],
)
def test_a_queue_of_a_pool_that_is_broken_is_noticed(spoil: Callable[[queue.PoolQueue], None], names: str):
    waiting = queue.nobody(np.array([1, 1, 2]), np.zeros(3, dtype=np.int64))
    for row, key in enumerate((1.0, 2.0, 3.0)):
        queue.wait(waiting, row, key)
    queue.validate(waiting)
    spoil(waiting)
    with pytest.raises(AssertionError, match=names):
        queue.validate(waiting)

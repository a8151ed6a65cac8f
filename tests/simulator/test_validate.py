"""The checks of the simulator's own state: true while it runs, and false once anything of it was changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import modelled_slurm

from examples import examples
from slurmsched.policies.placement import CONSOLIDATE
from slurmsched.policies.selection import resources, sorted_rows
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.engine import calendar, heaps, job_state
from slurmsched.simulator.engine.keys import Keys
from slurmsched.simulator.engine.segments import closed
from slurmsched.simulator.machine.direct import direct, rules_of, run_direct
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld import state as slurmctld_state
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
    slurmctld_state.validate(model)
    spoil(model)
    with pytest.raises(AssertionError, match=names):
        slurmctld_state.validate(model)


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
    how = np.full(count, CONSOLIDATE)
    model = direct(jobs, ClusterSpec.of(2, 4), rules_of(selection, 0.0, 1000), shortest_first, how, logged=True)
    for second in range(20 + 10 * count):
        model = run_direct(model, float(second))
        slurmctld_state.validate(model)
    assert (model.stage.life.state == job_state.COMPLETED).all()
    runs = closed(model.stage.log)
    assert len(runs.row) == count + model.stage.life.restarts.sum()
    assert np.bincount(runs.row, runs.end_s - runs.start_s) == pytest.approx(jobs.runtime_s)

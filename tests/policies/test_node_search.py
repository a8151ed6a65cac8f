"""Searches among filed nodes: the answers of the plain search, whatever starts and ends between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.policies.placement import CONSOLIDATE, FIRST_FREE, POOL, QUASI, ROOMIEST
from slurmsched.policies.selection import nodes_by_free, resources
from slurmsched.policies.selection.node_search import find, find_filed
from slurmsched.policies.selection.resources import CHOSEN, NONE, TAKEN
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of
from slurmsched.simulator.engine.keys import Keys
from slurmsched.simulator.machine.direct import direct, rules_of
from slurmsched.simulator.workload.workload import workload

NODES = st.sampled_from([2, 12, 31, 32, 33, 70])


def test_each_number_of_free_gpus_has_its_nodes_in_order():
    free = np.array([3, 0, 4, 3, -1, 0, 4, 2, 1, 3, *[0] * 30, 4])
    filed = nodes_by_free.filed_by(free, 4)
    for gpus in range(5):
        nodes, at = [], nodes_by_free.next_with(filed, gpus, 0)
        while at != NONE:
            nodes.append(at)
            at = nodes_by_free.next_with(filed, gpus, at + 1)
        assert nodes == np.flatnonzero(np.maximum(free, 0) == gpus).tolist()
        least = nodes_by_free.next_with_at_least(filed, gpus, 3)
        assert least == 3 + int(np.flatnonzero(np.maximum(free, 0)[3:] >= gpus)[0])
    assert nodes_by_free.next_with_at_least(filed, 1, 41) == NONE


def machine(draw, nodes: int, size: int):
    """Return the state of a cluster on which nothing runs, and jobs of many forms for it."""
    count, of = 60, st.integers
    gpus = [draw(of(1, 3 * size)) if draw(st.booleans()) else draw(of(1, size)) for _ in range(count)]
    jobs = workload(
        count,
        job_id=np.arange(1, count + 1),
        submit_s=np.zeros(count),
        runtime_s=np.ones(count),
        gpus=np.minimum(gpus, nodes * size),
        cpus=[draw(of(0, 2)) for _ in range(count)],
    )
    cpus = np.full(nodes, 2 + draw(of(0, 6)))
    fleet = replace(ClusterSpec.of(nodes, size), nodes=nodes_of(nodes, size, cpus=cpus))
    ways = np.array([draw(st.sampled_from([POOL, FIRST_FREE, CONSOLIDATE, QUASI, ROOMIEST])) for _ in range(count)])
    keys = Keys(np.zeros((1, count)), np.zeros(count), np.zeros(0))
    stage = direct(jobs, fleet, rules_of("backfill", 0.0, 10), keys, ways).stage
    for row in range(count):
        if draw(of(0, 5)) == 0:
            stage.requests.nodes[row] = draw(of(1, nodes))
    return stage


@examples(60)
@given(data=st.data(), nodes=NODES, size=st.integers(1, 8))
def test_a_search_among_filed_nodes_finds_what_the_plain_one_finds(data, nodes, size):
    stage = machine(data.draw, nodes, size)
    counts, room, barred = stage.resources.counts, stage.resources.room, np.zeros(nodes, dtype=np.bool_)
    stage.resources.up[data.draw(st.integers(0, nodes - 1))] = data.draw(st.booleans())
    resources.recount(stage.resources)
    random, runs = np.random.default_rng(data.draw(st.integers(0, 99))), []
    for row in range(len(stage.requests.gpus)):
        barred[:] = random.random(nodes) < 0.1
        plain = find(stage.resources, stage.requests, row, stage.resources.free, barred)
        first = room[CHOSEN : TAKEN + 1, :plain].copy()
        filed = find_filed(stage.resources, stage.requests, row, stage.resources.free, counts.by_free, barred)
        assert filed == plain
        assert (room[CHOSEN : TAKEN + 1, :plain] == first).all()
        if plain:
            resources.take(stage.resources, stage.held, stage.requests, row, plain)
            runs.append(row)
        while runs and random.random() < 0.3:
            over = runs.pop(int(random.integers(len(runs))))
            resources.give_back(stage.resources, stage.held, stage.requests, over)
        resources.validate(stage.resources, stage.held, stage.requests)

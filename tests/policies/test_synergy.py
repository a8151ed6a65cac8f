"""Synergy: no node is overbooked, and no job is ever below its proportional speed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_views import training_view

from examples import examples
from slurmsched.cluster.training import CpuNeeds
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import SCALINGS
from slurmsched.research.scaling.synergy import MODES, divided

CLOSE = 1e-5


@st.composite
def clusters(draw):
    """Jobs in some order, with what they gain by CPUs and memory, and nodes."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    jobs, nodes = draw(st.integers(1, 20)), draw(st.integers(1, 4))
    needs = CpuNeeds(
        random.choice([1.0, 3.0, 6.0, 12.0, 24.0], jobs),
        random.choice([10.0, 60.0, 200.0, 400.0], jobs),
        random.uniform(1, 3, jobs),
        np.ones(jobs),
    )
    gpus = random.choice([1, 1, 1, 2, 4, 10], jobs)
    view = training_view(
        random.choice([4, 8], nodes),
        cpus=random.choice([12, 24, 64], nodes),
        memory_mib=random.choice([300.0, 500.0], nodes),
        gpus=gpus,
    )
    return random.permutation(jobs), gpus, needs, view.nodes


@pytest.mark.parametrize("mode", MODES)
@examples(60)
@given(clusters())
def test_nodes_are_not_overbooked_and_each_job_has_all_its_gpus_or_none(mode, cluster):
    order, gpus, needs, nodes = cluster
    shares = divided(order, gpus, needs, nodes, mode)
    many = shares.gpus.sum(axis=1)
    assert ((many == 0) | (many == gpus)).all()
    assert (shares.gpus.sum(axis=0) <= nodes.gpus).all()
    assert (shares.cpus.sum(axis=0) <= nodes.cpus + CLOSE).all()
    assert (shares.memory_mib.sum(axis=0) <= nodes.memory_mib + CLOSE).all()


@pytest.mark.parametrize("mode", MODES)
@examples(60)
@given(clusters())
def test_no_job_is_below_its_proportional_speed(mode, cluster):
    order, gpus, needs, nodes = cluster
    shares = divided(order, gpus, needs, nodes, mode)
    fair_cpus = shares.gpus * np.minimum(needs.cpus[:, None], nodes.cpus / nodes.gpus)
    fair_mib = shares.gpus * np.minimum(needs.memory_mib[:, None], nodes.memory_mib / nodes.gpus)
    assert (shares.cpus >= fair_cpus - CLOSE).all()
    assert (shares.memory_mib >= fair_mib - CLOSE).all()
    best = shares.best
    assert (shares.cpus[best] >= (shares.gpus * needs.cpus[:, None])[best] - CLOSE).all()


@pytest.mark.parametrize("mode", ["proportional", "tune"])
@examples(60)
@given(clusters())
def test_only_gpus_make_a_job_wait(mode, cluster):
    order, gpus, needs, nodes = cluster
    runs = divided(order, gpus, needs, nodes, mode).gpus.sum(axis=1) > 0
    free = int(nodes.gpus.sum())
    for job in order.tolist():
        assert runs[job] == (gpus[job] <= free)
        free -= gpus[job] * runs[job]


def test_a_job_that_does_not_fit_passes_where_greedy_and_lowers_another_where_tuned():
    nodes = training_view([2], cpus=[8], memory_mib=[100.0], gpus=np.ones(2, np.int64)).nodes
    needs = CpuNeeds(np.array([8.0, 8.0]), np.array([10.0, 10.0]), np.array([2.0, 2.0]), np.ones(2))
    order, gpus = np.arange(2), np.ones(2, np.int64)
    assert divided(order, gpus, needs, nodes, "greedy").cpus.tolist() == [[8.0], [0.0]]
    tuned = divided(order, gpus, needs, nodes, "tune")
    assert tuned.cpus.tolist() == [[4.0], [4.0]]
    assert not tuned.best.any()


def test_a_job_larger_than_any_node_is_spread():
    view = training_view([2, 4], cpus=[8, 8], memory_mib=[80.0, 80.0], gpus=np.array([6]))
    needs = CpuNeeds(np.array([1.0]), np.array([10.0]), np.array([2.0]), np.ones(1))
    assert divided(np.arange(1), view.jobs.gpus, needs, view.nodes, "tune").gpus.tolist() == [[2, 4]]


@pytest.mark.parametrize("name", ["fifo", "sjf", "srtf", "srsf", "las"])
def test_any_order_takes_it_and_refuses_what_makes_no_sense(name):
    assert SCALINGS.find(f"{name} synergy=tune").needs == {"cpu_needs"}
    with pytest.raises(ConfigError, match=rf"{name}: accepted is synergy=proportional\|greedy\|tune"):
        SCALINGS.find(f"{name} synergy=perhaps")

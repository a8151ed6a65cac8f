"""Scalings: the GPUs of jobs that train, on any view."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.training import Goodputs, LossCurves, StepTimes, TrainingJobs, TrainingView, TypeSpeeds
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import SCALINGS
from slurmsched.policies.size_choice import cheapest
from slurmsched.research.scaling.goodput import best_batch
from slurmsched.research.scaling.learnt_speed import iterations_left, step_seconds
from slurmsched.research.scaling.packing import packed, sizes
from slurmsched.research.scaling.pollux import configurations, speedups
from slurmsched.research.scaling.sia import cheapest_configurations
from slurmsched.research.scaling.speed_model import PARAMETERS, fitted, objective
from slurmsched.simulator.cluster_spec import nodes_of

VECTORS = json.loads((Path(__file__).parent.parent / "data" / "pollux" / "pollux_vectors.json").read_text())
SIZE = 4


@st.composite
def views(draw):
    """A view of up to 12 jobs on up to 5 nodes of 4 GPUs, some of which hold GPUs."""
    nodes, count = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    held, free = np.zeros((count, nodes), dtype=np.int64), np.full(nodes, SIZE)
    for row in range(count):
        node = draw(st.integers(0, nodes - 1))
        held[row, node] = draw(st.integers(0, int(free[node])))
        free[node] -= held[row, node]
    wanted, most = (np.array(draw(st.lists(st.integers(1, 20), min_size=count, max_size=count))) for _ in range(2))
    work_s = np.array(draw(st.lists(st.floats(0.1, 10), min_size=count, max_size=count)))
    reports = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    zeros, ones = np.zeros(count), np.ones(count, dtype=np.int64)
    jobs = TrainingJobs(
        job_id=np.arange(count),
        submit_s=np.arange(count) * 10.0,
        application=Labels.of(["net"] * count),
        gpus=wanted,
        batch=ones * 64,
        most_gpus=np.minimum(np.where(reports, most, 1), nodes * SIZE),
        weight=np.ones(count),
        done=zeros,
        left=np.array(draw(st.lists(st.floats(1, 1e5), min_size=count, max_size=count))),
        served_gpu_s=zeros,
        ran_s=np.array(draw(st.lists(st.floats(0, 1e5), min_size=count, max_size=count))),
        restarts=ones,
        held=held,
        memo=np.full((count, 0), np.nan),
    )
    counts = np.arange(nodes * SIZE + 1)
    with np.errstate(divide="ignore"):
        steps = StepTimes(work_s[:, None] / counts + 0.01 * counts)
    speed = np.stack([work_s / 10, work_s / 100, *([work_s / 50] * 4), np.ones(count)], axis=1)[:, None]
    limits = np.broadcast_to([32, 1024, 8, 256], (count, 4)).copy()
    goodputs = Goodputs(reports, speed, np.ones(count), work_s, limits, np.zeros(nodes, dtype=np.int64))
    return TrainingView(1e4, 60.0, 30.0, jobs, nodes_of(nodes, SIZE), step_times=steps, goodputs=goodputs)


@pytest.mark.parametrize(
    "name", sorted(name for name in SCALINGS if SCALINGS[name].needs <= {"step_times", "goodputs"})
)
@examples(25)
@given(view=views())
def test_no_node_gives_more_than_it_has_and_equal_views_are_decided_equally(name, view):
    gpus = SCALINGS[name](view).gpus
    assert gpus.shape == view.jobs.held.shape
    assert (gpus >= 0).all()
    assert (gpus.sum(axis=0) <= view.nodes.gpus).all()
    assert (gpus == SCALINGS[name](view).gpus).all()


@pytest.mark.parametrize("name", ["optimus", "pollux", "sia"])
@examples(25)
@given(view=views())
def test_a_job_gets_no_more_than_it_can_use_and_one_waits_only_where_all_gpus_are_taken(name, view):
    has = SCALINGS[name](view).gpus.sum(axis=1)
    assert (has <= view.jobs.most_gpus).all()
    if not has.all():
        assert has.sum() == view.nodes.gpus.sum()


@pytest.mark.parametrize("name", ["fifo", "tiresias"])
@examples(25)
@given(view=views())
def test_a_job_of_a_fixed_size_gets_all_its_gpus_or_none(name, view):
    has = SCALINGS[name](view).gpus.sum(axis=1)
    assert np.isin(has, [0]).tolist() == (has != view.jobs.gpus).tolist()
    left = view.nodes.gpus.sum() - has.sum()
    assert name == "fifo" or (view.jobs.gpus[has == 0] > left).all()


@st.composite
def typed_views(draw):
    """A view of jobs that run on one type of GPUs at a time, and perhaps not on all types."""
    view = draw(views())
    count, nodes = view.jobs.held.shape
    node_type = np.array(draw(st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes)))
    cells = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=3 * count, max_size=3 * count))
    alone = np.array(cells).reshape(count, 3)
    return replace(view, type_speeds=TypeSpeeds(("a", "b", "c"), node_type, alone, np.arange(count), np.zeros((0,))))


@pytest.mark.parametrize("name", ["fifo", "tiresias", "srtf", "las"])
@examples(40)
@given(view=typed_views())
def test_a_job_of_a_fixed_size_is_on_one_type_that_can_run_it(name, view):
    speeds, wanted = view.type_speeds, view.jobs.gpus
    of_type = np.eye(3, dtype=np.int64)[speeds.node_type]
    gpus = SCALINGS[name](view).gpus
    has, free = gpus @ of_type, (view.nodes.gpus - gpus.sum(axis=0)) @ of_type
    runs = gpus.any(axis=1)
    assert (gpus.sum(axis=0) <= view.nodes.gpus).all()
    assert (has == np.where(has > 0, wanted[:, None], 0)).all()
    assert (np.count_nonzero(has, axis=1) == runs).all()
    assert (speeds.alone[has > 0] > 0).all()
    waits = np.flatnonzero(~runs)
    if name == "fifo":
        assert not runs[waits[:1].sum() :].any() or runs.all()
    else:
        assert not ((speeds.alone[waits] > 0) & (free >= wanted[waits, None])).any()


@given(view=views(), shared=st.booleans())
@examples(60)
def test_all_that_fit_are_packed_the_small_ones_on_a_node_and_the_others_share_none_unless_they_may(view, shared):
    _, kinds = sizes(view.nodes.gpus)
    wanted, left = np.zeros(len(view.jobs), dtype=np.int64), int(view.nodes.gpus.sum())
    for row, gpus in enumerate(view.jobs.gpus.tolist()):
        wanted[row] = max((kind for kind in kinds.tolist() if kind <= min(gpus, left)), default=0)
        left -= wanted[row]
    held = view.jobs.held
    for _ in range(2):  # the second time jobs hold what the first packing gave them
        gpus = packed(wanted, held, view.nodes.gpus, shared=shared)
        assert gpus.sum(axis=1).tolist() == wanted.tolist()
        assert (gpus.sum(axis=0) <= view.nodes.gpus).all()
        on = np.count_nonzero(gpus, axis=1)
        assert ((on == 1) == ((wanted > 0) & (wanted <= SIZE))).all()
        assert shared or ((gpus[on > 1] > 0).sum(axis=0) <= 1).all()
        assert (held.sum(axis=1) != wanted).any() or (gpus == held).all()
        held, wanted = gpus, wanted[::-1].copy()


def test_a_job_on_several_nodes_has_all_that_are_empty_and_shrinks_for_another():
    node_gpus, held = np.full(4, SIZE), np.zeros((2, 4), dtype=np.int64)
    held = packed(np.array([8, 0]), held, node_gpus)
    assert held.tolist() == [[2, 2, 2, 2], [0, 0, 0, 0]]
    assert packed(np.array([8, 4]), held, node_gpus)[1].max() == SIZE
    beside = packed(np.array([8, 8]), held, node_gpus)
    assert (np.count_nonzero(beside, axis=1) == 2).all()
    assert packed(np.array([8, 8]), held, node_gpus, shared=True).tolist() == [[2, 2, 2, 2], [2, 2, 2, 2]]


@given(
    costs=st.lists(st.lists(st.floats(0.1, 9), min_size=3, max_size=3), min_size=1, max_size=4),
    total=st.integers(1, 12),
)
@examples(40)
def test_both_searches_find_the_best_sizes(costs, total):
    table, gpus, most = np.array(costs), np.array([1, 2, 4]), np.full(len(costs), total)
    waits = 1e3 * table.max()

    def cost(choice):
        return sum(waits if kind < 0 else table[row, kind] for row, kind in enumerate(choice))

    def fits(choice):
        return sum(gpus[kind] for kind in choice if kind >= 0) <= total

    best = min(cost(choice) for choice in itertools.product(range(-1, 3), repeat=len(costs)) if fits(choice))
    exact = cheapest(table, gpus, most, total).tolist()
    program = cheapest_configurations(table, gpus, np.zeros(3, np.int64), most, np.array([total])).tolist()
    assert fits(exact)
    assert cost(exact) == pytest.approx(best, rel=1e-3)
    assert fits(program)
    if min(program) >= 0:
        assert cost(program) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("vector", VECTORS["fit"], ids=lambda one: f"{one['application']}-{len(one['profile'])}")
def test_fitted_speeds_are_no_worse_than_those_of_the_authors(vector):
    nodes, gpus, micro, compute_s, step_s = np.array(vector["profile"]).T
    whole = [column.astype(np.int64) for column in (nodes, gpus, micro)]
    found = fitted(*whole, compute_s, step_s, np.zeros(0))
    points = np.stack([gpus, micro, np.log(compute_s), np.log(step_s)])
    assert vector["names"] == list(PARAMETERS)
    theirs = objective(np.array(vector["params"]), nodes > 1, points)
    assert objective(found, nodes > 1, points) <= 1.01 * theirs


@pytest.mark.parametrize("vector", VECTORS["goodput"], ids=lambda one: f"{one['application']}-{one['gpus']}")
def test_goodputs_and_batches_are_those_of_the_authors(vector):
    facts = VECTORS["applications"][vector["application"]]
    names = "init_batch_size", "max_batch_size", "min_local_bsz", "max_local_bsz"
    limits = np.array([facts[name] for name in names])
    statistics = vector["grad_sqr"], vector["grad_var"]
    found, *batch = best_batch(np.array(vector["params"]), *statistics, limits, vector["nodes"], vector["gpus"])
    assert found == pytest.approx(vector["goodput"], rel=1e-6)
    assert batch == [vector["atomic_bsz"], vector["accumulation_steps"]]


def on_two_types(view, faster):
    """Return *view* with GPUs of two types on its nodes, one after the other; the second computes so much faster."""
    assert view.goodputs is not None
    factors = np.array([1 / faster, 1 / faster, 1, 1, 1, 1, 1])
    speed = np.concatenate([view.goodputs.speed, view.goodputs.speed * factors], axis=1)
    types = np.arange(len(view.nodes)) % 2
    return replace(view, goodputs=replace(view.goodputs, speed=speed, node_type=types))


@examples(15)
@given(views())
def test_speedups_are_finite_where_the_fair_share_is_more_than_a_job_can_use(view):
    one_gpu = replace(view.goodputs, limits=np.tile([32, 32, 32, 64], (len(view.jobs), 1)))
    view = replace(view, goodputs=one_gpu)
    speedup = speedups(view, configurations(view))[one_gpu.known]
    assert np.isfinite(speedup).all()
    assert (speedup[:, 1:] <= speedup[:, :1]).all()


@examples(25)
@given(view=views(), faster=st.floats(0.5, 4))
def test_sia_gives_a_job_gpus_of_one_type_and_no_more_than_there_are(view, faster):
    if len(view.nodes) == 1:
        return
    mixed = on_two_types(view, faster)
    gpus = SCALINGS["sia"](mixed).gpus
    assert (gpus.sum(axis=0) <= mixed.nodes.gpus).all()
    assert (gpus.sum(axis=1) <= mixed.jobs.most_gpus).all()
    types = np.stack([gpus[:, mixed.goodputs.node_type == kind].any(axis=1) for kind in (0, 1)])
    assert (types.sum(axis=0) <= 1).all()
    if not types.any(axis=0).all():
        assert gpus.sum() == mixed.nodes.gpus.sum()
    with pytest.raises(ConfigError, match="nodes of one type, or sia"):
        SCALINGS["pollux"](mixed)


def test_sia_gives_the_faster_type_to_the_job_that_gains_by_it():
    columns = np.array([[0, 1], [1, 1], [4, 4]])
    costs = np.array([[1.0, 0.9], [1.0, 0.3]])
    chosen = cheapest_configurations(costs, columns[2], columns[0], np.array([4, 4]), np.array([4, 4]))
    assert chosen.tolist() == [0, 1]


@examples(25)
@given(st.floats(0.001, 1), st.floats(0.1, 2), st.floats(0, 0.9), st.integers(3, 30))
def test_the_end_of_a_curve_of_the_learnt_form_is_found(slope, start, part, epochs):
    iterations = np.arange(1.0, 41) * 10
    floor = part * (1 / start)
    loss = 1 / (slope * iterations + start) + floor
    shown = np.where(np.arange(40) < epochs, np.stack([iterations, loss]), np.nan)
    left = iterations_left(LossCurves(shown[:1], shown[1:], loss[-1:]), np.ones(1))
    assert 10 <= left[0] <= 10 * 10 * epochs
    if part == 0:
        assert left[0] == pytest.approx(np.clip(400 - 10 * epochs, 10, 100 * epochs), rel=1e-3)


def test_a_job_without_reports_is_taken_to_last_as_long_as_the_others():
    iterations, loss = np.full((2, 2, 3), np.nan)
    iterations[0], loss[0] = [10, 20, 30], [1 / 11, 1 / 21, 1 / 31]
    left = iterations_left(LossCurves(iterations, loss, np.array([1 / 61, 0.1])), np.array([2.0, 6.0]))
    assert left == pytest.approx([30, 10])


def test_steps_of_the_learnt_form_are_known_from_a_few():
    counts = np.arange(1, 17)
    seconds = 3 / counts + 0.1 + 0.01 * counts + 0.2 * (counts > SIZE)
    learnt = step_seconds(seconds[[0, 1, 3, 7, 15]], 16, SIZE)
    assert learnt == pytest.approx(np.append(np.inf, seconds), rel=0.03)
    assert step_seconds(np.array([2.0]), 4, SIZE) == pytest.approx([np.inf, 2.0, 1.0, 2 / 3, 0.5])

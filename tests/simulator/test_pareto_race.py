"""Measuring by stages: what it spares, and that it changes nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmsched.policies.ordering.wfq import Wfq
from slurmsched.research.elastic.experiment import Policy
from slurmsched.research.elastic.samples import automl
from slurmsched.research.pareto.checkpoint import Notebook
from slurmsched.research.pareto.measurement import Bench
from slurmsched.research.pareto.objectives import DEFAULT, objectives_of
from slurmsched.research.pareto.race import FIRST, Race
from slurmsched.research.pareto.search import Front
from slurmsched.research.pareto.workloads import SearchSpec, search_on

FIVE = Bench(tuple(automl(10, 4, 0.9, seed) for seed in range(5)), 4, objectives_of(DEFAULT))
WISH = SearchSpec(objectives_of(DEFAULT), 16, 0.9, jobs=60, samples=4, evaluations=120, population=6)


def policy(point: np.ndarray) -> Policy:
    """Two numbers between 0 and 1 as a policy, which stands for its own values below."""
    return Wfq((float("inf"),), (1.0,), zeta=float(point[0]), delta=float(point[1]))


def measured(bench: Bench, policies: Sequence[Policy], told) -> np.ndarray:
    """The two numbers; twice the first on the samples that are not of the first look."""
    for _ in policies:
        told()
    off = 1.0 if len(bench.samples) == FIRST else 2.0
    return np.array([[off * made.zeta, made.delta] for made in policies if isinstance(made, Wfq)]).reshape(-1, 2)


def race_of(evaluations: int = 100, told=lambda _done, _total: None) -> Race:
    return Race(FIVE, evaluations, policy, measured, None, told)


def test_a_setting_that_does_badly_on_the_first_look_is_not_tried_on_the_rest():
    race = race_of()
    race.run(np.array([[0.5, 0.1], [0.1, 0.5]]))
    assert race.spent == 2 * 5
    race.run(np.array([[0.9, 0.9]]))
    assert race.spent == 2 * 5 + FIRST
    assert race.whole == [(0.5, 0.1), (0.1, 0.5)]


def test_it_is_told_what_it_may_have_been_on_all_samples():
    race = race_of()
    whole = race.run(np.array([[0.5, 0.1], [0.1, 0.5]]))
    assert whole.tolist() == [pytest.approx([0.8, 0.1]), pytest.approx([0.16, 0.5])]
    assert race.run(np.array([[0.9, 0.9]])).tolist() == [pytest.approx([1.44, 0.9])]


def test_one_that_is_beaten_by_little_is_tried_on_all():
    race = race_of()
    race.run(np.array([[0.5, 0.5]]))
    race.run(np.array([[0.51, 0.51], [0.6, 0.6]]))
    assert race.whole == [(0.5, 0.5), (0.51, 0.51)]


def test_no_more_is_simulated_than_may_be_and_all_of_it_is_told():
    told: list[int] = []
    race = race_of(16, lambda done, _total: told.append(done))
    race.run(np.array([[0.5, 0.1], [0.1, 0.5], [0.3, 0.3], [0.2, 0.4]]))
    assert race.spent == told[-1] == 14
    assert len(race.whole) == 2
    assert race.affordable == 1


def points(front: Front) -> list[tuple[float, ...]]:
    return [(*point.train, *point.test) for point in front.points]


def test_a_search_by_stages_that_was_stopped_goes_on_and_finds_the_same(tmp_path: Path):
    pytest.importorskip("pymoo")
    apps = automl(300, 16, 0.9, 5)
    whole = search_on(apps, WISH)[0].run()
    first, asked = search_on(apps, replace(WISH, evaluations=60))
    first.run(notebook=Notebook(tmp_path / "search.json", asked))
    search, asked = search_on(apps, WISH)
    assert points(search.run(notebook=Notebook(tmp_path / "search.json", asked))) == points(whole)
    assert WISH.evaluations - 1 <= whole.simulations <= WISH.evaluations


def test_values_of_a_point_that_was_tried_are_the_means_over_all_samples():
    pytest.importorskip("pymoo")
    search, _ = search_on(automl(300, 16, 0.9, 5), WISH)
    front = search.run()
    for point in front.points:
        assert point.setting is not None
        assert point.train == pytest.approx(search.train.cross_measure(point.setting))

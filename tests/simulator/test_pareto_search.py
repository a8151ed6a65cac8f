"""The preference solver: what it finds, that it finds it again, and that it goes on where it was stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slurmsched.errors import ConfigError
from slurmsched.policies.ordering.wfq import Wfq
from slurmsched.research.elastic.samples import automl
from slurmsched.research.pareto.checkpoint import Notebook
from slurmsched.research.pareto.objectives import DEFAULT, objectives_of, undominated
from slurmsched.research.pareto.search import Front, Search
from slurmsched.research.pareto.space import SearchSpace, setting_line
from slurmsched.research.pareto.workloads import SearchSpec, search_on
from slurmsched.simulator.worker_pool import Workers

pytest.importorskip("pymoo")

WISH = SearchSpec(objectives_of(DEFAULT), 16, 0.9, jobs=80, samples=2, evaluations=60, population=6)


def wished(wish: SearchSpec = WISH) -> tuple[Search, Mapping[str, object]]:
    return search_on(automl(300, 16, 0.9, 5), wish)


def found(front: Front) -> list[tuple[float, ...]]:
    return [(*point.train, *point.test) for point in front.points]


@pytest.fixture(scope="module")
def front() -> Front:
    return wished()[0].run()


@given(arrays(float, st.tuples(st.integers(1, 12), st.integers(2, 3)), elements=st.integers(0, 4).map(float)))
def test_what_is_kept_is_beaten_by_nothing_and_all_else_by_something_kept(values):
    keep = undominated(values)
    kept = values[keep]
    for mine in kept:
        assert not any(np.all(other <= mine) and np.any(other < mine) for other in values)
    for mine in values[~keep]:
        assert any(np.all(other <= mine) for other in kept)
    assert len(np.unique(kept, axis=0)) == len(kept)


def test_no_point_of_a_front_beats_another(front):
    assert len(front.points) >= 3
    assert undominated(np.array([point.train for point in front.points])).all()
    assert [point.train[0] for point in front.points] == sorted(point.train[0] for point in front.points)
    assert any(point.holds for point in front.points)
    assert front.simulations == WISH.evaluations


def test_the_extremes_are_beside_the_front_and_first_come_first_served_errs_never(front):
    by_name = {point.name: point for point in front.extremes}
    assert list(by_name) == ["FIFO", "shortest first", "fair share"]
    assert max(by_name["FIFO"].train[1], by_name["FIFO"].test[1]) < 1e-9
    assert min(point.train[1] for point in front.points) < 1e-9, "the search begins with it"


def test_the_same_search_finds_the_same(front):
    assert found(wished()[0].run()) == found(front)


def test_another_seed_finds_something_else(front):
    assert found(wished(replace(WISH, seed=1))[0].run()) != found(front)


def test_processes_find_the_same(front):
    pytest.importorskip("joblib")
    assert found(wished()[0].run(Workers("loky", 2))) == found(front)


def test_a_search_that_was_stopped_goes_on_and_finds_the_same(front, tmp_path):
    """Stopped after a third; what was measured is not measured again."""
    path = tmp_path / "search.json"
    first, asked = wished(replace(WISH, evaluations=20))
    first.run(notebook=Notebook(path, asked))
    before = len(Notebook(path, asked).load())
    search, asked = wished()
    told: list[int] = []
    assert found(search.run(notebook=Notebook(path, asked), progress=lambda done, _total: told.append(done))) == found(
        front
    )
    assert before == 10
    assert len(told) == (WISH.evaluations - 20) // WISH.samples
    assert told[-1] == WISH.evaluations


def test_the_notes_of_another_search_are_refused(tmp_path):
    path = tmp_path / "search.json"
    _, asked = wished()
    Notebook(path, asked).write({})
    _, other = wished(replace(WISH, delta=0.3, seed=4))
    with pytest.raises(ConfigError, match="another delta, seed; say another file"):
        Notebook(path, other).load()


@pytest.mark.parametrize("text", ["", "[1]", '{"form": "else"}', '{"form": "slurmsched-pareto/2"}'])
def test_a_file_that_is_none_of_ours_is_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "search.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="accepted is what slurmsched pareto wrote itself"):
        Notebook(path, wished()[1]).load()
    assert path.read_text() == text


def test_a_search_of_fewer_settings_than_it_begins_with_is_refused():
    with pytest.raises(ConfigError, match="11 evaluations are too few: accepted is 12 and more"):
        wished(replace(WISH, evaluations=11))


@pytest.mark.parametrize("said", [["jct:avg"], ["jct:avg", "jct:avg"], ["jct:avg", "error"], ["speed:avg", "jct:p90"]])
def test_objectives_that_are_none_are_refused_with_what_is_accepted(said):
    with pytest.raises(ConfigError, match=r"objectives? .*: accepted are|accepted are jct, error, unfairness"):
        objectives_of(said)


def test_every_point_of_the_space_is_a_setting_and_a_given_delta_stays():
    space = SearchSpace.of(np.array([1.0, 5.0, 1e4, 1e6]), 0.25)
    assert space.dimensions == 8
    made = [space.setting(np.array(corner) * 1.0) for corner in np.ndindex(*[2] * 8)]
    assert {setting.delta for setting in made} == {0.25}
    assert {len(setting.weights) for setting in made} == {1, 2}
    apart = space.setting(np.array([0.0, 0.3, 0.7, 0.0, 1.0, 0.0, 0.5, 0.0]))
    assert apart.thresholds == (1.0, 5.0, 1e4, math.inf)
    assert apart.weights[0] < apart.weights[1] > apart.weights[2] < apart.weights[3], "large jobs can have more"
    assert apart.overtake == 0 < space.setting(np.ones(8)).overtake


def test_a_delta_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="delta = 0"):
        SearchSpace.of(np.array([1.0, 2.0]), 0.0)


def test_the_setting_of_a_point_says_all_of_it():
    wfq = Wfq((1182.5, math.inf), (0.75, 0.25), 0.9, 0.3)
    line = "wfq thresholds=1182.5,inf weights=0.75,0.25 zeta=0.9 delta=0.3 overtake=0"
    assert setting_line(wfq) == f"slurmsched policy set {line}"


def test_the_file_of_a_search_is_plain_json(tmp_path):
    path = Path(tmp_path, "search.json")
    Notebook(path, {"seed": 1}).write({(0.1, 0.2): (3.0, 4.0)})
    assert json.loads(path.read_text())["measured"] == [[[0.1, 0.2], [3.0, 4.0]]]
    assert Notebook(path, {"seed": 1}).load() == {(0.1, 0.2): (3.0, 4.0)}


def test_without_a_load_the_jobs_arrive_as_they_did_and_both_sides_have_windows_of_about_every_load():
    apps = automl(300, 16, 0.9, 5)
    search, _ = wished(replace(WISH, load=None, samples=4, evaluations=24, jobs=20))
    train, test = ([window.load(16) for window in bench.samples] for bench in (search.train, search.test))
    starts = sorted(float(one.submit_s[0]) for bench in (search.train, search.test) for one in bench.samples)
    assert starts == [float(apps.submit_s[at * 37]) for at in range(8)]
    assert {len(one) for bench in (search.train, search.test) for one in bench.samples} == {20}
    every = sorted(train + test)
    assert [sorted(pair) for pair in zip(train, test, strict=True)] == [every[at : at + 2] for at in range(0, 8, 2)]

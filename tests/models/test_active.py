"""Which model of runtimes serves: the one on the shelf where it is usable."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from outcome_worlds import busy_site

from slurmsched.models.artifact import Artifact, digest_of
from slurmsched.models.registry import RUNTIME, ArtifactRegistry
from slurmsched.models.runtime.active import ActiveModel, drift_of
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.guarded import GuardedModel
from slurmsched.models.runtime.point_predictors import LAST_OF_NAME, repeating

HISTORY = busy_site(400)


@pytest.fixture
def shelf(tmp_path: Path) -> ArtifactRegistry:
    return ArtifactRegistry(tmp_path)


def put(shelf: ArtifactRegistry, until_s: float = 2e5) -> None:
    model = Estimator.fit(HISTORY.take(HISTORY.ended_s < until_s), how=repeating(LAST_OF_NAME))
    shelf.put(Artifact(RUNTIME, 0.0, until_s, {}, model.document()))


def test_without_a_trained_model_the_baseline_serves(shelf: ArtifactRegistry):
    serving = ActiveModel(shelf, "auto")
    model = serving.model(HISTORY)
    assert isinstance(model, RuntimeModel)
    assert drift_of(model) is None
    assert serving.described(model) == "baseline: no model of runtimes was trained yet"


def test_a_trained_model_serves_with_what_ended_since(shelf: ArtifactRegistry):
    put(shelf)
    serving = ActiveModel(shelf, "auto")
    model = serving.model(HISTORY)
    assert isinstance(model, GuardedModel)
    assert model.trained_until_s == HISTORY.ended_s.max()
    assert model.drift.runs > 0
    assert serving.described(model) == "trained: last two of user and name"


def test_a_new_model_is_noticed_once(shelf: ArtifactRegistry):
    serving = ActiveModel(shelf, "auto")
    assert serving.stale()
    serving.model(HISTORY)
    assert not serving.stale()
    put(shelf)
    assert serving.stale()
    serving.model(HISTORY)
    assert not serving.stale()


def test_an_admin_who_wants_the_baseline_gets_it(shelf: ArtifactRegistry):
    put(shelf)
    serving = ActiveModel(shelf, "auto")
    serving.model(HISTORY)
    serving.wanted = "baseline"
    assert serving.stale()
    model = serving.model(HISTORY)
    assert isinstance(model, RuntimeModel)
    assert serving.described(model) == "baseline: models.serve says so"


def damaged(path: Path) -> None:
    path.write_text(path.read_text()[:-40])


def careless(path: Path) -> None:
    path.write_text(path.read_text().replace('"trained_from_s":0.0', '"trained_from_s":1.0'))


def nonsense(path: Path) -> None:
    content = json.loads(path.read_text())
    content["model"]["misses"]["kind"] = [999] * len(content["model"]["misses"]["kind"])
    del content["digest"]
    path.write_text(json.dumps(content | {"digest": digest_of(content)}))


@pytest.mark.parametrize("spoil", [damaged, careless, nonsense])
def test_an_unusable_model_costs_one_warning_and_the_baseline_serves(shelf: ArtifactRegistry, spoil, caplog):
    put(shelf)
    spoil(shelf.path(RUNTIME))
    serving = ActiveModel(shelf, "auto")
    with caplog.at_level(logging.WARNING):
        model = serving.model(HISTORY)
    assert isinstance(model, RuntimeModel)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["the baseline forecasts"]
    assert serving.described(model).startswith("baseline: ")
    assert not serving.stale()

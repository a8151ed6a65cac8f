"""Models as people see them: figures, and a page that needs nothing else."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from outcome_worlds import busy_site

from slurmsched.cluster.columns import Labels
from slurmsched.errors import ModelUnusable
from slurmsched.models.artifact import Artifact
from slurmsched.models.ebm.additive import Additive, AdditiveTerm
from slurmsched.models.ebm.bins import Continuous, Nominal
from slurmsched.models.model_card import model_card
from slurmsched.models.model_drawing import line
from slurmsched.models.registry import shipped
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.intervals import STEP
from slurmsched.models.runtime.mixture import Mixture, Part
from slurmsched.models.runtime.point_predictors import LAST_OF_NAME, Ga2m, repeating

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    """Tables of a number, a text from outside and the pair of both."""
    features = (Continuous("limit", np.array([6.0, 8.0]), np.array([7.0])), Nominal("user", ("alice", EVIL)))
    terms = (
        AdditiveTerm(("limit",), np.array([0.0, -1.0, 0.1, 0.9, 0.0]), np.array([0.0, 10.0, 10.0, 10.0, 0.0])),
        AdditiveTerm(("user",), np.array([0.0, 0.1, -0.1, 0.0]), np.array([0.0, 15.0, 15.0, 0.0])),
        AdditiveTerm(("limit", "user"), np.zeros((4, 4)), np.ones((4, 4))),
    )
    center = Ga2m(Additive(features, terms, 6.0), Mixture({3: Part("user_last", 0.4, 0.2, 2.0)}))
    document = Estimator.fit(busy_site(1500), how=repeating(LAST_OF_NAME)).document()
    return Artifact("runtime", 0.0, 86400.0, {"pinball": 0.3}, document | {"center": center.document()})


def test_the_weightiest_term_comes_first_in_words(artifact: Artifact):
    found = model_card(artifact).importances["log runtime"]
    assert list(found) == ["time limit", "user", "time limit and user"]
    assert found["time limit"] == pytest.approx(2.0 / 3.0)


def test_calibration_is_of_runs_that_training_had_not_seen(artifact: Artifact):
    seen = model_card(artifact)
    assert list(seen.calibration) == ["10%", "50%", "90%"]
    assert 0.75 < seen.calibration["90%"] <= 1.0
    assert seen.calibration["10%"] < seen.calibration["50%"] < seen.calibration["90%"]


def test_the_page_loads_nothing_and_runs_nothing(artifact: Artifact):
    page = model_card(artifact).page()
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=|<script|@import|url\(", page)
    assert "&lt;script&gt;" in page


def test_the_page_draws_each_term_and_says_the_mixture(artifact: Artifact):
    page = model_card(artifact).page()
    for title in ("time limit", "user", "time limit and user", "Calibration", "Importance: log runtime"):
        assert f"<h2>{title}</h2>" in page
    assert "40% for the last two runs of this user" in page
    assert artifact.digest in page
    assert page.count("<polyline") == 2


def test_a_sharing_model_is_shown_as_its_tree_with_the_source():
    seen = model_card(shipped())
    assert seen.text.startswith("if memory-controller utilisation <=")
    assert "CC-BY-4.0" in seen.text
    assert "Jumbo" in seen.page()


def test_a_model_that_repeats_has_no_tables():
    document = Estimator.fit(busy_site(300), how=repeating(LAST_OF_NAME)).document()
    seen = model_card(Artifact("runtime", 0.0, 1.0, {}, document))
    assert seen.importances == {}
    assert seen.text == "forecasts by: last two of user and name"


def test_what_describes_no_model_is_refused():
    with pytest.raises(ModelUnusable):
        model_card(Artifact("runtime", 0.0, 1.0, {}, {"center": {"kind": "oracle"}}))
    with pytest.raises(ModelUnusable, match="at no time there is"):
        model_card(Artifact("sharing", 1e30, 1.0, {}, dict(shipped().model))).page()


def test_tables_of_texts_show_the_most_frequent(artifact: Artifact):
    many = Nominal("user", tuple(f"user{number}" for number in range(30)))
    weights = np.arange(32.0)
    term = AdditiveTerm(("user",), np.ones(32), weights)
    model = Additive((many,), (term,), 0.0)
    assert model.predict({"user": Labels.of(["user3"])}) == pytest.approx([1.0])
    document = dict(artifact.model) | {"center": Ga2m(model, Mixture({})).document()}
    page = model_card(Artifact("runtime", 0.0, 1.0, {}, document)).page()
    assert "user29" in page
    assert "user3:" not in page


def test_runs_that_were_told_by_nothing_prove_no_bound(artifact: Artifact):
    misses = {name: values[: STEP - 1] for name, values in artifact.model["misses"].items()}
    seen = model_card(replace(artifact, model=artifact.model | {"misses": misses}))
    assert (dict(seen.calibration), len(seen.covered)) == ({}, 0)
    assert "Calibration" not in seen.page()


def test_each_point_of_the_calibration_is_seen_even_where_it_is_the_only_one():
    assert line(np.array([0.9]), 0.9).count("<circle") == 1

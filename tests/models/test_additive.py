"""Additive models: tables that say what interpret says, and can be read, kept and bent."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels
from slurmsched.models.ebm.additive import Additive, Boosting, Columns, isotonic, without_vector_units
from slurmsched.models.ebm.dictionary_column import DictionaryColumn

QUICK = Boosting(outer_bags=2, max_rounds=120, max_bins=32, max_interaction_bins=8, smoothing_rounds=20)
PAIRS = [("gpus", "user"), ("gpus", "hours"), ("user", "queue")]


def world(rows: int, seed: int) -> dict[str, np.ndarray | Labels]:
    """Numbers with gaps and infinities, texts with gaps, a text listed twice."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0, np.nan], rows)
    hours = np.where(rng.random(rows) < 0.1, np.nan, rng.gamma(2.0, 5.0, rows))
    hours[rng.random(rows) < 0.05] = np.inf
    user = Labels(rng.integers(0, 6, rows), ("ann", "bob", "", "cay", "ann", "10"))
    queue = Labels.of(rng.choice(["a", "b"], rows).tolist())
    return {"gpus": gpus, "hours": hours, "user": user, "queue": queue}


def answer(columns: Columns) -> np.ndarray:
    ann = np.array([text == "ann" for text in columns["user"]])
    hours = np.nan_to_num(columns["hours"], posinf=60.0)
    return np.log1p(np.nan_to_num(columns["gpus"])) * (1.0 + ann) + 0.05 * hours


@pytest.fixture(scope="module")
def fitted() -> Additive:
    columns = world(1_200, 1)
    return Additive.fit(columns, answer(columns), interactions=PAIRS, boosting=QUICK, seed=1)


@pytest.mark.parametrize("objective", ["rmse", "poisson_deviance"])
def test_the_tables_say_what_interpret_says(objective):
    from interpret.glassbox import ExplainableBoostingRegressor

    columns = world(1_200, 1)
    names = list(columns)
    settings = vars(QUICK) | {"objective": objective}
    model = Additive.fit(columns, answer(columns), interactions=PAIRS, boosting=Boosting(**settings), seed=1)
    machine = ExplainableBoostingRegressor(
        feature_names=names,
        feature_types=["continuous", "continuous", "nominal", "nominal"],
        interactions=[(names.index(a), names.index(b)) for a, b in PAIRS],
        random_state=1,
        **settings,
    )
    with without_vector_units(), pytest.warns(UserWarning, match="Missing values"):
        machine.fit(as_texts(columns), answer(columns))
    others = world(3_000, 2)
    others["user"] = Labels(others["user"].codes, ("ann", "bob", "", "cay", "ann", "never seen"))
    np.testing.assert_allclose(model.predict(others), machine.predict(as_texts(others)), rtol=0, atol=1e-6)
    terms = machine.eval_terms(as_texts(others))
    np.testing.assert_allclose(model.contributions(others), terms, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.importances, machine.term_importances(), rtol=0, atol=1e-6)


def as_texts(columns: Columns) -> dict[str, np.ndarray]:
    """The columns as interpret takes them: texts as objects, None for a missing one."""
    return {
        name: np.array([text or None for text in column], dtype=object) if isinstance(column, Labels) else column
        for name, column in columns.items()
    }


def test_contributions_and_intercept_add_up_to_the_prediction(fitted):
    columns = world(500, 3)
    total = fitted.intercept + fitted.contributions(columns).sum(axis=1)
    np.testing.assert_allclose(total, fitted.predict(columns), atol=1e-12)
    assert fitted.names[-1].count(" & ") == 1


def test_numbers_that_rows_have_in_common_are_looked_up_alike(fitted):
    columns = world(500, 5)
    for seed in (0, 1):  # the second time with other values, of which nothing may be left over
        values = np.append(np.random.default_rng(seed).gamma(2.0, 5.0, 40), np.nan)
        for name in ("hours", "gpus"):
            codes = np.random.default_rng(2).integers(-1, 40, 500)
            common, plain = (columns | {name: column} for column in (DictionaryColumn(values, codes), values[codes]))
            assert np.array_equal(fitted.predict(common), fitted.predict(plain))
            assert np.array_equal(fitted.contributions(common), fitted.contributions(plain))
    rising = fitted.monotone("gpus")
    assert np.array_equal(rising.predict(common), rising.predict(plain)), "a model made of another one starts afresh"


def test_a_model_survives_json_without_loss(fitted):
    back = Additive.of_document(json.loads(json.dumps(fitted.document())))
    columns = world(500, 4)
    assert np.array_equal(back.predict(columns), fitted.predict(columns))
    assert back.document() == fitted.document()


def test_the_same_rows_and_seed_give_the_same_model(fitted):
    columns = world(1_200, 1)
    again = Additive.fit(columns, answer(columns), interactions=PAIRS, boosting=QUICK, seed=1)
    assert again.document() == fitted.document()


def test_it_learns_what_the_world_is_like(fitted):
    columns = world(2_000, 5)
    error = np.abs(fitted.predict(columns) - answer(columns)).mean()
    assert error < 0.3 * np.abs(answer(columns) - np.median(answer(columns))).mean()


def test_a_monotone_model_never_falls_as_its_feature_grows():
    columns = world(1_500, 6)
    noisy = answer(columns) + np.random.default_rng(0).normal(0.0, 2.0, 1_500)
    model = Additive.fit(columns, noisy, interactions=PAIRS, boosting=QUICK, seed=1)
    ladder = np.linspace(0.0, 80.0, 200)
    steps = dict.fromkeys((False, True), 0.0)
    for bent in (False, True):
        told = model.monotone("hours") if bent else model
        for gpus in (1.0, 8.0, np.nan):
            for user in ("ann", "", "new"):
                ahead = {
                    "gpus": np.full(200, gpus),
                    "hours": ladder,
                    "user": Labels.of([user] * 200),
                    "queue": Labels.of(["a"] * 200),
                }
                steps[bent] = min(steps[bent], float(np.diff(told.predict(ahead)).min()))
    assert steps[False] < -1e-6
    assert steps[True] > -1e-9


def test_rows_that_no_bag_trains_on_do_not_matter():
    columns = world(1_000, 9)
    target = answer(columns)
    bags = np.where(np.arange(1_000) < 600, 1, -1).astype(np.int8)
    bags[800:] = 0
    spoilt = np.where(np.arange(1_000) < 800, target, 0.5 * target)
    first, second = (
        Additive.fit(columns, values, bags=np.column_stack([bags] * 3), boosting=QUICK, seed=1)
        for values in (target, spoilt)
    )
    np.testing.assert_array_equal(first.terms[0].scores, second.terms[0].scores)


def test_only_a_continuous_feature_can_be_made_monotone(fitted):
    with pytest.raises(ValueError, match="user is not a continuous feature"):
        fitted.monotone("user")


def test_a_column_without_a_value_is_left_out():
    columns = world(400, 7)
    empty = {"power": np.full(400, np.nan), "note": Labels.of([""] * 400)}
    pairs = [("power", "gpus"), ("gpus", "user")]
    model = Additive.fit(columns | empty, answer(columns), interactions=pairs, boosting=QUICK, seed=1)
    assert set(model.names) == {"gpus", "hours", "user", "queue", "gpus & user"}
    assert model.predict(columns).shape == (400,)


def test_what_does_not_fit_the_model_is_named(fitted):
    columns = world(10, 8)
    with pytest.raises(ValueError, match="needs the column hours"):
        fitted.predict({name: column for name, column in columns.items() if name != "hours"})
    with pytest.raises(ValueError, match="hours was trained on numbers"):
        fitted.predict(columns | {"hours": columns["user"]})
    with pytest.raises(ValueError, match="user was trained on texts"):
        fitted.predict(columns | {"user": columns["gpus"]})
    with pytest.raises(ValueError, match="finite"):
        Additive.fit(columns, np.full(10, np.nan), seed=1)


def test_a_document_with_tables_of_another_size_is_refused(fitted):
    document = fitted.document()
    document["terms"][0]["scores"].append(1.0)
    with pytest.raises(ValueError, match="reshape"):
        Additive.of_document(document)


def test_a_document_with_a_category_that_is_no_text_is_refused(fitted):
    document = fitted.document()
    texts = next(feature for feature in document["features"] if feature["categories"])
    texts["categories"][0] = None
    with pytest.raises(ValueError, match=f"{texts['name']} has a category that is no text"):
        Additive.of_document(document)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0.0, 1e3)), min_size=1, max_size=40))
def test_isotonic_never_falls_keeps_the_mean_and_what_already_rises(pairs):
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    fit = isotonic(values, weights + 1.0)
    assert (np.diff(fit) >= -1e-9).all()
    assert np.average(fit, weights=weights + 1.0) == pytest.approx(np.average(values, weights=weights + 1.0), abs=1e-4)
    np.testing.assert_allclose(isotonic(np.sort(values), weights), np.sort(values), atol=1e-9)

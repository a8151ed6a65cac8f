"""Sharing: a tree that people can read, and never takes a heavier job for a lighter one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.models.sharing import decision_tree
from slurmsched.models.sharing.decision_tree import Leaf, Split
from slurmsched.models.sharing.sharing_model import (
    JUMBO,
    MEDIUM,
    TINY,
    GpuUse,
    PairCurve,
    SharingModel,
    score_of_speed,
)
from slurmsched.models.sharing.speed_curve import SpeedCurve

DATA = Path(__file__).parents[1] / "data/lucid_single_data.csv"
ROOT = Split("gpu_util", 0.25, Leaf(0.1, 12), Split("memory_mib", 8000.0, Leaf(1.2, 7), Leaf(1.9, 9)))
MODEL = SharingModel(
    ROOT,
    PairCurve(np.array([0.5, 1.2, 1.6]), np.array([1.0, 0.9, 0.3])),
    SpeedCurve(np.array([0.5, 1.6]), np.array([0.97, 0.5])),
)


def kept(good: np.ndarray) -> np.ndarray:
    """Speeds of pairs, of which these kept their speed."""
    return np.where(good[:, None], 0.95, 0.6) * np.ones(2)


def use(*rows: tuple[float, float, float, float]) -> GpuUse:
    return GpuUse(*(np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)))


def drawn(rows: int, seed: int) -> tuple[GpuUse, np.ndarray]:
    """Jobs whose score grows with their use, with some noise."""
    rng = np.random.default_rng(seed)
    util, memory = rng.random(rows), rng.random(rows)
    score = np.clip(np.round(2.4 * util * (0.5 + memory) + rng.normal(0.0, 0.2, rows)), 0, 2).astype(np.int64)
    return GpuUse(util, memory, rng.uniform(1e3, 2e4, rows), rng.integers(0, 2, rows).astype(np.float64)), score


def fit() -> SharingModel:
    jobs, score = drawn(150, 0)
    sums = np.random.default_rng(0).uniform(0.0, 2.0, 300)
    return SharingModel.fit(jobs, score, sums, kept(sums < 1.2), seed=1)


@pytest.fixture(scope="module")
def fitted() -> SharingModel:
    return fit()


def test_a_job_is_scored_by_its_measured_use():
    jobs = use((0.2, 0.1, 9000.0, 0.0), (0.5, 0.1, 3000.0, 1.0), (0.5, 0.1, 9000.0, 0.0))
    assert MODEL.score(jobs).tolist() == [TINY, MEDIUM, JUMBO]


def test_a_job_that_was_not_measured_is_never_light(fitted):
    assert MODEL.score(use((np.nan,) * 4)).tolist() == [JUMBO]
    assert fitted.score(use((np.nan,) * 4)).tolist() == [JUMBO]
    assert MODEL.why(use((0.5, 0.1, np.nan, 0.0)), 0).startswith(
        "GPU utilisation 0.5 > 0.25, GPU memory in MiB not mea"
    )


def test_the_path_of_a_job_is_told_in_words():
    assert MODEL.why(use((0.5, 0.1, 3000.0, 1.0)), 0) == (
        "GPU utilisation 0.5 > 0.25, GPU memory in MiB 3000 <= 8000, "
        "so Medium (mean score 1.20 of 7 measured configurations)"
    )


def test_the_whole_tree_is_told_in_words():
    assert MODEL.text().splitlines() == [
        "if GPU utilisation <= 0.25:",
        "  Tiny (mean score 0.10 of 12 measured configurations)",
        "else:",
        "  if GPU memory in MiB <= 8000:",
        "    Medium (mean score 1.20 of 7 measured configurations)",
        "  else:",
        "    Jumbo (mean score 1.90 of 9 measured configurations)",
    ]


def test_more_use_never_gives_a_lighter_score():
    jobs, score = drawn(120, 3)
    noisy = np.where(np.random.default_rng(1).random(120) < 0.15, 2 - score, score)
    model = SharingModel.fit(jobs, noisy, np.zeros(0), np.zeros((0, 2)), seed=1)
    base, _ = drawn(400, 4)
    for feature, more in (("gpu_util", 0.3), ("memory_util", 0.3), ("memory_mib", 5e3)):
        heavier = replace(base, **{feature: getattr(base, feature) + more})
        assert (model.score(heavier) >= model.score(base)).all()
    assert len(set(model.score(base).tolist())) > 1


def test_the_served_tree_says_what_scikit_learn_says():
    from sklearn.tree import DecisionTreeRegressor

    jobs, score = drawn(200, 5)
    table = np.column_stack([*jobs.columns().values()])
    root = decision_tree.grow(jobs.columns(), score.astype(np.float64), rising=("gpu_util",), least=3, seed=1)
    ends = list(decision_tree.leaves(root))
    paths = DecisionTreeRegressor(min_samples_leaf=3, monotonic_cst=[1, 0, 0, 0], random_state=0)
    strengths = paths.cost_complexity_pruning_path(table, score).ccp_alphas
    told = [
        DecisionTreeRegressor(min_samples_leaf=3, monotonic_cst=[1, 0, 0, 0], random_state=0, ccp_alpha=strength + 1e-9)
        .fit(table, score)
        .predict(table)
        for strength in strengths
    ]
    ours = decision_tree.predict(root, jobs.columns())
    assert any(np.allclose(ours, theirs, atol=1e-12) for theirs in told)
    assert sum(leaf.rows for leaf in ends) == 200
    assert min(leaf.rows for leaf in ends) >= 3


def test_the_tree_learns_what_the_world_is_like(fitted):
    jobs, score = drawn(1_000, 7)
    assert (fitted.score(jobs) == score).mean() > 0.7


def test_the_same_rows_and_seed_give_the_same_model(fitted):
    assert fit().document() == fitted.document()


def test_a_model_survives_json_without_loss(fitted):
    back = SharingModel.of_document(json.loads(json.dumps(fitted.document())))
    assert back.root == fitted.root
    assert back.document() == fitted.document()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tree": Split("colour", 1.0, Leaf(0.0, 1), Leaf(1.0, 1))}, "the tree asks for colour"),
        ({"pairs": {"sums": [1.0, 0.5], "chances": [1.0, 0.5]}}, "increasing sums"),
        ({"pairs": {"sums": [1.0], "chances": []}}, "as many"),
    ],
)
def test_a_document_that_describes_no_model_is_refused(change, why):
    if "tree" in change:
        change = {"tree": decision_tree.document(change["tree"])}
    with pytest.raises(ValueError, match=why):
        SharingModel.of_document(MODEL.document() | change)


def test_training_needs_configurations_that_were_measured():
    with pytest.raises(ValueError, match="measured in full"):
        SharingModel.fit(use((0.5, np.nan, 1e3, 0.0)), np.array([1]), np.zeros(0), np.zeros((0, 2)), seed=1)


def test_a_score_follows_the_mean_speed_beside_others():
    assert score_of_speed(np.array([1.0, 0.95, 0.94, 0.85, 0.84, np.nan])).tolist() == [0, 0, 1, 1, 2, 2]
    assert score_of_speed(np.array([0.92]), tiny=0.9).tolist() == [TINY]


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=60))
def test_the_chance_of_a_pair_never_rises_with_its_sum(pairs):
    sums = np.array([value / 10 for value, _ in pairs])
    good = np.array([kept for _, kept in pairs])
    curve = PairCurve.fit(sums, good)
    ladder = curve.chance(np.linspace(-0.1, 2.2, 60))
    assert (np.diff(ladder) <= 1e-12).all()
    assert ((ladder >= 0.0) & (ladder <= 1.0)).all()
    assert curve.chance(sums).mean() == pytest.approx(good.mean())
    for chance in (0.2, 0.85):
        assert ((sums <= curve.limit(chance)) == (curve.chance(sums) >= chance)).all()


def test_a_pair_beyond_what_was_measured_has_no_chance():
    assert MODEL.pairs.chance(np.array([0.4, 0.5, 0.6, 1.6, 1.7, np.inf, np.nan])).tolist() == [
        1.0, 1.0, 0.9, 0.3, 0.0, 0.0, 0.0,
    ]  # fmt: skip
    assert MODEL.pairs.limit(0.9) == 1.2
    assert MODEL.pairs.limit(1.1) == -np.inf
    assert PairCurve.fit(np.zeros(0), np.zeros(0, dtype=np.bool_)).limit(0.5) == -np.inf


def test_half_of_the_measured_configurations_tell_about_the_other_half():
    table = np.genfromtxt(DATA, delimiter=",", skip_header=1, usecols=(3, 5, 6, 7, 8))
    amp, util, memory, mib, label = table.T
    jobs = GpuUse(util / 100, memory / 100, mib, amp)
    half = np.arange(len(label)) % 2 == 0
    model = SharingModel.fit(jobs.take(half), label[half].astype(np.int64), np.zeros(0), np.zeros((0, 2)), seed=1)
    assert (model.score(jobs.take(~half)) == label[~half]).mean() > 0.6


def test_a_speed_curve_is_the_mean_of_measured_pairs_and_never_rises():
    curve = SpeedCurve.fit(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0.9, 1.0, 0.5, 0.7]))
    assert curve.speed(np.array([0.0, 0.2, 0.4, 0.5, 0.8, 2.0])).tolist() == pytest.approx(
        [0.95, 0.95, 0.95, 0.775, 0.6, 0.6]
    )
    assert curve.speed(np.array([np.nan])).tolist() == [0.0]
    assert curve.knots() == ((0.2, 0.95), (0.4, 0.95), (0.6, 0.6), (0.8, 0.6))


def test_the_speed_curve_of_a_model_comes_back_from_its_document(fitted):
    document = json.loads(json.dumps(fitted.document()))
    assert SharingModel.of_document(document).speeds.knots() == fitted.speeds.knots()


@pytest.mark.parametrize(
    ("sums", "speeds"), [([], []), ([0.1], [0.9, 0.8]), ([0.2, 0.1], [0.9, 0.8]), ([0.1, 0.2], [0.8, 0.9]), ([1], [0])]
)
def test_a_speed_curve_with_other_knots_is_refused(sums, speeds):
    with pytest.raises(ValueError, match="speed curve"):
        SpeedCurve.of(sums, speeds)

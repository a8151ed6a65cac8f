"""The learned order of MLFS: its features, its weights as text, its fallback, and its explanation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, running_jobs, view, views
from hypothesis import given

from examples import examples
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.errors import ConfigError
from slurmsched.explain.order_terms import terms_of
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.ordering.mlfs import Terms
from slurmsched.policies.ordering.mlfs_rl import FEATURES, Actor, Supply, features
from slurmsched.powers import decide
from slurmsched.research.conformance.random_views import random_view

WIDE, UNITS = len(FEATURES), 5


def actor(seed: int = 0, span: float = 20.0) -> Actor:
    random = np.random.default_rng(seed)
    shapes = ((WIDE,), (WIDE, UNITS), (UNITS,), (UNITS,))
    linear, into, offset, out = (random.normal(size=shape).astype(np.float32).astype(float) for shape in shapes)
    return Actor(linear, np.full(WIDE, -span), np.full(WIDE, span), into, offset, out)


def rows_of_view(seen):
    return features(Terms.of(seen), Supply.of(seen))


LINE = f"mlfs-rl actor={actor().text}"


def test_weights_survive_as_text_bit_for_bit():
    rows = np.random.default_rng(1).normal(size=(40, WIDE))
    again = Actor.of_text(actor().text)
    assert again.text == actor().text
    assert np.array_equal(again.scores(rows), actor().scores(rows))


@pytest.mark.parametrize(
    "text",
    ["AAAA", "not/base64!", actor().text[:-8], replace(actor(), out=np.full(UNITS, np.inf)).text, "ä"],
)
def test_text_that_is_no_weights_is_refused_with_the_command_that_makes_some(text):
    with pytest.raises(ConfigError, match="slurmsched train --model actor"):
        find_ordering(f"mlfs-rl actor={text}")


@given(views())
@examples(50)
def test_features_are_finite_and_the_score_of_a_job_depends_on_its_own_row_alone(seen):
    rows = rows_of_view(seen)
    assert rows.shape == (len(seen.pending), WIDE)
    assert np.isfinite(rows).all()
    scores = actor().scores(rows)
    assert [float(actor().scores(row[None])[0]) for row in rows] == scores.tolist()


def test_features_describe_the_job_and_the_queue():
    waiting = jobs(2, gpus=[2, 8], deadline_s=[NOW_S - 1, np.inf], first_submit_s=[NOW_S - 3600, NOW_S])
    seen = view(waiting, [3600, 7200], running=running_jobs(1, gpus=[1]))
    found = dict(zip(FEATURES, rows_of_view(seen).T.tolist(), strict=True))
    assert found["remaining time"] == pytest.approx([0, np.log(2)])
    assert found["deadline passed"] == [1, 0]
    assert found["waiting time"] == pytest.approx([np.log(2), 0])
    assert found["rank by work"] == [0, 0.5]
    free, total = Supply.of(seen)[:2]
    assert found["free GPUs"] == [free / total] * 2
    assert (total - free, found["fits now"]) == (1, [free >= 2, free >= 8])


def test_a_job_fits_when_running_ones_are_expected_to_have_freed_enough_gpus():
    terms = Terms.of(view(jobs(3, gpus=[1, 4, 16]), [3600] * 3))
    supply = Supply(2.0, 8.0, np.array([3600.0, 7200.0]), np.array([1.0, 5.0]))
    found = dict(zip(FEATURES, features(terms, supply).T.tolist(), strict=True))
    assert np.expm1(found["time until it fits"]) == pytest.approx([0, 2, 2])
    assert np.expm1(found["idle GPUs until then"]) == pytest.approx([0, 2 + 3, 2 + 3])


def test_without_weights_the_order_is_that_of_mlfs_h():
    seen = random_view(np.random.default_rng(3), 20)
    assert np.array_equal(find_ordering("mlfs-rl")(seen), find_ordering("mlfs-h")(seen))


def test_scores_that_are_no_numbers_give_the_order_of_mlfs_h():
    seen, found = random_view(np.random.default_rng(3), 20), find_ordering(LINE)
    broken = replace(found, function=replace(found.function, actor=replace(actor(), linear=np.full(WIDE, np.inf))))
    with np.errstate(invalid="ignore"):
        assert np.array_equal(broken(seen), find_ordering("mlfs-h")(seen))


def test_features_beyond_the_trained_range_count_as_its_end_and_are_named():
    narrow = actor(span=0.5)
    rows = np.zeros((2, WIDE))
    rows[1, 3] = 7
    at_end = rows.copy()
    at_end[1, 3] = 0.5
    assert narrow.scores(rows).tolist() == narrow.scores(at_end).tolist()
    assert narrow.unfamiliar(rows).tolist() == [False, True]


@pytest.mark.parametrize("seed", range(5))
def test_contributions_add_up_to_the_score(seed):
    rows = np.random.default_rng(seed).normal(size=(30, WIDE))
    one = actor(seed)
    middle = one.scores(np.zeros((1, WIDE)))
    assert one.contributions(rows).sum(axis=1) + middle == pytest.approx(one.scores(rows))


@pytest.mark.parametrize("seed", range(10))
def test_what_jobs_say_of_themselves_moves_no_job_of_another_account(seed):
    random = np.random.default_rng(seed)
    account = random.choice(["astro", "bio"], 12).tolist()
    runtime_s = random.uniform(60, 1e6, 12).tolist()
    says = ["slurmsched:urgency=10,deadline=+1m" if name == "bio" else "" for name in account]
    keys = [
        find_ordering(LINE)(view(jobs(12, account=account, comment=words), runtime_s)) for words in ([""] * 12, says)
    ]
    quiet, loud = keys
    mine = np.array(account) == "bio"
    assert np.array_equal(quiet[~mine], loud[~mine])
    assert sorted(quiet[mine]) == sorted(loud[mine])


def test_a_decision_and_its_record_have_the_weights():
    seen = random_view(np.random.default_rng(5), 20)
    policy = Policy(find_ordering(LINE), Rules(powers=frozenset({"order"}), max_points=1000))
    again = Policy.from_json(policy.to_json())
    assert again.ordering.line == LINE
    plans = [decide(seen, one.ordering, one.rules) for one in (again, policy)]
    assert list(differences(*plans, seen.pending)) == []


def test_an_explanation_has_contributions_features_and_the_place_under_mlfs_h():
    seen = view(jobs(3), [600, 1200, 2400])
    ordering = find_ordering(LINE)
    text = " ".join(terms_of(seen, ordering, 1))
    assert "By mlfs-rl its key is" in text
    assert "remaining time" in text
    assert "mlfs-h would have it in place 2 of 3." in text

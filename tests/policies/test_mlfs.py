"""The order of MLFS: its terms, and how far what a job says of itself moves it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import NOW_S, jobs, view
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.errors import ConfigError
from slurmsched.explain.order_terms import terms_of
from slurmsched.models.progress.learning_curve import LearningCurve
from slurmsched.policies.contract import find_ordering
from slurmsched.policies.ordering.mlfs import FORMS, loss_left
from slurmsched.research.conformance.random_views import random_view

ALL = "mlfs-h across=all"
ODD = st.sampled_from([-np.inf, -1.0, 0.0, 1.0, 1e9, 1e300, np.inf, np.nan])


def ranked(seen, line=ALL):
    return (np.argsort(find_ordering(line)(seen), kind="stable") + 1).tolist()


def reported(job_id, late_fall, iteration=1000):
    """Progress of jobs by the part of the fall of their loss that came late."""
    count = len(job_id)
    unknown, no = np.full(count, np.nan), np.zeros(count, dtype=np.bool_)
    return ProgressTable(
        np.array(job_id),
        np.full(count, iteration, dtype=np.int64),
        unknown,
        unknown.copy(),
        np.array(late_fall),
        no,
        no.copy(),
    )


def test_jobs_with_less_work_come_first():
    assert ranked(view(jobs(3, gpus=[8, 1, 1]), [600, 4000, 9000])) == [2, 1, 3]


def test_urgency_is_worth_a_tenth_of_a_logarithm_a_step():
    urgent = view(jobs(2, comment=["", "slurmsched:urgency=10"]), [1000, 1000 * np.exp(0.49)])
    assert ranked(urgent) == [2, 1]
    assert ranked(replace(urgent, forecast=view(jobs(2), [1000, 1000 * np.exp(0.51)]).forecast)) == [1, 2]


def test_a_job_whose_deadline_has_passed_comes_after_one_with_four_times_its_work():
    late = jobs(2, deadline_s=[NOW_S - 1, np.inf])
    assert (ranked(view(late, [1000, 4400])), ranked(view(late, [1000, 4600]))) == ([2, 1], [1, 2])


def test_a_job_that_has_hardly_any_loss_left_comes_later_and_silence_counts_as_all_of_it():
    seen = view(jobs(3), [1000, 1000, 1000])
    assert ranked(replace(seen, progress=reported([1, 2], [0.0001, 0.2]))) == [3, 2, 1]


def test_the_loss_left_is_that_of_an_exponential_curve():
    for left in (0.9, 0.5, 0.1, 0.01):
        root = left**0.25
        assert loss_left(np.array([(root**3 - left) / (1 - left)]))[0] == pytest.approx(left, abs=0.002)


def test_the_last_part_of_the_fall_of_a_loss_is_measured_by_its_reports():
    curve = LearningCurve()
    for iteration in range(101):
        curve.add(iteration, 1 + 4 * 0.01 ** (iteration / 100), np.nan)
    assert curve.late_fall == pytest.approx((0.01**0.75 - 0.01) / 0.99, abs=0.002)


def test_the_printed_form_adds_times_in_its_unit_and_multiplies_by_the_paths_of_the_graph():
    comment = ["slurmsched:urgency=9,graph=layers:8x4", "slurmsched:urgency=9,graph=chain:32", "slurmsched:urgency=9"]
    late = jobs(3, gpus=[32, 32, 32], comment=comment, deadline_s=[NOW_S + 7200] * 3, first_submit_s=[NOW_S - 3600] * 3)
    alone = -(0.3 * 9 / 32 + 0.7 * (0.3 / 2 + 0.3 / 4 + 0.35))

    def keys(dag):
        return find_ordering(f"mlfs-h form=printed unit=h across=all dag={dag}")(view(late, [4 * 3600] * 3)) / alone

    assert keys("none").tolist() == pytest.approx([1, 1, 1])
    assert keys("path").tolist() == pytest.approx([sum(0.8**at for at in range(8)), 4.996, 1], abs=1e-3)
    assert keys("sum").tolist() == pytest.approx([4997, 4.996, 1], rel=1e-3)


@pytest.mark.parametrize("form", ["max", "rank"])
def test_terms_over_their_largest_and_ranks_lie_between_0_and_1(form):
    key = find_ordering(f"mlfs-h form={form} across=all")(random_view(np.random.default_rng(1), 25))
    assert key.min() >= -(0.3 + 0.7 * 0.95) - 1e-9
    assert key.max() <= 0


@pytest.mark.parametrize("form", FORMS)
@given(deadline_s=st.lists(ODD, min_size=4, max_size=4), runtime_s=st.lists(ODD, min_size=4, max_size=4), fall=ODD)
@examples(25)
def test_keys_are_finite_whatever_the_deadlines_forecasts_and_reports(form, deadline_s, runtime_s, fall):
    seen = view(jobs(4, deadline_s=deadline_s), runtime_s)
    seen = replace(seen, progress=reported([2, 3], [fall, 0.1]))
    for across in ("account", "all"):
        assert np.isfinite(find_ordering(f"mlfs-h form={form} across={across}")(seen)).all()


def test_a_job_without_a_forecast_comes_last():
    assert ranked(view(jobs(3), [np.nan, 1e6, 600])) == [3, 2, 1]


WORDS = ("", "slurmsched:urgency=10", "slurmsched:urgency=0", "slurmsched:deadline=+1m", "slurmsched:graph=layers:8x4")


@pytest.mark.parametrize("line", [*(f"mlfs-h form={form} dag=sum" for form in FORMS), "slaq", "hypersched"])
@given(seed=st.integers(0, 2**32 - 1), alike=st.booleans())
@examples(25)
def test_what_jobs_say_of_themselves_moves_no_job_of_another_account(line, seed, alike):
    random = np.random.default_rng(seed)
    names, hostile = random.choice(["astro", "bio", "chem"], 12), "bio"
    runtime_s = np.full(12, 3600.0) if alike else random.uniform(60, 1e6, 12)
    quiet = view(jobs(12, account=names.tolist()), runtime_s.tolist())
    comment = [str(random.choice(WORDS)) if name == hostile else "" for name in names]
    deadline_s = np.where(names == hostile, NOW_S + random.uniform(-1e5, 1e5, 12), np.inf)
    pending = jobs(12, account=names.tolist(), comment=comment, deadline_s=deadline_s)
    loud = replace(quiet, pending=pending)
    loud = replace(
        loud, progress=reported(loud.pending.job_id[names == hostile], random.random((names == hostile).sum()))
    )
    others = [job for job in ranked(quiet, line) if names[job - 1] != hostile]
    places = [place for place, job in enumerate(ranked(quiet, line)) if names[job - 1] != hostile]
    assert [ranked(loud, line)[place] for place in places] == others


def test_in_its_own_account_a_job_moves_by_what_it_says():
    words = ["slurmsched:urgency=0", "", "slurmsched:urgency=10"]
    seen = view(jobs(3, account=["bio", "astro", "bio"], comment=words), [1000, 1100, 1200])
    assert (ranked(seen, "mlfs-h"), ranked(seen)) == ([3, 2, 1], [3, 2, 1])
    seen = view(jobs(3, account=["bio", "astro", "bio"], comment=words), [1000, 1900, 1950])
    assert (ranked(seen, "mlfs-h"), ranked(seen)) == ([3, 2, 1], [3, 1, 2])


@pytest.mark.parametrize("line", ["mlfs-h", "slaq", "hypersched"])
def test_jobs_that_are_alike_but_for_what_they_report_change_places_within_their_account(line):
    alike = jobs(4, account=["bio", "astro", "bio", "astro"], ran_s=[3600.0] * 4, restarts=[1] * 4)
    seen = replace(view(alike, [7200] * 4), progress=reported([1, 3], [0.0001, 0.2]))
    assert ranked(seen, line) == [3, 2, 1, 4]


def test_explain_names_each_term_of_the_key():
    order = find_ordering("mlfs-h")
    seen = view(jobs(2, account=["bio", "astro"], gpus=[4, 1], comment=["slurmsched:urgency=7", ""]), [1000, 50])
    text = " ".join(terms_of(seen, order, 0))
    assert "remaining time 6.91 + GPUs 1.39 + deadline passed 0 + urgency -0.7 + loss still to lose" in text
    assert "key is 7.594" in text
    assert "the place of the key 7.794" in text
    assert terms_of(seen, find_ordering("sjf"), 0) == ()


@pytest.mark.parametrize("words", ["form=wide", "unit=day", "dag=1", "across=site", "alpha=2", "gain=x", "speed=1"])
def test_a_parameter_that_makes_no_sense_is_refused_by_name(words):
    with pytest.raises(ConfigError, match="mlfs-h"):
        find_ordering(f"mlfs-h {words}")


def test_the_forms_of_the_paper_order_a_queue_and_the_logarithms_let_jobs_yield():
    assert [find_ordering(f"mlfs-h form={form}").selection for form in FORMS] == ["preemptive", *["backfill"] * 3]


def test_slaq_and_hypersched_prefer_jobs_with_more_to_gain():
    seen = view(jobs(3, ran_s=[3600.0, 3600.0, 3600.0], restarts=[1, 1, 1]), [7200] * 3)
    seen = replace(seen, progress=reported([1, 2, 3], [0.001, 0.2, 0.05]))
    assert ranked(seen, "slaq") == ranked(seen, "hypersched") == [2, 3, 1]


def test_fair_gives_the_account_with_fewest_gpus_in_use_its_turn():
    accounts = ["a", "a", "b", "b"]
    seen = view(jobs(4, account=accounts, gpus=[1, 1, 1, 4]), running=jobs(1, job_id=[99], account=["a"], gpus=[2]))
    assert ranked(seen, "fair") == [3, 1, 2, 4]


@pytest.mark.parametrize("line", ["mlfs-h", "mlfs-h form=printed dag=sum", "mlfs-rl", "slaq", "hypersched"])
def test_500_hostile_reports_change_the_order_of_their_own_account_alone(line):
    random = np.random.default_rng(0)
    names = random.permutation(["bio"] * 500 + ["astro"] * 60 + ["chem"] * 60)
    runtime_s = random.uniform(60, 1e6, len(names)).tolist()
    quiet = view(jobs(len(names), account=names.tolist()), runtime_s)
    liars = quiet.pending.job_id[names == "bio"]
    odd = random.choice([-np.inf, -1.0, 0.0, 1.0, 1e300, np.inf, np.nan], len(liars))
    loud = replace(quiet, progress=reported(liars, odd, iteration=random.integers(0, 2**62, len(liars))))
    before, after = (np.array(ranked(seen, line)) for seen in (quiet, loud))
    others = names[before - 1] != "bio"
    assert np.array_equal(before[others], after[others])
    assert sorted(before[~others]) == sorted(after[~others])

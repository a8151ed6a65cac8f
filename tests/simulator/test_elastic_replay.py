"""Promises of the elastic simulator, on small worlds that can be worked out by hand and on any."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.errors import ConfigError
from slurmsched.policies.ordering.wfq import Wfq
from slurmsched.research.elastic.applications import Applications, Curves, applications, read_speedups
from slurmsched.research.elastic.experiment import POLICIES, Policy, replay
from slurmsched.research.elastic.samples import MOST_SERVICE_S, MOST_TRIALS, Split, automl, sample, windows
from slurmsched.simulator.workload.workload import workload

TWO_CLASSES = Wfq((100.0, math.inf), (0.75, 0.25), 0.6, 0.1)
EVERY: list[Policy] = [*POLICIES, TWO_CLASSES]


def apps(*rows: tuple[float, float, int], curve: tuple[float, ...] | None = None) -> Applications:
    """Applications as (submit, work, demand), all on *curve* or with a linear speed-up."""
    submit_s, service_s, demand = (np.array(column) for column in zip(*sorted(rows), strict=True))
    known = {} if curve is None else {"curve": np.array(curve)}
    curves = Curves.of(known, int(demand.max()))
    return Applications(submit_s * 1.0, service_s * 1.0, demand, np.zeros(len(rows), np.int64), curves)


@st.composite
def worlds(draw: st.DrawFn) -> Applications:
    rows = draw(
        st.lists(st.tuples(st.integers(0, 200), st.integers(1, 500), st.integers(1, 6)), min_size=1, max_size=12)
    )
    curve = draw(st.sampled_from([None, (1.0, 1.8, 2.4), (1.0, 1.0, 1.0, 2.0)]))
    return apps(*rows, curve=curve)


def ends(of: Applications, gpus: int, policy: Policy) -> list[float]:
    return (of.submit_s + replay(of, gpus, policy).jct_s).tolist()


def test_in_order_of_arrival_the_second_takes_what_the_first_leaves():
    assert ends(apps((0, 20, 2), (0, 30, 3)), 4, "fifo") == pytest.approx([10.0, 10 + 10 / 3])


def test_whoever_has_least_service_left_goes_first():
    assert ends(apps((0, 100, 2), (10, 20, 2)), 2, "srsf") == pytest.approx([60.0, 20.0])
    assert ends(apps((0, 100, 2), (10, 90, 2)), 2, "srsf") == pytest.approx([50.0, 95.0])


def test_equal_shares_are_fractions_of_gpus_and_the_speed_is_linear_between_whole_ones():
    two = apps((0, 30, 4), (0, 30, 4), curve=(1.0, 1.5, 1.8, 2.0))
    assert ends(two, 3, "fair-share") == pytest.approx([24.0, 24.0]), "1.5 GPUs each: a speed of 1.25"


def test_a_class_has_its_share_and_what_it_leaves_goes_to_the_others():
    of = apps((0, 60, 4), (0, 400, 4))
    assert ends(of, 4, TWO_CLASSES) == pytest.approx([20.0, 20 + 380 / 4]), "3 GPUs and 1, then 4"


def test_inside_a_class_a_job_gets_no_more_than_it_uses_well_while_others_wait():
    curve = (1.0, 1.5, 1.6, 1.7)  # per GPU 1, 0.75, 0.53, 0.43
    capped = Wfq((math.inf,), (1.0,), 0.7, 0.1)
    of = apps((0, 30, 4), (0, 30, 4), curve=curve)
    assert ends(of, 4, capped) == pytest.approx([20.0, 20.0]), "two GPUs each"
    assert ends(of, 4, "fifo") == pytest.approx([30 / 1.7, 60 / 1.7]), "four GPUs one after the other"


def test_afs_l_prefers_who_gains_most_by_a_gpu():
    poor, good = (1.0, 1.1, 1.1), (1.0, 2.0, 3.0)
    curves = Curves.of({"poor": np.array(poor), "good": np.array(good)}, 3)
    of = Applications(np.zeros(2), np.array([100.0, 100.0]), np.array([3, 3]), np.array([0, 1]), curves)
    assert ends(of, 4, "afs-l")[1] == pytest.approx(100 / 3), "three GPUs to the one that scales, one to the other"


def test_themis_gives_to_whoever_is_farthest_behind_and_looks_again_after_ten_minutes():
    of = apps((0, 4000, 2), (1, 1000, 2))
    longer, shorter = ends(of, 2, "themis")
    assert ends(of, 2, "srsf")[1] == pytest.approx(501.0)
    assert shorter == pytest.approx(1101.0), "who has just come is not behind yet; after ten minutes it is"
    assert longer == pytest.approx(2500.0)
    alike = apps((0, 4800, 2), (1, 4800, 2))
    assert min(ends(alike, 2, "themis")) > 2401.0, "they take turns"


def test_fair_share_on_what_everybody_wants_gives_it_to_them():
    of = apps((0, 30, 1), (5, 30, 2), (6, 30, 1))
    assert replay(of, 4, "fair-share").unfairness.tolist() == pytest.approx([0, 0, 0])


@examples(40)
@given(worlds(), st.integers(1, 8), st.sampled_from(EVERY))
def test_nobody_is_faster_than_alone_and_no_gpu_rests_while_somebody_wants_it(of, gpus, policy):
    played = replay(of, gpus, policy)
    most = np.minimum(of.demand, gpus)
    alone_s = of.service_s / np.array(
        [of.curves.speed[row, : top + 1].max() for row, top in zip(of.curve, most, strict=True)]
    )
    assert np.all(played.jct_s >= alone_s * (1 - 1e-9))
    last_s = float((of.submit_s + played.jct_s).max())
    slowest = (of.curves.speed[:, 1:] / np.arange(1, of.curves.speed.shape[1])).min()
    longest_s = of.submit_s.max() - of.submit_s.min() + of.service_s.sum() / slowest
    assert last_s - of.submit_s.min() <= longest_s * (1 + 1e-9)
    assert np.all(played.contention >= 1 - 1e-9)


@examples(40)
@given(worlds(), st.integers(1, 8), st.sampled_from(EVERY))
def test_whoever_comes_last_is_foreseen_exactly(of, gpus, policy):
    played = replay(of, gpus, policy)
    assert played.predicted_s[-1] == pytest.approx(played.jct_s[-1], rel=1e-9)


@examples(40)
@given(worlds(), st.integers(1, 8))
def test_in_order_of_arrival_everybody_is_foreseen_exactly(of, gpus):
    assert replay(of, gpus, "fifo").error == pytest.approx(np.zeros(len(of)), abs=1e-9)


@examples(40)
@given(worlds(), st.integers(1, 8), st.sampled_from(EVERY))
def test_predicting_changes_nothing(of, gpus, policy):
    silent = replay(of, gpus, policy, predict=False)
    assert silent.jct_s.tolist() == replay(of, gpus, policy).jct_s.tolist()
    assert np.isnan(silent.predicted_s).all()


def test_a_mistaken_size_spoils_the_prediction_but_not_the_order_of_arrival():
    of = automl(200, 16, 0.9, 3)
    told = np.random.default_rng(0).uniform(0.6, 1.4, len(of))
    right, wrong = replay(of, 16, "fifo"), replay(of, 16, "fifo", size_factor=told)
    assert wrong.jct_s.tolist() == right.jct_s.tolist()
    assert 0.05 < wrong.error.mean() < 0.4


def test_a_job_of_mistaken_size_is_in_the_class_of_what_is_told():
    of = apps((0, 60, 4), (0, 400, 4))
    assert replay(of, 4, TWO_CLASSES, size_factor=np.array([1.0, 0.2])).jct_s[0] == pytest.approx(15.0), (
        "one class: in turn"
    )


def test_jobs_of_a_trace_work_as_long_on_all_their_gpus_as_they_ran():
    jobs = workload(3, job_id=[1, 2, 3], submit_s=[0, 1, 2], runtime_s=[10, 10, 5], gpus=[2, 4, 0])
    made = applications(jobs)
    assert made.service_s.tolist() == [20, 40]
    assert ends(made.take(slice(0, 1)), 8, "fifo") == pytest.approx([10.0])


@pytest.mark.parametrize("text", ["nothing", "{}", '{"speedup": {"A": []}}', '{"speedup": {"A": [1, 0]}}'])
def test_a_bad_file_of_speed_ups_is_refused_with_what_is_accepted(tmp_path, text):
    (tmp_path / "curves.json").write_text(text)
    with pytest.raises(ConfigError, match=r"curves\.json: accepted is"):
        read_speedups(tmp_path / "curves.json")


def test_weighted_fair_queueing_by_its_line_is_that_by_its_parameters():
    of = apps((0, 90, 2), (1, 400, 4), (2, 50, 1), (3, 300, 4))
    line = "wfq thresholds=100,inf weights=0.75,0.25 zeta=0.6 delta=0.1 overtake=0"
    assert ends(of, 4, line) == ends(of, 4, TWO_CLASSES) != ends(of, 4, "fifo")


@pytest.mark.parametrize(
    ("of", "gpus", "policy", "said"),
    [
        (apps((0, 1, 1)), 0, "fifo", "0 GPUs: accepted is 1"),
        (
            apps((0, 1, 1)),
            1,
            "lottery",
            "'lottery' is not known; there are: afs-l, fair-share, fifo, srsf, themis, wfq",
        ),
        (apps((0, 0, 1)), 1, "fifo", "need work"),
        (replace(apps((0, 1, 1), (1, 1, 1)), submit_s=np.array([1.0, 0.0])), 1, "fifo", "by submit time"),
    ],
)
def test_what_cannot_be_replayed_is_refused(of, gpus, policy, said):
    with pytest.raises(ConfigError, match=said):
        replay(of, gpus, policy)


def test_automl_jobs_are_those_of_the_paper_and_the_same_for_the_same_seed():
    one, again, other = automl(500, 16, 0.9, 1), automl(500, 16, 0.9, 1), automl(500, 16, 0.9, 2)
    assert one.load(16) == pytest.approx(0.9)
    assert (one.demand.min(), one.demand.max()) == (1, MOST_TRIALS)
    assert one.service_s.max() <= MOST_SERVICE_S
    assert np.array_equal(one.submit_s, again.submit_s)
    assert not np.array_equal(one.submit_s, other.submit_s)


def test_a_sample_draws_only_from_its_half_at_the_load_asked_for():
    whole = automl(100, 16, 0.5, 0)
    halves = Split.of(len(whole), 7)
    assert sorted([*halves.train, *halves.test]) == list(range(100))
    drawn = sample(whole, halves.test, 300, 16, 0.8, 1)
    assert set(drawn.service_s) <= set(whole.service_s[halves.test])
    assert drawn.load(16) == pytest.approx(0.8)


def test_too_few_jobs_cannot_be_parted():
    with pytest.raises(ConfigError, match="1 job cannot be parted"):
        Split.of(1, 0)


def test_windows_are_contiguous_and_arrive_as_they_did():
    of = apps(*((10 * at, 5 + at, 1) for at in range(11)))
    first, second, third = windows(of, 3, 2)
    assert [one.submit_s.tolist() for one in (first, second, third)] == [[0, 10], [30, 40], [60, 70]]
    assert second.service_s.tolist() == [8, 9]
    with pytest.raises(ConfigError, match="11 jobs cannot be parted into 6 windows"):
        windows(of, 6, 2)


@examples(40)
@given(of=worlds(), gpus=st.integers(1, 6))
def test_who_may_overtake_all_others_goes_as_the_shortest_remaining_service_first(of, gpus):
    """One GPU-second outweighs all seconds of waiting here, and of those that tie the first to come is first."""
    size_s = of.service_s * of.demand / of.curves.speed[of.curve, of.demand]
    of = replace(of, submit_s=of.submit_s / 1e6)
    if len(np.unique(size_s.round(6))) == len(of):
        fast = Wfq((math.inf,), (1.0,), 0.0, overtake=1000.0)
        assert replay(of, gpus, fast).jct_s == pytest.approx(replay(of, gpus, "srsf").jct_s, rel=1e-6)


def test_a_smaller_application_overtakes_only_while_it_came_soon_enough():
    """On one GPU the second is 60 GPU-seconds smaller and comes 10 s later: worth 12 s of waiting, or 6."""
    two = apps((0, 100, 1), (10, 30, 1))
    assert ends(two, 1, Wfq((math.inf,), (1.0,), 0.0, overtake=0.2)) == pytest.approx([130.0, 40.0])
    assert ends(two, 1, Wfq((math.inf,), (1.0,), 0.0, overtake=0.1)) == pytest.approx([100.0, 130.0])

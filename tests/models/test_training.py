"""Training: what is promoted, and why the rest is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from outcome_worlds import busy_site, history

from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.errors import ConfigError
from slurmsched.models.artifact import Artifact
from slurmsched.models.ebm.additive import Boosting
from slurmsched.models.runtime.estimator import Estimator
from slurmsched.models.runtime.point_predictors import LIMIT, repeating
from slurmsched.models.sharing.pair_measurements import Measured
from slurmsched.models.sharing.sharing_model import GpuUse, SharingModel
from slurmsched.models.training import FEWEST, train_runtime, train_sharing, train_throughput
from slurmsched.models.training_result import Trained

pytest.importorskip("interpret")


QUICK = Boosting(outer_bags=2, max_bins=16, max_rounds=20)


def with_limits(outcomes: OutcomeTable, limit_s: np.ndarray) -> OutcomeTable:
    columns = {name: getattr(outcomes, name) for name in outcomes.__dataclass_fields__}
    return OutcomeTable(**columns | {"time_limit_s": limit_s})


PERFECT = with_limits(busy_site(420), busy_site(420).runtime_s)


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the training of ``trained`` says is under way."""
    return []


@pytest.fixture(scope="module")
def trained(said: list[str]) -> Trained:
    """With a model that cannot be read in its place."""
    return train_runtime(PERFECT, Artifact("runtime", 0.0, 1.0, {}, {"nothing": 1}), report=said.append)


def test_a_model_that_beats_the_baseline_is_promoted_and_can_be_read_again(trained: Trained, tmp_path: Path):
    assert trained.promoted is not None
    assert "requested limit" in trained.why
    assert trained.scores["requested limit"]["pinball"] < trained.scores["baseline"]["pinball"]
    trained.promoted.write(tmp_path / "runtime.json")
    read = Artifact.read(tmp_path / "runtime.json", "runtime")
    model = read.read_as(lambda document: Estimator.of_document(document, PERFECT))
    assert model.trained_until_s == PERFECT.ended_s.max() == read.trained_until_s
    assert read.scores["baseline_pinball"] == trained.scores["baseline"]["pinball"]


def test_a_training_says_what_is_under_way(trained: Trained, said: list[str]):
    assert said[0] == "judging candidate 1 of 4, last two of user and name"
    assert said[3:] == ["judging candidate 4 of 4, additive", "fitting requested limit to 420 runs"]


def test_nothing_is_promoted_where_the_baseline_is_as_good():
    outcome = train_runtime(history([100.0] * 410, first_submit_s=3600.0 * np.arange(410)))
    assert outcome.promoted is None
    assert outcome.why.startswith("nothing beats the baseline")


def test_what_serves_stays_where_the_new_model_is_no_better():
    perfect = with_limits(busy_site(1200), busy_site(1200).runtime_s)
    half = perfect.take(perfect.ended_s < np.median(perfect.ended_s))
    serving = Artifact("runtime", 0.0, 1.0, {}, Estimator.fit(half, how=repeating(LIMIT)).document())
    outcome = train_runtime(perfect, serving)
    assert outcome.promoted is None
    assert outcome.why.startswith("the active model is as good")


def test_too_little_history_is_said(tmp_path: Path):
    with pytest.raises(ValueError, match="at least 400"):
        train_runtime(busy_site(100))
    with pytest.raises(ValueError, match="at least 28"):
        train_throughput(np.arange(50.0), np.ones(50, dtype=np.int64), 86400.0, None)


def test_submissions_without_a_pattern_leave_the_median_in_place():
    random = np.random.default_rng(1)
    submitted_s = np.sort(random.uniform(0, 30 * 86400.0, 200))
    trained = train_throughput(submitted_s, np.ones(200, dtype=np.int64), 30 * 86400.0, None, boosting=QUICK)
    assert trained.promoted is None
    assert "the rolling median is as good" in trained.why


def site(count: int, seed: int = 0) -> Measured:
    """Light configurations keep their speed beside light ones."""
    random = np.random.default_rng(seed)
    util = random.uniform(0, 1, count)
    use = GpuUse(util, 0.5 * util, 1e4 * util, np.zeros(count))
    first, second = (side.ravel() for side in np.meshgrid(np.arange(count), np.arange(count)))
    speed = np.where(util[first] + util[second] < 0.9, 1.0, 0.6)
    return Measured.of(use, first, second, np.column_stack((speed, speed)))


def test_a_site_that_measured_its_own_jobs_gets_its_own_sharing_model():
    stranger = SharingModel.fit(site(20).use, np.arange(20) % 2, np.ones(2), np.array([[0.9, 0.9], [0.5, 0.5]]), seed=1)
    trained = train_sharing(site(30), 5.0, Artifact("sharing", 0.0, 0.0, {}, dict(stranger.document())), deals=2)
    assert trained.promoted is not None
    assert trained.scores["trees"]["right"] > trained.scores["serving"]["right"]
    assert trained.promoted.read_as(SharingModel.of_document).pairs.limit(0.85) < 0.9


def test_a_sharing_model_that_is_no_better_stays_out():
    data = site(30)
    perfect = SharingModel.fit(data.use, data.score, data.sums, data.speeds, seed=1)
    trained = train_sharing(data, 5.0, Artifact("sharing", 0.0, 0.0, {}, dict(perfect.document())), deals=2)
    assert trained.promoted is None
    assert trained.why.startswith("no better")


def test_few_configurations_are_refused():
    with pytest.raises(ValueError, match=f"at least {FEWEST}"):
        train_sharing(site(4), 5.0, None)


ALONE = "name,gpu_util,memory_util,memory_mib,amp\na,0.2,0.1,1000,0\nb,0.9,0.5,2000,1\n"
PAIRS = "first,second,first_speed,second_speed\na,b,0.99,0.9\nb,b,0.5,0.5\n"


def read(directory: Path, alone: str = ALONE, pairs: str = PAIRS) -> Measured:
    (directory / "alone.csv").write_text(alone)
    (directory / "pairs.csv").write_text(pairs)
    return Measured.read(directory / "alone.csv", directory / "pairs.csv")


def test_measurements_are_read_and_scored_by_the_speed_of_their_pairs(tmp_path: Path):
    data = read(tmp_path)
    assert data.score.tolist() == [1, 2]  # mean speeds .945 and (.945 + .5 + .5) / 3
    assert data.sums.tolist() == pytest.approx([1.1, 1.8])


def test_scores_that_are_given_win(tmp_path: Path):
    lines = ALONE.splitlines()
    scored = "\n".join(f"{line},{end}" for line, end in zip(lines, ("score", "0", "1"), strict=True))
    assert read(tmp_path, scored).score.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("alone", "pairs", "why"),
    [
        (ALONE.replace("0.9,0.5", "90,0.5"), PAIRS, "line 3: gpu_util is '90'; accepted is a number from 0 to 1"),
        (ALONE.replace("1000", "nan"), PAIRS, "memory_mib is 'nan'"),
        (ALONE.replace("gpu_util,", ""), PAIRS, "lacks the column gpu_util"),
        (ALONE.replace("\nb,", "\na,"), PAIRS, "some names occur twice"),
        (ALONE, PAIRS.replace("a,b", "a,c"), "second is 'c'"),
        (ALONE, PAIRS.replace("0.99", "quick"), "first_speed is 'quick'"),
        (ALONE, PAIRS.replace("0.99,0.9", "0.99"), "second_speed is None"),
    ],
)
def test_measurements_that_mean_nothing_are_named(tmp_path: Path, alone: str, pairs: str, why: str):
    with pytest.raises(ConfigError, match=why):
        read(tmp_path, alone, pairs)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"nothing\.csv cannot be read"):
        Measured.read(tmp_path / "nothing.csv", tmp_path / "nothing.csv")

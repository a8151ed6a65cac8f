"""A site's own speed curve, from what its jobs kept of their speed beside others."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.cluster.records.shared_times import MeasuredTime
from slurmsched.errors import TooLittleHistory
from slurmsched.models.artifact import Artifact
from slurmsched.models.model_card import model_card
from slurmsched.models.registry import shipped
from slurmsched.models.sharing.sharing_model import SharingModel
from slurmsched.models.sharing.site_speeds import error, fitted, train_speeds

BEFORE = shipped().read_as(SharingModel.of_document)


def truth(util: float) -> float:
    """A GPU on which jobs harm each other more than on the one of the shipped curve."""
    return float(np.clip(1.1 - 0.4 * util, 0.05, 1.0))


def times(number: int, users: int = 4, *, slow: float = 1.0, seed: int = 3) -> list[MeasuredTime]:
    """Times of jobs of some users, of which one kind keeps the part *slow* of what others do."""
    random = np.random.default_rng(seed)
    found = []
    for at in range(number):
        util, own = float(random.uniform(0.2, 1.9)), at % 5 == 0
        speed = truth(util) * (slow if own else 1.0) + float(random.normal(0.0, 0.02))
        kind = f"user{at % users}/{'slow' if own else 'usual'}_#"
        found.append(MeasuredTime(1000.0 + at, kind, util, max(0.01, speed)))
    return found


def test_a_site_whose_jobs_keep_less_gets_a_curve_of_its_own():
    trained = train_speeds(times(150), shipped())
    assert trained.promoted is not None
    model = trained.promoted.read_as(SharingModel.of_document)
    for util in (0.5, 1.0, 1.5):
        assert model.speeds.speed(np.array([util]))[0] == pytest.approx(truth(util), abs=0.08)
    assert trained.scores["site"]["error"] < trained.scores["serving"]["error"]
    assert model.root == BEFORE.root, "the share scores stay"


def test_where_jobs_keep_what_the_curve_says_the_active_model_stays():
    curve = BEFORE.speeds.speed
    some = [MeasuredTime(float(at), f"u{at % 3}/x", 1.2, float(curve(np.array([1.2]))[0])) for at in range(90)]
    trained = train_speeds(some, shipped())
    assert trained.promoted is None
    assert "no better" in trained.why


def test_a_kind_that_keeps_less_than_others_is_found_and_shown_beside_both_curves():
    trained = train_speeds(times(200, users=1, slow=0.7), shipped())
    assert trained.promoted is not None
    model = trained.promoted.read_as(SharingModel.of_document)
    assert set(model.kept) == {"user0/slow_#"}
    assert model.kept["user0/slow_#"] == pytest.approx(0.72, abs=0.08)
    text = model_card(trained.promoted).text
    assert "jobs of user0/slow_# keep 0.7" in text
    assert "1.00: " in text
    assert ", before 0.9" in text


def test_few_times_of_either_part_conclude_nothing():
    with pytest.raises(TooLittleHistory, match="too few"):
        train_speeds(times(20), shipped())
    with pytest.raises(TooLittleHistory, match="too few"):
        train_speeds(times(100), shipped(), known_s=1095.0)
    with pytest.raises(TooLittleHistory, match="too few"):
        train_speeds([], shipped())


def test_a_model_that_knows_the_times_already_is_judged_by_later_ones_alone():
    first = train_speeds(times(120), shipped()).promoted
    assert first is not None
    again = train_speeds(times(150), first, known_s=first.trained_until_s)
    assert "at 10 later times" in again.why
    model = first.read_as(SharingModel.of_document)
    assert model.prior is not None
    assert model.prior.knots() == BEFORE.speeds.knots(), "a second training begins with the same curve"


def test_one_user_with_thousands_of_made_up_times_counts_as_one():
    honest = times(100, users=9)
    lies = [MeasuredTime(2000.0 + at, "mallory/x", 1.0, 0.01) for at in range(3000)]
    clean, swamped = (fitted(some, BEFORE).speeds.speed(np.array([1.0]))[0] for some in (honest, [*honest, *lies]))
    assert clean - swamped < 0.3, "one user of ten has a tenth of the weight, near the sum that they chose"
    assert error(fitted([*honest, *lies], BEFORE), honest) < 0.2


def test_the_model_survives_its_file(tmp_path):
    trained = train_speeds(times(150, slow=0.6), shipped()).promoted
    assert trained is not None
    trained.write(tmp_path / "sharing.json")
    read = Artifact.read(tmp_path / "sharing.json", "sharing").read_as(SharingModel.of_document)
    assert dict(read.kept) == dict(trained.read_as(SharingModel.of_document).kept)
    assert read.document() == SharingModel.of_document(trained.model).document()


@pytest.mark.parametrize(
    ("details", "measured"),
    [
        ({"kind": "a/x", "util": 1.2, "speed": "0.83", "seconds": "151"}, True),
        ({"kind": "a/x", "util": 1.2, "speed": "0.83", "seconds": "51"}, False),
        ({"speed": "0.83", "seconds": "151"}, False),
        ({"kind": "a/x", "util": 1.2, "speed": "nan", "seconds": "151"}, False),
        ({"kind": "a/x", "util": 12, "speed": "0.8", "seconds": "151"}, False),
        ({"kind": "a/x", "util": 1.2, "speed": "fast", "seconds": "151"}, False),
        ({"kind": "a/x", "util": 1.2, "speed": "0.8", "seconds": "nan"}, False),
    ],
)
def test_only_measured_times_that_were_long_enough_count(details, measured):
    found = MeasuredTime.of(5.0, details, 120.0)
    assert (found is not None) == measured

"""``slurmsched models curves``: what early ends save and lose on measured learning curves."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from json_forms import answer_of

from slurmsched.cli import main
from slurmsched.research.early_stopping import study_curves
from slurmsched.simulator.traces.learning_curves import MeasuredCurve, read_curves
from slurmsched.simulator.traces.trace import TraceError


def curve(rises, epochs=100, highest=0.9, calibrates=False):
    """A curve that rises for a part of its epochs, ever more slowly, and stays there."""
    epoch = np.arange(1, epochs + 1)
    accuracy = highest * (1 - np.clip(1 - epoch / (rises * epochs), 0, 1) ** 2)
    return MeasuredCurve(epoch, accuracy, 1 - accuracy, calibrates)


def effects(curves):
    return {effect.rule: effect for effect in study_curves(curves).rules}


def test_a_plateau_is_cut_and_costs_nothing():
    found = effects([curve(0.4), curve(0.4, calibrates=True)])
    assert 0.15 < found["opt"].saved <= found["best possible: within half a point"].saved < 0.7
    assert found["opt"].lost_mean == found["opt"].lost_over_1pp == 0


def test_a_second_rise_after_a_long_plateau_is_lost_and_counted():
    late = curve(0.2)
    late.accuracy[95:] = 0.95
    found = effects([late, curve(0.2, calibrates=True)])["opt"]
    assert found.lost_mean == pytest.approx(0.05)
    assert found.lost_over_1pp == 1


def test_intervals_cover_about_nine_in_ten_of_curves_like_those_that_calibrate():
    random = np.random.default_rng(3)
    made = [
        curve(random.uniform(0.2, 1.0), highest=random.uniform(0.5, 1.0), calibrates=number % 2 == 0)
        for number in range(200)
    ]
    for quality in study_curves(made).forecast:
        assert 0.8 <= quality.covers_90 <= 1
        assert quality.error < 0.5


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "curves.csv"
        path.write_text(text)
        return path

    return write


def test_the_command_says_what_it_measured(table):
    rows = [
        f"{run},{epoch},{min(0.9, 0.02 * epoch * (1 + run / 10)):.4f}" for run in range(6) for epoch in range(1, 101)
    ]
    path = table("run,epoch,accuracy\n" + "\n".join(rows) + "\n")
    answer = CliRunner().invoke(main, ["models", "curves", str(path), "--json"])
    assert answer.exit_code == 0, answer.output
    document = answer_of(["models", "curves"], answer.output)
    assert (document["curves"], document["calibrating"]) == (6, 3)
    assert [row["rule"] for row in document["rules"]] == ["opt", "best possible: within half a point"]
    assert [row["seen"] for row in document["forecast"]] == [0.1, 0.2, 0.3, 0.5, 0.7]
    words = CliRunner().invoke(main, ["models", "curves", str(path)])
    assert "3 curves, and 3 to calibrate by" in words.output


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("run,epoch\n0,1\n", "there is no column accuracy"),
        ("run,epoch,accuracy\n0,1,0.5\n0,2,1.5\n", "curves.csv:3"),
        ("run,epoch,accuracy\n0,2,0.5\n0,2,0.6\n", "epoch 2 does not follow"),
        ("run,epoch,accuracy\n0,1,0.5\n", "both halves"),
        ("run,epoch,accuracy\n", "both halves"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(table, text, complaint):
    with pytest.raises(TraceError, match=complaint):
        read_curves(table(text))

"""``slurmsched accuracy``: what came of predictions, from the database."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.fake_site import NOW_S, FakeSite, run
from json_forms import answer_of

from slurmsched.cluster.records.prediction_records import KeptState, kept_table

DAY_S = 86_400.0


@pytest.fixture
def site(tmp_path):
    site = FakeSite(tmp_path, "")
    site.make_tables()
    yield site
    site.close()


def kept(ago_days: list[float], late_s: list[float], **columns):
    """Jobs that ended so long ago, so much later than predicted; nine in ten were to be done 100 s after the median."""
    count = len(ago_days)
    ended_s = NOW_S - np.array(ago_days) * DAY_S
    said_s = ended_s - np.array(late_s)
    times = {
        "made_s": said_s - 2000,
        "start_s": said_s - 1000,
        "start_from_s": said_s - 1100,
        "start_by_s": said_s - 900,
        "started_s": said_s - 980,
        "finish_s": said_s,
        "finish_from_s": said_s - 100,
        "finish_by_s": said_s + 100,
        "ended_s": ended_s,
    }
    known = {"job_id": np.arange(1, count + 1), "gpus": np.ones(count), "partition": ["gpu"] * count}
    return kept_table(count, **known | times | {"state": np.full(count, int(KeptState.SETTLED))} | columns)


def test_error_and_coverage_are_told_by_partition_and_size_beside_slurms_own(site):
    table = kept([0.5, 0.6, 3.0, 20.0], [50.0, 200.0, -50.0, 10.0], partition=["gpu", "gpu", "big", "big"],
                 gpus=[1, 1, 16, 16])  # fmt: skip
    slurm_start_s = table.started_s + np.array([400.0, np.nan, 600.0, 600.0])
    table = kept_table(4, **{name: getattr(table, name) for name in table.__dict__} | {"slurm_start_s": slurm_start_s})
    site.store().save_predictions("fake", table)
    answer = answer_of(["accuracy"], run(site, "accuracy", "--days", "7", "--json").stdout)
    whole, *parts = answer["rows"]
    assert (whole["finishes"]["jobs"], whole["finishes"]["by"]) == (3, pytest.approx(2 / 3))
    assert (whole["slurm_jobs"], whole["slurm_error_s"], whole["ours_there_s"]) == (2, 500.0, 20.0)
    assert [(row["partition"], row["size"]) for row in parts] == [
        ("big", ""), ("gpu", ""), ("", "1 GPU"), ("", "over 8 GPUs"),
    ]  # fmt: skip
    text = run(site, "accuracy", "--days", "30").output
    assert "of ten nine are to be on time" in text
    assert "75%" in text


def test_the_days_that_are_asked_for_count(site):
    site.store().save_predictions("fake", kept([0.5, 3.0, 20.0], [0.0, 0.0, 0.0]))
    counts = {
        days: json.loads(run(site, "accuracy", "--days", days, "--json").stdout)["rows"][0]["finishes"]["jobs"]
        for days in ("1", "7", "30")
    }
    assert counts == {"1": 1, "7": 2, "30": 3}
    assert run(site, "accuracy", "--days", "8").exit_code == 2


def test_where_nothing_came_true_yet_that_is_said(site):
    result = run(site, "accuracy", "--days", "1")
    assert (result.exit_code, result.stderr) == (
        3,
        "slurmsched: no predicted start or finish happened in the last day\n",
    )

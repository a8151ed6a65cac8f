"""Requests that smaller or shorter would have started sooner."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.report.gpu_time import GpuTime
from slurmsched.report.sooner import sooner_requests

HOUR_S = 3600.0


def runs(*rows):
    """Runs as (user, name, GPUs, limit in hours, eligible at hour, waited hours, ran hours)."""
    user, name, gpus, limit_h, at_h, wait_h, ran_h = (list(column) for column in zip(*rows, strict=True))
    eligible_s = HOUR_S * np.array(at_h, float)
    started_s = eligible_s + HOUR_S * np.array(wait_h, float)
    ran_s = HOUR_S * np.array(ran_h, float)
    many = len(rows)
    return table_of(OutcomeTable, many, {}, {
        "job_id": np.arange(1, many + 1), "user": user, "name": name, "gpus": gpus, "partition": ["gpu"] * many,
        "time_limit_s": HOUR_S * np.array(limit_h, float), "first_submit_s": eligible_s, "eligible_s": eligible_s,
        "started_s": started_s, "ended_s": started_s + ran_s, "runtime_s": ran_s,
        "state": np.full(many, int(JobState.COMPLETED)),
    })  # fmt: skip


def time_of(table, idle=None):
    held_s = table.gpus * table.runtime_s
    measured_s = np.zeros(len(table)) if idle is None else held_s
    zero = np.zeros(len(table))
    return GpuTime(held_s, measured_s, zero, zero if idle is None else held_s * idle, zero)


def busy(many=120):
    """Short jobs that wait a quarter of an hour, all day long."""
    return [("bob", "short", 4, 1.0, 24.0 * row / many, 0.25, 0.5) for row in range(many)]


def test_a_limit_that_is_far_too_long_stands_beside_jobs_that_asked_for_what_it_needs():
    long = [("zoe", f"train_{row}", 4, 48.0, 2.0 + row * 0.2, 6.0, 1.0 + row / 100) for row in range(70)]
    everybody = runs(*busy(), *long)
    mine = everybody.take(np.flatnonzero(np.arange(len(everybody)) >= 120))
    (one,) = sooner_requests(mine, time_of(mine), everybody, 0.0)
    assert (one["user"], one["name"], one["gpus"], one["gpus_needed"]) == ("zoe", "train_#", 4, 4)
    assert one["limit_s"] == 48 * HOUR_S
    assert HOUR_S < one["limit_needed_s"] < 3 * HOUR_S
    assert (one["wait_s"], one["others_wait_s"]) == (6 * HOUR_S, 0.25 * HOUR_S)
    assert one["saved"] == pytest.approx(one["starts"] * 5.75)


def test_gpus_without_a_process_are_a_smaller_request():
    wide = [("zoe", "wide", 8, 2.0, 2.0 + row * 0.2, 5.0, 1.9) for row in range(20)]
    everybody = runs(*busy(), *wide)
    mine = everybody.take(np.flatnonzero(np.arange(len(everybody)) >= 120))
    (one,) = sooner_requests(mine, time_of(mine, idle=0.5), everybody, 0.0)
    assert (one["gpus"], one["gpus_needed"]) == (8, 4)
    assert sooner_requests(mine, time_of(mine), everybody, 0.0) == [], "nothing was measured"


def test_nothing_is_told_where_the_request_fits_or_nobody_is_there_to_compare_with():
    fits = runs(*busy(), *[("zoe", "fits", 4, 1.1, row / 10, 5.0, 1.0) for row in range(80)])
    assert [one for one in sooner_requests(fits, time_of(fits), fits, 0.0) if one["user"] == "zoe"] == []
    alone = runs(*[("zoe", "alone", 4, 48.0, row / 10, 5.0, 1.0) for row in range(80)])
    assert sooner_requests(alone, time_of(alone), alone, 0.0) == []


def test_the_five_that_waited_longest_in_all_are_told():
    many = [(f"u{who}", "train", 4, 48.0, 2.0 + row * 0.2, 1.0 + who, 1.0) for who in range(8) for row in range(20)]
    everybody = runs(*busy(), *many)
    told = sooner_requests(everybody, time_of(everybody), everybody, 0.0)
    assert [one["user"] for one in told] == ["u7", "u6", "u5", "u4", "u3"]

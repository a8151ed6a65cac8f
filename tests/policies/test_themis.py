"""Themis: leases, offers to the jobs farthest behind, and no GPU idle while a job would be faster with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_views import training_view

from examples import examples
from slurmsched.cluster.training import StepTimes
from slurmsched.policies.contract import SCALINGS
from slurmsched.research.scaling.themis import Themis, finish_ratios

AUCTIONS = json.loads((Path(__file__).parents[1] / "data" / "themis_vectors.json").read_text())["auctions"]


def amdahl(overhead, gpus):
    return np.concatenate([[np.inf], overhead + (1 - overhead) / np.arange(1, gpus + 1)])


@pytest.mark.parametrize("auction", AUCTIONS)
def test_bids_are_the_finish_time_ratios_of_the_vectors(auction):
    apps, gpus = auction["apps"], auction["gpus"]
    waited_s, work_s, most, held = (
        np.array([app[name] for app in apps]) for name in ("waited_s", "work_s", "most", "held")
    )
    steps = np.array([amdahl(app["overhead"], gpus + 1) for app in apps])
    ratio = finish_ratios(waited_s, work_s, work_s, steps, most, gpus)
    for row, app in enumerate(apps):
        of_more = ratio[row, held[row] + np.arange(gpus + 1)]
        wanted = [np.inf if rho is None else rho for rho in app["rho"]]
        assert of_more == pytest.approx(np.array(wanted), abs=1e-6)


@st.composite
def states(draw):
    """Ratios on 0, 1, ... GPUs, some flat in parts, GPUs held and GPUs free."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    jobs, gpus = draw(st.integers(1, 8)), draw(st.integers(1, 12))
    falls = random.random((jobs, gpus)) * (random.random((jobs, gpus)) < 0.6)
    ratio = np.concatenate([np.full((jobs, 1), np.inf), 10 - np.cumsum(falls, axis=1)], axis=1)
    held = random.integers(0, gpus // jobs + 1, jobs)
    return ratio, held, gpus - int(held.sum())


@examples(200)
@given(states(), st.floats(0.0, 1.0))
def test_no_gpu_is_idle_while_a_job_would_be_faster_with_it(state, fairness):
    ratio, held, free = state
    given_gpus = Themis(fairness=fairness).divided(ratio, held, free)
    left = free - int(given_gpus.sum())
    assert (given_gpus >= 0).all()
    assert left >= 0
    for row, has in enumerate((held + given_gpus).tolist()):
        assert not (ratio[row, has + 1 : has + left + 1] < ratio[row, has]).any()


def view_at(now_s, memo, held, jobs=3, steps=None):
    steps = np.array([amdahl(0.1, 8)] * jobs) if steps is None else steps
    columns = {"gpus": np.ones(jobs, np.int64), "left": np.full(jobs, 1e5), "most_gpus": np.full(jobs, 8)}
    view = training_view([4, 4], held=held, memo=np.zeros((jobs, 0)) if memo is None else memo, **columns)
    return replace(view, now_s=now_s, step_times=StepTimes(steps))


def test_gpus_stay_where_they_are_until_the_lease_ends():
    themis = SCALINGS.find("themis lease_s=1200")
    first = themis(view_at(0.0, None, None))
    soon = themis(view_at(600.0, first.memo, first.gpus))
    later = themis(view_at(1_200.0, first.memo, first.gpus))
    assert first.gpus.sum() == 8
    assert (soon.gpus == first.gpus).all()
    assert (later.memo[later.gpus.sum(axis=1) > 0, 0] == 2_400.0).all()


def test_the_job_farthest_behind_gets_the_offer():
    view = view_at(10_000.0, None, None)
    late = replace(view, jobs=replace(view.jobs, submit_s=np.array([9_000.0, 0.0, 9_000.0])))
    gpus = SCALINGS.find("themis")(late).gpus.sum(axis=1)
    assert gpus[1] == gpus.max() > gpus.min()


def test_a_job_that_needs_four_gpus_has_four_or_none():
    rigid = np.array([[np.inf] * 4 + [1.0] * 5, [np.inf] * 4 + [1.0] * 5, amdahl(0.1, 8)])
    gpus = SCALINGS.find("themis")(view_at(0.0, None, None, steps=rigid)).gpus.sum(axis=1)
    assert set(gpus[:2].tolist()) <= {0, 4}
    assert gpus.sum() == 8

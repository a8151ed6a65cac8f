"""Compositions of ordering and admission give the figures of an independent simulator on the same files."""

from __future__ import annotations

import numpy as np
import pytest
from bench import composition
from simulator.worlds import simulate

from slurmsched.simulator.replay import Replay
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.traces.source import Source


@pytest.fixture(scope="module")
def rows() -> list[composition.BenchRow]:
    if not composition.DATA.exists():
        pytest.skip(f"{composition.DATA} is not here")
    return list(composition.runs())


def test_every_composition_is_within_half_a_per_cent_of_the_reference(rows):
    assert len(rows) == 22
    assert {(row.trace, row.policy): row.off_by for row in rows if abs(row.off_by) > composition.CLOSE} == {}


def test_jobs_that_stop_when_they_converge_save_almost_half_of_the_time(rows):
    whole, stopped = (row.ours for row in rows if row.trace.startswith("blox_7jph"))
    assert stopped / whole - 1 == pytest.approx(-0.450, abs=0.0025)


def test_responses_are_those_of_the_reference(rows):
    found = {row.policy: row.response_s for row in rows if row.trace == "blox_8jph"}
    reference_s = {"fifo": 62207.7, "srtf": 7288.2, "las": 153.9, "las, load:1.2": 55509.6}
    assert {name: found[name] for name in reference_s} == pytest.approx(reference_s, rel=1e-3)


def replayed(name: str, span: str, policy: str, admission: float = np.inf) -> Replay:
    path = composition.DATA / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    jobs = Source.of(str(path), 128).load().jobs(span).workload
    setup = Setup.of(policy, placement="pool", beat_s=composition.BEAT_S, admission=admission)
    return simulate(jobs, composition.FLEET, setup)


def mean_jct_s(replay: Replay, measured: slice) -> float:
    return float((replay.end_s - replay.workload.submit_s)[measured].mean()) + composition.LATE_S


@pytest.mark.parametrize(
    ("name", "span", "measured", "most"),
    [
        ("blox_8jph_bursty", "0:3000", slice(1000, 2000), 37_600 / 35_676),
        pytest.param("blox_8jph", "0:5000", slice(3000, 4000), 1.02, marks=pytest.mark.soak),
        pytest.param("blox_8jph_bursty", "1000:4000", slice(1000, 2000), 1.06, marks=pytest.mark.soak),
        pytest.param("blox_8jph_spikes", "0:3000", slice(1000, 2000), 1.06, marks=pytest.mark.soak),
        pytest.param("blox_4jph_multi", "0:3000", slice(1000, 2000), 1.02, marks=pytest.mark.soak),
    ],
)
def test_a_synthesised_policy_comes_close_to_the_best_fixed_one_on_exact_runtimes(name, span, measured, most):
    fixed_s = [
        mean_jct_s(replayed(name, span, ordering, load), measured)
        for ordering in ("fifo", "srtf", "las")
        for load in (np.inf, 1.2, 1.4)
    ]
    replay = replayed(name, span, "auto")
    ours_s, figures = mean_jct_s(replay, measured), replay.synthesis
    assert ours_s <= most * min(fixed_s)
    assert ours_s < max(fixed_s)
    between_s = np.diff([change.at_s for change in figures.changes])
    assert (between_s >= 3600).all(), "at most one switch an hour"

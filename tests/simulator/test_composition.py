"""Compositions of ordering and admission give the figures of an independent simulator on the same files."""

from __future__ import annotations

import pytest

from tests.bench import composition


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

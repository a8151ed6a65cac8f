"""Nobody waits much less for what only he says of a job, or for when he lets it wait: by the daemon's own cycle."""

from __future__ import annotations

from functools import cache
from math import comb

import pytest
from gaming import GAIN
from money import BAITING, LYING, Site, honest, waits, ways
from paired import CONFIDENCE, Gain

WAYS = ways()
SEEDS = (1, 2, 3, 4, 5)

NO_LIE = ("a job on each GPU", "an array on GPUs")
"""Jobs that really ask for less: those on one GPU each fit where one on four does not."""

TICKETS = ("held for long", "submitted held", "ran and held", "held by turns", "begins later", "begin moved")
PASSES = ("begins in moments", "begin taken back", "off", "heterogeneous", "interactive", "interactive pieces")
HELD_TO = [
    *(("line", name) for name in (*TICKETS, *PASSES)),
    *(("deadlines", name) for name in LYING if name not in (*NO_LIE, "urgent", "reports of progress")),
]
"""Ways to decide, and the strategies that each is held to; ``tests.bench.gaming money`` prints all of them."""


@cache
def place(way: str, seed: int, peers: int) -> Site:
    return WAYS[way].site(seed, peers)


@cache
def honestly_h(way: str, seed: int, peers: int) -> float:
    return waits(place(way, seed, peers), WAYS[way], honest, seed).cheater_h


def gain(way: str, name: str, seeds: tuple[int, ...], peers: int) -> Gain:
    """How many times shorter the cheater's mean waits are."""
    strategy = {**BAITING, **LYING}[name]
    waited_h = [waits(place(way, seed, peers), WAYS[way], strategy, seed).cheater_h for seed in seeds]
    return Gain.of([honestly_h(way, seed, peers) for seed in seeds], waited_h)


@pytest.mark.parametrize(("name", "peers"), [("held by turns", 90), ("begin taken back", 48), ("interactive", 48)])
def test_no_ticket_no_begin_time_and_no_salloc_passes_the_line_of_a_bounded_load(name, peers):
    assert gain("line", name, SEEDS[:1], peers).median <= GAIN


def test_the_interval_of_a_median_is_as_wide_as_few_sites_leave_it():
    for count in range(5, 30):
        low, high = Gain(tuple(map(float, range(count)))).interval
        inside = sum(comb(count, below) for below in range(int(low) + 1, int(high) + 1)) / 2**count
        narrower = sum(comb(count, below) for below in range(int(low) + 2, int(high))) / 2**count
        assert narrower < CONFIDENCE <= inside
    assert Gain((1.0, 2.0, 3.0)).interval == (1.0, 3.0)


@pytest.mark.soak
@pytest.mark.parametrize(("way", "name"), HELD_TO)
def test_no_strategy_shortens_the_cheaters_waits_by_much(way, name):
    found = gain(way, name, SEEDS, 250)
    assert found.median <= GAIN, found


@pytest.mark.soak
def test_bait_on_every_second_day_pays_little_in_the_median_of_sixteen_sites():
    found = gain("sjf", "alternating", tuple(range(1, 17)), 250)
    assert found.median <= GAIN, found


@pytest.mark.soak
def test_without_job_submit_lua_a_begin_time_that_is_taken_back_passes_the_line():
    assert gain("line without job_submit.lua", "begin taken back", SEEDS[:1], 250).median > 4

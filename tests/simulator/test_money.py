"""Nobody waits much less for what only he says of a job, or for when he lets it wait: by the daemon's own cycle."""

from __future__ import annotations

from functools import cache

import pytest
from gaming import GAIN
from money import BAITING, LYING, Site, honest, site, waits, ways

WAYS = ways()
SEEDS = (1, 2)

NO_LIE = ("a job on each GPU",)
"""Jobs that really ask for less: those on one GPU each fit where one on four does not."""

TICKETS = ("held for long", "submitted held", "ran and held", "begins later", "begin moved", "begins in moments")
PASSES = ("begin taken back", "off", "heterogeneous")
HELD_TO = [
    *(("line", name) for name in (*TICKETS, *PASSES)),
    *(("deadlines", name) for name in LYING if name not in (*NO_LIE, "urgent", "reports of progress")),
]
"""Ways to decide, and the strategies that each is held to; ``tests.bench.gaming money`` prints all of them."""


@cache
def place(seed: int, peers: int) -> Site:
    return site(seed, peers)


@cache
def honestly_h(way: str, seed: int, peers: int) -> float:
    return waits(place(seed, peers), WAYS[way], honest, seed).cheater_h


def gain(way: str, name: str, seeds: tuple[int, ...], peers: int) -> float:
    """How many times shorter the cheater's mean wait is."""
    fair_h = sum(honestly_h(way, seed, peers) for seed in seeds)
    strategy = {**BAITING, **LYING}[name]
    waited_h = sum(waits(place(seed, peers), WAYS[way], strategy, seed).cheater_h for seed in seeds)
    return fair_h / max(waited_h, 1e-9)


@pytest.mark.parametrize("name", ["held for long", "begin taken back"])
def test_no_ticket_and_no_begin_time_passes_the_line_of_a_bounded_load(name):
    assert gain("line", name, SEEDS[:1], 90) <= GAIN


@pytest.mark.soak
@pytest.mark.parametrize(("way", "name"), HELD_TO)
def test_no_strategy_shortens_the_cheaters_waits_by_much(way, name):
    assert gain(way, name, SEEDS, 250) <= GAIN


@pytest.mark.soak
def test_without_job_submit_lua_a_begin_time_that_is_taken_back_passes_the_line():
    assert gain("line without job_submit.lua", "begin taken back", SEEDS[:1], 250) > 4

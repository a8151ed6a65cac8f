"""A calendar of events for loops that compile: (time, rank, serial), the earliest first.

At one instant the smaller rank comes first, so that ends come before arrivals and those before decisions; within a rank
the smaller serial. Events are never cancelled: the reader of an event checks whether it still applies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import entry
from . import heaps
from .heaps import pop, push

NEVER = np.inf
END, FREE, NODES, STEP, BEGIN, SAVED, OPENS = 0, 1, 2, 3, 4, 5, 6
"""Ranks: a run ends, its nodes come free, a node fails or is repaired, a job passes a step of attained service, a begin
time has come, a job that was asked to stop has saved its work, a reservation opens nodes. Arrivals, which no policy can
change, are read from the workload."""

SERIALS = 1 << 40
"""The code of an event is rank times this plus serial."""


class Calendar(NamedTuple):
    """A heap of events; ``many`` is an array of one."""

    at_s: FloatArray
    what: IntArray
    many: IntArray


def blank(room: int) -> Calendar:
    """Return an empty calendar with *room* for that many events."""
    return Calendar(np.empty(room), np.empty(room, dtype=np.int64), np.zeros(1, dtype=np.int64))


@entry
def note(calendar: Calendar, at_s: float, rank: int, serial: int) -> None:
    """Enter an event."""
    calendar.many[0] = push(calendar.at_s, calendar.what, 0, calendar.many[0], at_s, rank * SERIALS + serial)


@entry
def next_s(calendar: Calendar) -> float:
    """Return the time of the first event; NEVER where there is none."""
    return float(calendar.at_s[0]) if calendar.many[0] else NEVER


@entry
def first(calendar: Calendar) -> tuple[int, int]:
    """Return rank and serial of the first event."""
    return int(calendar.what[0] // SERIALS), int(calendar.what[0] % SERIALS)


@entry
def pop_first(calendar: Calendar) -> None:
    """Remove the first event."""
    calendar.many[0] = pop(calendar.at_s, calendar.what, 0, calendar.many[0])


def validate(calendar: Calendar) -> None:
    """Raise AssertionError where the events are no heap, or of no known rank."""
    many = int(calendar.many[0])
    heaps.validate(calendar.at_s, calendar.what, 0, many)
    rank = calendar.what[:many] // SERIALS
    assert ((rank >= END) & (rank <= OPENS)).all(), "the calendar has an event of no known rank"

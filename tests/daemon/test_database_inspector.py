"""The database is looked after beside the cycles."""

from __future__ import annotations

import logging

import pytest

from slurmsched.clock import ManualClock
from slurmsched.daemon.database_inspector import PAGES_S, Inspector
from slurmsched.errors import MemoryUnavailable


class Database:
    """A database whose damage is in the test's hands."""

    def __init__(self):
        self.damage, self.away, self.looks = "", False, []

    def inspect(self, *, thorough):
        self.looks.append(thorough)
        if self.away:
            raise MemoryUnavailable("the disk is gone")
        return self.damage


@pytest.fixture
def database():
    return Database()


@pytest.fixture
def inspector(database):
    return Inspector(database, ManualClock())


def test_every_page_is_looked_at_first_and_then_once_a_day(database):
    clock = ManualClock()
    inspector = Inspector(database, clock)
    for clock.now_s in (0.0, 60.0, PAGES_S - 1.0, PAGES_S, PAGES_S + 60.0):
        inspector.once()
    assert database.looks == [True, False, False, True, False]


def test_a_look_at_every_page_that_was_not_possible_is_made_up_for(database, inspector):
    database.away = True
    inspector.once()
    database.away = False
    inspector.once()
    inspector.once()
    assert database.looks == [True, True, False]


def test_damage_and_its_end_are_said_once(database, inspector, caplog):
    caplog.set_level(logging.WARNING)
    for database.damage in ("", "a page is bad", "a page is bad", "", ""):
        inspector.once()
    assert [record.getMessage() for record in caplog.records] == [
        "the database is not used until it is repaired: a page is bad; docs/history.md says how",
        "the database is whole again",
    ]

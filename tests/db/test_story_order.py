"""The order of the events of a story."""

from __future__ import annotations

import pytest

from slurmsched.db.tracking.story import KINDS, StoryEvent, in_order


def kinds(*events: tuple[float, str]) -> list[str]:
    return [event.kind for event in in_order(StoryEvent(at_s, kind) for at_s, kind in events)]


@pytest.mark.parametrize(
    ("asked", "effect"), [("let start", "started"), ("asked to stop", "requeued"), ("requeue asked", "requeued")]
)
def test_what_slurm_does_in_the_second_of_a_request_follows_the_request(asked, effect):
    assert kinds((7.0, effect), (6.2, "ranked"), (7.6, asked), (7.9, "ranked")) == ["ranked", asked, effect, "ranked"]
    assert kinds((7.0, effect), (8.1, asked)) == [effect, asked]


@pytest.mark.parametrize(("what", "first"), [("open", "deadline"), ("met", "started")])
def test_a_job_that_starts_in_the_second_of_its_promise_starts_after_it(what, first):
    promise, start = StoryEvent(7.5, "deadline", {"what": what}), StoryEvent(7.0, "started")
    assert in_order([start, promise])[0].kind == first


def test_of_one_time_events_stand_in_the_order_of_their_kinds():
    assert kinds(*((1.0, kind) for kind in reversed(KINDS))) == list(KINDS)

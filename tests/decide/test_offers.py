"""Offers of promises in leases: what a new promise may take from those made before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from policies.test_turns_ahead import BEAT_S, START_S, jobs

from slurmsched.cluster.records.promises import PromiseState, promise_table
from slurmsched.decide.deadlines.foreseen_requests import ForeseenRequests
from slurmsched.decide.deadlines.offers import FORESEEN, NO_ROOM, TOO_LONG, Offer
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import SELECTIONS
from slurmsched.policies.deadlines.lease_schedule import LeaseSchedule
from slurmsched.policies.deadlines.lease_terms import LeaseTerms
from slurmsched.policies.deadlines.reservations import DeadlineRequests, Room

TERMS = LeaseTerms(beat_s=BEAT_S, reserve=0.0, foreseen=0.0)


def offer(held: DeadlineRequests, gpus: int = 8) -> Offer:
    room = Room(np.array([START_S]), np.array([[gpus]]))
    nobody = ForeseenRequests(promise_table(0), gpus, START_S, 86_400.0, ())
    return Offer(LeaseSchedule(START_S, BEAT_S, room), TERMS, held, nobody)


def ticks(*rows) -> DeadlineRequests:
    """Each is (GPUs, beats that it needs, beats until it is due); none of them runs."""
    return jobs(*((gpus, needs * BEAT_S, due * BEAT_S, False, 0.0) for gpus, needs, due in rows))


def test_a_new_promise_makes_none_later_that_is_late_already():
    """As many as before would be late, but a job of 8 GPUs by a tick, in place of one on a single GPU."""
    held = ticks((1, 1, 1), (1, 4, 4), (8, 4, 7))
    assert not offer(held).beside(ticks((4, 4, 6)))
    assert offer(held).beside(ticks((4, 4, 16)))


def test_a_job_is_not_promised_what_fits_by_gpu_time_alone():
    """The wide job needs all GPUs at once: it can only run before the narrow one, or after it."""
    assert not offer(ticks((8, 2, 17))).beside(ticks((1, 16, 17)))
    assert offer(ticks((8, 2, 18))).beside(ticks((1, 16, 17)))


@pytest.mark.parametrize(("resume_s", "fits"), [(0.0, True), (BEAT_S, False)])
def test_a_promise_counts_what_the_stop_of_a_running_job_costs(resume_s, fits):
    held = jobs((1, 6 * BEAT_S, 8 * BEAT_S, True, resume_s))
    assert offer(held, gpus=1).beside(jobs((1, 2 * BEAT_S, 3 * BEAT_S, False, 0.0))) == fits


def test_the_load_below_a_size_is_that_of_requests_of_the_last_day_that_could_be_promised():
    states = [PromiseState.MET, PromiseState.OPEN, PromiseState.REFUSED, PromiseState.REFUSED, PromiseState.WITHDRAWN]
    asked = promise_table(
        7,
        job_id=[1, 2, 3, 4, 5, 6, 3],  # the third job was refused, and asked again
        asked_s=[START_S - 7_200.0] * 5 + [START_S - 90_000.0, START_S - 60.0],
        gpus=[1, 2, 4, 1, 1, 1, 4],
        needs_s=[3_600.0] * 7,
        state=[*states, PromiseState.MET, PromiseState.OPEN],
        reason=["", "", NO_ROOM, TOO_LONG, "", "", ""],
    )
    foreseen = ForeseenRequests(asked, 10, START_S, 86_400.0, (NO_ROOM,))
    below = [foreseen.below(hours * 3_600.0) for hours in (1.0, 1.5, 2.5, 4.5, np.inf)]
    assert below == pytest.approx([0.0, 0.05, 0.15, 0.35, 0.35])
    assert ForeseenRequests(asked, 1, START_S, 86_400.0, (NO_ROOM,)).below(np.inf) == 1.0
    assert ForeseenRequests(promise_table(0), 8, START_S, 86_400.0, ()).below(np.inf) == 0.0


def test_requests_of_one_user_count_for_a_share_but_of_those_without_a_quota():
    """Mallory asks for jobs that she never means to run; hers are the smallest, and count first."""
    users = ["mallory"] * 8 + ["alice", "bob"]
    hours = [*[1.0] * 8, 2.0, 3.0]
    columns = {"asked_s": [START_S - 3_600.0] * 10, "gpus": [1] * 10, "needs_s": [3_600.0 * each for each in hours]}
    asked = promise_table(10, job_id=range(10), user=users, state=[PromiseState.OPEN] * 10, **columns)

    def below(hours: float, share: float, exempt: tuple[str, ...] = ()) -> float:
        return ForeseenRequests(asked, 20, START_S, 86_400.0, (), share, exempt).below(hours * 3_600.0)

    assert [below(hours, 1.0) for hours in (1.5, 2.5, np.inf)] == pytest.approx([0.4, 0.5, 0.65])
    assert [below(hours, 0.12) for hours in (1.5, 2.5, np.inf)] == pytest.approx([0.12, 0.22, 0.34])
    assert below(1.5, 0.12, ("mallory",)) == pytest.approx(0.4)


def reserved(*rows) -> DeadlineRequests:
    """The same as ``ticks``, of jobs that cannot be stopped."""
    return replace(ticks(*rows), stoppable=np.zeros(len(rows), dtype=np.bool_))


@pytest.mark.parametrize(
    ("held", "gpus", "fits"),
    [
        ([], 5, True),  # half of the 8 GPUs are kept for smaller jobs, but no job is kept from its own
        ([(1, 20, 20)], 4, False),
        ([(1, 20, 20)], 3, True),
        ([(2, 5, 5)], 4, True),  # two of them are taken by such a job
        ([(2, 5, 5)], 5, False),
        ([(2, 20, 20)], 3, False),  # a larger job takes two of the others
        ([(2, 20, 20)], 2, True),
        ([(4, 4, 4)], 4, True),
    ],
)
def test_what_smaller_jobs_hold_is_not_kept_for_them_twice(held, gpus, fits):
    room = Room(np.array([START_S]), np.array([[8]]))
    columns = {"asked_s": [START_S - 20 * BEAT_S] * 20, "gpus": [1] * 20, "needs_s": [4 * BEAT_S] * 20}
    asked = promise_table(20, job_id=range(100, 120), state=[PromiseState.MET] * 20, **columns)
    foreseen, terms = ForeseenRequests(asked, 8, START_S, 86_400.0, ()), replace(TERMS, foreseen=1.0)
    assert foreseen.below(np.inf) == pytest.approx(0.5)
    before = reserved(*held) if held else reserved((1, 1, 1)).take(np.zeros(0, dtype=np.int64))
    one = Offer(LeaseSchedule(START_S, BEAT_S, room), terms, before, foreseen)
    request = reserved((gpus, 5, 5))
    assert one.beside(request) == fits
    again = Offer(LeaseSchedule(START_S, BEAT_S, room), terms, before, foreseen)
    assert again.anew([request], [1.0]) == [fits]
    if not fits:
        assert again.refusal(request) == FORESEEN


@pytest.mark.parametrize("name", ["kept_back", "crowded", "kept_whole", "largest_s"])
def test_a_term_of_earlier_versions_is_answered_with_what_to_write(name):
    with pytest.raises(ConfigError, match=f"there is no {name} any more.*foreseen=0"):
        SELECTIONS.find(f"leases {name}=0.5")

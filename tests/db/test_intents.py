"""The check of intents: true after each change, and false once anything of them was changed."""

from __future__ import annotations

import pytest

from slurmsched.cluster.actions import AskToStop, Rank
from slurmsched.db.tracking.intents import Intents

KEY = 7, "Rank"


def intents() -> Intents:
    """Two open requests for points, and a stop request that Slurm answered."""
    found = Intents()
    for cycle in (1, 2):
        found.intend(cycle, [Rank(7, 5)], 100.0)
    found.intend(3, [AskToStop(8, "URG")], 110.0)
    found.answered(3, [(AskToStop(8, "URG"), None)], 111.0)
    found.validate()
    return found


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (lambda same: same.clear(), "has an empty list"),
        (lambda same: same.append(same[0]._replace(job_id=9)), "is of another"),
        (lambda same: same.append(same[0]._replace(cycle=9, closed_s=120.0)), "closed and in the list of open"),
        (lambda same: same.append(same[0]), "open twice in one cycle"),
    ],
)
def test_an_intent_in_the_wrong_place_is_noticed(spoil, names):
    found = intents()
    spoil(found._open[KEY])
    with pytest.raises(AssertionError, match=names):
        found.validate()


def test_a_stop_request_that_is_not_remembered_is_noticed():
    found = intents()
    found._answered.clear()
    with pytest.raises(AssertionError, match="is not remembered"):
        found.validate()


def test_less_than_no_refusals_are_noticed():
    found = intents()
    found._refusals[7] = -1
    with pytest.raises(AssertionError, match="less than never"):
        found.validate()

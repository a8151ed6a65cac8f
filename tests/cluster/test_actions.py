"""Stored spellings of actions: records, intents, metrics and scripts know them, whatever the classes are called."""

from __future__ import annotations

import pytest

from slurmsched.cluster import actions
from slurmsched.cluster.actions import ACTIONS, Action, spelling

STORED = {
    "Rank": actions.Rank,
    "Hold": actions.Hold,
    "Release": actions.Release,
    "Requeue": actions.Requeue,
    "AskToStop": actions.AskToStop,
    "Suspend": actions.Suspend,
    "Resume": actions.Resume,
    "MovePartition": actions.MovePartition,
    "RequireNodes": actions.RequireNodes,
    "Tell": actions.SetAdminComment,
    "Share": actions.Share,
    "StartShared": actions.StartShared,
    "Unmark": actions.Unmark,
    "Unshare": actions.Unshare,
    "Start": actions.Start,
    "Preempt": actions.Preempt,
}


def test_every_action_has_one_stored_spelling():
    assert ACTIONS == STORED
    assert set(Action.__subclasses__()) == set(ACTIONS.values())
    assert len(set(ACTIONS.values())) == len(ACTIONS)


@pytest.mark.parametrize(
    ("action", "stored"),
    [
        (actions.SetAdminComment(7, "slurmsched:met"), "Tell"),
        (actions.Rank(7, 5), "Rank"),
        (actions.Release(7), "Release"),
    ],
)
def test_an_action_is_spelled_as_it_is_stored(action, stored):
    assert spelling(action) == stored

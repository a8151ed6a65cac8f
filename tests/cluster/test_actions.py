"""Stored spellings of actions: records, intents, metrics and scripts know them, whatever the classes are called."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path

import pytest
from action_lives import table

from slurmsched.cluster import actions
from slurmsched.cluster.actions import ACTIONS, Action, JobAction, MoveNodes, job_of
from slurmsched.cluster.records.node_loans import LentNodes

STORED = {
    "Rank": actions.Rank,
    "Hold": actions.Hold,
    "Release": actions.Release,
    "Requeue": actions.Requeue,
    "AskToStop": actions.AskToStop,
    "End": actions.End,
    "Suspend": actions.Suspend,
    "Resume": actions.Resume,
    "MovePartition": actions.MovePartition,
    "Steer": actions.Steer,
    "Unsteer": actions.Unsteer,
    "Rightsize": actions.Rightsize,
    "RestoreSize": actions.RestoreSize,
    "Resize": actions.Resize,
    "Avoid": actions.Avoid,
    "Tell": actions.SetAdminComment,
    "Share": actions.Share,
    "StartShared": actions.StartShared,
    "Unmark": actions.Unmark,
    "Unshare": actions.Unshare,
    "Start": actions.Start,
    "Preempt": actions.Preempt,
    "Move": actions.Move,
    "MoveNodes": actions.MoveNodes,
}
OWN = {"profile": ("n4",), "gpu": ("n1", "n2", "n3")}
LENT = {"profile": ("n1",), "gpu": ("n2", "n3", "n4")}


def test_every_action_has_one_stored_spelling():
    assert ACTIONS == STORED
    assert {*JobAction.__subclasses__(), *Action.__subclasses__()} - {JobAction} == set(ACTIONS.values())
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
    assert action.stored == stored


def test_a_move_of_nodes_concerns_no_job_and_equals_what_is_read_back_from_its_rows():
    move = MoveNodes.between(OWN, OWN, LENT)
    assert (job_of(move), job_of(actions.Release(7))) == (actions.NO_JOB, 7)
    rows = json.loads(json.dumps([astuple(one) for one in move.partitions]))
    assert MoveNodes(rows) == move
    assert hash(MoveNodes(rows)) == hash(move)
    assert move.text == "profile=n1 gpu=n[2-4]"


def test_the_steps_of_a_move_leave_no_node_out_and_its_loans_are_the_lists_of_the_admin():
    move = MoveNodes.between(OWN, OWN, LENT)
    assert [(step.partition, step.nodes) for step in move.steps] == [
        ("profile", "n[1,4]"),
        ("gpu", "n[1-4]"),
        ("profile", "n1"),
        ("gpu", "n[2-4]"),
    ]
    assert move.loans == tuple(LentNodes(name, OWN[name], LENT[name]) for name in OWN)


def test_the_design_page_has_the_lives_of_all_actions():
    page = (Path(__file__).parents[2] / "docs" / "design.md").read_text()
    shown = page.partition("<!-- table: python -m tests.action_lives -->\n")[2].partition(
        "\n<!-- end of the table -->"
    )[0]
    assert shown.splitlines() == table()

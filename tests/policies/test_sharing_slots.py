"""A job on its way to shared GPUs: the next step follows from what Slurm shows of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.actions import Share, StartShared, Unmark, Unshare
from slurmsched.cluster.text.comment import parse, read
from slurmsched.policies.sharing_slots import SlotRequest, Token, next_step, without_token

SLOTS = "gres:slot:i0:1,gres:slot:i1:1"
COMMENT = "slurmsched:ckpt;slurmsched:share=0+1:t60"
THERE = SlotRequest(7, "shared", "n2", SLOTS, COMMENT, "0+1:t60")
tokens = st.builds(
    Token,
    st.lists(st.integers(0, 999), min_size=1, max_size=4, unique=True).map(tuple),
    st.integers(0, 100),
    st.integers(0, 200_000),
    st.booleans(),
)


def step(job: SlotRequest):
    return next_step(job, "shared", "gpu", 90.0)


def test_a_job_that_has_its_slots_and_waits_only_for_our_begin_time_may_start():
    assert step(replace(THERE, waits=True)) == StartShared(7, "0+1:t60")


def test_a_job_that_has_arrived_is_left_alone():
    assert step(THERE) is None
    assert step(replace(THERE, request="gres/slot:i1=1,gres/slot:i0=1")) is None


@pytest.mark.parametrize("request_", ["", "gres:slot:i0:1", "gres:slot:i0:1,gres:slot:i1:1,gres:slot:1", SLOTS])
@pytest.mark.parametrize(("partition", "home"), [("gpu", "gpu"), ("fast,shared", "fast")])
def test_a_change_that_broke_off_or_that_its_owner_spoiled_is_made_again(request_, partition, home):
    job = replace(THERE, partition=partition, request=request_, waits=True)
    assert step(job) == Share(7, home, "shared", "n2", "0+1:t60", "slurmsched:ckpt", 90.0)


@pytest.mark.parametrize(
    "more",
    [
        {"request": "gres:gpu:2"},
        {"request": f"gres:gpu:4,{SLOTS}"},
        {"request": f"{SLOTS},gres/gpu:a100=4"},
        {"request": f"{SLOTS},gres:nvme:1"},
        {"beside": True},
    ],
    ids=str,
)
def test_a_job_that_asks_for_more_than_its_slots_never_starts_and_has_its_own_gpus_back(more):
    assert step(replace(THERE, waits=True, **more)) == Unshare(7, "gpu", 2, "slurmsched:ckpt", 90.0)


@pytest.mark.parametrize("request_", ["gres:gpu:2", "gres/gpu:a100=2"])
def test_a_job_whose_change_never_came_to_its_slots_has_its_comment_back(request_):
    job = replace(THERE, partition="gpu", required_nodes="", request=request_, waits=True)
    assert step(job) == Unmark(7, "slurmsched:ckpt")


def test_a_job_that_nobody_knows_the_node_of_gets_its_gpus_back():
    job = replace(THERE, required_nodes="", partition="gpu,shared")
    assert step(job) == Unshare(7, "gpu", 2, "slurmsched:ckpt", 90.0)


@pytest.mark.parametrize("comment", ["", "slurmsched:ckpt", "slurmsched:share=", "slurmsched:share=abc"])
def test_a_job_without_our_token_is_none_of_ours(comment):
    assert step(replace(THERE, comment=comment, share=read(comment)[0].share or "")) is None


@given(tokens)
def test_a_token_reads_back_as_what_it_was(token):
    assert Token.of(str(token)) == token
    assert parse(f"slurmsched:share={token}").share == str(token)


@given(st.text(st.characters(codec="ascii", exclude_categories=["Z", "C"]), max_size=30), tokens)
def test_the_owners_comment_comes_back_as_it_was(comment, token):
    added = f"{comment};slurmsched:share={token}" if comment else f"slurmsched:share={token}"
    assert without_token(added, str(token)) == comment

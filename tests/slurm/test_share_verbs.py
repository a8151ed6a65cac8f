"""The lines that make slots of a job's GPUs, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.actions import Share, StartShared, Unmark, Unshare
from slurmsched.slurm.write.verbs import Request, call, lines, slots_line

GRES = r"(gres:slot:i\d+:1(,gres:slot:i\d+:1)*|gres:gpu:([\w.,+\[\]-]*:)?\d+)?"
CHANGE = re.compile(
    r"(starttime=(uts\d+|now)|partition=[\w.,+\[\]-]*|reqnodelist=[\w.,+\[\]-]*|trespersocket=|trespertask="
    rf"|tresperjob={GRES}|trespernode={GRES}|comment=[\w.,:;=+@%/-]*)",
    re.ASCII,
)
text = st.one_of(st.text(max_size=20), st.sampled_from(["gpu", "n2", "0+1", "0:t60", "slurmsched:ckpt"]))
gres = st.sampled_from(["", "gres:gpu:2", "gres/gpu:a100:2", "gres:slot:i0:1,gres:slot:i1:1", "gres:nvme:1", "x y"])
requests = st.builds(Request, gres, gres, gres, gres)
shares = st.builds(Share, st.just(7), text, text, text, text, text, st.floats(0, 4e9))
sharing = st.one_of(
    shares,
    st.builds(StartShared, st.just(7), text),
    st.builds(Unmark, st.just(7), text),
    st.builds(Unshare, st.just(7), text, st.integers(1, 64), text, st.floats(0, 4e9), text),
)
PER_NODE, PER_JOB = Request(per_node="gres:gpu:2"), Request(per_job="gres/gpu:a100:2")
SLOTS = "gres:slot:i0:1,gres:slot:i1:1"
SHARE = Share(7, "gpu", "shared", "n2", "0+1", "a=b", 90.0)


@given(sharing, requests)
def test_every_line_is_one_of_the_few_we_may_send(action, request_):
    try:
        written = lines(action, request=request_)
        written += (slots_line(action, request_),) if isinstance(action, Share) else ()
    except ValueError:
        return
    assert written
    for line in written:
        command, job, *changes = line.split(" ")
        assert (command, job) == ("update", "jobid=7")
        assert all(CHANGE.fullmatch(change) for change in changes), line


def test_the_first_line_of_a_share_only_marks_the_job_and_lets_it_wait():
    assert lines(SHARE) == ("update jobid=7 starttime=uts90 comment=a=b;slurmsched:share=0+1",)


@pytest.mark.parametrize(
    ("request_", "change"),
    [
        (PER_NODE, f"trespernode= tresperjob={SLOTS}"),
        (PER_JOB, f"tresperjob= trespernode={SLOTS}"),
        (Request(), f"tresperjob= trespernode={SLOTS}"),
        (Request(per_task="cpu:2", per_node="gres:gpu:2"), f"trespernode= tresperjob={SLOTS}"),
        (Request(per_node=f"gres:gpu:2,{SLOTS}"), f"trespernode= tresperjob={SLOTS}"),
    ],
    ids=str,
)
def test_the_second_line_takes_the_gpus_gives_the_slots_and_moves_the_job_at_once(request_, change):
    assert slots_line(SHARE, request_) == f"update jobid=7 starttime=uts90 partition=shared reqnodelist=n2 {change}"


@pytest.mark.parametrize(
    "request_",
    [
        Request(per_job="gres:gpu:2", per_node="gres:gpu:2"),
        Request(per_task="gres:gpu:2"),
        Request(per_socket="gres:gpu:2"),
        Request(per_node="gres:gpu:2", per_task="gres:gpu:1"),
        Request(per_node="gres:gpu:4"),
        Request(per_node="gres:gpu:2,gres:nvme:1"),
    ],
    ids=str,
)
def test_a_request_that_no_single_line_makes_slots_of_is_left_alone(request_):
    with pytest.raises(ValueError, match="it asks for "):
        slots_line(SHARE, request_)


@pytest.mark.parametrize("request_", [Request(per_node=SLOTS), Request(per_job=SLOTS.replace("gres:", "gres/"))])
def test_a_job_with_the_slots_of_its_token_and_nothing_else_may_start(request_):
    assert lines(StartShared(7, "0+1:t60"), request=request_) == ("update jobid=7 starttime=now",)


@pytest.mark.parametrize(
    "request_",
    [
        Request(),
        Request(per_job="gres:gpu:4", per_node=SLOTS),
        Request(per_job="gres:slot:i2:1", per_node=SLOTS),
        Request(per_node=f"{SLOTS},gres:gpu:4"),
        Request(per_node=f"{SLOTS},gres:slot:1"),
        Request(per_node=f"{SLOTS},gres:slot"),
        Request(per_node="gres:slot:i0:2,gres:slot:i1:1"),
        Request(per_node="gres:slot:i0:1"),
        Request(per_node=SLOTS, per_task="gres:gpu:1"),
        Request(per_node=SLOTS, per_socket="gres:gpu:1"),
    ],
    ids=str,
)
def test_a_job_that_asks_for_anything_beside_its_slots_is_not_let_start(request_):
    with pytest.raises(ValueError, match="which is not what share=0\\+1 says"):
        lines(StartShared(7, "0+1"), request=request_)


BACK = Unshare(7, "gpu,fast", 2, "note", 90.0, "a100")
HOME = "update jobid=7 partition=gpu,fast reqnodelist= starttime=now comment=note"


@pytest.mark.parametrize(
    ("request_", "change"),
    [
        (Request(per_job=SLOTS), " tresperjob= trespernode=gres:gpu:a100:2"),
        (Request(per_node=SLOTS), " trespernode= tresperjob=gres:gpu:a100:2"),
        (Request(), " tresperjob= trespernode=gres:gpu:a100:2"),
        (PER_NODE, ""),
    ],
    ids=str,
)
def test_a_job_has_its_gpus_back_in_one_line_as_it_had_asked_for_them(request_, change):
    assert lines(BACK, request=request_) == (HOME + change,)


def test_what_its_owner_added_is_taken_away_while_the_job_cannot_start():
    assert lines(BACK, request=Request(per_node=SLOTS, per_job="gres:gpu:4")) == (
        "update jobid=7 starttime=uts90 partition=gpu,fast tresperjob= trespernode= trespersocket= trespertask=",
        "update jobid=7 trespernode=gres:gpu:a100:2",
        "update jobid=7 comment=note reqnodelist= starttime=now",
    )


@pytest.mark.parametrize("comment", ["a b", 'say "x"', "it's", "a\nshutdown", "a\\b", "#x", "é"])
def test_a_comment_that_cannot_be_written_back_as_it_is_keeps_its_job_from_sharing(comment):
    for action in (Share(7, "gpu", "shared", "n2", "0", comment, 90.0), Unshare(7, "gpu", 1, comment, 90.0)):
        with pytest.raises(ValueError, match="has blanks or quotes"):
            lines(action)


@pytest.mark.parametrize("token", ["", "x", "0+", "0 1", "0:t60 priority=9", "1000"])
def test_what_is_no_token_is_not_written(token):
    with pytest.raises(ValueError, match="is no share token"):
        lines(Share(7, "gpu", "shared", "n2", token, "", 90.0))


def test_pyslurm_has_no_part_in_sharing():
    assert call(StartShared(7, "0")) is None

"""The lines that make slots of a job's GPUs, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.actions import Share, StartShared, Unshare
from slurmsched.slurm.verbs import call, lines

CHANGE = re.compile(
    r"(starttime=(uts\d+|now)|partition=[\w.,+\[\]-]*|reqnodelist=[\w.,+\[\]-]*|tresperjob="
    r"|trespernode=((gres:slot:i\d+:1)(,gres:slot:i\d+:1)*|gres:gpu:\d+)?|comment=[\w.,:;=+@%/-]*)",
    re.ASCII,
)
text = st.one_of(st.text(max_size=20), st.sampled_from(["gpu", "n2", "0+1", "0:t60", "slurmsched:ckpt"]))
sharing = st.one_of(
    st.builds(Share, st.just(7), text, text, text, text, st.floats(0, 4e9)),
    st.builds(StartShared, st.just(7), text),
    st.builds(Unshare, st.just(7), text, st.integers(1, 64), text, st.floats(0, 4e9)),
)


@given(sharing)
def test_every_line_is_one_of_the_few_we_may_send(action):
    try:
        written = lines(action)
    except ValueError:
        return
    assert written
    for line in written:
        command, job, *changes = line.split(" ")
        assert (command, job) == ("update", "jobid=7")
        assert all(CHANGE.fullmatch(change) for change in changes), line


def test_what_takes_the_gpus_away_keeps_the_job_from_starting_and_says_which_it_is_to_have():
    assert lines(Share(7, "gpu", "n2", "0+1", "a=b", 90.0)) == (
        "update jobid=7 starttime=uts90 partition=gpu reqnodelist=n2 comment=a=b;slurmsched:share=0+1"
        " tresperjob= trespernode=",
        "update jobid=7 trespernode=gres:slot:i0:1,gres:slot:i1:1",
    )


@pytest.mark.parametrize("comment", ["a b", 'say "x"', "it's", "a\nshutdown", "a\\b", "#x", "é"])
def test_a_comment_that_cannot_be_written_back_as_it_is_keeps_its_job_from_sharing(comment):
    for action in (Share(7, "gpu", "n2", "0", comment, 90.0), Unshare(7, "gpu", 1, comment, 90.0)):
        with pytest.raises(ValueError, match="has blanks or quotes"):
            lines(action)


@pytest.mark.parametrize("token", ["", "x", "0+", "0 1", "0:t60 priority=9", "1000"])
def test_what_is_no_token_is_not_written(token):
    with pytest.raises(ValueError, match="is no share token"):
        lines(Share(7, "gpu", "n2", token, "", 90.0))


def test_pyslurm_has_no_part_in_sharing():
    assert call(StartShared(7, "shared")) is None

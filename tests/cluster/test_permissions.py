"""Who may submit what, where something was not read or releases differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurmsched.cluster.permissions import (
    INVALID_ACCOUNT,
    INVALID_QOS,
    NOT_IN_GROUP,
    RELEASES,
    Association,
    PartitionAccess,
    Permissions,
    Wish,
)

ALL_QOS = frozenset({"normal", "high"})
BOTH = frozenset({"associations", "qos"})
KNOWN = Permissions(
    enforced=BOTH,
    part_limits="ALL",
    releases=RELEASES[:1],
    partitions={
        "gpu": PartitionAccess(),
        "bio": PartitionAccess(accounts=frozenset({"bio"})),
        "bio2": PartitionAccess(accounts=frozenset({"bio"})),
        "staff": PartitionAccess(groups=frozenset({"staff"})),
        "here": PartitionAccess(from_anywhere=False),
    },
    qos=dict.fromkeys(ALL_QOS, False),
    associations={
        ("", "root", ""): Association(ALL_QOS, "normal"),
        ("ann", "astro", ""): Association(ALL_QOS, "normal"),
        ("bo", "physics", ""): Association(frozenset({"normal"})),
    },
    default_accounts={"ann": "astro", "bo": "physics"},
    parents={"astro": "root", "bio": "root", "physics": "bio"},
)
UNREAD = replace(KNOWN, associations=None, default_accounts={}, parents={})


def judged(known: Permissions, *, groups: frozenset[str] | None = frozenset(), **wish: object):
    return known.verdict(Wish(**{"user": "ann", "partitions": ("gpu",)} | wish), lambda user: groups)


def test_a_job_gets_the_default_account_and_qos_of_its_user():
    found = judged(KNOWN)
    assert (found.refusal, found.account, found.qos, found.unsure) == ("", "astro", "normal", ())


def test_an_account_or_a_qos_of_others_is_refused_in_slurms_words():
    assert judged(KNOWN, account="bio").refusal == INVALID_ACCOUNT
    assert judged(KNOWN, user="bo", qos="high").refusal == INVALID_QOS
    assert judged(KNOWN, user="nobody").refusal == INVALID_ACCOUNT


def test_the_words_are_the_same_for_an_account_of_others_and_for_one_that_there_is_not():
    assert judged(KNOWN, account="physics") == judged(KNOWN, account="none-such")


def test_nothing_is_refused_for_associations_that_were_not_read_and_the_answer_says_so():
    found = judged(UNREAD, account="bio", qos="high", partitions=("bio",))
    assert found.refusal == ""
    assert found.unsure == (
        "--qos=high (whether the user may use it)",
        "--account=bio (whether the user may use it)",
        "--partition=bio (whether it takes the job's account and QOS)",
    )


def test_a_qos_that_there_is_not_is_refused_although_associations_were_not_read():
    assert judged(UNREAD, qos="none-such").refusal == INVALID_QOS


def test_nothing_is_refused_and_nothing_is_unsure_where_slurm_enforces_nothing():
    off = replace(UNREAD, enforced=frozenset())
    found = judged(off, account="bio", qos="none-such")
    assert (found.refusal, found.unsure, found.account) == ("", (), "bio")


@pytest.mark.parametrize(("release", "refusal"), [(RELEASES[0], INVALID_ACCOUNT), (RELEASES[1], "")])
def test_newer_releases_let_accounts_below_one_use_its_partition(release, refusal):
    known = replace(KNOWN, releases=(release,))
    assert judged(known, user="bo", partitions=("bio",)).refusal == refusal


@pytest.mark.parametrize(
    ("qos", "refusal"),
    [
        ("normal,high", ""),
        ("high,,normal", ""),
        ("normal,", INVALID_QOS),
        ("normal,normal", INVALID_QOS),
        ("normal,none-such", INVALID_QOS),
    ],
)
def test_newer_releases_take_a_list_of_qos_that_are_all_for_the_user(qos, refusal):
    assert judged(replace(KNOWN, releases=RELEASES[1:]), qos=qos).refusal == refusal
    assert judged(KNOWN, qos=qos).refusal == INVALID_QOS, "22.05 takes it for one name"
    assert judged(replace(KNOWN, releases=RELEASES[1:]), user="bo", qos="normal,high").refusal == INVALID_QOS


def test_a_partition_that_refuses_one_of_several_qos_refuses_the_job_where_its_limits_are_enforced():
    partitions = {"gpu": PartitionAccess(denied_qos=frozenset({"high"}))}
    known = replace(KNOWN, releases=RELEASES[1:], partitions=partitions)
    assert judged(known, qos="normal,high").refusal == INVALID_QOS
    assert judged(replace(known, part_limits="NO"), qos="normal,high").reason == "", "it starts with the other"


def test_of_a_job_for_which_slurm_may_stop_others_the_answer_says_so():
    by_qos = replace(KNOWN, preempts_by="qos", preempting_qos=frozenset({"high"}))
    assert judged(by_qos, qos="high").unsure == ("--qos=high (whether Slurm stops running jobs for it)",)
    assert judged(by_qos, qos="normal").unsure == ()
    tiers = {"gpu": PartitionAccess(tier=10), "low": PartitionAccess()}
    by_tier = replace(KNOWN, preempts_by="partition_prio", partitions=tiers)
    assert judged(by_tier).unsure == ("--partition=gpu (whether Slurm stops running jobs for it)",)
    assert judged(by_tier, partitions=("low",)).unsure == ()
    assert judged(replace(KNOWN, preempting_qos=frozenset({"high"})), qos="high").unsure == (), "it preempts nothing"


def test_where_releases_differ_and_ours_lies_between_them_the_answer_says_so():
    known = replace(KNOWN, releases=RELEASES)
    assert judged(known).unsure == ()
    found = judged(known, user="bo", partitions=("bio",))
    assert found.refusal == ""
    assert found.unsure == ("--partition=bio (releases of Slurm differ in whether it takes such a job)",)


def test_groups_that_are_not_known_are_said_and_keep_nobody_out():
    assert judged(KNOWN, partitions=("staff",)).refusal == NOT_IN_GROUP
    assert judged(KNOWN, partitions=("staff",), groups=frozenset({"staff"})).refusal == ""
    unknown = judged(KNOWN, partitions=("staff",), groups=None)
    assert (unknown.refusal, unknown.unsure) == ("", ("--partition=staff (whether it takes the user's groups)",))


def test_a_partition_for_some_hosts_is_said():
    assert judged(KNOWN, partitions=("here",)).unsure == ("--partition=here (which hosts may submit to it)",)


def test_a_job_that_slurm_takes_and_never_starts_has_the_reason():
    known = replace(KNOWN, part_limits="NO")
    found = judged(known, partitions=("bio",))
    assert (found.refusal, found.reason) == ("", "AccountNotAllowed")
    assert judged(known, partitions=("bio", "gpu")).partitions == ("gpu",)
    assert judged(known, partitions=("bio", "bio2")).partitions == ("bio",)

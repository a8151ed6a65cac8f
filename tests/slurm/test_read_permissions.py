"""Who may submit what, as it is read."""

from __future__ import annotations

import pytest

from slurmsched.cluster.permissions import RELEASES, Association, PartitionAccess
from slurmsched.errors import SlurmError
from slurmsched.slurm.read.permissions import permissions_of, with_associations

PARTITIONS = (
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES State=UP\n"
    "PartitionName=some AllowGroups=staff,Admins DenyAccounts=Astro AllowQos=Short,wide AllocNodes=login1 Default=NO "
    "DisableRootJobs=YES RootOnly=NO ReqResv=YES State=DRAIN\n"
)
ANSWERS = {
    "qos": "normal||booked\nbooked|RequiresReservation|\n",
    "assoc": "|root|||normal|normal\nroot|root|||normal|normal\n|astro||root|normal|\nann|astro|gpu||normal,booked|\n",
    "user": "root|root\nann|astro\n",
}


def read(user: str, answers: dict[str, str] = ANSWERS):
    return with_associations(permissions_of({}, PARTITIONS), lambda argv: answers[argv[3]], "site", user)


def test_partitions_are_for_whom_scontrol_says():
    found = permissions_of({}, PARTITIONS).partitions
    assert found["gpu"] == PartitionAccess()
    assert found["some"] == PartitionAccess(
        takes_jobs=False,
        denied_accounts=frozenset({"astro"}),
        qos=frozenset({"short", "wide"}),
        groups=frozenset({"staff", "Admins"}),
        root=False,
        from_anywhere=False,
        needs_reservation=True,
    )


@pytest.mark.parametrize(
    ("words", "enforced"),
    [
        ("", set()),
        ("nojobs,nosteps", set()),
        ("associations", {"associations"}),
        ("limits", {"associations"}),
        ("associations,limits,qos", {"associations", "qos"}),
        ("all", {"associations", "qos"}),
    ],
)
def test_what_is_enforced_follows_from_the_configuration(words, enforced):
    assert permissions_of({"AccountingStorageEnforce": words}, "").enforced == enforced


@pytest.mark.parametrize(
    ("version", "releases"),
    [
        ("22.05.8", RELEASES[:1]),
        ("23.11.4", RELEASES[:2]),
        ("24.11.5", RELEASES[1:2]),
        ("25.11.7", RELEASES[2:3]),
        ("26.05.5", RELEASES[3:]),
    ],
)
def test_a_release_between_two_that_were_tested_may_decide_like_either(version, releases):
    assert permissions_of({"SLURM_VERSION": version}, "").releases == releases


def test_associations_have_their_qos_and_users_their_default_account():
    found = read("slurmsched")
    assert found.associations is not None
    assert found.associations["ann", "astro", "gpu"] == Association(frozenset({"normal", "booked"}))
    assert found.default_accounts["ann"] == "astro"
    assert found.parents["astro"] == "root"
    assert found.qos == {"normal": False, "booked": True}
    assert found.preempting_qos == frozenset({"normal"})


def test_associations_of_others_that_slurmdbd_hides_count_as_unread():
    own = ANSWERS | {"assoc": "|astro||root|normal|\nann|astro|||normal|\n"}
    assert read("ann", own).associations is None


def test_an_answer_with_other_fields_is_an_error_and_no_permission():
    with pytest.raises(SlurmError):
        read("root", ANSWERS | {"assoc": "ann|astro\n"})

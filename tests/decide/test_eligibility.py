"""Why a job is left alone: the reason closest to a person's wish."""

from __future__ import annotations

import pytest
from decide.views import jobs, partitions

from slurmsched.cluster.plan import Standing
from slurmsched.decide.ordering.eligibility import standing


def of(only=(), **columns) -> Standing:
    return Standing(int(standing(jobs(1, **{name: [value] for name, value in columns.items()}), partitions(), only)[0]))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("", Standing.RANKED),
        ("None", Standing.RANKED),
        ("(null)", Standing.RANKED),
        ("Priority", Standing.RANKED),
        ("Resources", Standing.RANKED),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            Standing.RANKED,
        ),
        ("ReqNodeNotAvail, May be reserved for other job", Standing.RANKED),
        ("ReqNodeNotAvail, UnavailableNodes:n1", Standing.RANKED),
        ("BadConstraints", Standing.CANNOT_RUN),
        ("SomethingOfTheNextRelease", Standing.RANKED),
        ("Dependency", Standing.WAITS_FOR_DEPENDENCY),
        ("DependencyNeverSatisfied", Standing.WAITS_FOR_DEPENDENCY),
        ("BeginTime", Standing.WAITS_FOR_BEGIN),
        ("Reservation", Standing.IN_RESERVATION),
        ("PartitionDown", Standing.PARTITION_CLOSED),
        ("PartitionTimeLimit", Standing.CANNOT_RUN),
        ("PartitionNodeLimit", Standing.CANNOT_RUN),
        ("InvalidQOS", Standing.CANNOT_RUN),
        ("AssocGrpGRES", Standing.LIMIT_BLOCKED),
        ("AssocMaxJobsLimit", Standing.LIMIT_BLOCKED),
        ("QOSMaxGRESPerUser", Standing.LIMIT_BLOCKED),
        ("QOSGrpCpuLimit", Standing.LIMIT_BLOCKED),
        ("MaxGRESPerAccount", Standing.LIMIT_BLOCKED),
        ("JobArrayTaskLimit", Standing.LIMIT_BLOCKED),
        ("Licenses", Standing.LIMIT_BLOCKED),
        ("JobHeldUser", Standing.HELD_BY_USER),
        ("JobHeldAdmin", Standing.HELD_BY_ADMIN),
    ],
)
def test_what_slurm_says_becomes_a_standing(reason, expected):
    assert of(reason=reason) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"priority": 0, "reason": "launch failed requeued held"}, Standing.HELD_BY_ADMIN),
        ({"priority": 0, "reason": "JobHeldUser"}, Standing.HELD_BY_USER),
        ({"fixed": True}, Standing.PRIORITY_FIXED),
        ({"nice": 5}, Standing.NICE_SET),
        ({"nice": -5}, Standing.NICE_SET),
        ({"het_job_id": 4}, Standing.HETEROGENEOUS),
        ({"reservation": "maint"}, Standing.IN_RESERVATION),
        ({"partition": "closed"}, Standing.PARTITION_CLOSED),
        ({"partition": "gpu,closed"}, Standing.RANKED),
        ({"partition": "never_heard_of"}, Standing.RANKED),
        ({"off": True, "reason": "JobHeldUser", "nice": 3, "fixed": True}, Standing.OWNER_SAID_OFF),
        ({"reason": "JobHeldUser", "nice": 3, "reservation": "x"}, Standing.HELD_BY_USER),
        ({"fixed": True, "nice": 3, "reason": "Licenses"}, Standing.PRIORITY_FIXED),
        ({"interactive": True}, Standing.RANKED),
        ({"partition": "gpu", "reason": "PartitionTimeLimit"}, Standing.CANNOT_RUN),
        ({"partition": "gpu,big", "reason": "PartitionTimeLimit"}, Standing.RANKED),
        ({"partition": "gpu,big", "reason": "PartitionDown"}, Standing.RANKED),
        ({"partition": "gpu,big", "reason": "QOSMaxGRESPerUser"}, Standing.LIMIT_BLOCKED),
    ],
)
def test_of_several_reasons_the_one_closest_to_a_person_is_told(columns, expected):
    assert of(**columns) == expected


def test_a_begin_time_of_ours_leaves_the_job_in_the_order():
    assert of(reason="BeginTime", held_by_us=True) == Standing.RANKED
    assert of(reason="Dependency", held_by_us=True) == Standing.WAITS_FOR_DEPENDENCY


def test_only_the_partitions_that_are_named_are_ordered():
    assert of(only={"fast"}) == Standing.OUT_OF_SCOPE
    assert of(only={"fast"}, partition="gpu,fast") == Standing.RANKED

"""No change of a job goes against a limit of its QOS, its partition's QOS or its association."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decide.views import jobs, nodes, partitions, view

from slurmsched.cluster.actions import Resize, RestoreSize, Rightsize, Steer
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.exclusions import ANY_TYPE
from slurmsched.cluster.limits import limit_table, unread_limits
from slurmsched.cluster.node_request import NodeRequest
from slurmsched.decide.referee import judge
from slurmsched.decide.rules import ResizingRules, RightsizingRules, Rules, SteeringRules
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

FIFO = find_ordering("fifo")
RESIZE = Rules(powers=frozenset({"resize"}), resizing=ResizingRules(restart_s=120.0))
RIGHTSIZE = Rules(powers=frozenset({"rightsize"}), rightsizing=RightsizingRules(again_s=0.0))
STEER = Rules(powers=frozenset({"steer"}), steering=SteeringRules(least_gain=1.1))


def limits(*rows):
    """Limits of the QOS normal; each row has what it counts, the resource and how much, and maybe more columns."""
    names = ("counts", "resource", "most")
    made = [{"whose": "qos", "name": "normal"} | dict(zip(names, row, strict=False)) for row in rows]
    return limit_table([one | (row[3] if len(row) > 3 else {}) for one, row in zip(made, rows, strict=True)])


def seen(pending, known, room=None, qos=""):
    what = replace(view(pending, room=room), limits=known)
    parts = partitions()
    return replace(what, partitions=parts.changed(qos=Labels.of([qos] * len(parts))))


def gpus_given(known, gpus=2, comment="slurmsched:gpus=1-4,ckpt", rules=RESIZE, qos="", **columns):
    """The number of GPUs that a job on two of them gets; its own where nothing is changed."""
    asked = {"gpus": [gpus], "comment": [comment], "qos": ["normal"], "account": ["astro"]} | columns
    plan = decide(seen(jobs(1, **asked), known, qos=qos), FIFO, rules)
    assert not plan.refusals
    return next((one.gpus for one in plan.actions if isinstance(one, Resize)), gpus)


ACCOUNT = {"whose": "account", "name": "astro", "members": "astro"}


@pytest.mark.parametrize(
    ("known", "given_to"),
    [
        ((), 4),
        ((("job", "gpu", 3),), 3),
        ((("node", "gpu", 3),), 3),
        ((("user", "gpu", 2),), 2),
        ((("account", "gpu", 3),), 3),
        ((("group", "gpu", 3),), 3),
        ((("job", "gpu", 3, ACCOUNT),), 3),
        ((("job", "gpu", 3, ACCOUNT | {"members": "bio"}),), 4),
        ((("job", "gpu", 1),), 2),
        ((("job", "gpu:a100", 3),), 4),
        ((("job", "wall", 60),), 4),
        ((("user", "jobs", 1),), 4),
        ((("job", "billing", 100),), 2),
        ((("job", "minutes", 0),), 2),
        ((("job", "gpu", 3, {"name": "low"}),), 4),
    ],
)
def test_a_job_gets_no_more_gpus_than_limits_allow_one_job(known, given_to):
    assert gpus_given(limits(*known) if known else limits()) == given_to


def test_a_limit_of_the_qos_of_its_partition_counts_too():
    low = limits(("job", "gpu", 3, {"name": "low"}))
    assert (gpus_given(low, qos="low"), gpus_given(low, qos="")) == (3, 4)


def test_a_job_gets_no_fewer_gpus_than_its_qos_requires():
    two = jobs(2, gpus=[4, 4], comment=["slurmsched:gpus=1-4,ckpt"] * 2, qos=["normal"] * 2)
    room = nodes((4,))

    def sizes(known):
        plan = decide(seen(two, known, room=room), FIFO, RESIZE)
        assert not plan.refusals
        return [one.gpus for one in plan.actions if isinstance(one, Resize)]

    assert min(sizes(limits()), default=4) < 3
    assert min(sizes(limits(("least", "gpu", 3))), default=4) >= 3


OWN = NodeRequest(6, 6, 6, 12_000, per_cpu=False)


@pytest.mark.parametrize(
    ("known", "changed"),
    [
        (None, True),
        (("least", "cpu", 2), True),
        (("least", "cpu", 3), False),
        (("least", "mem", 4_001), False),
        (("job", "cpu", 1), True),
        (("job", "billing", 9), False),
    ],
)
def test_cpus_and_memory_are_not_taken_where_a_limit_requires_them(known, changed):
    pending = jobs(
        1,
        gpus=[1],
        cpus=[6],
        memory_mib=[12_000.0],
        node_request=[str(OWN)],
        comment=["slurmsched:cpus=1-6,mem=1G-12G"],
        qos=["normal"],
    )
    full = replace(nodes((4, 4), (4, 4)), cpus_used=np.array([8, 8]))
    plan = decide(seen(pending, limits(known) if known else limits(), room=full), FIFO, RIGHTSIZE)
    assert not plan.refusals
    assert bool(plan.actions) == changed


def test_where_limits_could_not_be_read_nothing_is_steered_or_sized_and_what_is_ours_is_given_back():
    away = unread_limits("slurmdbd does not answer")
    assert gpus_given(away) == 2
    room = replace(nodes(), gpu_type=Labels.of(["a100", "v100"]))
    untyped = jobs(1, type_speeds=["a100=1 v100=0.25"])
    assert decide(seen(untyped, away, room), FIFO, STEER).actions == ()
    assert decide(seen(untyped, limits(), room), FIFO, STEER).actions == (Steer(1, "a100", "n2"),)
    grown = jobs(1, gpus=[4], own_gpus=[2], comment=[""])
    assert decide(seen(grown, away), FIFO, RESIZE).actions == (Resize(1, 2, 4, 2),)


LESS = replace(OWN, cpus=2, per_task=2, per_node=2, memory_mib=4_000)
ALL = Rules(
    powers=frozenset({"steer", "rightsize", "resize", "migrate"}), rightsizing=RightsizingRules(accounts=("astro",))
)
TO_FOUR = Resize(1, 4, 2, 2)


@pytest.mark.parametrize(
    ("action", "known", "rule"),
    [
        (Steer(1, "a100", "n2"), unread_limits("away"), "limits_are_known"),
        (Steer(1, ANY_TYPE, "n2"), unread_limits("away"), None),
        (TO_FOUR, unread_limits("away"), "limits_are_known"),
        (TO_FOUR, limits(("job", "gpu", 3)), "limits_are_kept"),
        (TO_FOUR, limits(("job", "gpu", 4)), None),
        (Rightsize(1, str(OWN), str(OWN), str(LESS)), limits(("least", "cpu", 3)), "limits_are_kept"),
        (Rightsize(1, str(OWN), str(OWN), str(LESS)), limits(("job", "cpu", 1)), None),
        (Rightsize(1, str(OWN), str(OWN), str(LESS)), unread_limits("away"), "limits_are_known"),
        (RestoreSize(1, str(LESS), str(OWN)), unread_limits("away"), None),
        (replace(TO_FOUR, gpus=2, before=4), unread_limits("away"), None),
    ],
    ids=str,
)
def test_the_referee_keeps_the_limits_whatever_is_wished(action, known, rule):
    sized = isinstance(action, RestoreSize)
    back = isinstance(action, Resize) and action.gives_back
    pending = jobs(
        1,
        gpus=[action.before if isinstance(action, Resize) else 1],
        own_gpus=[2 if back else 0],
        cpus=[6],
        memory_mib=[12_000.0],
        node_request=[str(LESS if sized else OWN)],
        own_request=[str(OWN) if sized else ""],
        comment=["slurmsched:gpus=1-8,ckpt"],
        qos=["normal"],
        ckpt=[True],
    )
    refusals = judge([action], seen(pending, known), ALL)[1]
    assert [one.rule for one in refusals] == ([rule] if rule else [])

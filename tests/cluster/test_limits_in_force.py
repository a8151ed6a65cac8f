"""Which limits Slurm holds a job to, where its QOS, that of its partition and its associations have several."""

from __future__ import annotations

from dataclasses import replace

import pytest
from decide.views import jobs, partitions, running_jobs, view

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.limits import RULES, LimitTable, Memberships, limit_table, limits_of, ways_of
from slurmsched.cluster.nodes import PartitionTable
from slurmsched.explain.limits import full_for_new

OWN = {"whose": "qos", "name": "own", "counts": "job", "resource": "gpu"}
OF_PART = OWN | {"name": "part"}
ACCOUNT = OWN | {"whose": "account", "name": "bio", "members": "bio"}


def limits(*rows: dict[str, object]) -> LimitTable:
    return limit_table(rows)


def site(qos: str = "part") -> PartitionTable:
    """Partitions of which the first alone has a QOS."""
    table = partitions()
    return replace(table, qos=Labels.of([qos, *[""] * (len(table) - 1)]))


def job(**columns: object) -> JobTable:
    table = site()
    return jobs(1, **({"qos": ["own"], "account": ["bio"], "user": ["ann"], "partition": [table.name[0]]} | columns))


def mosts(*rows: dict[str, object], **columns: object) -> list[float]:
    return [limit.most for limit in limits_of(limits(*rows), site(), job(**columns), 0)]


def test_the_qos_of_the_partition_comes_before_that_of_the_job_and_both_before_its_associations():
    assert mosts(OWN | {"most": 2}, OF_PART | {"most": 3}, ACCOUNT | {"most": 1}) == [3]
    assert mosts(OWN | {"most": 2}, ACCOUNT | {"most": 1}) == [2]
    assert mosts(ACCOUNT | {"most": 1}) == [1]


def test_a_qos_with_the_flag_for_that_comes_before_that_of_the_partition():
    over = {"flags": "DenyOnLimit,OverPartQOS"}
    assert mosts(OWN | {"most": 2} | over, OF_PART | {"most": 3}) == [2]
    assert mosts(OWN | {"most": 2}, OF_PART | {"most": 3} | over) == [3], "that of a partition has no need of it"


def test_a_licence_of_a_server_is_another_than_one_of_the_same_name():
    local = {"whose": "licence", "name": "foo", "counts": "group", "resource": "licence", "most": 5}
    both = local, local | {"name": "foo@flex", "most": 2}
    assert mosts(*both, licences=["foo@flex:2"]) == [2]
    assert mosts(*both, licences=["foo:1"]) == [5]


def rules(name: str = "own", flags: str = "", factor: float = 0.0) -> dict[str, object]:
    return {"whose": RULES, "name": name, "flags": flags, "most": factor}


def test_a_qos_without_limits_of_its_own_denies_and_comes_first_by_its_flags_too():
    known = limits(rules(flags="DenyOnLimit"), ACCOUNT | {"most": 1})
    assert [limit.denies for limit in limits_of(known, site(), job(), 0)] == [True]
    assert mosts(rules(flags="OverPartQOS"), OWN | {"most": 2}, OF_PART | {"most": 3}) == [2]


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        (ACCOUNT, 4),
        (ACCOUNT | {"counts": "group", "resource": "cpu"}, 4),
        (ACCOUNT | {"counts": "node"}, 3),
        (ACCOUNT | {"counts": "group", "resource": "minutes:cpu", "flags": "Safe"}, 3),
        (ACCOUNT | {"resource": "wall"}, 3),
        (ACCOUNT | {"counts": "group", "resource": "jobs"}, 3),
        (OWN, 3),
    ],
)
def test_the_factor_of_a_qos_enlarges_the_limits_of_associations_on_resources(limit, most):
    assert mosts(rules(factor=1.5), limit | {"most": 3}) == [most]
    assert mosts(rules(name="other", factor=1.5), limit | {"most": 3}) == [3]


def test_the_factor_is_that_of_the_qos_of_the_partition_unless_that_of_the_job_comes_first():
    both = rules(factor=2), rules(name="part", factor=3)
    assert mosts(*both, ACCOUNT | {"most": 1}) == [3]
    assert mosts(rules(flags="OverPartQOS", factor=2), both[1], ACCOUNT | {"most": 1}) == [2]


@pytest.mark.parametrize("other", [{"resource": "cpu"}, {"counts": "user"}, {"resource": "gpu:a100"}])
def test_limits_of_different_kinds_stand_beside_each_other(other):
    assert mosts(OWN | {"most": 2} | other, OF_PART | {"most": 3}, ACCOUNT | {"most": 1} | other) == [2, 3]


def test_groups_within_groups_all_count_unless_a_qos_has_one():
    groups = [ACCOUNT | {"counts": "group", "name": name, "members": "bio,x", "most": 4} for name in ("bio", "all")]
    assert mosts(*groups) == [4, 4]
    assert mosts(*groups, OWN | {"counts": "group", "most": 9}) == [9]


def test_a_users_own_limit_comes_before_that_of_all_users_of_the_account():
    assert mosts(ACCOUNT | {"most": 1}, ACCOUNT | {"most": 5, "user": "ann"}) == [5]
    assert mosts(ACCOUNT | {"most": 1}, ACCOUNT | {"most": 5, "user": "bob"}) == [1]


@pytest.mark.parametrize("counts", ["user", "account"])
def test_a_most_of_running_jobs_of_a_qos_stands_for_that_of_an_association(counts):
    of_user = ACCOUNT | {"counts": "user", "resource": "jobs", "most": 2}
    assert mosts(of_user) == [2]
    assert mosts(of_user, OWN | {"counts": counts, "resource": "jobs", "most": 7}) == [7]


def test_a_job_in_several_partitions_is_held_to_what_counts_in_all_of_them():
    table, both = site(), ",".join(list(site().name)[:2])
    known = limits(OWN | {"most": 2}, OF_PART | {"most": 3}, OWN | {"most": 8, "resource": "cpu"})
    there = job(partition=[both])
    ways = [[limit.most for limit in way] for way in ways_of(known, table, there, 0)]
    assert ways == [[3, 8], [2, 8]]
    assert [limit.most for limit in limits_of(known, table, there, 0)] == [8]


def test_all_jobs_of_a_partition_count_for_its_qos_but_those_that_go_before_it_wait_for_their_own():
    table, name = site(), site().name[0]
    some = jobs(3, qos=["own", "free", "own"], partition=[name, name, table.name[1]], gpus=[1, 2, 4])
    group = {"counts": "group"}
    known = limits(OWN | group | {"most": 5, "flags": "OverPartQOS"}, OF_PART | group | {"most": 3})
    members = Memberships.of(known, table, some)
    of_job = [slice(*members.first[at : at + 2].tolist()) for at in range(3)]
    told = [sorted(zip(members.most[members.limit[at]], members.binds[at], strict=True)) for at in of_job]
    assert told == [[(3, False), (5, True)], [(3, True)], [(5, True)]]


@pytest.mark.parametrize(
    ("whose", "counts", "most", "room"),
    [
        (OWN, "user", 6, 3),
        (OWN, "group", 8, 1),
        (OWN, "account", 5, 2),
        (ACCOUNT, "user", 4, 2),
        (ACCOUNT, "group", 5, 2),
    ],
)
def test_waiting_tasks_and_running_jobs_count_for_a_most_of_submitted_ones(whose, counts, most, room):
    waiting = jobs(3, tasks=[1, 3, 1], user=["ann", "bob", "ann"], account=["bio", "chem", "chem"], qos=["own"] * 3)
    running = running_jobs(2, user=["ann", "bob"], account=["bio", "bio"], qos=["own", "own"])
    known = limits(whose | {"counts": counts, "resource": "submit", "most": most})
    seen = replace(view(waiting, running=running), partitions=site(""), limits=known)
    assert [bool(full_for_new(seen, job(tasks=[new]))) for new in (room, room + 1)] == [False, True]
    assert not limits_of(known, seen.partitions, job(), 0), "no job that is there already waits for it"


def test_a_qos_that_denies_lets_sbatch_refuse_for_all_limits_that_count():
    def denies(*rows: dict[str, object]) -> list[bool]:
        return [limit.denies for limit in limits_of(limits(*rows), site(), job(), 0)]

    cores = ACCOUNT | {"resource": "cpu", "most": 4}
    assert denies(OWN | {"most": 2}, cores) == [False, False]
    assert denies(OWN | {"most": 2, "flags": "DenyOnLimit"}, cores) == [True, True]


def test_a_limit_is_the_same_one_whether_or_not_a_way_of_the_job_denies():
    strict = OWN | {"name": "strict", "resource": "cpu", "most": 9, "flags": "DenyOnLimit"}
    known, both = limits(strict, ACCOUNT | {"most": 1}), job(qos=["own,strict"])
    assert [limit.most for limit in limits_of(known, site(""), both, 0)] == [1]


def test_of_a_node_slurm_takes_the_whole_part_of_the_mean():
    (limit,) = limits_of(limits(OWN | {"counts": "node", "most": 2}), site(), job(), 0)
    assert limit.asked(job(gpus=[5], nodes=[2]), 0) == 2.0
    assert not limit.is_beyond(limit.asked(job(gpus=[5], nodes=[2]), 0))
    assert limit.is_beyond(limit.asked(job(gpus=[6], nodes=[2]), 0))

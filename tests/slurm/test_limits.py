"""Limits as sacctmgr and scontrol print them."""

from __future__ import annotations

import pytest

from slurmsched.cluster.limits import RULES, LimitTable
from slurmsched.errors import SlurmUnavailable
from slurmsched.slurm.read.limits import read_shared_limits

QOS = """\
normal||||||||||||||||||||1.000000|
plain|||||||||||||||||||DenyOnLimit|1.000000|1.500000
small|gres/gpu=8,cpu=64|5|gres/gpu=2,mem=100G|3|node=4|7|gres/gpu:a100=1|cpu=2|1-00:00:00|gres/gpu=4|cpu=600|\
|cpu=90|gres/gpu=70,energy=5||90|9|60|DenyOnLimit,OverPartQOS|1.000000|
"""
ASSOCIATIONS = """\
root||||||||||||||
root|root|||||||||||||
physics|||root|gres/gpu=16||5|||||cpu=9000||200|30
astro|||physics|||||||||||
astro|alice|||||2||||||||
astro|bob|gpu|||||gres/gpu=1|01:00:00||||||
"""
USE = """\
Current Association Manager state

QOS Records
QOS=normal(1) UsageRaw=0.000000 GrpTRES=cpu=N(0) GrpTRESMins=cpu=N(70),gres/gpu=N(7) GrpTRESRunMins=cpu=N(0)
ClusterName=here Account=physics UserName= Partition= Priority=0 ID=3 GrpTRES=cpu=N(0) GrpTRESMins=cpu=9000(70) MaxJobs=
ClusterName=here Account=astro UserName=bob(1002) Partition=gpu ID=4 GrpTRES=cpu=N(0) GrpTRESMins=cpu=N(4) MaxJobs=
"""
LICENCES = "LicenseName=matlab Total=4 Used=1 Free=3 Reserved=0 Remote=no\n"


def read(associations: str = ASSOCIATIONS, qos: str = QOS, *, safe: bool = False) -> LimitTable:
    def query(argv: list[str]) -> str:
        if argv[0] == "scontrol":
            return LICENCES if "licenses" in argv else USE
        return qos if "qos" in argv else associations

    return read_shared_limits(query, "here", accounting=True, safe=safe)


def rows(table: LimitTable) -> set[tuple[object, ...]]:
    names = ("whose", "name", "members", "user", "partition", "counts", "resource")
    return {(*(getattr(table, name)[at] for name in names), float(table.most[at])) for at in range(len(table))}


def test_each_limit_becomes_a_row_with_what_it_counts():
    assert {row for row in rows(read()) if row[0] != "account"} == {
        ("qos", "small", "", "", "", "group", "gpu", 8.0),
        ("qos", "small", "", "", "", "group", "cpu", 64.0),
        ("qos", "small", "", "", "", "group", "jobs", 5.0),
        ("qos", "small", "", "", "", "user", "gpu", 2.0),
        ("qos", "small", "", "", "", "user", "mem", 102_400.0),
        ("qos", "small", "", "", "", "user", "jobs", 3.0),
        ("qos", "small", "", "", "", "account", "node", 4.0),
        ("qos", "small", "", "", "", "account", "jobs", 7.0),
        ("qos", "small", "", "", "", "job", "gpu:a100", 1.0),
        ("qos", "small", "", "", "", "least", "cpu", 2.0),
        ("qos", "small", "", "", "", "job", "wall", 86_400.0),
        ("qos", "small", "", "", "", "node", "gpu", 4.0),
        ("qos", "small", "", "", "", "job", "minutes:cpu", 600.0),
        ("qos", "small", "", "", "", "group", "run-minutes:cpu", 90.0),
        ("qos", "small", "", "", "", "user", "run-minutes:gpu", 70.0),
        ("qos", "small", "", "", "", "user", "minutes", 0.0),
        ("qos", "small", "", "", "", "group", "submit", 90.0),
        ("qos", "small", "", "", "", "user", "submit", 9.0),
        ("qos", "small", "", "", "", "account", "submit", 60.0),
        ("rules of a QOS", "small", "", "", "", "", "", 0.0),
        ("rules of a QOS", "plain", "", "", "", "", "", 1.5),
        ("licence", "matlab", "", "", "", "group", "licence", 4.0),
    }


def test_the_flags_of_a_qos_stand_in_a_row_of_their_own_also_where_it_has_no_limits():
    table = read()
    flags = {table.name[at]: table.flags[at] for at in range(len(table)) if table.whose[at] == RULES}
    assert flags == {"small": "DenyOnLimit,OverPartQOS", "plain": "DenyOnLimit"}


def test_an_account_counts_the_jobs_of_those_below_and_hands_down_what_each_user_may():
    assert {row for row in rows(read()) if row[0] == "account"} == {
        ("account", "physics", "physics,astro", "", "", "group", "gpu", 16.0),
        ("account", "physics", "physics,astro", "", "", "group", "minutes:cpu", 9000.0),
        ("account", "physics", "physics,astro", "", "", "group", "submit", 200.0),
        ("account", "physics", "physics", "", "", "user", "jobs", 5.0),
        ("account", "physics", "physics", "", "", "user", "submit", 30.0),
        ("account", "astro", "astro", "", "", "user", "jobs", 5.0),
        ("account", "astro", "astro", "", "", "user", "submit", 30.0),
        ("account", "astro", "astro", "alice", "", "user", "jobs", 2.0),
        ("account", "astro", "astro", "bob", "gpu", "job", "gpu", 1.0),
        ("account", "astro", "astro", "bob", "gpu", "job", "wall", 3600.0),
    }


@pytest.mark.parametrize(("safe", "flag"), [(True, "Safe"), (False, "")])
def test_what_is_gone_of_minutes_stands_beside_their_limit(safe, flag):
    table = read(safe=safe)
    of = {(table.name[at], table.resource[at]): (table.used[at], table.flags[at]) for at in range(len(table))}
    assert of["physics", "minutes:cpu"] == (70.0, flag)
    assert {used for (_, resource), (used, _) in of.items() if resource != "minutes:cpu"} == {0.0}


def test_minutes_that_nobody_shows_and_those_under_a_usage_factor_are_not_known():
    unseen = read(ASSOCIATIONS + "geo|||root||||||||gres/gpu=5|||\n")
    assert ("account", "geo", "geo", "", "", "group", "minutes", 0.0) in rows(unseen)
    doubled = read(qos=QOS.replace("1.000000", "2.000000", 1))
    assert not [row for row in rows(doubled) if ":cpu" in str(row[6])]


def test_without_accounting_only_licences_are_read():
    table = read_shared_limits(lambda argv: LICENCES, "here", accounting=False)
    assert table.whose.names == ("licence",)


@pytest.mark.parametrize("text", ["small|too|few\n", "small|gres/gpu=x|||||||||||||||||||\n"])
def test_what_is_no_answer_of_sacctmgr_is_refused(text):
    with pytest.raises(SlurmUnavailable):
        read(qos=text)

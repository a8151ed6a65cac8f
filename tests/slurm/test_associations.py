"""Associations with their shares, as slurmctld prints them."""

from __future__ import annotations

from slurmsched.cluster.records.associations import OF_PARENT
from slurmsched.slurm.read.associations import read_associations

PRINTED = """
Current Association Manager state
Association Records
ClusterName=c Account=root UserName= Partition= Priority=0 ID=1 SharesRaw/Norm/Level/Factor=1/0.00/1/0.00 \
UsageRaw/Norm/Efctv=0.00/1.00/1.00 ParentAccount= Lft=1 DefAssoc=No GrpJobs=N(0) GrpWall=N(0.00)
ClusterName=c Account=bio UserName= Partition= Priority=0 ID=4 SharesRaw/Norm/Level/Factor=2147483647/0.06/16/0.00 \
UsageRaw/Norm/Efctv=0.00/0.00/0.00 ParentAccount=root(1) Lft=34 DefAssoc=No GrpJobs=N(0) GrpWall=N(0.00)
ClusterName=c Account=bio UserName=carol(949) Partition=gpu Priority=7 ID=8 \
SharesRaw/Norm/Level/Factor=3/0.50/2/1.00 UsageRaw/Norm/Efctv=0.00/0.00/0.00 ParentAccount= Lft=35 DefAssoc=Yes
ClusterName=c Account=alpha UserName= Partition= Priority=0 ID=11 SharesRaw/Norm/Level/Factor=5/0.31/16/0.00 \
UsageRaw/Norm/Efctv=0.00/1.00/0.00 ParentAccount=root(1) Lft=4 DefAssoc=No GrpJobs=N(0) GrpWall=N(0.00)
"""
LATER = PRINTED.replace(" Lft=1 ", " Lineage=/ ").replace(" Lft=34 ", " Lineage=/bio/ ")
LATER = LATER.replace(" Lft=35 ", " Lineage=/bio/0-carol/ ").replace(" Lft=4 ", " Lineage=/alpha/ ")


def test_associations_are_read_in_slurms_order_of_siblings():
    read = read_associations(lambda command: PRINTED)
    assert list(read.account) == ["root", "alpha", "bio", "bio"]
    assert list(read.user) == ["", "", "", "carol"]
    assert list(read.partition) == ["", "", "", "gpu"]
    assert list(read.parent) == ["", "root", "root", ""]
    assert read.shares.tolist() == [1, 5, OF_PARENT, 3]
    assert read.priority.tolist() == [0, 0, 0, 7]
    assert read.default.tolist() == [False, False, False, True]


def test_releases_that_print_a_lineage_are_read_in_the_order_in_which_they_print():
    read = read_associations(lambda command: LATER)
    assert list(read.account) == ["root", "bio", "bio", "alpha"]
    assert read.shares.tolist() == [1, OF_PARENT, 3, 5]


def test_a_slurm_without_accounts_has_none():
    assert len(read_associations(lambda command: "Current Association Manager state\n")) == 0

"""Priority factors: whose points are in a priority, and who set it by hand."""

from __future__ import annotations

from decide.views import jobs
from headers import headed

from slurmsched.slurm.read.records import cut
from slurmsched.slurm.read.sprio import FIELDS, with_factors


def read(text: str, count: int = 2):
    fields = tuple(FIELDS)
    columns = cut("sprio", headed(fields, "|", ";", text), fields, "JobID", "|", ";")
    return with_factors(jobs(count), columns)


def test_points_of_ours_and_of_slurm():
    table = read("1|1600|70|30|0|0|1000|500|0|cpu=0,gres/gpu=0|0;\n2|1000|0|0|0|0|1000|0|0||0;\n")
    assert table.site_points.tolist() == [70, 0]
    assert table.age_points.tolist() == [30, 0]
    assert table.qos_points.tolist() == [500, 0]
    assert not table.fixed.any()


def test_a_job_that_sprio_does_not_list_has_none():
    table = read("2|1005|5|0|0|0|1000|0|0||0;\n")
    assert table.site_points.tolist() == [0, 5]
    assert not table.fixed.any()


def test_of_the_rows_of_a_job_in_several_partitions_the_first_counts():
    table = read("1|1005|5|0|0|0|1000|0|0||0;\n1|2005|5|0|0|0|2000|0|0||0;\n")
    assert table.site_points.tolist() == [5, 0]
    assert table.partition_points.tolist() == [1000, 0]


def test_a_priority_that_its_factors_do_not_make_was_set_by_hand():
    table = read("1|77|0|0|0|0|0|0|0||0;\n2|950|0|0|0|0|1000|0|0||50;\n")
    assert table.fixed.tolist() == [True, False], "a nice value is no hand-set priority"


def test_factors_that_are_rounded_are_no_hand():
    assert not read("1|1603|70|30|0|0|1000|500|0|gres/gpu=0|0;\n").fixed.any()


def test_tres_points_are_summed():
    assert read("1|1030|0|0|0|0|1000|0|0|cpu=10,gres/gpu=20|0;\n").tres_points.tolist() == [30, 0]


def test_no_pending_job_no_factors():
    assert not read("").site_points.any()

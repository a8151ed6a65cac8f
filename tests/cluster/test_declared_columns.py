"""Columns of jobs declare themselves: who fills each in, and from what."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from columns import readers

from slurmsched.cluster.columns import Filler, Labels, declared
from slurmsched.cluster.jobs import DERIVED, JobTable, comment_columns, job_table
from slurmsched.cluster.table_delta import stored_columns


def test_every_column_names_its_filler_and_has_a_reader():
    assert set(declared(JobTable)) == {f.name for f in fields(JobTable)}
    assert {name for name, files in readers().items() if not files} == set()


def test_only_columns_of_slurm_have_fields_of_squeue_and_all_that_are_left_out_of_records_come_from_comments():
    columns = declared(JobTable)
    assert {one.by for one in columns.values() if one.fields or one.optional} == {Filler.SLURM}
    assert {columns[name].by for name in DERIVED} == {Filler.COMMENT}
    assert {*stored_columns(JobTable), *DERIVED} == set(columns)
    assert set(comment_columns(Labels.of([""]))) == {n for n, one in columns.items() if one.by is Filler.COMMENT}


def test_a_job_of_which_nothing_is_known_has_the_neutral_values():
    jobs = job_table(1)
    for name, one in declared(JobTable).items():
        value = getattr(jobs, name)[0]
        assert (value == "") if isinstance(value, str) else np.array_equal(value, one.neutral, equal_nan=True), name

"""Columns of jobs declare themselves: who fills each in, and from what."""

from __future__ import annotations

from dataclasses import MISSING, fields

import numpy as np
import pytest
from columns import TABLES, readers

from slurmsched.cluster.columns import Filler, Labels, declared, table_of
from slurmsched.cluster.jobs import DERIVED, JobTable, comment_columns, job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable
from slurmsched.cluster.table_delta import stored_columns
from slurmsched.slurm.read.sinfo import FIELDS, LOADS, WHY_DOWN


@pytest.mark.parametrize("kind", TABLES)
def test_every_column_names_its_filler_and_has_a_reader(kind):
    assert set(declared(kind)) == {f.name for f in fields(kind)}
    assert {name for name, files in readers(kind).items() if not files} == set()


def test_columns_of_nodes_and_partitions_have_fields_that_sinfo_is_asked_for():
    shown = {field for kind in (NodeTable, PartitionTable) for one in declared(kind).values() for field in one.fields}
    assert shown == {*FIELDS, *LOADS, *WHY_DOWN}


@pytest.mark.parametrize("kind", [NodeTable, PartitionTable])
def test_a_column_that_no_source_reads_has_its_neutral_value(kind):
    left_out = {f.name for f in fields(kind) if f.default_factory is not MISSING}
    row = table_of(kind, 1, {}, {})
    made = kind(**{name: getattr(row, name) for name in declared(kind) if name not in left_out})
    for name in left_out:
        value, neutral = getattr(made, name)[0], declared(kind)[name].neutral
        assert (value == "") if isinstance(value, str) else np.array_equal(value, neutral, equal_nan=True), name


def test_only_columns_of_slurm_have_fields_of_squeue_and_all_that_are_left_out_of_records_come_from_comments():
    columns = declared(JobTable)
    assert {one.by for one in columns.values() if one.fields or one.optional} == {Filler.SLURM}
    assert {columns[name].by for name in DERIVED} == {Filler.COMMENT}
    assert {*stored_columns(JobTable).values(), *DERIVED} == set(columns)
    assert set(comment_columns(Labels.of([""]))) == {n for n, one in columns.items() if one.by is Filler.COMMENT}


def test_a_job_of_which_nothing_is_known_has_the_neutral_values():
    jobs = job_table(1)
    for name, one in declared(JobTable).items():
        value = getattr(jobs, name)[0]
        assert (value == "") if isinstance(value, str) else np.array_equal(value, one.neutral, equal_nan=True), name


def test_records_keep_the_spelling_of_columns_that_have_other_names_now():
    spelled = {stored: name for stored, name in stored_columns(JobTable).items() if stored != name}
    assert spelled == {
        "asked_s": "stop_requested_s",
        "asks": "stop_requests",
        "told": "sent_comment",
        "asked_for": "own_whole_gpus",
    }

"""Cycles that were recorded once are read and decided as ever, whatever moves between modules."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.jobs import JobTable, job_table
from slurmsched.cluster.table_delta import normal, stored_columns
from slurmsched.db.tracking.decision_layers import BlobLayers, RecordParts, nothing
from slurmsched.db.tracking.decisions import TABLES, layers_of, restored
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.decide.referee import LIMIT_RULES, MOVE_RULES, NODE_RULES, PAIR_RULES, RULES, SIZE_RULES
from slurmsched.powers import decide

RECORDS = json.loads(Path(__file__).parents[1].joinpath("golden", "records.json").read_text("utf-8"))
"""Cycles of a queue with deadlines, shared GPUs and requeues, each with the columns of its tables by name."""

KINDS = {"Rank", "Hold", "Release", "Requeue", "AskToStop", "Tell", "Share", "StartShared", "Unmark", "Unshare"}


def parts_of(record):
    """The parts of *record*; columns that are younger than it have their neutral values."""
    tables = {}
    for name, columns in record["tables"].items():
        length = len(next(iter(columns.values())))
        of_jobs, spelled = TABLES[name] is JobTable, stored_columns(TABLES[name])
        columns = {spelled.get(column, column): values for column, values in columns.items()}
        tables[name] = job_table(length, **columns) if of_jobs else table_of(TABLES[name], length, {}, columns)
    texts = {name: text.encode("ascii") for name, text in record["texts"].items()}
    return RecordParts({name: normal(table) for name, table in tables.items()}, texts)


def read(record):
    """The record as the database gives it back."""
    head = {name: value for name, value in record.items() if name not in ("tables", "texts")}
    return restored(BlobLayers(TABLES).blobs(parts_of(record)), **head)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['now_s']:.0f}")
def test_a_recorded_cycle_is_decided_again_bit_for_bit(record):
    found = read(record)
    policy = Policy.from_json(found.settings_json)
    again = decide(found.view, policy.ordering, policy.rules)
    assert list(differences(found.plan, again, found.view.pending)) == []
    assert found.plan.actions


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: f"{record['now_s']:.0f}")
def test_a_recorded_cycle_is_stored_again_in_the_same_spelling(record):
    before, again = parts_of(record), layers_of(read(record))
    assert again.texts == before.texts
    stored = nothing(TABLES).tables | before.tables  # a table that is younger than the record is empty
    assert {name for name, table in again.tables.items() if not table.equals(stored[name])} == set()


def test_the_rules_of_recorded_refusals_have_the_names_of_today():
    rules = {refusal.rule for record in RECORDS for refusal in read(record).plan.refusals}
    assert rules
    of_today = (*PAIR_RULES, *SIZE_RULES, *LIMIT_RULES, *NODE_RULES.values(), *MOVE_RULES, *chain(*RULES.values()))
    assert rules <= {rule.__name__ for rule in of_today}


def test_the_recorded_cycles_hold_every_action_of_the_built_in_policies():
    found = {
        json.loads(line)[0] for record in RECORDS for line in layers_of(read(record)).texts["actions"].split(b"\n")
    }
    assert found == KINDS

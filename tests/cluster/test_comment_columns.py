"""What a comment says is parsed where a table of jobs is made; everything else reads columns."""

from __future__ import annotations

import ast
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slurmsched
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.comment_columns import soft_steps
from slurmsched.cluster.jobs import (
    DERIVED,
    JobTable,
    comment_columns,
    deadline_of,
    deadlines,
    deadlines_from,
    job_table,
)
from slurmsched.cluster.row_matching import Matching
from slurmsched.cluster.table_delta import changed, changes, normal, stored_columns
from slurmsched.cluster.text.comment import read

PACKAGE = Path(slurmsched.__file__).parent
PARSERS = {"read", "parse"}
MAY_PARSE = {
    "cluster/comment_columns.py": "the columns of every table of jobs",
    "cluster/sbatch_probe.py": "a command line that is not yet a job",
    "cli/daemon/pause.py": "a time on a command line",
    "simulator/text_edits.py": "a comment that we wrote on a modelled Slurm",
}

ITEMS = st.sampled_from(
    ["off", "ckpt", "pack", "nopack", "noprofile", "amp", "soft", "coldstart=90", "iterations=2000", "pace=1.8",
     "done=100", "share=0+1:t60", "deadline=+6h", "deadline=2026-12-01T18:00Z", "deadline=2026-10-25T02:30", "80@+7h",
     "50@+9h", "20@2026-12-24T18:00", "gpus=2-8", "batch=256-1024", "dedline=+6h", ""]
)  # fmt: skip
COMMENTS = st.one_of(
    st.sampled_from(["", "note", "slurmsched :ckpt"]),
    st.lists(ITEMS, max_size=5).map(lambda items: "note slurmsched:" + ",".join(items)),
)


def parsers_in(source: str) -> set[str]:
    """The names of the parser that *source* imports from the module of comments, or uses as its attributes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source if "comment" in source else "")):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            if (node.module or "").split(".")[-1] == "comment":
                found |= names & (PARSERS | {"*"})
            elif "comment" in names:
                found.add("comment")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.endswith("text.comment")}
    return found


def test_comments_are_parsed_at_the_border_alone():
    files = {file.relative_to(PACKAGE).as_posix(): parsers_in(file.read_text()) for file in PACKAGE.rglob("*.py")}
    assert {name for name, parsers in files.items() if parsers} == set(MAY_PARSE)


@pytest.mark.parametrize(
    "line",
    [
        "from slurmsched.cluster.text.comment import PREFIX, read",
        "from ..cluster.text.comment import parse as p",
        "from ..cluster.text import comment",
        "import slurmsched.cluster.text.comment",
    ],
)
def test_any_way_to_the_parser_is_found(line):
    assert parsers_in(line)
    assert not parsers_in("from ..cluster.text.comment import PREFIX, is_plain")


@given(st.lists(COMMENTS, max_size=8))
def test_columns_say_what_the_comments_say(comments):
    jobs = job_table(len(comments), comment=comments)
    for row, text in enumerate(comments):
        options, problem = read(text)
        for name in ("off", "ckpt", "pack", "nopack", "noprofile", "amp", "soft"):
            assert getattr(jobs, name)[row] == getattr(options, name)
        assert jobs.coldstart_s[row] == (options.coldstart_s or 0)
        assert jobs.iterations[row] == (options.iterations or 0)
        assert jobs.done[row] == (options.done or 0)
        assert repr(float(jobs.pace_s[row])) == repr(options.pace_s or np.nan)
        assert jobs.share_token[row] == (options.share or "")
        assert deadline_of(jobs, row) == options.deadline
        assert soft_steps(jobs.steps[row]) == options.steps
        assert jobs.comment_problem[row] == (problem or "")


@given(st.lists(COMMENTS, max_size=8), st.lists(COMMENTS, max_size=8))
def test_records_leave_out_what_a_comment_says_and_decoding_has_it_again(comments, earlier):
    jobs, before = (
        job_table(len(texts), job_id=np.arange(len(texts)), comment=texts).take(slice(None, None, 2))
        for texts in (comments, earlier)
    )
    matching = Matching.of(jobs.job_id, before.job_id)
    assert changed(JobTable, changes(normal(jobs), normal(before), matching), normal(before)).equals(jobs)
    assert set(stored_columns(JobTable).values()).isdisjoint(DERIVED)


def test_every_column_of_a_comment_is_stored_or_derived():
    assert set(comment_columns(Labels.of([""]))) == {"off", "ckpt", *DERIVED}


def test_deadlines_count_from_submission_from_1970_or_mean_no_single_moment():
    comments = ["+6h", "2026-12-01T18:00Z", "2026-12-01T18:00", ""]
    jobs = job_table(4, comment=[f"slurmsched:deadline={text}" for text in comments], first_submit_s=[10.0] * 4)
    assert deadlines(jobs, UTC).tolist() == [21610.0, 1796148000.0, 1796148000.0, np.inf]
    due = job_table(4, comment=jobs.comment, first_submit_s=[10.0] * 4, deadline_s=deadlines(jobs, UTC))
    assert deadlines_from(due, np.full(4, 15.0)).tolist() == [21615.0, 1796148000.0, 1796148000.0, np.inf]

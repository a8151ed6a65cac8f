from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cli.jobs.arguments import JobName, JobType


@pytest.mark.parametrize(
    ("text", "job"),
    [("123", JobName("123", 123)), ("123_4", JobName("123_4", 123, 4)), ("123+2", JobName("123+2", 125))],
)
def test_jobs_are_named_as_slurm_names_them(text, job):
    assert JobType().convert(text, None, None) == job


@given(st.text(max_size=12))
def test_anything_else_is_wrong_usage(text):
    try:
        job = JobType().convert(text, None, None)
    except click.BadParameter as error:
        assert "accepted: 123, 123_4, 123+0" in str(error)  # noqa: PT017 - either way is right
    else:
        assert job.text == text
        assert text[0] in "123456789"

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.job_kind import LONGEST, bucket


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train_12_v3", "train_#_v#"),
        ("train_7_v10", "train_#_v#"),
        ("debug", "debug"),
        ("eval-3f9a0c21be", "eval-#"),
        ('say "hi"', "say `hi`"),
        ("", ""),
        ("a\nb\x1b[31m\udcff", "a?b?[#m?"),
    ],
)
def test_names_that_differ_in_numbers_share_a_bucket(name: str, expected: str):
    assert bucket(name) == expected


@given(st.text(max_size=300))
def test_a_bucket_is_short_and_fit_for_a_terminal(name: str):
    assert len(bucket(name)) <= LONGEST
    assert bucket(name).isprintable()

"""Constraints that a hostile user writes: they cost no more than others."""

from __future__ import annotations

import pytest

from slurmsched.cluster.text.constraint import constraint_of


@pytest.mark.parametrize(
    "text",
    [
        "&".join(["a|b"] * 2000),
        "&".join(f"[a{number}|b{number}]" for number in range(40)),
        "(" * 5000 + "a" + ")" * 5000,
        "[" + "|".join(f"a{number}" for number in range(1000)) + "]",
    ],
    ids=["long", "many ways", "deep", "wide"],
)
def test_an_expression_that_would_take_long_is_not_understood_and_excludes_no_node(text):
    found = constraint_of(text)
    assert not found.understood
    assert found.allows(())


def test_those_of_real_sites_are_understood():
    for text in ("a&b|c", "[a|b]&c", "[a*2&b*4]", "(a|b)&(c|d)&e"):
        assert constraint_of(text).understood, text

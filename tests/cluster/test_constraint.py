"""What ``--constraint`` requires of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.text.constraint import constraint_of

NODES = {"n1": {"a100", "ib"}, "n2": {"a100"}, "n3": {"v100", "ib"}, "n4": {"v100"}}


def allowed(text: str) -> list[str]:
    return [name for name, features in NODES.items() if constraint_of(text).allows(features)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["n1", "n2", "n3", "n4"]),
        ("a100", ["n1", "n2"]),
        ("a100&ib", ["n1"]),
        ("a100,ib", ["n1"]),
        ("a100|ib", ["n1", "n2", "n3"]),
        ("[a100|ib]", ["n1", "n2", "n3"]),
        ("(a100|ib)&ib", ["n1", "n3"]),
        ("ib&(a100|v100)", ["n1", "n3"]),
        ("a100|v100&ib", ["n1", "n3"]),
        ("a100&ib|v100", ["n1", "n3", "n4"]),
        ("[a100|v100]&ib", ["n1", "n3"]),
        ("h100", []),
        ("h100|h200", []),
    ],
)
def test_alternatives_and_parentheses_are_read_from_left_to_right(text, expected):
    assert constraint_of(text).understood
    assert allowed(text) == expected


def test_of_alternatives_in_brackets_all_nodes_have_the_same():
    choices = constraint_of("[a100|v100]&ib").choices
    assert [[name for name, has in NODES.items() if choice.each.holds(has)] for choice in choices] == [["n1"], ["n3"]]


def test_counts_require_some_of_the_nodes_and_leave_the_others_open():
    (choice,) = constraint_of("[a100*2&ib*1]").choices
    assert [(test.name, many) for test, many in choice.some] == [("a100", 2), ("ib", 1)]
    assert allowed("[a100*2&ib*1]") == list(NODES)


@pytest.mark.parametrize(
    "text", ["[a100", "a100|", "(a100", "[a100|v100]|ib", "a100*2|ib", "[a|b&c]", "a b", "()", "*2"]
)
def test_what_is_not_understood_requires_nothing_and_says_so(text):
    assert not constraint_of(text).understood
    assert allowed(text) == list(NODES)


@given(st.text(alphabet="ab&|()[]*,12 ", max_size=40))
def test_no_text_is_an_error(text):
    assert constraint_of(text).choices

"""The story of a job reads as sentences, whatever happened."""

from __future__ import annotations

import re

import pytest

from slurmsched.cli.story import _SENTENCES, sentence
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.promises import PromiseState


@pytest.mark.parametrize("standing", Standing)
def test_a_standing_is_told_in_words(standing):
    told = sentence({"kind": "standing", "details": {"standing": standing.name, "before": "RANKED", "cycle": 7}})
    assert not {standing.name, "RANKED"} & set(told.split())
    assert "_" not in told
    assert told.startswith("it ")
    assert told.endswith("(cycle 7)")


@pytest.mark.parametrize("what", [*(state.name.lower() for state in PromiseState), "in doubt"])
def test_what_became_of_a_deadline_is_a_sentence(what):
    told = sentence({"kind": "deadline", "details": {"what": what, "reason": "its node failed"}})
    assert "deadline" in told
    assert not re.search(r"\bopen\b|: (met|broken|refused|lost)", told)
    assert ("its node failed" in told) == (what in ("refused", "broken", "withdrawn", "lost", "in doubt"))


def test_every_kind_has_a_sentence_without_blanks_left_open():
    for kind in _SENTENCES:
        assert "{" not in sentence({"kind": kind, "details": {}})

"""The story of a job reads as sentences, whatever happened."""

from __future__ import annotations

import re

import pytest

from slurmsched.cluster.plan import Standing
from slurmsched.cluster.records.promises import PromiseState
from slurmsched.db.tracking.story import KINDS
from slurmsched.explain.story_words import sentence, sentences


@pytest.mark.parametrize("standing", Standing)
def test_a_standing_is_told_in_words(standing):
    told = sentence({"kind": "standing", "details": {"standing": standing.name, "before": "RANKED", "cycle": 7}})
    assert not {standing.name, "RANKED"} & set(told.split())
    assert "_" not in told
    assert told.startswith("it ")
    assert told.endswith("(cycle 7)")


def test_what_sharing_cost_a_job_is_a_sentence_with_its_source():
    details = {"speed": "0.83", "partners": "6", "seconds": "51", "source": "by its iterations"}
    words = "it kept about 0.83 of its speed beside job 6 for 51 s (by its iterations)"
    assert sentence({"kind": "shared with", "details": details}) == words


@pytest.mark.parametrize("what", [*(state.name.lower() for state in PromiseState), "in doubt"])
def test_what_became_of_a_deadline_is_a_sentence(what):
    told = sentence({"kind": "deadline", "details": {"what": what, "reason": "its node failed"}})
    assert "deadline" in told
    assert not re.search(r"\bopen\b|: (met|broken|refused|lost)", told)
    assert ("its node failed" in told) == (what in ("refused", "broken", "withdrawn", "lost", "in doubt"))


@pytest.mark.parametrize(
    ("kind", "before", "after", "words"),
    [
        ("limit changed", 7200.0, 3600.0, "its time limit was changed from 02:00:00 to 01:00:00 (not by slurmsched)"),
        ("limit changed", None, 90_000.0, "its time limit was changed from none to 1-01:00:00 (not by slurmsched)"),
        (
            "comment changed",
            "",
            "slurmsched:ckpt",
            "its comment was changed (not by slurmsched): it asked slurmsched for nothing, now for slurmsched:ckpt",
        ),
        (
            "comment changed",
            "slurmsched:off",
            "slurmsched:off",
            "its comment was changed (not by slurmsched); what it asks of slurmsched is as before",
        ),
        ("partition changed", "gpu", "big", "its partition was changed from gpu to big (not by slurmsched)"),
        ("qos changed", "", "high", "its QOS was changed from none to high (not by slurmsched)"),
        ("nice changed", 0, 100, "its nice value was changed from 0 to 100 (not by slurmsched)"),
    ],
)
def test_what_others_changed_is_a_sentence_with_what_it_was(kind, before, after, words):
    details = {"before": before, "after": after}
    assert sentence({"kind": kind, "details": details}) == words
    last = sentence({"kind": kind, "details": details | {"last": True}})
    assert last == f"{words}; further changes of this kind are not noted"


@pytest.mark.parametrize("what", ["suspended", "resumed"])
def test_who_suspended_a_job_is_told_apart(what):
    assert sentence({"kind": f"{what} by others", "details": {}}) == f"it was {what} (not by slurmsched)"
    assert sentence({"kind": what, "details": {}}) == f"we {what} it"


def test_every_kind_of_event_has_a_sentence():
    assert set(KINDS) <= set(sentences())


def test_every_kind_has_a_sentence_without_blanks_left_open():
    for kind in sentences():
        assert "{" not in sentence({"kind": kind, "details": {}})


def test_requeues_are_counted():
    assert sentence({"kind": "requeued", "details": {"restart": 2}}) == "it was queued again (2 times so far), run 3"

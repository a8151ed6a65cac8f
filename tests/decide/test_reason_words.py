"""What ``why`` says of each reason that some release of Slurm prints, and that jobs which merely wait have times."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from decide.views import NOW_S, jobs, nodes, view

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.plan import Standing
from slurmsched.cluster.reasons import ReasonKind, reason_of
from slurmsched.cluster.records.predictions import PredictionKind
from slurmsched.cluster.reservations import ReservationTable
from slurmsched.decide.rules import Rules
from slurmsched.explain.why import Why, why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

STRINGS = json.loads(Path("tests/data/slurm_reasons.json").read_text())
WORDS = sorted({word for change in STRINGS["words"].values() for word in change["adds"]})
TEXTS = [row["text"] for row in STRINGS["texts"]]
HELD = (ReasonKind.HELD_BY_USER, ReasonKind.HELD_BY_ADMIN, ReasonKind.HELD_BY_SLURM)
TOPOLOGY = [text for text in TEXTS if re.search("topology|lack available", text)]
LEFT_OVER = re.compile(r"[{}]|  |(?<!\.)\.\.(?!\.)")


def told(text: str, **columns: object) -> Why:
    reason = reason_of(text)
    priority = 0 if reason.kind in HELD or text == "BadConstraints" else 1000
    seen = view(jobs(1, reason=[text], priority=[priority], **columns), room=nodes((4,), (4,)))
    return why(seen, decide(seen, find_ordering("fifo"), Rules()), Rules(), 1)


@pytest.mark.parametrize("text", [*WORDS, *TEXTS, *("", "(null)")])
def test_every_reason_has_a_sentence_and_says_what_the_owner_can_do(text):
    answer = told(text)
    for part in (answer.reason, answer.advice):
        assert part[:1] in "'" or part[:1].isupper(), part
        assert part.endswith("."), part
        assert not LEFT_OVER.search(part), part
    if reason_of(text).kind is ReasonKind.HELD_BY_SLURM:
        assert "administrator holds it" not in answer.reason
        assert re.search("scontrol (release|update)|administrator", answer.advice)


def said_by(text: str) -> str:
    return told(text).reason


def test_different_reasons_are_told_apart():
    plain = {word for word in WORDS if reason_of(word).plain}
    ended = {word for word in WORDS if "ended badly" in reason_of(word).clause}
    others = [word for word in WORDS if word not in plain | ended]
    assert len({said_by(word) for word in others}) == len(others)


def test_a_maintenance_ahead_is_named_with_the_limit_that_could_fit():
    answer = told("ReqNodeNotAvail, Reserved for maintenance", time_limit_s=[10_800.0])
    assert answer.reason == (
        "It waits for the end of a maintenance of its nodes: with its time limit of 3 h it would not end before that "
        "begins."
    )
    assert "scontrol show reservation" in answer.advice
    assert "timelimit=TIME" in answer.advice


def test_nodes_out_of_service_are_named():
    assert "take no jobs now: n1,n[2-4]." in said_by("ReqNodeNotAvail, UnavailableNodes:n1,n[2-4]")


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("launch failed requeued held", "'scontrol release 1' lets it try again"),
        ("job requeued in held state", "'scontrol release 1' lets it try again"),
        ("launch failure limit exceeded requeued held", "Only an administrator can release it"),
        ("JobHoldMaxRequeue", "Only an administrator can release it"),
        ("Reservation maint was deleted", "'scontrol release 1' lets it queue without a reservation"),
        ("Reservation maint is invalid", "'scontrol update jobid=1 reservationname=' lets it queue"),
        ("License request 'matlab:3' is no longer valid, holding job", "Only an administrator can release it"),
    ],
)
def test_a_hold_of_slurm_says_who_can_lift_it(text, who):
    assert who in told(text).advice


def test_an_unknown_reason_is_said_with_the_place_of_the_job():
    answer = told("Frobnicator busy: <b>'x'")
    assert answer.reason.startswith("It waits, and Slurm says: Frobnicator busy. ")
    assert "first for its nodes" in answer.reason or "No other job waits" in answer.reason
    assert "<b>" not in answer.reason


@pytest.mark.parametrize("text", [*TOPOLOGY, *(text.replace(" ", "_") for text in TOPOLOGY), "Frobnicator busy"])
def test_a_job_that_waits_for_its_topology_is_ordered_and_has_a_time(text):
    seen = view(jobs(2, reason=[text, "Priority"]), [60.0, 120.0])
    plan = decide(seen, find_ordering("fifo"), Rules())
    assert plan.jobs.standing.tolist() == [Standing.RANKED] * 2
    assert (plan.jobs.rank >= 0).all()
    table = predict_completion(seen, plan.jobs.rank, plan.jobs.standing, {})
    assert table.kind.tolist() == [PredictionKind.PREDICTED] * 2
    assert np.isfinite(table.start_s).all()


def reserved(
    text: str,
    begins_s: float,
    flags: str = "MAINT",
    names: str = "n1",
    sizes: tuple[tuple[int, ...], ...] = ((4,), (4,)),
    **columns: object,
) -> Why:
    """What is said of a job of 3 h beside a reservation of two hours."""
    window = {"start_s": np.array([NOW_S + begins_s]), "end_s": np.array([NOW_S + begins_s + 7_200.0])}
    texts = {"name": "x", "nodes": names, "flags": flags}
    window |= {name: Labels.of([one]) for name, one in texts.items()} | {"whole": np.array([True])}
    seen = view(jobs(1, **({"reason": [text], "time_limit_s": [10_800.0]} | columns)), room=nodes(*sizes))
    seen = replace(seen, reservations=table_of(ReservationTable, 1, {}, window))
    return why(seen, decide(seen, find_ordering("fifo"), Rules()), Rules(), 1)


def test_the_begin_of_a_maintenance_is_said_and_the_limit_that_would_fit():
    answer = reserved("ReqNodeNotAvail, Reserved for maintenance", 7_800.0)
    assert answer.reason == (
        "It asks for 3 h, and a maintenance of nodes that it needs begins in 2 h 10 min, for 2 h: it would not end "
        "before."
    )
    assert answer.advice == (
        "With 'scontrol update jobid=1 timelimit=02:08:00' it could start before that; as it is, it starts afterwards."
    )
    soon = reserved("ReqNodeNotAvail, Reserved for maintenance", 100.0)
    assert soon.advice == "Nothing: it starts afterwards."
    now = reserved("ReqNodeNotAvail, Reserved for maintenance", -600.0)
    assert now.reason == "Nodes that it needs are in a maintenance now, for 110 min more."
    other = reserved("ReqNodeNotAvail, May be reserved for other job", 7_800.0, flags="SPEC_NODES")
    assert "a reservation of nodes that it needs begins in 2 h 10 min" in other.reason


def test_a_reservation_of_other_nodes_explains_no_wait():
    for columns in ({"names": "n7"}, {"time_limit_s": [3_600.0]}):
        assert "begins in" not in reserved("ReqNodeNotAvail, Reserved for maintenance", 7_800.0, **columns).reason


@pytest.mark.parametrize("text", ["Priority", "Resources", "None"])
def test_a_window_ahead_of_all_nodes_is_named_whatever_slurm_says(text):
    answer = reserved(text, 7_800.0, names="n[1-2]", sizes=((4, 4),))
    assert answer.reason.startswith("It asks for 3 h, and a maintenance of nodes that it needs begins in 2 h 10 min")
    assert "timelimit=02:08:00" in answer.advice
    assert "begins in" not in reserved(text, 7_800.0, sizes=((4, 4),)).reason, "on the other node"


@pytest.mark.parametrize(
    ("begins_s", "columns", "said"),
    [
        (7_800.0, {}, "It belongs to reservation x, which begins in 2 h 10 min."),
        (-600.0, {}, "which is open for 110 min more: it waits for room on its nodes, and Slurm ends it with the"),
        (-600.0, {"time_limit_s": [600.0]}, "which is open for 110 min more: it waits for room on its nodes."),
        (-600.0, {"reservation": ["gone"]}, "It belongs to reservation gone, whose time has not come"),
    ],
)
def test_a_job_inside_a_reservation_is_told_when_that_is_open(begins_s, columns, said):
    answer = reserved("Reservation", begins_s, **({"reservation": ["x"]} | columns))
    assert said in answer.reason
    assert "reservationname=" in answer.advice


def test_a_reservation_that_could_not_be_read_is_said_first():
    answer = reserved("Priority", 7_800.0, flags="UNREAD", names="")
    assert answer.reason.startswith("A reservation of the cluster could not be read, so that it may start later")

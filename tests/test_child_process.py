"""Processes of ours that answer requests, while other threads use what a request holds."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from slurmsched.child_process import packed


@dataclass(frozen=True)
class Part:
    """A part whose pickling gives another thread the time to compute something of the whole."""

    number: int
    whole: list[Any] = field(default_factory=list)

    def __getstate__(self):
        for whole in self.whole:
            whole.__dict__[f"computed_{len(whole.__dict__)}"] = self.number
        return {"number": self.number, "whole": []}


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    name: str
    words: dict[str, int]


def test_a_request_is_packed_while_other_threads_compute_parts_of_it():
    parts = tuple(map(Part, range(3)))
    whole = Whole(parts, "night", {"a": 1})
    for part in parts:
        part.whole.append(whole)
    read = pickle.loads(packed((whole, Whole, len, {"x": whole})))
    assert read[0] == Whole(tuple(map(Part, range(3))), "night", {"a": 1})
    assert (read[1], read[2], read[3]["x"]) == (Whole, len, read[0])
    assert len(whole.__dict__) == 6, "parts were computed meanwhile"

"""Searches over drawn inputs that a lab judges: all that is found is told at the end, with what was drawn."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from slurmsched.lab import Lab

ONCE = (Phase.explicit, Phase.generate)
"""Without the search for a smaller example, which would ask the lab for minutes: each job stands for itself."""

Drawn = TypeVar("Drawn")


def search(
    drawn: st.SearchStrategy[Drawn],
    batches: int,
    faults: Callable[[Drawn], Iterable[str]],
    told: Mapping[str, Counter[str]],
    capsys: pytest.CaptureFixture[str],
    *,
    derandomize: bool = True,
) -> None:
    """Let *faults* judge so many *batches*, print what it *told*, and fail with all that it found."""
    more = {"max_examples": batches, "derandomize": derandomize}
    found: list[str] = []

    @settings(deadline=None, suppress_health_check=list(HealthCheck), phases=ONCE, **more)
    @given(drawn)
    def judge(batch: Drawn) -> None:
        found.extend(faults(batch))

    before_s = time.monotonic()
    try:
        judge()
    finally:
        with capsys.disabled():
            for words, counter in told.items():
                sys.stdout.write(
                    f"\n{words}: {', '.join(f'{name} {many}' for name, many in sorted(counter.items()))}\n"
                )
            sys.stdout.write(f"{batches} batches in {time.monotonic() - before_s:.0f} s\n")
    assert not found, "\n".join(found)


def passes(lab: Lab) -> list[int]:
    """Return how often slurmctld has gone through its queue: in the loop after each event, and in that of backfill."""
    return [int(number) for number in re.findall(r"Total cycles:\s*(\d+)", lab.ask(["sdiag"]))]

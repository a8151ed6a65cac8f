"""Differences between two plans for the same jobs, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from ..cluster.jobs import JobTable
from ..cluster.plan import Plan


def differences(recorded: Plan, again: Plan, jobs: JobTable) -> Iterator[str]:
    """Yield one line per difference between two plans for *jobs*."""
    for column in fields(recorded.jobs):
        before, now = getattr(recorded.jobs, column.name), getattr(again.jobs, column.name)
        if before.dtype != now.dtype or before.shape != now.shape:
            yield f"{column.name}: {before.dtype}{before.shape} on record, {now.dtype}{now.shape} now"
            continue
        for row in np.flatnonzero(before != now):
            yield f"job {jobs.job_id[row]}: {column.name} {before[row]} on record, {now[row]} now"
    if not recorded.promises.equals(again.promises):
        yield f"promises: {len(recorded.promises)} on record, {len(again.promises)} now, and not the same"
    if recorded.solved != again.solved:
        yield f"promises start as the solver planned: {recorded.solved} on record, {again.solved} now"
    if recorded.shadow != again.shadow:
        yield f"in shadow would run: {recorded.shadow} on record, {again.shadow} now"
    for noun, before, now in (
        ("action", recorded.actions, again.actions),
        ("refusal", recorded.refusals, again.refusals),
    ):
        if len(before) != len(now):
            yield f"{noun}s: {len(before)} on record, {len(now)} now"
        for place, (old, new) in enumerate(zip(before, now, strict=False), start=1):
            if old != new:
                yield f"{noun} {place}: {old} on record, {new} now"

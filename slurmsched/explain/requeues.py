"""Explanations of requeues: how often a job was queued again, and whether that keeps us from stopping it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..cluster.jobs import JobTable
from ..cluster.text.plural import count
from ..decide.rules import Rules


def requeue_words(jobs: JobTable, row: int, rules: Rules) -> Iterator[str]:
    """Yield how often Slurm has queued a job again; nothing for one in its first run."""
    many = int(jobs.restarts[row])
    if not many:
        return
    text = f"It was queued again {count(many, 'time')} so far"
    if jobs.ckpt[row] and not rules.may_requeue(jobs)[row]:
        text += f", and is asked to stop no more (stop.most_requeues = {rules.most_requeues})"
    yield f"{text}."

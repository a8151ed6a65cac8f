"""Answers to deadline requests in the AdminComment of jobs, shown by ``squeue`` and ``scontrol show job``."""

from __future__ import annotations

import numpy as np

from ...cluster.actions import Action, SetAdminComment
from ...cluster.columns import FloatArray
from ...cluster.records.promises import PromiseState, PromiseTable
from ...cluster.state import View


def answer_wishes(view: View, promises: PromiseTable) -> list[Action]:
    """Return a SetAdminComment for each pending or running job whose answer differs from its AdminComment."""
    if not len(promises):
        return []
    last = {job: place for place, job in enumerate(promises.job_id.tolist())}
    wishes: list[Action] = []
    for jobs in (view.pending, view.running):
        rows = np.flatnonzero(np.isin(jobs.job_id, promises.job_id))
        job_ids = jobs.job_id[rows].tolist()
        texts = answer_texts(promises.take(np.array([last[job] for job in job_ids], dtype=np.int64)))
        wishes += [
            SetAdminComment(job, text)
            for job, text, told in zip(job_ids, texts, jobs.sent_comment.take(rows), strict=True)
            if text != told
        ]
    return wishes


def answer_texts(promises: PromiseTable) -> list[str]:
    """Return each answer as a word without blanks, since scontrol's standard input allows none; times are UTC."""
    at_s = np.select(
        [promises.open, promises.state == PromiseState.REFUSED], [promises.promised_s, promises.earliest_s], np.nan
    )
    columns = (promises.state.tolist(), np.isfinite(promises.announced_s).tolist(), _moments(at_s))
    return [_text(*answer) for answer in zip(*columns, strict=True)]


def _text(state: int, in_doubt: bool, moment: str) -> str:
    if state == PromiseState.REFUSED:
        return "slurmsched:not-guaranteed" + (f",earliest={moment}" if moment else "")
    if state == PromiseState.OPEN:
        return f"slurmsched:{'in-doubt' if in_doubt else 'guaranteed'},finish-by={moment}"
    return f"slurmsched:{PromiseState(state).name.lower()}"


def _moments(at_s: FloatArray) -> list[str]:
    """Return times in UTC, in seconds; empty texts for infinite and missing ones."""
    finite = np.isfinite(at_s)
    whole_s = np.floor(np.where(finite, at_s, 0.0) + 5e-7).astype("datetime64[s]")
    texts = np.datetime_as_string(whole_s, timezone="UTC").tolist()
    return [text if known else "" for text, known in zip(texts, finite.tolist(), strict=True)]

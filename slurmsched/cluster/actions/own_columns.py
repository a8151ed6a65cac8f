"""What of jobs is ours: the columns of jobs that our open intents fill."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..columns import BoolArray, Labels
from ..jobs import JobTable
from ..state import ClusterState
from .avoid import Avoid, avoided
from .base import Action
from .comment import SetAdminComment, sent_comments
from .hold import Hold, held_by_us
from .intent import Intent
from .order import Rank, points
from .partitions import MovePartition, own_partitions
from .resize import Resize, own_gpus
from .rightsize import RestoreSize, Rightsize, own_sizes
from .share import Share, Unshare, sharing
from .steer import Steer, Unsteer, steered
from .stop import AskToStop, Requeue, ask_counts, left


@dataclass(frozen=True)
class OwnIntents:
    """Our intents by kind: those that are open, and those that count for a while after they are closed."""

    open: Mapping[str, Collection[Intent]]
    answered: Mapping[str, Collection[Intent]]
    """Of the kinds that are remembered, those that Slurm accepted lately, open ones among them."""

    @classmethod
    def among(cls, intents: Iterable[Intent], answered: Iterable[Intent] = ()) -> OwnIntents:
        """Sort open *intents*, and those *answered* lately, by kind."""
        return cls(_by_kind(intents), _by_kind(answered))

    def of(self, kind: type[Action]) -> Collection[Intent]:
        """Return the open intents of actions of a *kind*."""
        return self.open.get(kind.stored, ())

    def lately(self, kind: type[Action]) -> list[Intent]:
        """Return those of a remembered *kind* that were accepted lately, or may have been sent."""
        unanswered = (intent for intent in self.of(kind) if intent.answered_s is None)
        return [*self.answered.get(kind.stored, ()), *unanswered]


def _by_kind(intents: Iterable[Intent]) -> dict[str, list[Intent]]:
    found: dict[str, list[Intent]] = {}
    for intent in intents:
        found.setdefault(intent.kind, []).append(intent)
    return found


def filled(state: ClusterState, own: OwnIntents, now_s: float, share_refusals: Mapping[str, Labels]) -> ClusterState:
    """Return *state* with our requests filled in; *share_refusals* are Slurm's words, for pending and running jobs."""
    pending = state.pending.changed(
        **_of_jobs(state.pending, own, now_s),
        **_of_waiting(state.pending, own, now_s),
        share_refusal=share_refusals["pending"],
    )
    running = state.running.changed(
        **_of_jobs(state.running, own, now_s),
        steered=steered(own.of(Steer), own.of(Unsteer), state.running)[0],
        share_refusal=share_refusals["running"],
    )
    return replace(state, pending=pending, running=running)


def _of_jobs(jobs: JobTable, own: OwnIntents, now_s: float) -> dict[str, Any]:
    """Return the columns that pending and running jobs have."""
    asks = own.lately(AskToStop)
    asked_s, often = ask_counts(asks, jobs, now_s)
    left_nodes, left_s = left(asks, jobs, now_s)
    shares, asked_for, given_back = sharing(own.of(Share), own.of(Unshare), jobs)
    sizes = own_gpus(own.of(Resize), jobs)
    return {
        "shares": shares,
        "asked_for": asked_for,
        "given_back": given_back,
        "asked_s": asked_s,
        "asks": often,
        "told": sent_comments(own.of(SetAdminComment), jobs),
        "left_nodes": left_nodes,
        "left_s": left_s,
        "own_gpus": sizes.own,
        "resized_s": sizes.resized_s,
        "gpus_each": sizes.each,
        "avoided": avoided(own.of(Avoid), jobs),
    }


def _of_waiting(pending: JobTable, own: OwnIntents, now_s: float) -> dict[str, Any]:
    """Return the columns that only pending jobs have."""
    types, steered_s = steered(own.of(Steer), own.of(Unsteer), pending)
    sizes, gpus = own_sizes(own.of(Rightsize), own.of(RestoreSize), pending), own_gpus(own.of(Resize), pending)
    halves = Labels(sizes.half + 2 * gpus.half, ("", "rightsize", "resize", "rightsize+resize"))
    return {
        "held_by_us": held_by_us(own.of(Hold), [*own.of(Requeue), *own.of(AskToStop)], pending, now_s),
        "site_points": points(own.of(Rank), pending, now_s),
        "own_partition": own_partitions(own.of(MovePartition), pending),
        "steered": types,
        "steered_s": steered_s,
        "own_request": sizes.own,
        "sized_s": sizes.sized_s,
        "request_changed": sizes.theirs,
        "half_written": halves,
        "taken_nodes": gpus.taken,
        "node_range": _without(pending.node_range, gpus.taken > 0),
    }


def _without(column: Labels, rows: BoolArray) -> Labels:
    """Return *column* without the texts in *rows*."""
    if not rows.any():
        return column
    return Labels.of("" if is_one else text for text, is_one in zip(column, rows.tolist(), strict=True))

"""What keeps a pending job from starting, and what can be done, where it is not a matter of its turn. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..cluster.plan import Plan, Standing
from ..cluster.reasons import Reason, ReasonKind, reason_of
from ..cluster.state import View
from ..cluster.text.plural import count
from ..cluster.text.tres import timelimit
from ..decide.phrasing import spell
from ..decide.rules import Rules
from .admission import admission_words
from .dependencies import dependency_words, never_met
from .eta import delayed_jobs
from .given_back import giving_back
from .limits import limit_words
from .obstacles import beyond_partition, obstacle, out_of_service
from .reserved_nodes import is_kept_out, own_reservation_words, reserved_words
from .unexplained_waits import unexplained


@dataclass(frozen=True)
class Cause:
    """What keeps a job from starting, in a sentence; what its owner can do; and the jobs that it waits for."""

    reason: str
    advice: str
    blockers: tuple[int, ...] = ()


DEPENDENCY_MOVED = "'scontrol update jobid={job} dependency=' lets it run without waiting."


def cause_of(view: View, plan: Plan, rules: Rules, row: int) -> Cause | None:
    """Return what keeps a pending *row* from starting; None where it only waits for its turn and for free nodes."""
    jobs, standing = view.pending, Standing(int(plan.jobs.standing[row]))
    if ours := giving_back(plan, int(jobs.job_id[row])):
        return Cause(ours, "Nothing: it has what its owner asked for as soon as Slurm takes that.")
    reason = reason_of(jobs.reason[row])
    kind = reason.kind
    if jobs.priority[row] == 0 or standing in (Standing.HELD_BY_USER, Standing.HELD_BY_ADMIN):
        return _held(view, row, standing, reason)
    if standing == Standing.OUTSIDE:
        return _outside(view, plan, rules, row)
    if standing == Standing.SHARES:
        return Cause("It is on its way to GPUs that it shares with another job.", "Nothing: we send it there.")
    if delayed_jobs(view, plan)[row]:
        so_far = f", {spell(float(jobs.delayed_s[row]))} so far" if jobs.delayed_s[row] else ""
        return Cause(
            f"We delay its start for promised jobs, by deadline.hold_most_s at most{so_far}.",
            "Nothing: we end the delay; 'slurmsched:off' in its comment leaves it to Slurm.",
        )
    if jobs.dependency[row] or kind in (ReasonKind.DEPENDENCY, ReasonKind.DEPENDENCY_NEVER):
        return _dependent(view, row)
    if kind is ReasonKind.BEGIN:
        return _begin(view, row)
    if standing == Standing.PARTITION_CLOSED and kind is not ReasonKind.CLOSED:
        return _said(view, row, reason_of("PartitionDown"))
    if jobs.reservation[row] and kind in (ReasonKind.RESERVATION, ReasonKind.WAITS):
        if own := own_reservation_words(view, row):
            return Cause(*own)
    elif kind is ReasonKind.WAITS and is_kept_out(view, row) and (kept := reserved_words(view, row)):
        return Cause(*kept)
    of_one = reason.of_one_way(jobs.partition[row], jobs.qos[row])
    by_request = of_one or kind is ReasonKind.WAITS or (kind is ReasonKind.CANNOT_RUN and not reason.meaning.sentence)
    if by_request and (kept := obstacle(view, row) or unexplained(view.take(np.array([row]))).get(0)):
        return Cause(*kept)
    if reason.beyond_partition and (kept := beyond_partition(view, row)):
        return Cause(*kept)
    return None if of_one or reason.in_turn else _of_reason(view, row, reason)


def _held(view: View, row: int, standing: Standing, reason: Reason) -> Cause:
    """Return the cause of a held job: Slurm's own hold, where a failure set it, else that of a person."""
    if reason.kind in (ReasonKind.HELD_BY_SLURM, ReasonKind.CANNOT_RUN):
        return _of_reason(view, row, reason)
    return _said(view, row, reason_of("JobHeldUser" if standing == Standing.HELD_BY_USER else "JobHeldAdmin"))


def _of_reason(view: View, row: int, reason: Reason) -> Cause:
    """Return the cause that Slurm's reason names."""
    if limit := limit_words(view, row, reason):
        return Cause(limit.reason, limit.advice, limit.blockers)
    said = _said(view, row, reason)
    if reason.kind is ReasonKind.LIMIT:
        return replace(said, reason=f"{said.reason} Its amount could not be read.")
    return said


def _said(view: View, row: int, reason: Reason) -> Cause:
    """Return the sentences of the table about a reason, with what the job in *row* says."""
    if reason.by_reservation and (kept := reserved_words(view, row)):
        return Cause(*kept)
    fields = _fields(view, row)
    return Cause(reason.sentence(fields), reason.advice(fields))


def turn_words(view: View, row: int) -> Cause:
    """Return what Slurm's reason tells of a job that waits for its turn or for nodes; empty where nothing more."""
    reason = reason_of(view.pending.reason[row])
    if reason.of_some_nodes:
        return _of_some_nodes(view, row, reason)
    return Cause("", "") if reason.plain or not reason.in_turn else _said(view, row, reason)


def _of_some_nodes(view: View, row: int, reason: Reason) -> Cause:
    """Return which of a job's nodes take no jobs, and whose jobs come first on them; empty where they are only busy."""
    away, first = out_of_service(view, row), _of_higher_tier(view, row)
    words = [f"Of the nodes that it may use some take no jobs: {away}."] if away else []
    words += [f"Jobs in {first}, of a higher tier, come first on its nodes."] if first else []
    return Cause(" ".join(words), reason.advice(_fields(view, row)) if away else "Nothing: it starts after those jobs.")


def _of_higher_tier(view: View, row: int) -> str:
    """Return the partitions of a higher tier in which jobs wait for nodes of a job's own, as words."""
    jobs, nodes = view.pending, view.nodes
    above = jobs.take(np.flatnonzero((view.tiers > view.tiers[row]) & (jobs.priority > 0)))
    own = set(jobs.partition[row].split(","))
    beside = {name for names in nodes.partitions for name in names.split(",") if own & set(names.split(","))}
    return " and ".join(sorted({name for names in above.partition for name in names.split(",")} & beside - own))


def _fields(view: View, row: int) -> dict[str, str]:
    """Return the words of a pending job for the sentence of a reason."""
    jobs = view.pending
    fields = {name: getattr(jobs, name)[row] for name in ("partition", "reservation", "account", "qos")}
    longest_s = max((_longest_s(view, name) for name in jobs.partition[row].split(",")), default=np.inf)
    known = bool(np.isfinite(longest_s))
    return fields | {
        "job": str(jobs.job_id[row]),
        "nodes": count(int(jobs.nodes[row]), "node"),
        "limit": spell(float(jobs.time_limit_s[row])) if np.isfinite(jobs.time_limit_s[row]) else "no end",
        "longest": f" ({spell(longest_s)} at most)" if known else "",
        "allowed": timelimit(longest_s) if known else "TIME",
    }


def _longest_s(view: View, partition: str) -> float:
    rows = [row for row, name in enumerate(view.partitions.name) if name == partition]
    return float(view.partitions.max_time_s[rows[0]]) if rows else np.inf


def _outside(view: View, plan: Plan, rules: Rules, row: int) -> Cause:
    figures = admission_words(view, plan, rules, row)
    waits = "It waits outside, under a hold that ends by itself, until policy.admission lets it in."
    return Cause(f"{waits} {figures}".strip(), "Nothing: it comes in by itself, in the order of the line.")


def _begin(view: View, row: int) -> Cause:
    """Return the wait for a begin time, with the time left and whether a requeue set it."""
    jobs = view.pending
    job, left_s = int(jobs.job_id[row]), float(jobs.eligible_s[row]) - view.now_s
    sooner = f"'scontrol update jobid={job} starttime=now' lets it queue at once."
    if not left_s > 0:
        return Cause("Its begin time has not come, or has come just now.", sooner)
    if jobs.restarts[row]:
        text = f"It was requeued, and Slurm lets a requeued job wait before it starts again: {spell(left_s)} more."
        return Cause(text, f"Nothing is needed; {sooner}")
    return Cause(f"Its begin time has not come: it comes in {spell(left_s)}.", sooner)


def _dependent(view: View, row: int) -> Cause:
    jobs = view.pending
    job, text = int(jobs.job_id[row]), jobs.dependency[row]
    if reason_of(jobs.reason[row]).kind is ReasonKind.DEPENDENCY_NEVER or never_met(text):
        return Cause(
            f"It depends on {text or 'other jobs'}, and that can no longer come true: one of them ended otherwise.",
            f"'scancel {job}' ends it; {DEPENDENCY_MOVED.format(job=job)}",
        )
    words, blockers = dependency_words(view, row)
    return Cause(words, f"Nothing is needed; {DEPENDENCY_MOVED.format(job=job)}", blockers)

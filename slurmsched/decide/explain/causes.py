"""What keeps a pending job from starting, and what can be done, where it is not a matter of its turn. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...cluster.plan import Plan, Standing
from ...cluster.reasons import Reason, ReasonKind, reason_of
from ...cluster.state import View
from ...cluster.text.plural import count
from ...cluster.text.tres import timelimit
from ..phrasing import spell
from ..rules import Rules
from .admission import admission_words
from .dependencies import dependency_words, never_met
from .eta import delayed_jobs
from .given_back import giving_back
from .limits import limit_words
from .obstacles import obstacle
from .unexplained_waits import unexplained


@dataclass(frozen=True)
class Cause:
    """What keeps a job from starting, in a sentence; what its owner can do; and the jobs that it waits for."""

    reason: str
    advice: str
    blockers: tuple[int, ...] = ()


_MOVE = "'scontrol update jobid={job} partition=NAME' moves it to another one."
_ASK = "Ask an administrator"

_BY_STANDING = {
    Standing.HELD_BY_USER: ("Its owner holds it.", "'scontrol release {job}' lets it queue."),
    Standing.HELD_BY_ADMIN: (
        "An administrator holds it.",
        f"{_ASK} to release it; 'scontrol show job {{job}}' may have a comment.",
    ),
    Standing.SHARES: ("It is on its way to GPUs that it shares with another job.", "Nothing: we send it there."),
}
_BY_WORD = {
    "launch failed requeued held": (
        "Its last start failed on the node, and Slurm queued it again under a hold (launch failed requeued held).",
        "'scontrol release {job}' lets it try again; if that fails too, an administrator finds the cause in the log of "
        "slurmd, and the node may be drained.",
    ),
    "PartitionDown": (
        "Its partition ({partition}) is down: jobs queue there and do not start.",
        f"{_ASK} when it comes back; {_MOVE}",
    ),
    "PartitionInactive": ("Its partition ({partition}) is inactive: it starts no jobs.", f"{_ASK} why; {_MOVE}"),
    "PartitionTimeLimit": (
        "Its time limit of {limit} is longer than its partition ({partition}) allows{longest}: it cannot start so.",
        "'scontrol update jobid={job} timelimit={allowed}' makes it fit; only an administrator raises the limit, and "
        f"{_MOVE}",
    ),
    "PartitionNodeLimit": (
        "It asks for {nodes}, and its partition ({partition}) allows or has another number: it cannot start so.",
        "'scontrol show partition {partition}' has MinNodes and MaxNodes; 'scontrol update jobid={job} numnodes=N' "
        f"changes the number, and {_MOVE}",
    ),
    "BadConstraints": (
        "No nodes fit what it asks for, says Slurm (BadConstraints): type of GPU, features, nodes or their number.",
        "Correct the request with 'scontrol update jobid={job} ...', then 'scontrol release {job}'; or submit it anew.",
    ),
    "Reservation": (
        "It belongs to reservation {reservation}, whose time has not come or whose nodes are in use.",
        "'scontrol show reservation {reservation}' has its times; 'scontrol update jobid={job} reservationname=' lets "
        "it queue like any other job.",
    ),
    "InvalidAccount": (
        "Its account ({account}) is not valid for its owner now.",
        "'scontrol update jobid={job} account=NAME' gives it one that is.",
    ),
    "InvalidQOS": (
        "Its QOS ({qos}) is not valid for its owner now.",
        "'scontrol update jobid={job} qos=NAME' gives it one that is.",
    ),
    "AccountNotAllowed": ("Its partition ({partition}) takes no jobs of its account or group ({account}).", _MOVE),
    "QOSNotAllowed": ("Its partition ({partition}) takes no jobs of its QOS ({qos}).", _MOVE),
}
"""Reasons of which more can be said than the clause of ``cluster.reasons``."""

_BY_KIND = {
    ReasonKind.HELD_BY_SLURM: "'scontrol release {job}' lets it try again, once the cause is mended.",
    ReasonKind.RESERVATION: "'scontrol update jobid={job} reservationname=' lets it queue like any other job.",
    ReasonKind.CLOSED: f"{_ASK}; {_MOVE}",
    ReasonKind.CANNOT_RUN: "Change the request with 'scontrol update jobid={job} ...', or submit it anew.",
    ReasonKind.LIMIT: "'scontrol show job {job}' has its account and QOS, and 'sacctmgr show qos' and 'sacctmgr show "
    "assoc' their limits.",
    ReasonKind.WAITS: "'scontrol show job {job}' has more.",
}

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
        return _said(view, row, *_BY_STANDING[standing])
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
        return _said(view, row, *_BY_WORD["PartitionDown"])
    of_one = reason.one_partition and "," in jobs.partition[row]
    by_request = kind in (ReasonKind.WAITS, ReasonKind.CANNOT_RUN) and (of_one or reason.word not in _BY_WORD)
    if by_request and (kept := obstacle(view, row) or unexplained(view.take(np.array([row]))).get(0)):
        return Cause(*kept)
    return None if (of_one or kind is ReasonKind.WAITS) and reason.known else _of_reason(view, row, reason)


def _held(view: View, row: int, standing: Standing, reason: Reason) -> Cause:
    """Return the cause of a held job: Slurm's own hold, where a failure set it, else that of a person."""
    if reason.kind in (ReasonKind.HELD_BY_SLURM, ReasonKind.CANNOT_RUN):
        return _of_reason(view, row, reason)
    return _said(view, row, *_BY_STANDING.get(standing, _BY_STANDING[Standing.HELD_BY_ADMIN]))


def _of_reason(view: View, row: int, reason: Reason) -> Cause:
    """Return the cause that Slurm's reason names."""
    if limit := limit_words(view, row, reason):
        return Cause(limit.reason, limit.advice, limit.blockers)
    known = _BY_WORD.get(reason.word)
    if known is not None:
        return _said(view, row, *known)
    text = reason.clause[:1].upper() + reason.clause[1:]
    text = f"{text} ({reason.word})." if reason.known else f"It waits, and {reason.clause}."
    if reason.kind is ReasonKind.LIMIT:
        text += " Its amount could not be read."
    return Cause(text, _said(view, row, "", _BY_KIND.get(reason.kind, _BY_KIND[ReasonKind.WAITS])).advice)


def _said(view: View, row: int, reason: str, advice: str) -> Cause:
    jobs = view.pending
    fields = {name: getattr(jobs, name)[row] for name in ("partition", "reservation", "account", "qos")}
    fields |= {"job": int(jobs.job_id[row]), "nodes": count(int(jobs.nodes[row]), "node")}
    longest_s = max((_longest_s(view, name) for name in jobs.partition[row].split(",")), default=np.inf)
    known = bool(np.isfinite(longest_s))
    fields |= {
        "limit": spell(float(jobs.time_limit_s[row])) if np.isfinite(jobs.time_limit_s[row]) else "no end",
        "longest": f" ({spell(longest_s)} at most)" if known else "",
        "allowed": timelimit(longest_s) if known else "TIME",
    }
    return Cause(reason.format(**fields), advice.format(**fields))


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

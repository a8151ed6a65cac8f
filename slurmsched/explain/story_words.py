"""The events of a job's story in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ..cluster.actions import ACTIONS
from ..cluster.text.plural import count
from ..cluster.text.tres import timelimit


def sentence(event: Mapping[str, Any]) -> str:
    """Describe an event of a story in a sentence."""
    details = defaultdict[str, Any](lambda: "?", event["details"])
    run = f", run {details['restart'] + 1}" if details.get("restart") else ""
    details["times"] = f" ({count(details['restart'], 'time')} so far)" if details.get("restart") else ""
    if event["kind"] == "policy":
        details["line"] = details["line"] or "what the settings say"
        details["why"] = f": {details['reason']}" if details.get("reason") else ""
        details["what"] = _of_policy(details)
    cycle = f" (cycle {details['cycle']})" if "cycle" in details else ""
    if event["kind"] == "standing":
        details["now"] = _STANDINGS.get(details["standing"], str(details["standing"]).lower().replace("_", " "))
    if event["kind"] == "deadline":
        details["became"] = _PROMISES.get(details["what"], str(details["what"])).format(reason=details["reason"])
    if event["kind"] in _SETTINGS:
        details |= {name: _SETTINGS[event["kind"]](details[name]) for name in ("before", "after")}
    kind = "text changed" if event["kind"] == "comment changed" and _only_text(event["details"]) else event["kind"]
    words = sentences().get(kind, str(kind)).format_map(details | {"run": run})
    return words + cycle + (LAST if details.get("last") else "")


@cache
def sentences() -> dict[str, str]:
    """Return a sentence about each kind of event; those of our actions stand beside these."""
    return _SENTENCES | dict(pair for action in ACTIONS.values() for pair in action.story)


def _of_policy(details: Mapping[str, Any]) -> str:
    """Describe a choice of a policy."""
    if "composition" not in details:
        return f"set the policy to {details['line']}"
    if details["advised"]:
        return f"advised {details['advised']} in place of {details['composition']}"
    return f"{'froze the policy at' if details['frozen'] else 'set the policy to'} {details['composition']}"


def _only_text(details: Mapping[str, Any]) -> bool:
    return bool(details.get("before") == details.get("after"))


LAST = "; further changes of this kind are not noted"

_SETTINGS: dict[str, Callable[[Any], str]] = {
    "limit changed": lambda limit_s: timelimit(limit_s) if isinstance(limit_s, int | float) else "none",
    "comment changed": lambda tokens: tokens or "nothing",
    "partition changed": str,
    "qos changed": lambda qos: qos or "none",
    "nice changed": str,
}
"""The formats of settings that users and admins may change."""


_STANDINGS = {
    "RANKED": "has a place in our order",
    "OWNER_SAID_OFF": "is left alone, as its owner wants (slurmsched:off)",
    "HELD_BY_USER": "is held by its owner",
    "HELD_BY_ADMIN": "is held by an administrator",
    "PRIORITY_FIXED": "is left alone: its priority was set by hand",
    "NICE_SET": "is left alone: it has a nice value",
    "WAITS_FOR_DEPENDENCY": "waits for the jobs it depends on",
    "WAITS_FOR_BEGIN": "waits for its begin time",
    "LIMIT_BLOCKED": "is blocked by a limit of its account, QOS, array or licences",
    "IN_RESERVATION": "belongs to a reservation",
    "HETEROGENEOUS": "is left alone: it is part of a heterogeneous job",
    "OUT_OF_SCOPE": "is left alone: its partition is not one that we order",
    "PARTITION_CLOSED": "waits for its partition, which takes no jobs",
    "CANNOT_RUN": "cannot run, says Slurm",
    "SHARES": "is on its way to GPUs that it shares",
    "OUTSIDE": "waits outside: policy.admission lets other jobs in first",
}

_PROMISES = {
    "refused": "its deadline was not promised: {reason}",
    "open": "we promised its deadline",
    "in doubt": "the promise of its deadline came into doubt: {reason}",
    "met": "it met its deadline",
    "broken": "the promise of its deadline was broken: {reason}",
    "withdrawn": "the promise of its deadline was withdrawn: {reason}",
    "lost": "what became of its deadline is not known: {reason}",
}

_SENTENCES = {
    "submitted": "it was submitted",
    "limit changed": "its time limit was changed from {before} to {after} (not by slurmsched)",
    "comment changed": "its comment was changed (not by slurmsched): it asked slurmsched for {before}, now for {after}",
    "text changed": "its comment was changed (not by slurmsched); what it asks of slurmsched is as before",
    "partition changed": "its partition was changed from {before} to {after} (not by slurmsched)",
    "qos changed": "its QOS was changed from {before} to {after} (not by slurmsched)",
    "nice changed": "its nice value was changed from {before} to {after} (not by slurmsched)",
    "suspended by others": "it was suspended (not by slurmsched)",
    "resumed by others": "it was resumed (not by slurmsched)",
    "standing": "it {now}",
    "deadline": "{became}",
    "policy": "{by} {what}{why}",
    "failed together": "it and its partners ({partners}) failed together on their GPUs: {fault}",
    "shared with": "it kept about {speed} of its speed beside job {partners} for {seconds} s ({source})",
    "failed beside": "it failed on its GPUs and harmed no partner ({partners}): {fault}",
    "unstable together": "its load and that of its partners ({partners}) on the same GPUs is unstable: {why}",
    "refused": "Slurm refused our {action}: {answer}",
    "requeued": "it was queued again{times}{run}",
    "passed": "until its start {jobs} jobs had gone before it because of our order",
    "started": "it started{run}",
    "ended": "it ended: {state}{run}",
}

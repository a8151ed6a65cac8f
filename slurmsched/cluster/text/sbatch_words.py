"""Options of sbatch that take one of some words: sbatch refuses others, though none changes when a job starts."""

from __future__ import annotations

import re
from collections.abc import Callable

from .sbatch_values import refuse, submission_failed

_MAIL = "none|begin|end|fail|requeue|invalid_depend|all|stage_out|time_limit(?:_[589]0)?|array_tasks"
_RLIMITS = "all|none|(?:rlimit_)?(?:as|core|cpu|data|fsize|memlock|nofile|nproc|rss|stack)"
_SHARING = "allow-task-sharing|one-task-per-sharing|multiple-tasks-per-sharing"
_SIGNALS = "hup|int|quit|abrt|kill|alrm|term|usr1|usr2|urg|cont|stop|tstp|ttin|ttou"
_FREQUENCY = "low|medium|high|highm1|[0-9]{1,12}"
_GOVERNORS = "conservative|ondemand|performance|powersave|schedutil|userspace|p[0-9]{0,3}"
_MEMORY = "q|quiet|v|verbose|n|no|none|nosort|sort|p|prefer|rank|local|(?:map_mem|mask_mem)(?::.*)?"

_LISTS: dict[str, tuple[str, str]] = {
    "acctg-freq": (",", "(?:(?:task|energy|network|filesystem)=)?[0-9]{1,9}"),
    "cpu-freq": ("[-:]", f"{_FREQUENCY}|{_GOVERNORS}"),
    "get-user-env": (",", "[0-9]{1,9}[sl]?|[sl]"),
    "gpu-freq": (",", f"(?:memory=)?(?:{_FREQUENCY})|verbose"),
    "gres-flags": (",", f"disable-binding|enforce-binding|{_SHARING}"),
    "hint": (",", "compute_bound|memory_bound|multithread|nomultithread|help"),
    "kill-on-invalid-dep": ("$", "yes|no"),
    "mail-type": (",", _MAIL),
    "mem-bind": (",.*", _MEMORY),
    "open-mode": ("$", "[at].*"),
    "profile": (",", "all|none|energy|filesystem|lustre|network|task"),
    "propagate": (",", _RLIMITS),
    "signal": ("$", rf"(?:[rb]{{1,2}}:)?(?:[1-9][0-9]{{0,2}}|(?:sig)?(?:{_SIGNALS}))(?:@[0-9]{{1,5}})?"),
    "wait-all-nodes": ("$", "[01]"),
}
"""Options that list words, what stands between these, and the words; case does not matter."""

_DEPENDENCY = re.compile(
    r"singleton|(?:after|afterany|afternotok|afterok|aftercorr|afterburstbuffer|expand)"
    r"(?::[0-9]{1,10}(?:_(?:[0-9]{1,10}|\*))?(?:\+[0-9]{1,9})?)+",
    re.IGNORECASE,
)
_MOST_NICE = 2**31 - 3


def _words(name: str, text: str) -> None:
    between, word = _LISTS[name]
    if text and not all(re.fullmatch(word, one, re.IGNORECASE) for one in re.split(between, text) if one):
        refuse(f"Invalid --{name} specification: {text[:80]!r}")


def _nice(name: str, text: str) -> None:
    found = re.match(r"\s*([+-]?[0-9]{1,25})", text)
    if found and abs(int(found[1])) > _MOST_NICE:
        refuse(f"Invalid --{name} value, out of range (+/- {_MOST_NICE})")


def _dependency(_: str, text: str) -> None:
    """Refuse a dependency in no form that slurmctld reads, and one that would enlarge another job."""
    parts = re.split("[,?]", text) if text else []
    if not all(_DEPENDENCY.fullmatch(part) for part in parts) or ("," in text and "?" in text):
        submission_failed(f"Job dependency problem: {text[:80]!r}")
    if any(part.lower().startswith("expand") for part in parts):
        submission_failed("Requested operation not supported on this system (--dependency=expand)")


CHECKS: dict[str, Callable[[str, str], object]] = {
    **dict.fromkeys(_LISTS, _words),
    "nice": _nice,
}
"""What sbatch checks as soon as it reads an option, even if a later one replaces it."""

LATE_CHECKS: dict[str, Callable[[str, str], object]] = {"dependency": _dependency}
"""What slurmctld checks of the value in force."""

"""Options of sbatch that take one of some words: sbatch refuses others, though none changes when a job starts."""

from __future__ import annotations

import re
from collections.abc import Callable

from .sbatch_values import refuse, submission_failed

_MAIL = "none begin end fail requeue invalid_depend all stage_out time_limit time_limit_90 time_limit_80 time_limit_50 "
_MAIL += "array_tasks"
_LIMITS = "all none as core cpu data fsize memlock nofile nproc rss stack"
_SIGNALS = "hup int quit abrt kill alrm term usr1 usr2 urg cont stop tstp ttin ttou"
_FREQUENCY = "low medium high highm1"
_GOVERNORS = "conservative ondemand performance powersave schedutil userspace"

_WORDS: dict[str, str] = {
    "kill-on-invalid-dep": "yes|no",
    "mail-type": _MAIL.replace(" ", "|"),
    "gres-flags": "disable-binding|enforce-binding|allow-task-sharing|one-task-per-sharing|multiple-tasks-per-sharing",
    "hint": "compute_bound|memory_bound|multithread|nomultithread|help",
    "propagate": f"(?:rlimit_)?(?:{_LIMITS.replace(' ', '|')})",
}
"""Options with a list of words, and these words; case does not matter."""

_FORMS: dict[str, str] = {
    "signal": rf"(?:[rb]+:)?(?:[1-9][0-9]{{0,2}}|(?:sig)?(?:{_SIGNALS.replace(' ', '|')}))(?:@[0-9]{{1,5}})?",
    "open-mode": "[at].*",
    "wait-all-nodes": "[01]",
    "cpu-freq": rf"(?:(?:p\d*|{_FREQUENCY.replace(' ', '|')}|{_GOVERNORS.replace(' ', '|')}|[0-9]+)[-:]?)+",
    "gpu-freq": rf"(?:(?:memory=)?(?:{_FREQUENCY.replace(' ', '|')}|[0-9]+)|verbose|,)+",
    "acctg-freq": "(?:(?:task|energy|network|filesystem)=)?[0-9]+(?:,(?:task|energy|network|filesystem)=[0-9]+)*",
}
"""Options with one value of a form; case does not matter."""

_DEPENDENCY = re.compile(
    r"singleton|(?:after|afterany|afternotok|afterok|aftercorr|afterburstbuffer|expand)"
    r"(?::[0-9]{1,10}(?:_(?:[0-9]{1,10}|\*))?(?:\+[0-9]{1,9})?)+",
    re.IGNORECASE,
)
_MOST_NICE = 2**31 - 3


def _words(name: str, text: str) -> None:
    if not all(re.fullmatch(_WORDS[name], one, re.IGNORECASE) for one in text.split(",") if one) or not text:
        refuse(f"Invalid --{name} specification: {text[:80]!r}")


def _form(name: str, text: str) -> None:
    if not re.fullmatch(_FORMS[name], text, re.IGNORECASE):
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
    **dict.fromkeys(_WORDS, _words),
    **dict.fromkeys(_FORMS, _form),
    "nice": _nice,
}
"""What sbatch checks as soon as it reads an option, even if a later one replaces it."""

LATE_CHECKS: dict[str, Callable[[str, str], object]] = {"dependency": _dependency}
"""What slurmctld checks of the value in force."""

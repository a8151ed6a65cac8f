"""Options of sbatch that take some words or forms: sbatch refuses others, though none changes when a job starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .sbatch_values import refuse, submission_failed

_MAIL = re.compile(
    "none|begin|end|fail|requeue|invalid_depend|all|stage_out|time_limit(?:_[589]0)?|array_tasks", re.IGNORECASE
)
_RLIMIT = re.compile("(?:RLIMIT_)?(?:AS|CORE|CPU|DATA|FSIZE|MEMLOCK|NOFILE|NPROC|RSS|STACK)")
_SHARING = "allow-task-sharing|one-task-per-sharing|multiple-tasks-per-sharing"
_SIGNALS = "hup|int|quit|abrt|kill|alrm|term|usr1|usr2|urg|cont|stop|tstp|ttin|ttou|xcpu|pipe|chld"
_FREQUENCY = "low|medium|high|highm1|[0-9]{1,12}"
_GOVERNORS = "conservative|ondemand|performance|powersave|schedutil|userspace"
_MEMORY = "q|quiet|v|verbose|n|no|none|nosort|sort|p|prefer|rank|local|(?:map_mem|mask_mem)(?::.*)?"
_OVER_NODES = r"(?:\*|block|cyclic|arbitrary)"
_IN_NODES = r"(?::(?:\*|block|cyclic|fcyclic)){0,2}"
_SIGNAL = rf"(?:(?!b*r*b+r*b+)[rb]{{0,3}}:)?(?:[1-9][0-9]*|(?:sig)?(?:{_SIGNALS}))(?:@\+?[0-9]{{0,9}})?"

_LISTS: dict[str, tuple[str, str]] = {
    "acctg-freq": (",", "(?:(?:task|energy|network|filesystem)=)?[0-9]{1,9}"),
    "distribution": ("$", rf"plane=[1-9][0-9]*|(?:{_OVER_NODES}{_IN_NODES}|(?:no)?pack)(?:,(?:no)?pack)?"),
    "gres-flags": (",", f"disable-binding|enforce-binding|{_SHARING}"),
    "hint": (",", "compute_bound|memory_bound|multithread|nomultithread|help"),
    "kill-on-invalid-dep": ("$", "yes|no"),
    "mem-bind": (",.*", _MEMORY),
    "oom-kill-step": ("$", "[01]"),
    "open-mode": ("$", "[at].*"),
    "resv-ports": ("$", "[0-9]{1,9}"),
    "profile": (",", "all|none|energy|filesystem|lustre|network|task"),
    "signal": ("$", _SIGNAL),
    "wait-all-nodes": ("$", "[01]"),
}
"""Options that list words, what stands between these, and the words; case does not matter."""

_EMPTY = frozenset({"acctg-freq", "gres-flags", "oom-kill-step", "resv-ports", "wait-all-nodes"})
"""Those whose list may be empty."""

_BESIDE_HINTS = frozenset(
    {"cores-per-socket", "extra-node-info", "ntasks-per-core", "sockets-per-node", "threads-per-core"}
)
_GPU_FREQUENCY = re.compile(rf"(?:memory=)?(?:{_FREQUENCY})|verbose")
_GPU_BIND = re.compile(
    r"(?:verbose,)?(?:single:(?!-).*|per_task:.*|map(?:_gpu)?:[0-9*,]*|mask(?:_gpu)?:(?:0x)?[0-9a-f*]*(?:,(?:0x)?[0-9a-f*]*)*|[nc].*)",
    re.IGNORECASE,
)
_CPU_FREQUENCY = re.compile(
    rf"(?:{_GOVERNORS})|(?P<one>{_FREQUENCY}|[0-9]+[^0-9:-].*)"
    rf"|(?P<least>{_FREQUENCY})-(?P<most>{_FREQUENCY})(?::(?:{_GOVERNORS}))?",
    re.IGNORECASE,
)
_RISING = ("low", "medium", "high", "highm1")
_DEPENDENCY = re.compile(
    r"singleton|(?:after|afterany|afternotok|afterok|aftercorr|afterburstbuffer|expand)"
    r"(?::[0-9]{1,10}(?:_(?:[0-9]{1,10}|\*))?(?:\+[0-9]{1,9})?)+",
    re.IGNORECASE,
)
_MOST_NICE = 2**31 - 3
_MOST_BEFORE_S = 2**16 - 1
_NO_PRIORITY = 2**32 - 2


def _words(name: str, text: str) -> None:
    between, word = _LISTS[name]
    parts = list(filter(None, re.split(between, text)))
    if not (parts or name in _EMPTY) or not all(re.fullmatch(word, one, re.IGNORECASE) for one in parts):
        refuse(f"Invalid --{name} specification: {text[:80]!r}")


def _signal(name: str, text: str) -> None:
    """Refuse what is no signal, and more seconds before the end than sixteen bits hold."""
    _words(name, text)
    if int(text.partition("@")[2] or 0) > _MOST_BEFORE_S:
        refuse(f"Invalid --signal specification: {text[:80]!r}")


def _mails(name: str, text: str) -> None:
    """Refuse occasions of mails of which sbatch knows none; it overlooks those that it does not know."""
    if not any(map(_MAIL.fullmatch, text.split(","))):
        refuse(f"Invalid --{name} specification: {text[:80]!r}")


def _limits(name: str, text: str) -> None:
    """Refuse limits of no such name: here case matters, and none goes with ALL or NONE."""
    for part in filter(None, re.split("[ ,]", text) if text not in ("ALL", "NONE") else ()):
        if not _RLIMIT.fullmatch(part):
            refuse(f"Bad rlimit name: {part[:80]} (--{name})")


def _nice(name: str, text: str) -> None:
    found = re.match(r"\s*([+-]?[0-9]{1,25})", text)
    if found and abs(int(found[1])) > _MOST_NICE:
        refuse(f"Invalid --{name} value, out of range (+/- {_MOST_NICE})")


def _priority(name: str, text: str) -> None:
    found = re.match(r"\s*([+-]?[0-9]{1,25})", text)
    if found and not 0 <= int(found[1]) < _NO_PRIORITY:
        refuse("Priority must be >= 0" if int(found[1]) < 0 else f"Priority must be < {_NO_PRIORITY}")


def _cpu_frequency(name: str, text: str) -> None:
    found = _CPU_FREQUENCY.fullmatch(text)
    if not found or re.fullmatch("0+", found["one"] or ""):
        refuse(f"Invalid --cpu-freq argument: {text[:80]!r}")
    least, most = (found["least"] or "").lower(), (found["most"] or "").lower()
    if least.isdigit() and most.isdigit():
        falls = int(least) > int(most)
    else:
        falls = least in _RISING and most in _RISING and _RISING.index(least) > _RISING.index(most)
    if falls:
        refuse(f"min cpu-frec ({least}) must be < max cpu-freq ({most}) (--cpu-freq)")


def _gpu_frequency(name: str, text: str) -> None:
    if not text or not all(_GPU_FREQUENCY.fullmatch(part) for part in text.split(",") if part):
        refuse(f"Invalid --gpu-freq argument: {text[:80]!r}")


def _gpu_bind(name: str, text: str) -> None:
    if not _GPU_BIND.fullmatch(text):
        refuse(f"Invalid --gpu-bind argument: {text[:80]!r}")


def _tres_bind(name: str, text: str) -> None:
    found = re.fullmatch(r"gres/\w+:(.*)", text)
    if text and not (
        found and _GPU_BIND.fullmatch(found[1]) and re.match("verbose|single|map|mask|none|clos|per", found[1])
    ):
        submission_failed(f"Invalid Trackable RESource (TRES) specification: --tres-bind={text[:80]}")


def _core_spec(name: str, text: str) -> None:
    if not re.fullmatch(r"\s*\+?[0-9]{0,9}", text):
        refuse(f'Invalid numeric value "{text[:80]}" for --core-spec.')


def _extra_node_info(name: str, text: str) -> None:
    for place, part in zip(("first", "second", "third"), text.split(":"), strict=False):
        if part and not re.fullmatch(r"\*|[0-9]{1,9}(?:-[0-9]{0,9})?", part):
            refuse(f'Invalid numeric value "{part[:80]}" for {place} arg of -B.')


def _dependency(options: Mapping[str, str]) -> None:
    """Refuse a dependency in no form that slurmctld reads, and one that would enlarge another job."""
    text = options.get("dependency", "")
    parts = re.split("[,?]", text) if text else []
    if not all(_DEPENDENCY.fullmatch(part) for part in parts) or ("," in text and "?" in text):
        submission_failed(f"Job dependency problem: {text[:80]!r}")
    if any(part.lower().startswith("expand") for part in parts):
        submission_failed("Requested operation not supported on this system (--dependency=expand)")


def _together(options: Mapping[str, str]) -> None:
    """Refuse options that do not go together, or not alone."""
    if options.keys() >= {"core-spec", "thread-spec"}:
        refuse("-S/--core-spec and --thread-spec options are mutually exclusive")
    if options.get("distribution", "").lower().startswith("arbitrary") and not options.get("nodelist"):
        refuse("With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option")


def _hint(options: Mapping[str, str]) -> None:
    """Refuse a hint of no such name, where none of the options is there beside which sbatch ignores it."""
    if "hint" in options and not _BESIDE_HINTS & options.keys():
        _words("hint", options["hint"])


CHECKS: dict[str, Callable[[str, str], object]] = {
    **dict.fromkeys(_LISTS.keys() - {"hint"}, _words),
    "core-spec": _core_spec,
    "cpu-freq": _cpu_frequency,
    "extra-node-info": _extra_node_info,
    "gpu-bind": _gpu_bind,
    "gpu-freq": _gpu_frequency,
    "mail-type": _mails,
    "nice": _nice,
    "priority": _priority,
    "propagate": _limits,
    "signal": _signal,
    "tres-bind": _tres_bind,
}
"""What sbatch checks as soon as it reads an option, even if a later one replaces it."""

LATE_CHECKS: tuple[Callable[[Mapping[str, str]], object], ...] = (_dependency, _hint, _together)
"""What is checked of the options in force."""

"""Options and values of sbatch that only some releases or sites take (tried on labs of the tested releases)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_Values = Mapping[str, tuple[str, str]]
"""Patterns of values by option, with words."""

_LATER_THAN_25_11 = frozenset({"container-type", "mem-update"})
_LATER_THAN_24_11 = _LATER_THAN_25_11 | {"consolidate-segments", "resources", "spread-segments"}
_LATER_THAN_22_05 = _LATER_THAN_24_11 | {
    "autocomplete", "container-id", "external", "oom-kill-step", "resv-ports", "segment", "stepmgr", "tres-bind",
    "tres-per-task",
}  # fmt: skip
_GONE = frozenset({"power"})

_NO_REQUEUE_VALUE = {"requeue": (".+", "option '--requeue' doesn't allow an argument")}
_LIMIT_AND_FORM = "(?:[0-9]{1,9}[sl]?|[sl])"
_ENVIRONMENT_VALUE = {
    "get-user-env": (f"(?!{_LIMIT_AND_FORM}(?:,{_LIMIT_AND_FORM})*$).+", "Invalid --get-user-env specification")
}
_NO_ENVIRONMENT_VALUE = {"get-user-env": (".+", "some releases refuse it, and overlook it in SBATCH_GET_USER_ENV")}
_RANGE = "You must explicitly choose a governor when defining a range"
_NEWER_VALUES = {
    "gpu-bind": (
        "(?:verbose,)?(?!(?:verbose|single|map|mask|none|closest|per_task)).*",
        "Invalid --gpu-bind argument",
    ),
    "cpu-freq": ("[^:]+-[^:]*|[0-9]+[^0-9:-].*", f"Invalid --cpu-freq argument ({_RANGE})"),
}
_GOVERNORS = {"cpu-freq": (".*(?:conservative|powersave|schedutil)", "taken only where CpuFreqGovernors has it")}


@dataclass(frozen=True)
class OptionRules:
    """The options that a release does not know, and the values on which it differs from others."""

    unknown: frozenset[str] = frozenset()
    refused: _Values = field(default_factory=dict)  #: with sbatch's words
    doubtful: _Values = field(default_factory=lambda: _GOVERNORS)  #: with what it hangs on

    def refusals(self, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the *options* that the release refuses, and its words."""
        for name, value in options.items():
            if name in self.unknown:
                yield name, f"unrecognized option '--{name}'"
            elif words := _matched(self.refused, name, value):
                yield name, f"{words}: {value[:80]!r}"

    def doubts(self, options: Mapping[str, str]) -> Iterator[str]:
        """Yield the *options* of which settings or the very release say whether they are taken."""
        for name, value in options.items():
            if words := _matched(self.doubtful, name, value):
                yield f"--{name}={value} ({words})"


def _matched(patterns: _Values, name: str, value: str) -> str:
    pattern, words = patterns.get(name, ("", ""))
    return words if pattern and re.fullmatch(pattern, value, re.IGNORECASE | re.DOTALL) else ""


_SIGNALS = ("(?:[^:]*:)?(?:sig)?(?:pipe|chld)(?:@.*)?", "Invalid --signal specification")
_BINDS = ("(?:verbose,)?(?:map|mask):.*", "Invalid --gpu-bind argument")
AS_22_05 = OptionRules(
    _LATER_THAN_22_05,
    {
        **_NO_REQUEUE_VALUE,
        **_ENVIRONMENT_VALUE,
        "gpu-bind": _BINDS,
        "gres-flags": ("(?:)", "Invalid --gres-flags specification"),
        "signal": _SIGNALS,
    },
    {**_GOVERNORS, "extra": (".*", "releases before 23.02 read it as --extra-node-info")},
)
AS_24_11 = OptionRules(
    _LATER_THAN_24_11 | _GONE,
    {**_NEWER_VALUES, **_NO_REQUEUE_VALUE, **_ENVIRONMENT_VALUE},
    {**_GOVERNORS, "get-user-env": (".+", "24.11 takes it, 25.05 refuses it")},
)
_REQUEUED = {**_GOVERNORS, **_NO_ENVIRONMENT_VALUE, "requeue": (".+", "taken only where the cluster requeues so")}
AS_25_11 = OptionRules(_LATER_THAN_25_11 | _GONE, _NEWER_VALUES, _REQUEUED)
_REQUEUE_VALUES = {"requeue": ("(?!expedite$).+", "Invalid --requeue specification")}
AS_26_05 = OptionRules(_GONE, {**_NEWER_VALUES, **_REQUEUE_VALUES}, _REQUEUED)
"""As 22.05, 24.11 (and 25.05), 25.11 and 26.05 read their options."""


def hangs_on_site(name: str, value: str) -> bool:
    """Report whether some releases or sites take an option with this value and others refuse it."""
    option = {name: value}
    rules = (AS_22_05, AS_24_11, AS_25_11, AS_26_05)
    return any(any(one.refusals(option)) or any(one.doubts(option)) for one in rules) or raises_preempted(option)


def raises_preempted(options: Mapping[str, str]) -> bool:
    """Report whether a job asks for its signal before preemption, which newer releases refuse where there is none."""
    return bool(re.match("b?r+b?:", options.get("signal", ""), re.IGNORECASE))

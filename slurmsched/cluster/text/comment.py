"""The grammar of ``slurmsched:`` tokens, the options that a job sets in its comment.

``slurmsched:`` at the start of the comment or after a character that is no letter, digit or underscore opens a token;
ASCII whitespace, ``;`` or the end of the comment ends it. Between them stand items, ``key`` or ``key=value``, with
commas. Tokens may stand anywhere and several times; all other text belongs to someone else and is ignored, except
what was meant as a token: ``Slurmsched:ckpt``, ``slurmsched :ckpt``, and ``slurmsched`` followed by a blank and a key
that has a value, another key after a comma, or nothing behind it; ``slurmsched=ckpt``; and a key behind a name that is
two letters or less from ours, as ``slurmshed:ckpt``.

``contrib/slurm.conf.d/job_submit.lua`` accepts and refuses the same comments at submit; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from slurmsched.cluster.text.deadline_time import TIME, Deadline, read_time
from slurmsched.cluster.text.task_graph import TaskGraph, read_graph
from slurmsched.errors import CommentError

NAME = "slurmsched"
PREFIX = f"{NAME}:"

#: The list for messages and pages, without ``share``, which no user may write.
ACCEPTED = (
    "deadline=TIME, soft, PERCENT@TIME, gpus=MIN-MAX, ckpt, pack, nopack, noprofile, coldstart=SEC, amp, quiet,"
    " urgency=0..10, iterations=N, pace=SEC, done=N, stop=never|opt|acc:X|loss:P%, busy=opt|acc:X,"
    " graph=chain:N|layers:LxW|replicas:N, types=TYPE+TYPE, cpus=MIN-MAX, mem=MIN-MAX,"
    " batch=MIN-MAX, off"
)

_SHOWN = 40  #: characters of a user's text that a message repeats
_REQUEST_SHOWN = 300  #: characters of tokens in a story


@dataclass(frozen=True, slots=True)
class ValueStep:
    """The worth, *value* (0..1 of the full one), of a finish after the deadline but no later than *by*."""

    value: float
    by: Deadline


@dataclass(frozen=True, slots=True)
class Stop:
    """The owner's rule for an early end of training: never, at convergence, at an accuracy, or once the loss settles.

    *level* is the accuracy (0..1), or the relative fall of the loss below which it has settled.
    """

    rule: Literal["never", "opt", "acc", "loss"]
    level: float | None = None


@dataclass(frozen=True, slots=True)
class CommentOptions:
    """All options of a comment; a default means that the comment does not set it."""

    deadline: Deadline | None = None
    soft: bool = False  #: late is worth less, not nothing; steps imply it
    steps: tuple[ValueStep, ...] = ()  #: falling in value, rising in time
    gpus: tuple[int, int] | None = None  #: fewest and most GPUs the job can use
    ckpt: bool = False  #: the job saves itself: it may be requeued
    pack: bool = False  #: share its GPUs where only those share who ask for it
    nopack: bool = False  #: never share its GPUs
    noprofile: bool = False  #: never measure it
    quiet: bool = False  #: send its owner no notices
    coldstart_s: int | None = None  #: seconds before its GPU use is typical
    amp: bool = False  #: trains in mixed precision
    urgency: int | None = None  #: 0..10
    iterations: int | None = None  #: planned training iterations
    pace_s: float | None = None  #: seconds per iteration, as the helper in the job's script measured them
    done: int | None = None  #: iterations done before the present run, or before the next run of a waiting job
    stop: Stop | None = None
    busy: Stop | None = None  #: opt or acc: what ``stop`` may become while the cluster is overloaded
    graph: TaskGraph | None = None
    types: tuple[str, ...] = ()  #: the types of GPUs that it accepts; empty for any
    cpus: tuple[int, int] | None = None  #: fewest CPUs per node that it can run with, and the most that it can use
    mem_mib: tuple[int, int] | None = None  #: the same of the memory per node
    batch: tuple[int, int] | None = None  #: samples of a step: on its own number of GPUs, and the most that work
    off: bool = False  #: leave this job alone altogether
    share: str | None = None  #: written by slurmsched alone: the pair the prolog sets up


#: The options of a comment without tokens.
SILENT = CommentOptions()


def parse(comment: str) -> CommentOptions:
    """Return the options of *comment*; CommentError, in words for its author, at the first malformed item."""
    wishes, problem = read(comment)
    if problem is not None:
        raise CommentError(problem)
    return wishes


def read(comment: str) -> tuple[CommentOptions, str | None]:
    """Return the well-formed options of *comment*, and the error of the first malformed item; never raises.

    A malformed item counts as absent; so does a key given twice, since it is ambiguous.
    """
    if NAME not in comment.lower() and _near_name(comment) is None:
        return SILENT, None
    options: dict[str, object] = {}
    steps: list[ValueStep] = []
    spoilt: set[str] = set()
    first: CommentError | None = None
    for item in _items(comment):
        try:
            field, wish = _parse_item(item)
            if isinstance(wish, ValueStep):
                steps.append(wish)
                continue
            if field in options or field in spoilt:
                options.pop(field, None)
                spoilt.add(field)
                raise _Malformed(item, "is said twice; say each key once")
            options[field] = wish
        except CommentError as error:
            first = first or error
    first = first or _near_token(comment)
    wishes = CommentOptions(**options, steps=tuple(steps))  # type: ignore[arg-type]  # _FIELDS pairs each key with its field
    wishes, contradiction = _settle(wishes)
    return wishes, str(first) if first else contradiction


def render(wishes: CommentOptions) -> str:
    """Return the shortest comment with exactly these *wishes*; empty for none."""
    items = [f"deadline={wishes.deadline}"] if wishes.deadline else []
    items += [flag for flag in _FLAGS if getattr(wishes, flag)]
    items += [f"{round(100 * step.value)}@{step.by}" for step in wishes.steps]
    items += [f"gpus={wishes.gpus[0]}-{wishes.gpus[1]}"] if wishes.gpus else []
    for key in ("coldstart", "urgency", "iterations", "done", "share"):
        value = getattr(wishes, _FIELDS.get(key, key))
        items += [f"{key}={value}"] if value is not None else []
    items += [f"pace={wishes.pace_s:.6f}"] if wishes.pace_s is not None else []
    rules = (("stop", wishes.stop), ("busy", wishes.busy))
    items += [f"{key}={_stop_text(rule)}" for key, rule in rules if rule]
    items += [f"graph={wishes.graph}"] if wishes.graph else []
    items += [f"types={'+'.join(wishes.types)}"] if wishes.types else []
    items += [f"cpus={wishes.cpus[0]}-{wishes.cpus[1]}"] if wishes.cpus else []
    items += [f"batch={wishes.batch[0]}-{wishes.batch[1]}"] if wishes.batch else []
    items += [f"mem={'-'.join(map(_memory_text, wishes.mem_mib))}"] if wishes.mem_mib else []
    return PREFIX + ",".join(items) if items else ""


def _memory_text(mib: int) -> str:
    unit = next(unit for unit in "TGM" if mib % _UNITS_MIB[unit] == 0)
    return f"{mib // _UNITS_MIB[unit]}{unit}"


def _stop_text(stop: Stop) -> str:
    if stop.level is None:
        return stop.rule
    return f"{stop.rule}:{100 * stop.level:.3f}%" if stop.rule == "loss" else f"{stop.rule}:{stop.level:.10f}"


def is_plain(comment: str) -> bool:
    """Return True if scontrol's standard input takes *comment* unchanged: it splits at blanks, keeps quotes (22.05)."""
    return _PLAIN.fullmatch(comment) is not None


@lru_cache(maxsize=1_000)  # few texts are in the comments of many jobs
def owner_request(comment: str) -> tuple[str, str]:
    """Return the owner's options in *comment*, as tokens, and the text around them.

    Our share token is left out, and so are the pace and progress that the helper in the job's script writes.
    """
    wishes = replace(read(comment)[0], share=None, pace_s=None, done=None)
    return render(wishes)[:_REQUEST_SHOWN], _TOKEN.sub("", comment).strip(" ;")


class _Malformed(CommentError):
    """A malformed item; its message is built only when read, since a hostile comment holds thousands."""

    def __init__(self, item: str, trouble: str = "") -> None:
        super().__init__(item, trouble)
        self.item, self.trouble = item, trouble

    def __str__(self) -> str:
        return f"{PREFIX} {self.item[:_SHOWN]!a} {self.trouble or self._unknown()}"

    def _unknown(self) -> str:
        key = self.item.partition("=")[0][:_SHOWN]
        near = get_close_matches(key.lower(), [*_FLAGS, *_TAKES], n=1)
        return f"is not known{f' (did you mean {near[0]}?)' if near else ''}; accepted: {ACCEPTED}"


# [^\w] and \s would match by Unicode; the Lua counterpart of this grammar matches bytes.
_TOKEN = re.compile(r"(?<![A-Za-z0-9_])slurmsched:([^ \t\n\v\f\r;]*)")
_STEP = re.compile(r"([1-9][0-9]?)@(.+)", re.DOTALL)
_RANGE = re.compile(r"([1-9][0-9]{0,4})(?:-([1-9][0-9]{0,4}))?")
_MEMORY = re.compile(r"([1-9][0-9]{0,8})([MGT]?)(?:-([1-9][0-9]{0,8})([MGT]?))?")
_UNITS_MIB = {"": 1, "M": 1, "G": 1024, "T": 1024**2}
_LOSS = re.compile(r"loss:([0-9]{1,2}(?:\.[0-9]{1,3})?)%")
_ACCURACY = re.compile(r"acc:([01](?:\.[0-9]{1,10})?)")
_PACE = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_PLAIN = re.compile(r"[A-Za-z0-9_.,:;=+@%/-]*")
_TYPES = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(?:\+[A-Za-z0-9][A-Za-z0-9_.-]*)*")
_TYPES_MOST = 100  #: characters
_SHARE = re.compile(r"[A-Za-z0-9_.:+-]{1,64}")


def _near_token(comment: str) -> CommentError | None:
    """Return an error for the first near-miss of a token in *comment*; most authors meant a token."""
    for match in _NEAR.finditer(comment):
        if match[0] != PREFIX:
            return _Malformed(re.split("[;\n]", comment[match.start() :])[0], _NOT_READ)
    return _near_name(comment)


def _near_name(comment: str) -> CommentError | None:
    """Return an error for a key behind a name that is nearly ours, or behind ours with an equals sign."""
    if ":" not in comment and "=" not in comment:
        return None
    for match in _OTHER_NAME.finditer(comment):
        edits = _edits(match["name"].lower(), NAME)
        if edits <= _EDITS_MOST and (edits or match["mark"] == "="):
            return _Malformed(re.split("[;\n]", comment[match.start() :])[0], _NOT_READ)
    return None


def _edits(one: str, other: str) -> int:
    """Return how many letters to change, add or leave out to make one word of the other."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        before, row[0] = row[0], at
        for to, wanted in enumerate(other, start=1):
            before, row[to] = row[to], min(before + (letter != wanted), row[to] + 1, row[to - 1] + 1)
    return row[-1]


def _items(comment: str) -> Iterator[str]:
    for token in _TOKEN.finditer(comment):
        yield from token[1].split(",")


def _parse_item(item: str) -> tuple[str, object]:
    key, equals, value = item.partition("=")
    if key in _FLAGS and not equals:
        return key, True
    if key in _FLAGS:
        raise _Malformed(item, f"has a value; {key} takes none")
    if key in _TAKES:
        takes, reader = _TAKES[key]
        wish = reader(value)
        if wish is None:
            raise _Malformed(item, f"does not fit; {key} takes {takes}")
        return _FIELDS.get(key, key), wish
    if not item:
        raise _Malformed(item, f"names no key (no blanks round commas and colons); accepted: {ACCEPTED}")
    if "@" not in key:
        raise _Malformed(item)
    step = _STEP.fullmatch(item)
    by = read_time(step[2]) if step else None
    if not step or not by:
        raise _Malformed(item, f"does not fit; PERCENT@TIME takes 1 to 99 and {TIME}")
    return "steps", ValueStep(int(step[1]) / 100, by)


def _settle(wishes: CommentOptions) -> tuple[CommentOptions, str | None]:
    """Drop options that contradict others; return the rest and the error."""
    wishes, problem = _settle_steps(wishes)
    if wishes.done is None or wishes.iterations is None or wishes.done <= wishes.iterations:
        return wishes, problem
    return replace(wishes, done=None), problem or f"{PREFIX} done=N is more than iterations=N"


def _settle_steps(wishes: CommentOptions) -> tuple[CommentOptions, str | None]:
    values = {field: getattr(wishes, field) for field in wishes.__slots__}
    if not wishes.deadline:
        if not wishes.soft and not wishes.steps:
            return wishes, None
        problem = f"{PREFIX} soft and PERCENT@TIME say what happens after a deadline; add deadline=TIME"
        return CommentOptions(**{**values, "soft": False, "steps": ()}), problem
    for earlier, later in pairwise((ValueStep(1.0, wishes.deadline), *wishes.steps)):
        comparable = earlier.by.since == later.by.since
        if later.value >= earlier.value or (comparable and later.by.at_s <= earlier.by.at_s):
            problem = f"{PREFIX} PERCENT@TIME steps must fall in value and rise in time, after the deadline"
            return CommentOptions(**{**values, "steps": ()}), problem
    return CommentOptions(**{**values, "soft": wishes.soft or bool(wishes.steps)}), None


def _whole(least: int, most: int) -> Callable[[str], int | None]:
    plain = re.compile(rf"[0-9]{{1,{len(str(most))}}}")

    def read_whole(text: str) -> int | None:
        number = int(text) if plain.fullmatch(text) else -1
        return number if least <= number <= most else None

    return read_whole


def _read_range(text: str) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(text)
    if not match:
        return None
    fewest, most = int(match[1]), int(match[2] or match[1])
    return (fewest, most) if fewest <= most else None


def _read_memory(text: str) -> tuple[int, int] | None:
    match = _MEMORY.fullmatch(text)
    if not match:
        return None
    least = int(match[1]) * _UNITS_MIB[match[2]]
    most = int(match[3]) * _UNITS_MIB[match[4]] if match[3] else least
    return (least, most) if least <= most else None


def _read_pace(text: str) -> float | None:
    return float(text) if _PACE.fullmatch(text) and float(text) > 0 else None


def _read_stop(text: str) -> Stop | None:
    if text == "never":
        return Stop("never")
    if text == "opt":
        return Stop("opt")
    if match := _LOSS.fullmatch(text):
        return Stop("loss", float(match[1]) / 100) if float(match[1]) > 0 else None
    match = _ACCURACY.fullmatch(text)
    return Stop("acc", float(match[1])) if match and float(match[1]) <= 1 else None


def _read_busy(text: str) -> Stop | None:
    rule = _read_stop(text)
    return rule if rule and rule.rule in ("opt", "acc") else None


def _read_types(text: str) -> tuple[str, ...] | None:
    if len(text) > _TYPES_MOST or not _TYPES.fullmatch(text):
        return None
    return tuple(dict.fromkeys(text.split("+")))


def _read_share(text: str) -> str | None:
    return text if _SHARE.fullmatch(text) else None


_FLAGS = ("soft", "ckpt", "pack", "nopack", "noprofile", "quiet", "amp", "off")
_FIELDS = {
    "coldstart": "coldstart_s",
    "pace": "pace_s",
    "mem": "mem_mib",
}  #: fields of CommentOptions that differ from their key
_TAKES: dict[str, tuple[str, Callable[[str], object]]] = {
    "deadline": (TIME, read_time),
    "gpus": ("a number of GPUs such as 4 or a range such as 2-8", _read_range),
    "coldstart": ("whole seconds, 0 to 86400", _whole(0, 86400)),
    "urgency": ("a whole number, 0 to 10", _whole(0, 10)),
    "iterations": ("a whole number, 1 to 999999999999", _whole(1, 999_999_999_999)),
    "done": ("a whole number, 0 to 999999999999", _whole(0, 999_999_999_999)),
    "pace": ("seconds above 0 and below 1000000, with up to six decimals such as 0.25", _read_pace),
    "stop": (
        "never, opt, acc: and a fraction from 0 to 1 such as acc:0.93, or loss: and per cent such as loss:0.2%",
        _read_stop,
    ),
    "busy": ("opt, or acc: and a fraction from 0 to 1 such as acc:0.93", _read_busy),
    "graph": ("chain:, layers: or replicas: and the number of its tasks such as chain:8 or layers:4x2", read_graph),
    "types": ("types of GPUs joined by +, such as a100+v100", _read_types),
    "batch": ("the samples of a step such as 256 or a range such as 256-1024", _read_range),
    "cpus": ("a number of CPUs per node such as 8 or a range such as 4-16", _read_range),
    "mem": ("the memory per node in M, G or T such as 32G or a range such as 16G-64G", _read_memory),
    "share": ("a name of letters, digits and _.:+-; only slurmsched writes it", _read_share),
}
_NOT_READ = "is not read; write slurmsched: and what you ask for in small letters and without blanks"
_KEYS = "|".join((*_FLAGS, *_TAKES))
_EDITS_MOST = 2
_OTHER_NAME = re.compile(
    rf"(?<![A-Za-z0-9_-])(?P<name>[A-Za-z_-]{{8,12}})[ \t]*(?P<mark>[:=])[ \t]*(?:{_KEYS})(?![A-Za-z0-9_])",
    re.ASCII | re.IGNORECASE,
)
_ENDS = r"[ \t]*(?:[=+;\n\v\f\r]|\Z)"  # another word after a key makes it prose: slurmsched soft launch
_NEAR = re.compile(
    rf"(?<![A-Za-z0-9_]){NAME}(?:[ \t]*:|[ \t]+(?:{_KEYS})(?:{_ENDS}|,[ \t]*(?:(?:{_KEYS})(?![a-z0-9])|[0-9])))",
    re.ASCII | re.IGNORECASE,
)

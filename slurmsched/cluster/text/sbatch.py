"""The options of a job as sbatch(1) reads them: from a script, the environment and a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC

from ...errors import ConfigError
from .sbatch_options import (
    FLAGS,
    KNOWN,
    NOT_UNDERSTOOD,
    OF_MEMORY,
    OPTIONAL,
    SHORT,
    VARIABLES,
    WITHOUT_EFFECT,
    whole_name,
)
from .sbatch_releases import hangs_on_site
from .sbatch_values import (
    exclusive_mode,
    is_newer_value,
    limit_s,
    mebibytes,
    node_range,
    positive,
    refuse,
    segment,
    submission_failed,
    switches,
)
from .sbatch_words import CHECKS, LATE_CHECKS
from .slurm_time import begin_s

LONGEST_B = 4 * 1024**2
"""The longest script that slurmctld takes by default."""

_TEXTS = ("autocomplete", "help", "usage", "version")  #: options for which sbatch prints something and ends
_SOME_TIME_S = 1.7e9  #: whether a text is a time does not hang on the present one
_SPACE = " \t\n\v\f\r"
_MARKS = ("#SBATCH", "#SLURM")
_FOREIGN = ("#PBS", "#BSUB")
_SEVERAL = "a job of several components (hetjob) cannot be tried out"


def _count(name: str, text: str) -> None:
    positive(name, text)


def _memory(name: str, text: str) -> None:
    mebibytes(name, text)


def _begin(name: str, text: str) -> None:
    try:
        begin_s(text, _SOME_TIME_S, UTC)
    except (ValueError, OverflowError):
        refuse(f"Invalid --{name} specification: {text[:80]!r}")


_CHECKS: dict[str, Callable[[str, str], object]] = {
    **CHECKS,
    **dict.fromkeys(
        (
            "ntasks",
            "cpus-per-task",
            "cpus-per-gpu",
            "mincpus",
            "ntasks-per-node",
            "ntasks-per-gpu",
            "sockets-per-node",
            "cores-per-socket",
            "ntasks-per-core",
            "ntasks-per-socket",
            "thread-spec",
        ),
        _count,
    ),
    "threads-per-core": _count,
    "segment": lambda _, text: segment(text),
    **dict.fromkeys((*OF_MEMORY, "tmp"), _memory),
    **dict.fromkeys(("time", "time-min", "delay-boot"), lambda _, text: limit_s(text)),
    "nodes": lambda _, text: node_range(text),
    **dict.fromkeys(("begin", "deadline"), _begin),
    "exclusive": lambda _, text: exclusive_mode(text),
    "switches": lambda _, text: switches(text),
}
"""What sbatch checks as soon as it reads an option, even if a later one replaces it."""


class SbatchOptions(dict[str, str]):
    """The options in force by their long names."""

    replaced: tuple[
        tuple[str, str], ...
    ] = ()  #: values that older releases refuse although a later place replaces them


@dataclass
class _Options:
    """The options in force so far."""

    values: SbatchOptions = field(default_factory=SbatchOptions)
    from_environment: set[str] = field(default_factory=set)

    def set(self, name: str, value: str, *, by_environment: bool = False) -> None:
        if by_environment and name == "switches":
            positive(name, value)  # their time has a variable of its own
        elif check := _CHECKS.get(name):
            check(name, value)
        if name in _TEXTS or (name in ("gres", "hint", "mem-bind") and value == "help"):
            raise ConfigError(f"sbatch only prints a text for --{name}{'=help' * bool(value)}, and submits no job")
        if name in self.values and name != "exclude" and is_newer_value(name, self.values[name]):
            self.values.replaced += ((name, self.values[name]),)
        if name in ("exclusive", "oversubscribe"):
            self.values.pop(name, None)  # the last of these counts
        if name == "switches" and "@" not in value:
            wait = self.values.get(name, "").partition("@")[2]
            value += f"@{wait}" if wait else ""  # a wait that was said once stays
        self.values[name] = value
        (self.from_environment.add if by_environment else self.from_environment.discard)(name)

    def settled(self) -> SbatchOptions:
        """Return the options with one of memory at most: one that was written beats one of the environment.

        So does a hint beat threads.
        """
        given = [name for name in OF_MEMORY if name in self.values]
        written = [name for name in given if name not in self.from_environment]
        if len(written) > 1 or (not written and len(given) > 1):
            refuse("--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.")
        for name in set(given) - set(written or given):
            del self.values[name]
        if "hint" in self.values.keys() - self.from_environment and "threads-per-core" in self.from_environment:
            del self.values["threads-per-core"]
        return self.values


def read_options(text: str) -> SbatchOptions:
    """Return the options of a command line by their long names, up to the script; later ones win, as with sbatch.

    ConfigError with sbatch's words where it refuses them.
    """
    return read_job(None, {}, text)


def read_job(script: bytes | None, environment: Mapping[str, str], command_line: str) -> SbatchOptions:
    """Return the options of a job by their long names, as sbatch settles them.

    The *environment* overrides the *script*, and the *command_line* overrides both. ConfigError with sbatch's words
    where it refuses the job.
    """
    options = _Options()
    words = _shell_words(command_line)
    given = list(_options(words[1:] if words[:1] == ["sbatch"] else words, in_script=False))
    if script is not None:
        ignores = ("ignore-pbs", "") in given or _is_on(environment.get("SBATCH_IGNORE_PBS", "no"))
        _read_script(options, script, ignores)
    for variable, name in VARIABLES.items():
        if variable not in environment:
            continue
        value = environment[variable]
        if name in FLAGS and not _is_on(value):
            options.values.pop(name, None)
        else:
            options.set(name, "" if name in FLAGS else value, by_environment=True)
    for name, value in given:
        options.set(name, value)
    settled = options.settled()
    for check in LATE_CHECKS:
        check(settled)
    return settled


def not_understood(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the *options* that may matter and are not taken into account, as they are written."""
    return tuple(
        _written(name, value) for name, value in options.items() if name in NOT_UNDERSTOOD or name not in KNOWN
    )


def written_values(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the *options*, and before them the values that they replace and older releases refuse all the same."""
    return (*(options.replaced if isinstance(options, SbatchOptions) else ()), *options.items())


_NO_NODES = "Invalid node name specified: '{}' (releases before 24.11 want the nodes behind such ranges one by one)"
_OLDER_WORDS = {
    "exclusive": "Invalid --exclusive specification",
    "nodes": '"{}" is not a valid node count',
    "nodelist": _NO_NODES,
    "exclude": _NO_NODES,
}


def refuse_newer_values(options: Mapping[str, str]) -> None:
    """Refuse values of *options*, in force or replaced, as releases before 24.11 do."""
    for name, value in written_values(options):
        if is_newer_value(name, value):
            refuse(_OLDER_WORDS[name].format(value[:80]))


def as_text(options: Mapping[str, str]) -> str:
    """Return the *options* that may matter, as a command line."""
    values = written_values(options)
    kept = (pair for pair in values if pair[0] not in WITHOUT_EFFECT or hangs_on_site(*pair))
    return " ".join(shlex.quote(_written(name, value)) for name, value in kept)


def _written(name: str, value: str) -> str:
    bare = name in FLAGS or (name in OPTIONAL and not value)
    return f"--{name}" if bare else f"--{name}={value}"


def _is_on(value: str) -> bool:
    """Return True if the *value* of a variable sets a flag."""
    return not value or value.lower() == "yes" or bool(re.fullmatch(r"\s*[+-]?0*[1-9][0-9]*", value))


def _shell_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"the options {text[:80]!r} cannot be read: {error}") from error


# Scripts


def _read_script(options: _Options, script: bytes, ignores_foreign: bool) -> None:
    """Set the options in the directives of *script*."""
    _check_script(script)
    text = script.decode("utf-8", "surrogateescape")
    words: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        mark = next((mark for mark in _MARKS if line.startswith(mark)), None)
        if mark is None:
            if line.strip(_SPACE) and not line.strip(_SPACE).startswith("#"):
                break
            if line.startswith(_FOREIGN) and not ignores_foreign:
                raise ConfigError(
                    f"line {number}: {line.split()[0]} lines cannot be tried out, though sbatch may take options from "
                    "them: write them as #SBATCH, or add --ignore-pbs"
                )
            continue
        words += _directive_words(line.removeprefix(mark), number)
    for name, value in _options(words, in_script=True):
        options.set(name, value)


def _check_script(script: bytes) -> None:
    """Refuse what sbatch does not take for a script."""
    if not script:
        refuse("Batch script is empty!")
    if not script.strip(_SPACE.encode()):
        refuse("Batch script contains only whitespace!")
    if not script.startswith(b"#!"):
        refuse(
            "This does not look like a batch script.  The first line must start with #! followed by the path to an "
            "interpreter. For instance: #!/bin/sh"
        )
    if b"\0" in script:
        refuse(r"The Slurm controller does not allow scripts that contain a NULL character '\0'.")
    if b"\r\n" in script:
        refuse(r"Batch script contains DOS line breaks (\r\n) instead of expected UNIX line breaks (\n).")
    if len(script) > LONGEST_B:
        submission_failed(
            f"Pathname of a file, directory or other parameter too long (a script over {LONGEST_B} bytes)"
        )


def _directive_words(text: str, number: int) -> list[str]:
    """Split a directive as sbatch does: quotes and backslashes join, an unquoted ``#`` begins a comment."""
    words: list[str] = []
    at = 0
    while True:
        while at < len(text) and text[at] in _SPACE:
            at += 1
        first = re.match(r"(?:packjob|hetjob)(?:[ \t\n\v\f\r]|$)", text[at:], re.IGNORECASE)
        if first:
            raise ConfigError(f"line {number}: {_SEVERAL}")
        if text.startswith(":", at):
            refuse(f"line {number}: Unexpected `:` in [{text[at:][:80]}]")
        word, at = _one_word(text, at, number)
        if not word:
            return words
        words.append(word)


def _one_word(text: str, at: int, number: int) -> tuple[str, int]:
    """Return the word that begins at *at* and where it ends."""
    start, word, quote = at, "", ""
    while at < len(text) and (quote or text[at] not in _SPACE):
        letter = text[at]
        at += 1
        if letter == "\\":
            if not quote and text[at : at + 1] in (*_SPACE, ""):
                raise ConfigError(f"line {number}: releases of Slurm differ on a backslash before a blank: use quotes")
            word += text[at : at + 1]
            at += 1
        elif quote and letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote = letter
        elif not quote and letter == "#":
            return word, len(text)
        else:
            word += letter
    if quote:
        refuse(f"line {number}: Unmatched `{quote}` in [{text[start:][:80]}]")
    return word, at


# Words of a command line or of directives


def _options(words: list[str], *, in_script: bool) -> Iterable[tuple[str, str]]:
    """Yield the options of *words* with their values as getopt_long(3) finds them, up to the first other word."""
    at, names = 0, set[str]()
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if not word.startswith("-") or word == "-":
            break
        at += 1
        following = words[at] if at < len(words) else None
        pairs, took_next = _long(word, following) if word.startswith("--") else _short(word, following)
        yield from pairs
        names.update(name for name, _ in pairs)
        at += took_next
    rest = words[at:]
    if in_script and rest:
        refuse(f"Invalid directive found in batch script: {rest[0][:80]}")
    if ":" in rest:
        raise ConfigError(_SEVERAL)
    if rest and "wrap" in names:
        refuse("Script arguments not permitted with --wrap option")


def _long(word: str, following: str | None) -> tuple[list[tuple[str, str]], bool]:
    """Return the option in *word* with its value, and True if *following* is that value."""
    name, equals, value = word.removeprefix("--").partition("=")
    name = whole_name(name)
    if name not in KNOWN:
        refuse(f"unrecognized option '--{name[:80]}'")
    if name in FLAGS and equals:
        refuse(f"option '--{name}' doesn't allow an argument")
    if equals or name in FLAGS | OPTIONAL:
        return [(name, value)], False
    if following is None:
        refuse(f"option '--{name}' requires an argument")
    return [(name, following)], True


def _short(word: str, following: str | None) -> tuple[list[tuple[str, str]], bool]:
    """Return the options in *word*: several flags such as ``-HQ``, or a letter with its value."""
    pairs: list[tuple[str, str]] = []
    letters = word[1:]
    while letters:
        name = SHORT.get(letters[0])
        if name is None:
            accepted = " -".join(sorted(SHORT))
            refuse(f"invalid option -- '{letters[0]}' in {word[:80]!r}; known: -{accepted}")
        value, letters = letters[1:], letters[1:]
        if name in FLAGS:
            pairs.append((name, ""))
        elif value or name in OPTIONAL:
            return [*pairs, (name, value)], False
        elif following is None:
            refuse(f"option requires an argument -- '{word[-1]}'")
        else:
            return [*pairs, (name, following)], True
    return pairs, False

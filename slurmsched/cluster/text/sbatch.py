"""The options of sbatch(1), from a command line or from the ``#SBATCH`` lines of a script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from ...errors import ConfigError
from .constraint import constraint_of

SHORT = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus", "H": "hold",
    "J": "job-name", "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit", "Q": "quiet", "S": "core-spec",
    "V": "version", "W": "wait", "a": "array", "b": "begin", "c": "cpus-per-task", "d": "dependency", "e": "error",
    "h": "help", "i": "input", "k": "no-kill", "m": "distribution", "n": "ntasks", "o": "output", "p": "partition",
    "q": "qos", "s": "oversubscribe", "t": "time", "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip


def _names(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


FLAGS = _names(
    "consolidate-segments contiguous exclusive get-user-env help hold ignore-pbs nice no-kill no-requeue",
    "oom-kill-step overcommit oversubscribe parsable propagate quiet reboot requeue resv-ports spread-job",
    "spread-segments stepmgr test-only usage use-min-nodes verbose version wait",
)
"""Options that never take the next word, though some take a value after ``=``."""

COUNTED = _names(
    "account array comment constraint cpus-per-gpu cpus-per-task exclusive gpus gpus-per-node gpus-per-task gres",
    "job-name mem mem-per-cpu mem-per-gpu nodelist nodes ntasks ntasks-per-node partition qos time",
)
"""Options that a plan takes into account."""

HARMLESS = _names(
    "acctg-freq chdir container container-id cpu-freq error export export-file extra get-user-env gpu-bind",
    "gpu-freq gid help hint ignore-pbs input kill-on-invalid-dep mail-type mail-user mem-bind no-kill no-requeue",
    "oom-kill-step open-mode output parsable profile propagate quiet requeue signal stepmgr test-only uid umask",
    "usage verbose version wait wait-all-nodes wckey wrap",
)
"""Options without an effect on a job's start or runtime."""

OTHERS = _names(
    "batch bb bbf begin cluster-constraint clusters core-spec cores-per-socket deadline delay-boot dependency",
    "distribution exclude extra-node-info gpus-per-socket gres-flags licenses mcs-label mincpus network nodefile",
    "ntasks-per-core ntasks-per-gpu ntasks-per-socket power prefer priority reservation resources segment",
    "sockets-per-node switches thread-spec threads-per-core time-min tmp tres-bind tres-per-task",
)
"""Options that may matter but are not taken into account."""

KNOWN = COUNTED | HARMLESS | OTHERS | FLAGS


def read_options(text: str) -> dict[str, str]:
    """Return the options in *text* by their long names, up to the script; later ones win, as with sbatch.

    An option of a newer Slurm is kept under its name. ConfigError where *text* is no command line.
    """
    words = _words(text, comments=False)
    return dict(_options(iter(words[1:] if words[:1] == ["sbatch"] else words)))


def read_script(text: str) -> dict[str, str]:
    """Return the options in the ``#SBATCH`` lines of a script, which end at its first command.

    ConfigError for a script of several components, which Slurm starts together.
    """
    options: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            break
        directive = re.match(r"#SBATCH\s+(.*)", line)
        if directive is None:
            continue
        words = _words(directive[1], comments=True)
        if words[:1] in (["hetjob"], ["packjob"]):
            raise ConfigError(f"line {number}: a job of several components cannot be tried out")
        options |= _options(iter(words))
    return options


def not_counted(options: Mapping[str, str]) -> str:
    """Return a sentence on the *options* that may matter and were left out; empty without any."""
    names = [name for name in sorted(options) if name not in COUNTED | HARMLESS or name in _alternatives(options)]
    unknown = [f"--{name}" for name in names if name not in KNOWN]
    others = [f"--{name}" for name in names if name in KNOWN]
    parts = [f"{', '.join(others)}: not counted in these times"] if others else []
    parts += [f"{', '.join(unknown)}: not known here, so not counted"] if unknown else []
    return f"{'; '.join(parts)}." if parts else ""


def features(options: Mapping[str, str]) -> str:
    """Return the features that *options* require; ``text.constraint`` reads them."""
    return options.get("constraint", "")


def _alternatives(options: Mapping[str, str]) -> tuple[str, ...]:
    return () if constraint_of(features(options)).understood else ("constraint",)


def as_text(options: Mapping[str, str]) -> str:
    """Return the *options* that may matter, as a command line."""
    words = (
        shlex.quote(f"--{name}={value}" if value else f"--{name}")
        for name, value in options.items()
        if name not in HARMLESS
    )
    return " ".join(words)


def _words(text: str, *, comments: bool) -> list[str]:
    try:
        return shlex.split(text, comments=comments)
    except ValueError as error:
        raise ConfigError(f"the options {text[:80]!r} cannot be read: {error}") from error


def _options(words: Iterator[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        if word == "--" or not word.startswith("-"):
            return
        if not word.startswith("--"):
            yield from _short(word, words)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        name = _whole(name)
        yield name, value if equals or name in FLAGS else next(words, "")


def _short(word: str, words: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the options in *word*: a letter with its value, or several flags such as ``-HQ``."""
    letters = word[1:]
    while letters:
        name = SHORT.get(letters[0])
        if name is None:
            accepted = " -".join(sorted(SHORT))
            raise ConfigError(f"-{letters[0]} in {word[:80]!r} is no option of sbatch; known: -{accepted}")
        letters = letters[1:]
        if name not in FLAGS:
            yield name, letters.removeprefix("=") or next(words, "")
            return
        yield name, ""


def _whole(name: str) -> str:
    """Return the option that *name* abbreviates, else *name*."""
    longer = [option for option in KNOWN if option.startswith(name)]
    return longer[0] if name not in KNOWN and len(longer) == 1 else name

"""The policy contract: a policy is a pure function of a View, registered under a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Literal

from ..cluster.columns import FloatArray
from ..cluster.state import View
from ..errors import ConfigError

Key = Callable[[View], FloatArray]
"""A function to one finite number per pending job; smaller runs sooner, ties keep Slurm's own order.

It may read only the view: no clock, no input, no randomness, no state of its own.
"""

Changes = Literal["never", "while_running", "with_time"]
"""The moments at which the key of a pending job may change while its forecast does not.

``with_time``: at any decision; it may depend on everything in the view. ``while_running``: with the time that the job
itself ran, linearly or in steps, and with nothing else. ``never``: the submission alone determines it. The simulator
asks an ordering of the last two kinds once, so that a false declaration gives wrong orders there; the conformance
suite finds it.
"""

Tuned = Callable[[Mapping[str, str]], Key]
"""A function from parameters, texts by name, to a key function; ConfigError if they are invalid."""


@dataclass(frozen=True)
class Ordering:
    """A named order of pending jobs."""

    name: str
    key: Key
    summary: str  #: one sentence for users
    changes: Changes = "with_time"
    steps: tuple[float, ...] = ()  #: GPU-seconds of attained service at which a key jumps; between them it is linear
    native: bool = False  #: it is Slurm's own order: nothing is written
    tuned: Tuned | None = None  #: for orderings that take parameters
    defaults: str = ""  #: default parameters, as ``name=value`` separated by blanks
    parameters: str = ""  #: configured parameters, likewise

    @property
    def line(self) -> str:
        """The ordering with its parameters, as ``find_ordering`` takes it."""
        return f"{self.name} {self.parameters}".rstrip()

    @property
    def settings(self) -> dict[str, str]:
        """Every parameter with its value."""
        return _by_name(self.name, self.defaults.split()) | _by_name(self.name, self.parameters.split())

    def __call__(self, view: View) -> FloatArray:
        """Return the key per pending job."""
        return self.key(view)


ORDERINGS: dict[str, Ordering] = {}

PLUGINS = "slurmsched.policies"
"""The entry-point group of plug-ins; each entry names a module that registers its orderings when loaded."""


def ordering(
    name: str,
    *,
    changes: Changes = "with_time",
    steps: tuple[float, ...] = (),
    native: bool = False,
    tuned: Tuned | None = None,
    defaults: str = "",
) -> Callable[[Key], Key]:
    """Register the decorated key function under *name*; its docstring's first line is its summary.

    An ordering with parameters also gives *tuned*, which builds its key function, and *defaults*.
    """

    def register(key: Key) -> Key:
        if name in ORDERINGS:
            raise ValueError(f"ordering {name!r} is registered twice: {ORDERINGS[name].key} and {key}")
        summary = (key.__doc__ or "").strip().partition("\n")[0]
        ORDERINGS[name] = Ordering(name, key, summary, changes, steps, native, tuned, defaults)
        return key

    return register


def find_ordering(line: str) -> Ordering:
    """Return the ordering that *line* names, built-in or from a plug-in, with the parameters after the name.

    ConfigError lists the existing orderings, or describes the invalid parameter.
    """
    name, *words = line.split() or [line]
    if name not in ORDERINGS:
        for entry in entry_points(group=PLUGINS):
            try:
                entry.load()
            except (ImportError, AttributeError, ValueError) as error:
                raise ConfigError(f"cannot load plug-in {entry.name!r} ({entry.value}): {error}") from error
    try:
        found = ORDERINGS[name]
    except KeyError:
        names = ", ".join(sorted(ORDERINGS))
        raise ConfigError(f"policy.ordering = {name!r} is not known; there are: {names}") from None
    if not words:
        return found
    if found.tuned is None:
        raise ConfigError(f"ordering {name!r} takes no parameters, and {words[0]!r} follows it")
    return replace(found, key=found.tuned(_by_name(name, words)), parameters=" ".join(words))


def _by_name(ordering_name: str, words: Sequence[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value) or name in settings:
            raise ConfigError(f"{ordering_name}: {word!r}: accepted is each parameter once, as name=value")
        settings[name] = value
    return settings

"""The policy contract: a policy is a pure function of a View; adding one is writing it and registering its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Literal

from ..cluster.columns import FloatArray
from ..cluster.state import View
from ..errors import ConfigError

Key = Callable[[View], FloatArray]
"""One finite number per pending job; the smaller runs sooner, equal ones in Slurm's own order.

It may read the view only: no clock, no input, no randomness, no state of its own.
"""

Changes = Literal["never", "while_running", "with_time"]

Tuned = Callable[[Mapping[str, str]], Key]
"""The key function for parameters, given as texts by name; ConfigError where they make no sense."""


@dataclass(frozen=True)
class Ordering:
    """A named way to say who runs sooner."""

    name: str
    key: Key
    summary: str  #: one sentence for people
    changes: Changes = "never"  #: when a pending job's key can change while its forecast does not
    steps: tuple[float, ...] = ()  #: GPU-seconds of attained service at which a key jumps; between them it is linear
    native: bool = False  #: Slurm's own order is the order: nothing is written
    tuned: Tuned | None = None  #: for orderings that take parameters
    defaults: str = ""  #: of those parameters, ``name=value`` one after the other
    parameters: str = ""  #: what was said of them, likewise

    @property
    def line(self) -> str:
        """The ordering with its parameters, as ``find_ordering`` takes it."""
        return f"{self.name} {self.parameters}".rstrip()

    @property
    def settings(self) -> dict[str, str]:
        """Every parameter with its value."""
        return _by_name(self.name, self.defaults.split()) | _by_name(self.name, self.parameters.split())

    def __call__(self, view: View) -> FloatArray:
        """The key per pending job."""
        return self.key(view)


ORDERINGS: dict[str, Ordering] = {}

PLUGINS = "slurmsched.policies"
"""Entry-point group; each entry names a module that registers its orderings on being loaded."""


def ordering(
    name: str,
    *,
    changes: Changes = "never",
    steps: tuple[float, ...] = (),
    native: bool = False,
    tuned: Tuned | None = None,
    defaults: str = "",
) -> Callable[[Key], Key]:
    """Register the decorated key function under *name*; its docstring's first line is its summary.

    One that takes parameters also says by *tuned* what they make of it, and what they are by default.
    """

    def register(key: Key) -> Key:
        if name in ORDERINGS:
            raise ValueError(f"ordering {name!r} is registered twice: {ORDERINGS[name].key} and {key}")
        summary = (key.__doc__ or "").strip().partition("\n")[0]
        ORDERINGS[name] = Ordering(name, key, summary, changes, steps, native, tuned, defaults)
        return key

    return register


def find_ordering(line: str) -> Ordering:
    """The ordering that *line* names, from here or from a plug-in, with the parameters that follow the name.

    ConfigError names what there is, or what is wrong with the parameters.
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

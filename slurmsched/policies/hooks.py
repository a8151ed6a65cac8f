"""The policy contract: a policy is a pure function of a View; adding one is writing it and registering its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Ordering:
    """A named way to say who runs sooner."""

    name: str
    key: Key
    summary: str  #: one sentence for people
    changes: Changes = "never"  #: when a pending job's key can change while its forecast does not
    steps: tuple[float, ...] = ()  #: GPU-seconds of attained service at which a key jumps; between them it is linear
    native: bool = False  #: Slurm's own order is the order: nothing is written

    def __call__(self, view: View) -> FloatArray:
        """The key per pending job."""
        return self.key(view)


ORDERINGS: dict[str, Ordering] = {}

PLUGINS = "slurmsched.policies"
"""Entry-point group; each entry names a module that registers its orderings on being loaded."""


def ordering(
    name: str, *, changes: Changes = "never", steps: tuple[float, ...] = (), native: bool = False
) -> Callable[[Key], Key]:
    """Register the decorated key function under *name*; its docstring's first line is its summary."""

    def register(key: Key) -> Key:
        if name in ORDERINGS:
            raise ValueError(f"ordering {name!r} is registered twice: {ORDERINGS[name].key} and {key}")
        summary = (key.__doc__ or "").strip().partition("\n")[0]
        ORDERINGS[name] = Ordering(name, key, summary, changes, steps, native)
        return key

    return register


def find_ordering(name: str) -> Ordering:
    """The ordering called *name*, from here or from a plug-in; ConfigError names what there is."""
    if name not in ORDERINGS:
        for entry in entry_points(group=PLUGINS):
            try:
                entry.load()
            except (ImportError, AttributeError, ValueError) as error:
                raise ConfigError(f"cannot load plug-in {entry.name!r} ({entry.value}): {error}") from error
    try:
        return ORDERINGS[name]
    except KeyError:
        known = ", ".join(sorted(ORDERINGS))
        raise ConfigError(f"policy.ordering = {name!r} is not known; there are: {known}") from None

"""What entry points register: plug-ins of strangers, and slurmsched's own research, which may not be installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OURS = "slurmsched"
"""The distribution that holds the research, under pip; .deb and .rpm have its files in a package of their own."""

PACKAGE = "slurmsched-research"
"""That package."""

SIMULATION = "slurmsched_simulation"
"""The group of entry points of what plays jobs, or says how fast they train."""

TRAINING = "slurmsched_training"
"""The group of what trains and reviews the actor behind ``mlfs-rl``."""

COMMANDS = "slurmsched_commands"
"""The group of commands; ``policy.check`` is the subcommand ``check`` of ``policy``."""

ANSWERS = "slurmsched_answers"
"""The group of the types of what these commands print with ``--json``, by the same names."""


class ResearchMissing(ConfigError):
    """A part of the research that is not installed; the text names the package."""

    def __init__(self, part: str) -> None:
        super().__init__(f"{part} is part of the research, which is not installed: install the package {PACKAGE}")


def registered(group: str, name: str = "") -> tuple[EntryPoint, ...]:
    """Return the entry points of *group*, those of *name* where one is given."""
    from importlib.metadata import entry_points  # with the standard library's parser of mail, which few commands need

    found = entry_points(group=group, name=name) if name else entry_points(group=group)
    return tuple(found)


def is_ours(entry: EntryPoint) -> bool:
    """Return True if slurmsched itself registers *entry*."""
    return entry.dist is not None and entry.dist.name == OURS


def is_there(entry: EntryPoint) -> bool:
    """Return True unless the module of *entry* is missing, as that of research which is not installed."""
    try:
        return find_spec(entry.module) is not None
    except ModuleNotFoundError:
        return False


def load_research(group: str, name: str, part: str) -> Any:
    """Return what the research registered under *name*; ResearchMissing about *part* where it is not installed.

    ConfigError where this installation does not even know of it.
    """
    for entry in filter(is_ours, registered(group, name)):
        return load(entry, part)
    raise ConfigError(f"{part} is part of the research, which is not registered here: install slurmsched again")


def load(entry: EntryPoint, part: str) -> Any:
    """Return the object of *entry*; ResearchMissing about *part* where our module of it is not there."""
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        if is_ours(entry) and f"{entry.module}.".startswith(f"{error.name}."):
            raise ResearchMissing(part) from error
        raise

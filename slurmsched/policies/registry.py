"""Registries of the parts of policies: one for each hook, with the built-in parts and those of plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

from ..child_process import ChildFailed, ChildProcess
from ..errors import ConfigError
from ..extensions import is_ours, load_research, registered
from .research_names import RESEARCH_PARTS

F = TypeVar("F", bound=Callable[..., Any])

PLUGINS = "slurmsched.policies"
"""The entry-point group of plug-ins; each entry names a module that registers its parts when loaded."""


IMPORT_S = 30.0
"""The longest import of a plug-in, in seconds."""

IMPORTER = "slurmsched.policies.plugin_import"
"""The process that imports a plug-in first."""

_loading = False  #: plug-ins are being loaded
_troubles: dict[str, str] = {}  #: what became of the first import of each plug-in; empty where it came to an end
_may_hang = False  #: this process may hang: its parent limits the time of its answers


@dataclass(frozen=True)
class Part(Generic[F]):
    """A named part of a policy: a pure function for one hook, and its parameters."""

    name: str
    function: F
    summary: str  #: one sentence for users
    tuned: Callable[[Mapping[str, str]], F] | None = field(default=None, kw_only=True)
    """Builds the function from parameters by name, for parts that take any; ConfigError if they are invalid."""
    defaults: str = field(default="", kw_only=True)  #: default parameters, as ``name=value`` separated by blanks
    parameters: str = field(default="", kw_only=True)  #: configured parameters, likewise
    bare: str = field(default="", kw_only=True)  #: the parameter that words without a name belong to
    powers: frozenset[str] = field(default=frozenset(), kw_only=True)  #: needed to carry out its decisions
    built_in: bool = field(default=True, kw_only=True)  #: false for a part of a plug-in; set by the registry

    @property
    def line(self) -> str:
        """The part with its parameters, as ``Registry.find`` takes it."""
        return f"{self.name} {self.parameters}".rstrip()

    @property
    def settings(self) -> dict[str, str]:
        """Every parameter with its value."""
        return _by_name(self.name, self.defaults.split()) | _by_name(self.name, self.parameters.split())

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.function(*args)

    def tuned_by(self, hook: str, words: Sequence[str]) -> Self:
        """Return the part with the parameters *words*; ConfigError if it takes none, or not these."""
        if self.tuned is None:
            raise ConfigError(f"{hook} {self.name!r} takes no parameters, and {words[0]!r} follows it")
        if self.bare and not any("=" in word for word in words):
            words = [f"{self.bare}={','.join(words)}"]
        return replace(self, function=self.tuned(_by_name(self.name, words)), parameters=" ".join(words))


P = TypeVar("P", bound=Part[Any])


class Registry(Mapping[str, P]):
    """The parts registered for one *hook*, by name."""

    def __init__(self, hook: str) -> None:
        self.hook = hook
        self._parts: dict[str, P] = {}

    def __getitem__(self, name: str) -> P:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, part: P) -> P:
        """Register *part*; ValueError if its name is taken."""
        if _loading and part.name in RESEARCH_PARTS.get(self.hook, ()):
            raise ValueError(f"{self.hook} {part.name!r} is a name of slurmsched's own research")
        if part.name in self._parts:
            functions = f"{self._parts[part.name].function} and {part.function}"
            raise ValueError(f"{self.hook} {part.name!r} is registered twice: {functions}")
        self._parts[part.name] = replace(part, built_in=not _loading)
        return self._parts[part.name]

    def find(self, line: str) -> P:
        """Return the part that *line* names, built-in or from a plug-in, with the parameters after the name.

        ConfigError lists the existing parts, or describes the invalid parameter.
        """
        name, *words = line.split() or [line]
        if not self.knows(name):
            raise ConfigError(f"policy.{self.hook} = {name!r} is not known; there are: {', '.join(self.names)}")
        found = self._parts[name]
        return found.tuned_by(self.hook, words) if words else found

    def knows(self, name: str) -> bool:
        """Return True if there is a part *name*, after loading the research or the plug-ins that may have it.

        ConfigError where it would be of the research, which is not installed, or where plug-ins cannot be loaded.
        """
        if name in self._parts:
            return True
        if name in RESEARCH_PARTS.get(self.hook, ()):
            load_research_parts(f"{self.hook} {name!r}")
        elif (broken := load_plugins()) and name not in self._parts:
            raise ConfigError("; ".join(broken))
        return name in self._parts

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parts that were registered, and of those of the research."""
        return tuple(sorted(RESEARCH_PARTS.get(self.hook, frozenset()).union(self._parts)))


def load_research_parts(part: str) -> None:
    """Register the parts of slurmsched's own research; ResearchMissing about *part* where it is not installed."""
    load_research(PLUGINS, "research", part)


def import_directly() -> None:
    """Import plug-ins without a trial in another process from now on: this one may hang."""
    global _may_hang
    _may_hang = True


def load_plugins(limit_s: float = IMPORT_S) -> list[str]:
    """Load every plug-in; return a sentence about each that cannot be loaded, which prevents no other.

    A plug-in that this process has not imported yet is imported by another one before, so that an import that hangs or
    ends its process does so there.
    """
    global _loading  # parts register themselves when their module is imported, without a word about whose they are
    broken, entries = [], [entry for entry in registered(PLUGINS) if not is_ours(entry)]
    if entries:  # before them: a plug-in that imports parts of the research does not register these as its own
        with suppress(Exception):  # who names one of these parts hears why it is not there
            load_research_parts("a plug-in")
    _try_imports([entry.name for entry in entries if entry.name not in _troubles], limit_s)
    for entry in entries:
        if trouble := _troubles[entry.name]:
            broken.append(f"cannot load plug-in {entry.name!r} ({entry.value}): {trouble}")
            continue
        _loading = True
        try:
            entry.load()
        except Exception as error:  # code of strangers may raise anything
            broken.append(f"cannot load plug-in {entry.name!r} ({entry.value}): {type(error).__name__}: {error}")
        finally:
            _loading = False
    return broken


def _try_imports(names: Sequence[str], limit_s: float) -> None:
    """Import plug-ins in another process, *limit_s* for each, and note what became of them."""
    with closing(ChildProcess(IMPORTER, "trial import")) as importer:
        for name in names:
            _troubles[name] = ""
            if _may_hang:
                continue
            try:
                importer.ask((PLUGINS, name), limit_s)
            except ChildFailed as error:
                _troubles[name] = str(error)


def summary_of(function: Callable[..., Any]) -> str:
    """Return the first line of a function's docstring."""
    return (function.__doc__ or "").strip().partition("\n")[0]


def _by_name(part_name: str, words: Sequence[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value) or name in settings:
            raise ConfigError(f"{part_name}: {word!r}: accepted is each parameter once, as name=value")
        settings[name] = value
    return settings

"""The catalogue of settings: place, accepted values, default and help of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import Field, dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from .levels import LEVELS
from .settings import Settings

HIDDEN = "(hidden)"


class InvalidValue(Exception):
    """A value that a setting does not accept; the text names the accepted ones."""


@dataclass(frozen=True)
class Setting:
    """A key of a section."""

    section: str
    key: str
    kind: Any  #: str, bool, int, float or tuple[str, ...]
    default: Any
    rules: Any  #: level, help, choices, least, most, secret

    @property
    def name(self) -> str:
        """``section.key``."""
        return f"{self.section}.{self.key}"

    @property
    def help(self) -> str:
        """The help line."""
        return str(self.rules["help"])

    @property
    def level(self) -> str:
        """Who needs it: one of LEVELS."""
        return str(self.rules["level"])

    @property
    def secret(self) -> bool:
        """True if the value is hidden wherever settings are shown."""
        return bool(self.rules.get("secret"))

    @property
    def variable(self) -> str:
        """The environment variable that may supply a secret."""
        return f"SLURMSCHED_{self.section}_{self.key}".upper()

    @property
    def credential(self) -> str:
        """The name of the systemd credential that may supply a secret."""
        return f"{self.section}-{self.key}".replace("_", "-")

    @property
    def accepts(self) -> str:
        """The accepted values, in words."""
        if choices := self.rules.get("choices"):
            listed = ", ".join(choices)
            return f"a list of {listed}" if self.kind == tuple[str, ...] else f"one of {listed}"
        noun = _NOUNS[self.kind]
        if "least" in self.rules:
            return f"{noun} from {self.rules['least']} to {self.rules['most']}"
        return noun

    def shown(self, settings: Settings) -> Any:
        """Return the value, safe to display: a secret that is set reads ``(hidden)``."""
        value = getattr(getattr(settings, self.section), self.key)
        return HIDDEN if self.secret and value != self.default else value

    def check(self, value: object) -> Any:
        """Validate *value* and return it; InvalidValue where it is not accepted. Only int is converted, to float."""
        fitting = self._typed(value)
        choices, least, most = (self.rules.get(rule) for rule in ("choices", "least", "most"))
        if choices and not set(fitting if self.kind == tuple[str, ...] else (fitting,)) <= set(choices):
            raise InvalidValue(f"is {value!r}; accepted: {self.accepts}")
        if least is not None and not least <= fitting <= most:
            raise InvalidValue(f"is {value!r}; accepted: {self.accepts}")
        return fitting

    def _typed(self, value: object) -> Any:
        if self.kind is float and type(value) in (int, float) and math.isfinite(value):  # type: ignore[arg-type]
            return float(value)  # type: ignore[arg-type]
        if self.kind not in (float, tuple[str, ...]) and type(value) is self.kind:
            return value
        if (
            self.kind == tuple[str, ...]
            and isinstance(value, list | tuple)
            and all(type(item) is str for item in value)
        ):
            return tuple(value)
        raise InvalidValue(f"is {'a hidden value' if self.secret else repr(value)}; accepted: {self.accepts}")


_NOUNS = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[str, ...]: "a list of texts",
}


@cache
def catalogue() -> dict[str, dict[str, Setting]]:
    """Return all settings, by section and key, in the order of the classes."""
    return {section: dict(_keys(section, kind)) for section, kind in get_type_hints(Settings).items()}


def every_setting(level: str = LEVELS[-1]) -> Iterator[Setting]:
    """Yield all settings of a *level* and of those before it."""
    shown = LEVELS[: LEVELS.index(level) + 1]
    for keys in catalogue().values():
        yield from (setting for setting in keys.values() if setting.level in shown)


def section_title(section: str) -> str:
    """Return the subject of a section in one line, from its class's docstring."""
    about = (get_type_hints(Settings)[section].__doc__ or "").partition(": ")[2].strip()
    return about[:1].upper() + about[1:]


def _keys(section: str, kind: type[Any]) -> Iterator[tuple[str, Setting]]:
    hints = get_type_hints(kind)
    each: Field[Any]
    for each in fields(kind):
        yield each.name, Setting(section, each.name, hints[each.name], each.default, each.metadata)

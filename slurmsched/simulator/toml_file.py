"""TOML files written by people: contents are checked, and errors name file and key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError

Kinds = Mapping[str, type]
"""The keys that a table may have and the type of each; ``float`` takes whole numbers too, ``list`` holds texts,
``tuple`` numbers."""

_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list of texts",
    tuple: "a list of numbers",
    dict: "a table",
}


def read_toml(path: str | Path, accepted: Kinds) -> dict[str, Any]:
    """Read the tables of a file; *accepted* says which of them are one table (``dict``) and which are many (``list``).

    ConfigError where it cannot be read, is not TOML, or holds anything else.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error
    written = {name: f"[[{name}]]" if kind is list else f"[{name}]" for name, kind in accepted.items()}
    for name, contents in document.items():
        if name not in accepted:
            raise ConfigError(f"{path}: {name!r} is not known here; accepted are {', '.join(written.values())}")
        tables = contents if accepted[name] is list and isinstance(contents, list) else [contents]
        if not isinstance(contents, accepted[name]) or not all(isinstance(table, dict) for table in tables):
            raise ConfigError(f"{path}: {name!r} must be written as {written[name]} with its keys below")
    return document


def checked(where: str, contents: Mapping[str, object], accepted: Kinds) -> dict[str, Any]:
    """Check the keys of one table against *accepted*; ConfigError names *where*, the key and what is accepted."""
    values: dict[str, Any] = {}
    for key, value in contents.items():
        if key not in accepted:
            raise ConfigError(f"{where}: {key!r} is no key; accepted are {', '.join(accepted)}")
        if not _fits(value, accepted[key]):
            raise ConfigError(f"{where}: {key} = {value!r}: accepted is {_WORDS[accepted[key]]}")
        values[key] = float(value) if accepted[key] is float and isinstance(value, int) else value
    return values


def _fits(value: object, kind: type) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is tuple:
        return isinstance(value, list) and all(_fits(item, float) for item in value)
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, int | float if kind is float else kind)

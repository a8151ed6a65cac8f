"""A JSON Schema of the settings, by which editors complete and check the file."""

from __future__ import annotations

from typing import Any

from .catalogue import Setting, catalogue, section_title

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", tuple[str, ...]: "array"}


def settings_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) of ``slurmsched.toml``: its sections, keys, accepted values and defaults."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "slurmsched.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {section: _section(section, keys) for section, keys in catalogue().items()},
    }


def _section(section: str, keys: dict[str, Setting]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": section_title(section),
        "additionalProperties": False,
        "properties": {key: _value(setting) for key, setting in keys.items()},
    }


def _value(setting: Setting) -> dict[str, Any]:
    rules = setting.rules
    found: dict[str, Any] = {"description": setting.help, "type": _TYPES[setting.kind]}
    default = setting.default
    if setting.kind == tuple[str, ...]:
        default, found["items"] = list(default), {"type": "string"}
        if "choices" in rules:
            found["items"]["enum"] = list(rules["choices"])
    elif "choices" in rules:
        found["enum"] = list(rules["choices"])
    if "least" in rules:
        found["minimum"], found["maximum"] = rules["least"], rules["most"]
    if setting.secret:
        found["writeOnly"] = True
    else:
        found["default"] = default
    return found

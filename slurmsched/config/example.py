"""The settings file that ships as an example: every setting commented out, at its default."""

from __future__ import annotations

from typing import Any

from .catalogue import Setting, catalogue, section_title

HEAD = """\
# slurmsched.toml: all settings. Each line shows a default; remove its # to change it.
# Files in conf.d/ beside this one are read after it, in the order of their names.
# `slurmsched config check` finds mistakes, `slurmsched config show --origin` shows values and their origins.
# Keep secrets elsewhere: {secrets}.
"""


def example() -> str:
    """Return the text of ``contrib/slurmsched.toml``."""
    secrets = [s for keys in catalogue().values() for s in keys.values() if s.secret]
    places = "; ".join(f"{s.name} in ${s.variable} or the systemd credential {s.credential}" for s in secrets)
    return HEAD.format(secrets=places) + "".join(_section(section) for section in catalogue())


def toml_value(value: Any) -> str:
    """Format *value* as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return f'"{value}"' if isinstance(value, str) else str(value)


def _section(section: str) -> str:
    lines = [f"\n# {section_title(section)}", f"[{section}]"]
    for setting in catalogue()[section].values():
        lines += [f"# {setting.help} ({setting.accepts})", f"#{_line(setting)}"]
    return "\n".join(lines) + "\n"


def _line(setting: Setting) -> str:
    return f"{setting.key} = {toml_value(setting.default)}"

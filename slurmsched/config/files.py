"""The reading of settings: a TOML file, ``conf.d`` beside it, secrets from the environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from ..errors import ConfigError
from .catalogue import InvalidValue, Setting, catalogue, every_setting
from .file_access import barrier_of, readers_of
from .settings import Settings
from .suggestion import suggestion
from .toml_lines import lines_of

DEFAULT_PATH = Path("/etc/slurmsched/slurmsched.toml")
VARIABLE = "SLURMSCHED_CONFIG"

GONE = {
    "deadline.kept_back": "remove it: promises leave room for as many smaller jobs as asked lately (deadline.foreseen)",
}
"""What to write in place of settings of earlier versions."""


class Problems(ConfigError):
    """All errors in the settings, one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return "\n  ".join([f"{len(self.problems)} problems in the settings:", *self.problems])


class Unreadable(Problems):
    """The only errors are files that this user may not read; ``rest`` holds the settings of the others."""

    def __init__(self, problems: list[str], rest: Loaded) -> None:
        super().__init__(problems)
        self.rest = rest


@dataclass(frozen=True)
class Loaded:
    """Settings, and for each ``section.key`` its origin: ``default``, ``FILE:LINE`` or the environment."""

    settings: Settings
    origins: dict[str, str]
    files: tuple[Path, ...] = ()  #: the files that were read, in order


def load(path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    """Read the settings of *path*, else of ``$SLURMSCHED_CONFIG``, else of the default file, which may be missing.

    ``conf.d/*.toml`` beside it follow in the order of their names, then secrets from ``$SLURMSCHED_...`` or from
    systemd credentials; the last source wins. Raises ConfigError with every problem of every file at once, and
    Unreadable where permissions are the only one.
    """
    environ = os.environ if environ is None else environ
    config_path = path or environ.get(VARIABLE)
    main = Path(config_path or DEFAULT_PATH)
    reading = _Reading()
    for file in [main] if config_path else reading.present(main):
        reading.read(file)
    for file in reading.drop_ins(main.parent / "conf.d"):
        reading.read(file)
    reading.read_secrets(environ)
    if reading.problems:
        raise Problems([*reading.closed, *reading.problems])
    loaded = reading.loaded()
    if reading.closed:
        raise Unreadable(reading.closed, loaded)
    return loaded


@dataclass
class _Reading:
    """The values read so far, their origins, and the errors found."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)  #: files that this user may not read
    _barred: list[Path] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def loaded(self) -> Loaded:
        settings = Settings(
            **{section: kind(**self.values.get(section, {})) for section, kind in get_type_hints(Settings).items()}
        )
        origins = {setting.name: "default" for setting in every_setting()} | self.origins
        return Loaded(settings, origins, tuple(self.files))

    def present(self, file: Path) -> list[Path]:
        """Return *file* if it exists, or may exist in a directory that is closed to this user."""
        try:
            file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            pass
        return [file]

    def drop_ins(self, directory: Path) -> list[Path]:
        """Return the files of *directory* in the order of their names."""
        try:
            names = os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._unread(directory, error)
            return []
        return sorted(directory / name for name in names if name.endswith(".toml"))

    def _unread(self, path: Path, error: OSError) -> None:
        if not isinstance(error, PermissionError):
            self.problems.append(f"{path}: cannot be read: {error.strerror}")
        elif not any(path.is_relative_to(place) for place in self._barred):
            barrier = barrier_of(path)
            self._barred.append(barrier)
            self.closed.append(f"{path}: {readers_of(barrier)}")

    def read(self, file: Path) -> None:
        """Read *file*; errors go to ``problems`` or ``closed``."""
        self.files.append(file)
        try:
            text = file.read_text(encoding="utf-8")
            document = tomllib.loads(text)
        except OSError as error:
            self._unread(file, error)
            return
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            self.problems.append(f"{file}: is not TOML: {error}")
            return
        lines = lines_of(text)
        for section, keys in document.items():
            self._section(file, lines, section, keys)

    def _section(self, file: Path, lines: dict[str, int], section: str, keys: object) -> None:
        where = _place(file, lines, section)
        settings = catalogue().get(section)
        if settings is None:
            self.problems.append(f"{where}: [{section}] is no section{suggestion(section, catalogue())}")
        elif not isinstance(keys, dict):
            self.problems.append(f"{where}: {section} is a section: write [{section}] and its keys below")
        else:
            for key, value in keys.items():
                self._key(_place(file, lines, f"{section}.{key}"), settings, section, key, value)

    def _key(self, where: str, settings: dict[str, Setting], section: str, key: str, value: object) -> None:
        if key not in settings:
            instead = GONE.get(f"{section}.{key}")
            why = f" any more: {instead}" if instead else suggestion(key, settings)
            self.problems.append(f"{where}: {section}.{key} is no setting{why}")
        else:
            self._set(settings[key], value, where, where)

    def _set(self, setting: Setting, value: object, where: str, origin: str) -> None:
        try:
            self.values.setdefault(setting.section, {})[setting.key] = setting.check(value)
            self.origins[setting.name] = origin
        except InvalidValue as misfit:
            self.problems.append(f"{where}: {setting.name} {misfit}")

    def read_secrets(self, environ: Mapping[str, str]) -> None:
        for setting in every_setting():
            if not setting.secret:
                continue
            directory = environ.get("CREDENTIALS_DIRECTORY")
            file = Path(directory, setting.credential) if directory else None
            if file and file.exists():
                self._credential(setting, file)
            if value := environ.get(setting.variable):
                self._set(setting, value, f"${setting.variable}", f"environment {setting.variable}")

    def _credential(self, setting: Setting, file: Path) -> None:
        try:
            secret = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            self.problems.append(f"{file}: the credential cannot be read: {type(error).__name__}")
            return
        self._set(setting, secret, str(file), f"credential {setting.credential}")


def _place(file: Path, lines: dict[str, int], name: str) -> str:
    return f"{file}:{lines[name]}" if name in lines else str(file)

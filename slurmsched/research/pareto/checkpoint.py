"""A checkpoint file of a search, from which a stopped search resumes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import ConfigError

FORM = "slurmsched-pareto/3"
_ACCEPTED = "accepted is what slurmsched pareto wrote itself, or no file"

Values = dict[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True, eq=False)
class Notebook:
    """A JSON file of points and their values, for exactly one search."""

    path: Path
    settings: Mapping[str, object]  #: the plain values that identify the search

    def load(self) -> Values:
        """Read the measured values, empty without a file; ConfigError where it belongs to another search."""
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise ConfigError(f"{self.path}: is not JSON ({error}): {_ACCEPTED}") from error
        whole = (
            isinstance(document, dict)
            and isinstance(document.get("asked"), dict)
            and isinstance(document.get("measured"), list)
        )
        if not whole or document.get("form") != FORM:
            raise ConfigError(f"{self.path}: is no state of a search: {_ACCEPTED}")
        settings = json.loads(json.dumps(self.settings))
        other = [name for name in settings if document["asked"].get(name) != settings[name]]
        if other:
            raise ConfigError(f"{self.path}: is of a search with another {', '.join(other)}; say another file")
        return {tuple(point): tuple(values) for point, values in document["measured"]}

    def write(self, values: Values) -> None:
        """Write *values* atomically; ConfigError where the file cannot be written."""
        document = {"form": FORM, "asked": dict(self.settings), "measured": [[*pair] for pair in values.items()]}
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            draft.write_text(json.dumps(document), encoding="utf-8")
            draft.replace(self.path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror}") from error

"""Expected failures, as opposed to bugs.

SlurmschedError
├── ConfigError           the settings are invalid: refuse to start, or keep the old ones
│   └── MissingExtra      an optional dependency is not installed: say how to install it
├── CommentError          a job's comment has a malformed token: refuse at submit, else treat it as absent
├── SlurmError
│   ├── SlurmUnavailable  no answer: skip this cycle
│   └── SlurmRefused      Slurm refused: remember why, do not repeat at once
├── MemoryUnavailable     the database is unreachable or damaged: decide without history
├── SchemaMismatch        the database belongs to another version: refuse to start
├── ModelUnusable         a model file is absent, damaged or incompatible: use the baseline
├── TooLittleHistory      a model cannot be trained yet: use the baseline, try again later
└── LabError              the private Slurm could not be started or stopped
"""

from __future__ import annotations


class SlurmschedError(Exception):
    """Base class of expected failures; the text can be shown to users."""


class ConfigError(SlurmschedError):
    """Invalid settings; refuse to start, or on reload keep the old ones."""


class MissingExtra(ConfigError):
    """A missing optional dependency; the text says how to install it."""

    def __init__(self, needs: str, extra: str) -> None:
        super().__init__(f"{needs}, which is not installed; {install_line(extra)}")


def install_line(extra: str) -> str:
    """Return the commands that install the optional dependencies *extra*; no package index has slurmsched."""
    return (
        f"in a checkout of slurmsched: pip install '.[{extra}]', with a wheel:"
        f" pip install './slurmsched-VERSION-py3-none-any.whl[{extra}]'"
    )


class CommentError(SlurmschedError):
    """A malformed ``slurmsched:`` token in a comment; treat the token as absent and report it."""


class SlurmError(SlurmschedError):
    """A failed request to Slurm."""


class SlurmUnavailable(SlurmError):
    """No answer from Slurm; this cycle is skipped, the next one tries again."""


class SlurmRefused(SlurmError):
    """A refusal by Slurm; remember the reason, and do not repeat the request at once."""


class MemoryUnavailable(SlurmschedError):
    """An unreachable or damaged database; decide without history and write later."""


class SchemaMismatch(SlurmschedError):
    """A database written by another version of slurmsched; refuse to start."""


class ModelUnusable(SlurmschedError):
    """An absent, damaged or incompatible model file; use the baseline."""


class TooLittleHistory(SlurmschedError, ValueError):
    """Too few runs to train a model; the baseline is used until there are enough."""


class LabError(SlurmschedError):
    """A failure to start or stop the private Slurm of ``slurmsched lab``."""

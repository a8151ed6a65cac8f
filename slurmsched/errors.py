"""What can go wrong that is not a bug.

SlurmschedError
├── ConfigError           the settings cannot mean anything: refuse to start, or keep the old ones
│   └── MissingExtra      something optional is not installed: say how to install it
├── CommentError          a job's comment holds a malformed token: refuse at submit, else treat as absent
├── SlurmError
│   ├── SlurmUnavailable  no answer: skip this cycle
│   └── SlurmRefused      answered no: remember why, do not repeat at once
├── MemoryUnavailable     the database is away or damaged: decide without history
├── SchemaMismatch        the database belongs to another version: refuse to start
├── ModelUnusable         a model file is absent, damaged or not for us: serve the baseline
├── TooLittleHistory      a model cannot be trained yet: serve the baseline, try again later
└── LabError              the private Slurm could not be brought up or down
"""

from __future__ import annotations


class SlurmschedError(Exception):
    """Anything the world can do to us; its text is fit to be shown to people."""


class ConfigError(SlurmschedError):
    """The settings cannot mean anything; refuse to start, or on reload keep the old ones."""


class MissingExtra(ConfigError):
    """Something optional is not installed; the text says how to install it."""

    def __init__(self, needs: str, extra: str) -> None:
        super().__init__(f"{needs}, which is not installed; {install_line(extra)}")


def install_line(extra: str) -> str:
    """The commands that install the optional dependencies *extra*; no package index has slurmsched."""
    return (
        f"in a checkout of slurmsched: pip install '.[{extra}]', with a wheel:"
        f" pip install './slurmsched-VERSION-py3-none-any.whl[{extra}]'"
    )


class CommentError(SlurmschedError):
    """A comment holds a malformed ``slurmsched:`` token; treat the token as absent and say so."""


class SlurmError(SlurmschedError):
    """Slurm did not do what was asked."""


class SlurmUnavailable(SlurmError):
    """Slurm gave no answer; this cycle is skipped, the next one tries again."""


class SlurmRefused(SlurmError):
    """Slurm answered no; remember why, and do not ask again at once."""


class MemoryUnavailable(SlurmschedError):
    """The database is away, or damaged and left alone; decide without history and write later."""


class SchemaMismatch(SlurmschedError):
    """The database was written by another version of slurmsched; refuse to start."""


class ModelUnusable(SlurmschedError):
    """A model file is absent, damaged or not for us; serve the baseline."""


class TooLittleHistory(SlurmschedError, ValueError):
    """There is not enough to train a model on yet; the baseline serves until there is."""


class LabError(SlurmschedError):
    """The private Slurm of ``slurmsched lab`` could not be brought up or down."""

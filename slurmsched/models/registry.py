"""The directory of the active models, one file for each kind."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from ..errors import ConfigError
from .artifact import Artifact

RUNTIME, THROUGHPUT, SHARING = KINDS = ("runtime", "throughput", "sharing")
ACTOR = "actor"  #: the network behind the ordering mlfs-rl
LOCK = "train.lock"
Stamp = tuple[int, int, int]  #: differs between any two versions of a file


class ArtifactRegistry:
    """The directory of trained models. A file appears whole or not at all, so reading needs no lock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, kind: str) -> Path:
        """Return the path of the model of this *kind*, whether or not the file exists."""
        return self.directory / f"{kind}.json"

    def read(self, kind: str) -> Artifact:
        """Read the active model of this *kind*. ModelUnusable says why there is none."""
        return Artifact.read(self.path(kind), kind)

    def stamp(self, kind: str) -> Stamp | None:
        """Return a stamp that changes whenever the model of this *kind* does; None where there is none."""
        try:
            found = os.stat(self.path(kind))
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def put(self, artifact: Artifact) -> Path:
        """Make *artifact* the active model of its kind. ConfigError where it cannot be written."""
        path = self.path(artifact.kind)
        try:
            artifact.write(path)
        except OSError as error:
            raise ConfigError(f"writing {path}: {error.strerror}; models.directory must be writable") from error
        return path

    @contextmanager
    def training(self) -> Iterator[None]:
        """Create the directory and lock it against other trainings; ConfigError where one is running."""
        path = self.directory / LOCK
        try:
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(f"opening {path}: {error.strerror}; models.directory must be writable") from error
        try:
            _lock(handle, path)
            yield
        finally:
            os.close(handle)


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ConfigError(f"another training holds {path}: wait until it has ended") from error


def shipped() -> Artifact:
    """Return the sharing model that comes with slurmsched, trained on the pairs that Lucid's authors measured."""
    with as_file(files("slurmsched").joinpath("data/sharing.json")) as path:
        return Artifact.read(path, SHARING)

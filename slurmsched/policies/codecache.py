"""Compiled code on disk, which Numba unpickles: read and kept only where nobody else could have put it.

There are three places. Beside the sources lies what those who may change the sources compiled: root, on installing.
CacheDirectory= of the unit has what the daemon's user compiled, and ``~/.cache`` what the caller did. All are read; new
code is kept in the first that the caller can write, or in NUMBA_CACHE_DIR. The names of files carry a fingerprint of
their sources, so that machine code of other sources is never opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from .fingerprint import fingerprint

_MARK = "_"

SERVICE = "/var/cache/slurmsched"
"""What systemd makes for the daemon's user, below a directory of root's."""


def trusted(place: Path, owners: frozenset[int]) -> bool:
    """Whether nobody but *owners* and root can change *place*, or put another in its stead."""
    found = [each.lstat() for each in (place, *place.parents)]
    return all(
        stat.S_ISDIR(each.st_mode)
        and each.st_uid in owners | {0}
        and (not each.st_mode & 0o022 or (above and each.st_mode & stat.S_ISVTX))
        for above, each in enumerate(found)
    )


def directories(source: Path) -> tuple[list[Path], Path | None]:
    """Where compiled code of *source* is read, and where it is kept; None where there is no place of the caller's own.

    Directories to write in are made here; what cannot be trusted is left out.
    """
    return _directories(source.parent, os.environ.get("NUMBA_CACHE_DIR", ""))


@cache
def _directories(sources: Path, chosen: str) -> tuple[list[Path], Path | None]:
    beside = sources / "__pycache__"
    name = f"{sources.name}-{sha256(os.fsencode(sources)).hexdigest()[:16]}"
    if chosen:
        own = [Path(chosen, name)]
    elif os.access(beside if beside.exists() else sources, os.W_OK):
        own = [beside]
    else:
        own = [place / "numba" / name for place in (_service(), _home()) if place is not None]
    writable = next((place for place in own if _writable(place, beside)), None)
    read = [beside, _service() / "numba" / name]
    return [
        place for place in dict.fromkeys([writable, *read]) if place is not None and _readable(place, beside)
    ], writable


def _service() -> Path:
    return Path(os.environ.get("CACHE_DIRECTORY", "").partition(":")[0] or SERVICE)


def _home() -> Path | None:
    place = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(place, "slurmsched") if os.path.isabs(place) else None


def _writable(place: Path, beside: Path) -> bool:
    """Whether the caller's code can be kept there; makes the directory."""
    try:
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        place = place if place == beside else place.resolve()
        return os.access(place, os.W_OK) and (place == beside or trusted(place, frozenset({os.geteuid()})))
    except OSError:
        return False


def _readable(place: Path, beside: Path) -> bool:
    """Whether code from there may run here: beside the sources it is as good as these."""
    if place == beside:
        return True
    try:
        return trusted(place.resolve(strict=True), frozenset({os.geteuid(), *_daemons_user()}))
    except OSError:
        return False


def _daemons_user() -> Iterator[int]:
    """Who owns the daemon's cache, since root gave it to them; root itself trusts nobody else."""
    service = _service()
    if os.geteuid() != 0 and service.is_dir() and trusted(service.resolve().parent, frozenset()):
        yield service.stat().st_uid


class CacheDirectory:
    """A directory with code of one source file, as Numba's caches ask for it (its ``_CacheLocator``)."""

    def __init__(self, function: Callable[..., Any], directory: Path) -> None:
        self._py_file = function.__code__.co_filename
        self._lineno = function.__code__.co_firstlineno
        self._directory = directory

    def ensure_cache_path(self) -> None:
        """Nothing: it was made when it was chosen."""

    def get_cache_path(self) -> str:
        """Where the files lie."""
        return str(self._directory)

    def get_source_stamp(self) -> str:
        """Fingerprint of the source and of what it imports."""
        return fingerprint(Path(self._py_file))

    def get_disambiguator(self) -> str:
        """Line and fingerprint, which stand in the names of files."""
        return f"{self._lineno}{_MARK}{self.get_source_stamp()}"


def clean(package: Path) -> int:
    """Remove what the caller keeps of compiled code of earlier sources of *package*; returns how many files."""
    sources = [file for file in package.rglob("*.py") if "compiled import" in file.read_text()]
    current = {f"{_MARK}{fingerprint(source)}" for source in sources}
    places = {kept for kept in (directories(source)[1] for source in sources) if kept is not None}
    stale = [file for place in places for file in place.glob("*.nb[ic]") if not _fingerprints(file) & current]
    for file in stale:
        with suppress(OSError):
            file.unlink()
    return len(stale)


def _fingerprints(file: Path) -> set[str]:
    """Parts of a file's name that may be a fingerprint, with the mark; qualified names may have dots and marks too."""
    return {f"{_MARK}{part.rpartition(_MARK)[2]}" for part in file.name.split(".")}


class CacheLayers:
    """The cache of one function: several of Numba's own, of which one takes what is new.

    Neither a file that cannot be read nor a full disk is worth more than compiling again.
    """

    def __init__(self, read: list[Any], writable: Any | None) -> None:
        self._read, self._writable = read, writable
        self.cache_path = writable.cache_path if writable else None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled code for a signature; None where there is none yet."""
        for layer in self._read:
            try:
                found = layer.load_overload(signature, context)
            except Exception:  # whatever a damaged file makes of unpickling
                if layer is self._writable:
                    self.flush()
                continue
            if found is not None:
                return found
        return None

    def save_overload(self, signature: Any, code: Any) -> None:
        """Keep what was compiled, if that is possible."""
        if self._writable is not None:
            try:
                self._writable.save_overload(signature, code)
            except OSError:
                self._writable = None

    def enable(self) -> None:
        """Nothing: it is never disabled."""

    def disable(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Forget what is kept."""
        if self._writable is not None:
            with suppress(OSError):
                self._writable.flush()


def layers(function: Callable[..., Any], caching: Any) -> CacheLayers:
    """The cache of *function*; *caching* is ``numba.core.caching``."""
    source = Path(function.__code__.co_filename)
    if not source.exists():  # typed by hand: nothing would tell when it changes
        return CacheLayers([], None)
    read, writable = directories(source)
    made = {place: _layer(function, caching, place) for place in read}
    return CacheLayers(list(made.values()), made[writable] if writable is not None else None)


def _layer(function: Callable[..., Any], caching: Any, directory: Path) -> Any:
    """One of Numba's caches, that looks nowhere but in *directory*."""

    class In(caching.CompileResultCacheImpl):  # type: ignore[misc]
        def __init__(self, function: Callable[..., Any]) -> None:
            self._lineno, self._locator = function.__code__.co_firstlineno, CacheDirectory(function, directory)
            module = Path(function.__code__.co_filename).stem
            self._filename_base = self.get_filename_base(f"{module}.{function.__qualname__}", "")

    class Layer(caching.FunctionCache):  # type: ignore[misc]
        _impl_class = In

        def save_overload(self, signature: Any, code: Any) -> None:
            super().save_overload(signature, code)
            for file in directory.glob(f"{self._impl.filename_base}.*"):  # whatever the umask: it is for others too
                file.chmod(0o644)

    return Layer(function)

"""Cache of compiled code, which Numba unpickles: used only in directories that no other user can write.

There are three directories. The one beside the sources has code compiled by users who may change the sources: root, at
installation. CacheDirectory= of the unit has code of the daemon's user, and ``~/.cache`` code of the caller. All are
read; new code goes to the first that the caller can write, or to NUMBA_CACHE_DIR. File names contain a fingerprint of
the sources, so that machine code of other sources is never opened.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from .fingerprint import fingerprint, unchanged_since

_MARK = "_"
_STARTED_S = time.time()

SERVICE = "/var/cache/slurmsched"
"""The directory that systemd creates for the daemon's user, below one owned by root."""


def trusted(place: Path, owners: frozenset[int]) -> bool:
    """Return whether only *owners* and root can change or replace *place*."""
    found = [each.lstat() for each in (place, *place.parents)]
    return all(
        stat.S_ISDIR(each.st_mode)
        and each.st_uid in owners | {0}
        and (not each.st_mode & 0o022 or (above and each.st_mode & stat.S_ISVTX))
        for above, each in enumerate(found)
    )


def directories(source: Path) -> tuple[list[Path], Path | None]:
    """Return the directories with compiled code of *source*, and the one to write to (None if the caller has none).

    Directories to write to are created here; untrusted ones are left out.
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
    """Create the directory; return whether the caller's code can be stored there."""
    try:
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        place = place if place == beside else place.resolve()
        return os.access(place, os.W_OK) and (place == beside or trusted(place, frozenset({os.geteuid()})))
    except OSError:
        return False


def _readable(place: Path, beside: Path) -> bool:
    """Return whether code from *place* may run; the directory beside the sources is as trusted as they are."""
    if place == beside:
        return True
    try:
        return trusted(place.resolve(strict=True), frozenset({os.geteuid(), *_daemons_user()}))
    except OSError:
        return False


def _daemons_user() -> Iterator[int]:
    """Yield the owner of the daemon's cache, appointed by root; nothing for root, who trusts no other user."""
    service = _service()
    if os.geteuid() != 0 and service.is_dir() and trusted(service.resolve().parent, frozenset()):
        yield service.stat().st_uid


class CacheDirectory:
    """A directory with code of one source file, with the interface of Numba's ``_CacheLocator``."""

    def __init__(self, function: Callable[..., Any], directory: Path) -> None:
        self._py_file = function.__code__.co_filename
        self._lineno = function.__code__.co_firstlineno
        self._directory = directory

    def ensure_cache_path(self) -> None:
        """Do nothing: the directory exists already."""

    def get_cache_path(self) -> str:
        """Return the directory of the files."""
        return str(self._directory)

    def get_source_stamp(self) -> str:
        """Return the fingerprint of the source and of its imports."""
        return fingerprint(Path(self._py_file))

    def get_disambiguator(self) -> str:
        """Return the line and the fingerprint, which are part of file names."""
        return f"{self._lineno}{_MARK}{self.get_source_stamp()}"


_COMPILES = re.compile(r"^ *from [.\w]*(compiled|by_address|numba\.extending) import ", re.MULTILINE)


def clean(package: Path) -> int:
    """Remove the caller's compiled code of earlier sources of *package*; return the number of files."""
    sources = [file for file in package.rglob("*.py") if _COMPILES.search(file.read_text())]
    current = {f"{_MARK}{fingerprint(source)}" for source in sources}
    places = {place for place in (directories(source)[1] for source in sources) if place is not None}
    stale = [file for place in places for file in place.glob("*.nb[ic]") if not _fingerprints(file) & current]
    for file in stale:
        with suppress(OSError):
            file.unlink()
    return len(stale)


def _fingerprints(file: Path) -> set[str]:
    """Return the parts of a file name that may be a fingerprint, with the mark; names may have dots and marks too."""
    return {f"{_MARK}{part.rpartition(_MARK)[2]}" for part in file.name.split(".")}


class CacheLayers:
    """The cache of one function: several of Numba's caches, one of which is writable; *caching* is Numba's module.

    *variant* names what else decides about the code of a function: code of another variant would crash its caller.

    They are looked for when the function is first called, since a process calls few of the functions that it imports.
    An unreadable file or a full disk only leads to compiling again.
    """

    def __init__(self, function: Callable[..., Any], caching: Any, variant: str = "") -> None:
        self._function, self._caching, self._variant = function, caching, variant
        self._full = False

    @cached_property
    def _layers(self) -> dict[Path, Any]:
        source = Path(self._function.__code__.co_filename)
        if not unchanged_since(source, _STARTED_S):
            return {}
        return {place: _layer(self._function, self._caching, place, self._variant) for place in directories(source)[0]}

    @property
    def _writable(self) -> Any | None:
        place = directories(Path(self._function.__code__.co_filename))[1]
        return None if place is None or self._full else self._layers.get(place)

    @property
    def cache_path(self) -> str | None:
        """The directory that new code goes to; None if there is none."""
        return None if self._writable is None else self._writable.cache_path

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled code for a signature; None if there is none yet."""
        for layer in self._layers.values():
            try:
                found = layer.load_overload(signature, context)
            except Exception:  # unpickling a damaged file may raise anything
                if layer is self._writable:
                    self.flush()
                continue
            if found is not None:
                return found
        return None

    def stored(self, context: Any) -> list[Any]:
        """Return the signatures that there is compiled code for, for the processor of *context*."""
        found: list[Any] = []
        for layer in self._layers.values():
            with suppress(Exception):  # unpickling a damaged file may raise anything
                keys = list(layer._cache_file._load_index())
                found += [key[0] for key in keys if key == layer._index_key(key[0], context.codegen())]
        return list(dict.fromkeys(found))

    def save_overload(self, signature: Any, code: Any) -> None:
        """Store compiled code, if possible."""
        if self._writable is not None:
            try:
                self._writable.save_overload(signature, code)
            except OSError:
                self._full = True

    def enable(self) -> None:
        """Do nothing: the cache is never disabled."""

    def disable(self) -> None:
        """Do nothing: the cache is never disabled."""

    def flush(self) -> None:
        """Clear the writable cache."""
        if self._writable is not None:
            with suppress(OSError):
                self._writable.flush()


def _layer(function: Callable[..., Any], caching: Any, directory: Path, variant: str) -> Any:
    """Return a Numba cache limited to *directory*."""
    name = ".".join(filter(None, (Path(function.__code__.co_filename).stem, function.__qualname__, variant)))

    class In(caching.CompileResultCacheImpl):  # type: ignore[misc]
        def __init__(self, function: Callable[..., Any]) -> None:
            self._lineno, self._locator = function.__code__.co_firstlineno, CacheDirectory(function, directory)
            self._filename_base = self.get_filename_base(name, "")

    class Layer(caching.FunctionCache):  # type: ignore[misc]
        _impl_class = In

        def save_overload(self, signature: Any, code: Any) -> None:
            super().save_overload(signature, code)
            for file in directory.glob(f"{self._impl.filename_base}.*"):  # despite the umask: other users read it too
                file.chmod(0o644)

    return Layer(function)

"""Bills of materials (CycloneDX 1.6, JSON) of packages: each Python package of a lock, and packages of Debian."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL


class Locked(NamedTuple):
    """A package of a lock, with the digests of all its files."""

    name: str
    version: str
    digests: frozenset[str]


def locked(text: str) -> Iterator[Locked]:
    """Yield the packages of a lock that ``uv pip compile --generate-hashes`` wrote."""
    for entry in re.split(r"\n(?=\S)", text):
        if head := re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", entry):
            yield Locked(head[1].lower(), head[2], frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)))


def python_components(lock: str, files: Iterable[Path]) -> list[Component]:
    """Return the packages of a *lock*, each with the digest of that of its *files* which is in the package."""
    used = {hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return [
        Component(
            name=one.name,
            version=one.version,
            type=ComponentType.LIBRARY,
            purl=PackageURL("pypi", None, one.name, one.version),
            bom_ref=f"pkg:pypi/{one.name}@{one.version}",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in sorted(one.digests & used)],
        )
        for one in locked(lock)
    ]


def debian_components(packages: Mapping[str, str], machine: str) -> list[Component]:
    """Return the packages of a Debian tree, given as version by name."""
    return [
        Component(
            name=name,
            version=version,
            type=ComponentType.LIBRARY,
            purl=PackageURL("deb", "debian", name, version, {"arch": machine}),
            bom_ref=f"pkg:deb/debian/{name}@{version}?arch={machine}",
        )
        for name, version in sorted(packages.items())
    ]


def bill(name: str, version: str, kind: ComponentType, components: Sequence[Component], epoch_s: int) -> str:
    """Return the bill of what is called *name*; the same parts at the same time give the same text."""
    made = Bom(components=components, serial_number=uuid5(NAMESPACE_URL, f"slurmsched/{name}/{version}/{epoch_s}"))
    made.metadata.timestamp = datetime.fromtimestamp(epoch_s, UTC)
    whole = Component(name=name, version=version, type=kind, bom_ref=f"{name}@{version}")
    made.metadata.component = whole
    made.register_dependency(whole, components)
    return str(JsonV1Dot6(made).output_as_string(indent=2)) + "\n"


def write_sums(out: Path) -> None:
    """Write SHA256SUMS of all files of a directory into it."""
    files = [path for path in out.iterdir() if path.is_file() and path.name != "SHA256SUMS"]
    (out / "SHA256SUMS").write_text(sums(files))


def sums(files: Iterable[Path]) -> str:
    """Return the digests of *files* as ``sha256sum --check`` reads them."""
    return "".join(f"{_digest(path)}  {path.name}\n" for path in sorted(files))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""An OCI image of one layer as a file that podman, buildah, skopeo and docker load, written without any of them."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

EMPTY = ("proc", "sys", "dev", "tmp", "var/tmp", "var/cache/apt", "var/lib/apt/lists", "var/log")
"""Directories of a tree whose content is of no image."""


class Layout:
    """The directory of an image while it is written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "blobs/sha256").mkdir(parents=True)
        (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def add(self, kind: str, content: Path | Mapping[str, Any]) -> dict[str, Any]:
        """Keep *content*, a file that is moved or a JSON document; return its descriptor."""
        if isinstance(content, Path):
            path = content
        else:
            path = self._directory / "document"
            path.write_text(json.dumps(content, sort_keys=True))
        digest, size = digest_of(path), path.stat().st_size
        path.rename(self._directory / "blobs/sha256" / digest)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": size}

    def close(self, manifest: Mapping[str, Any], name: str, archive: Path) -> None:
        """Name the image and pack it."""
        entry = {**manifest, "annotations": {"org.opencontainers.image.ref.name": name}}
        (self._directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(path for path in self._directory.rglob("*") if path.is_file()):
                tar.add(path, str(path.relative_to(self._directory)), filter=_of_nobody)


def write(root: Path, archive: Path, work: Path, *, settings: Mapping[str, Any], name: str, machine: str,
          epoch_s: int) -> None:  # fmt: skip
    """Write the tree *root* as the image *archive*; *settings* are those of its processes."""
    layout, plain, packed = Layout(work / "layout"), work / "layer.tar", work / "layer.tar.gz"
    _layer(root, plain, epoch_s)
    with plain.open("rb") as source, packed.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as target:
        shutil.copyfileobj(source, target, 2**20)
    untarred = digest_of(plain)
    plain.unlink()
    layer = layout.add("layer.v1.tar+gzip", packed)
    created = datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = layout.add("config.v1+json", {
        "created": created,
        "architecture": machine,
        "os": "linux",
        "config": dict(settings),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{untarred}"]},
        "history": [{"created": created, "created_by": "packages/image.py"}],
    })  # fmt: skip
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = layout.add(
        "manifest.v1+json", {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer]}
    )
    layout.close(manifest, name, archive)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _layer(root: Path, archive: Path, epoch_s: int) -> None:
    """Pack a tree in a fixed order, with owners by number and nothing newer than *epoch_s*."""

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if any(entry.name.startswith(f"{name}/") for name in EMPTY):
            return None
        entry.uname = entry.gname = ""
        entry.mtime = min(int(entry.mtime), epoch_s)
        return entry

    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.iterdir()):
            if not path.is_socket():
                tar.add(path, path.name, filter=kept)


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode, entry.mtime = 0o644, 0
    return entry

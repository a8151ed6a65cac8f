"""An image as a container engine runs it: its tree unpacked, read-only, in namespaces, as a user without privileges."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

Mount = tuple[str, Path, str]
DIST = Path(__file__).parents[2] / "dist"
HERE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/tmp", "PYTHONUNBUFFERED": "1"}
ENTER = r"""set -e
root=$1 uid=$2 gid=$3
shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
while [ "$1" != -- ]; do
    if [ -d "$2" ]; then mkdir -p "$root$3"; else touch "$root$3"; fi
    mount --bind "$2" "$root$3"
    [ "$1" = rw ] || mount -o remount,ro,bind "$root$3"
    shift 3
done
shift
mount -o remount,ro,bind "$root"
ip link set lo up
# A change of the user would else make the process outlive the one that started it.
exec chroot "$root" setpriv --pdeathsig=keep --reuid=$uid --regid=$gid --clear-groups --no-new-privs \
    --inh-caps=-all "$@"
"""


def opened(archive: Path) -> dict[str, bytes]:
    """The files of an image by their names."""
    with tarfile.open(archive) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}


def blob(files: Mapping[str, bytes], descriptor: Mapping) -> bytes:
    """The blob of a descriptor, which has its size and digest."""
    content = files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
    assert (len(content), hashlib.sha256(content).hexdigest()) == (descriptor["size"], descriptor["digest"][7:])
    return content


class ImageRoot:
    """The tree of the newest image in dist/, and how it says that its processes run."""

    def __init__(self, archive: Path, directory: Path) -> None:
        files = opened(archive)
        (entry,) = json.loads(files["index.json"])["manifests"]
        manifest = json.loads(blob(files, entry))
        (layer,) = manifest["layers"]
        self.settings = json.loads(blob(files, manifest["config"]))["config"]
        self.path = directory
        directory.mkdir()
        layer_file = directory.with_name("layer.tar.gz")
        layer_file.write_bytes(blob(files, layer))
        unpack = ["tar", "-xzp", "--numeric-owner", "-f", str(layer_file), "-C", str(directory)]
        subprocess.run(unpack, check=True)
        layer_file.unlink()

    def user(self) -> tuple[int, int]:
        """The numbers of the user and group whom the image names."""
        lines = (line.split(":") for line in (self.path / "etc/passwd").read_text().splitlines())
        return next((int(uid), int(gid)) for name, _, uid, gid, *_ in lines if name == self.settings["User"])

    def argv(
        self, *words: str, user: tuple[int, int] = (), network: bool = False, mounts: Iterable[Mount] = ()
    ) -> list[str]:
        """The command line that runs *words* inside, by default as the user of the image and without a network.

        *mounts* are what of the host is there: ``ro`` or ``rw``, a path of the host, and the path inside.
        """
        binds = [str(part) for mount in mounts for part in mount]
        apart = ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child"]
        shared = [] if network else ["--net"]
        uid, gid = user or self.user()
        return [*apart, *shared, "sh", "-c", ENTER, "sh", str(self.path), str(uid), str(gid), *binds, "--", *words]

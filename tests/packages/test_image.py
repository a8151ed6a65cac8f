"""Images and bills of materials: what `make image` and `make packages` put into dist/ beside packages."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"
DIST = PACKAGES.parent / "dist"
sys.path.insert(0, str(PACKAGES))

import oci  # noqa: E402  # of packages/, which is no package of Python

SETTINGS = {"User": "slurmsched", "Entrypoint": ["/bin/sh"]}
LOCK = """\
click==8.2.1 \\
    --hash=sha256:{wheel} \\
    --hash=sha256:{other}
    # via slurmsched
uvloop==1.0 ; sys_platform != "win32" \\
    --hash=sha256:{other}
"""


@pytest.fixture
def tree(tmp_path) -> Path:
    """A tree with a program, a link, a file that only its owner reads, and what no image keeps."""
    root = tmp_path / "root"
    for name in ("usr/bin", "etc", "proc/1", "var/log/apt", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "usr/bin/hello").write_text("#!/bin/sh\necho hello\n")
    (root / "usr/bin/hello").chmod(0o755)
    (root / "bin").symlink_to("usr/bin")
    (root / "etc/passwd").write_text("slurmsched:x:7000:7000::/:/bin/sh\n")
    (root / "etc/secret").write_text("s")
    (root / "etc/secret").chmod(0o600)
    (root / "proc/1/stat").write_text("1")
    (root / "var/log/apt/log").write_text("l")
    (root / "tmp").chmod(0o1777)
    return root


def written(tree: Path, directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    archive = directory / "image.oci.tar"
    oci.write(tree, archive, directory, settings=SETTINGS, name="1.0", machine="amd64", epoch_s=1_000_000_000)
    return archive


def opened(archive: Path) -> dict[str, bytes]:
    """The files of an image by their names."""
    with tarfile.open(archive) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}


def blob(files: dict[str, bytes], descriptor: dict) -> bytes:
    """The blob of a descriptor, which has its size and digest."""
    content = files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
    assert (len(content), hashlib.sha256(content).hexdigest()) == (descriptor["size"], descriptor["digest"][7:])
    return content


def test_an_image_has_every_digest_and_size_that_it_names_and_says_who_runs_it(tree, tmp_path):
    files = opened(written(tree, tmp_path / "out"))
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, entry))
    config = json.loads(blob(files, manifest["config"]))
    assert config["config"] == SETTINGS
    assert (config["os"], config["architecture"]) == ("linux", "amd64")
    (layer,) = manifest["layers"]
    plain = gzip.decompress(blob(files, layer))
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]


def test_the_same_tree_gives_the_same_image(tree, tmp_path):
    one, other = (written(tree, tmp_path / name) for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.skipif(not shutil.which("umoci"), reason="apt-get install umoci")
@pytest.mark.skipif(os.geteuid() != 0, reason="unpacking owners needs root")
def test_a_tool_of_others_unpacks_it_to_the_same_tree_without_what_no_image_keeps(tree, tmp_path):
    layout, bundle = tmp_path / "layout", tmp_path / "bundle"
    with tarfile.open(written(tree, tmp_path / "out")) as tar:
        tar.extractall(layout, filter="data")
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:1.0", bundle], check=True, capture_output=True)
    root = bundle / "rootfs"
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or not path.is_dir()}
    assert found == {"usr/bin/hello", "bin", "etc/passwd", "etc/secret"}
    assert (root / "bin/hello").read_text() == (tree / "usr/bin/hello").read_text()
    assert (root / "etc/secret").stat().st_mode & 0o777 == 0o600
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
    process = json.loads((bundle / "config.json").read_text())["process"]
    assert (process["args"], process["user"]["uid"]) == (["/bin/sh"], 7000)


def test_a_bill_has_each_package_of_the_lock_with_the_digest_of_the_file_that_was_taken(tmp_path):
    pytest.importorskip("cyclonedx")
    from cyclonedx.model.component import ComponentType

    import sbom

    wheel = tmp_path / "click-8.2.1-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    digest = hashlib.sha256(b"a wheel").hexdigest()
    parts = sbom.python_components(LOCK.format(wheel=digest, other="0" * 64), [wheel])
    debian = sbom.debian_components({"munge": "0.5.15-2"}, "amd64")
    text = sbom.bill("slurmsched", "1.0", ComponentType.APPLICATION, [*parts, *debian], 1_000_000_000)
    made = json.loads(text)
    assert (made["bomFormat"], made["metadata"]["component"]["name"]) == ("CycloneDX", "slurmsched")
    by_name = {one["name"]: one for one in made["components"]}
    assert by_name["click"]["purl"] == "pkg:pypi/click@8.2.1"
    assert by_name["click"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert by_name["uvloop"]["version"] == "1.0"
    assert "hashes" not in by_name["uvloop"]
    assert by_name["munge"]["purl"] == "pkg:deb/debian/munge@0.5.15-2?arch=amd64"
    assert sbom.bill("slurmsched", "1.0", ComponentType.APPLICATION, [*parts, *debian], 1_000_000_000) == text


@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_the_bill_of_each_lock_is_valid_and_has_all_its_packages(python):
    pytest.importorskip("cyclonedx")
    from cyclonedx.model.component import ComponentType
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    import sbom

    lock = (PACKAGES / f"wheels-{python}.txt").read_text()
    text = sbom.bill("slurmsched", "1.0", ComponentType.APPLICATION, sbom.python_components(lock, []), 1_000_000_000)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert len(json.loads(text)["components"]) == sum("==" in line for line in lock.splitlines())


def test_sums_are_those_that_sha256sum_checks(tmp_path):
    pytest.importorskip("cyclonedx")
    import sbom

    (tmp_path / "one.deb").write_bytes(b"1")
    (tmp_path / "two.oci.tar").write_bytes(b"2")
    sbom.write_sums(tmp_path)
    sbom.write_sums(tmp_path)
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "one.deb: OK\ntwo.oci.tar: OK\n")


ENTER = """set -e
root=$1 user=$2
shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for name in tmp run var/lib/slurmsched; do mount -t tmpfs -o mode=1777 tmpfs "$root/$name"; done
mount -o remount,ro,bind "$root"
ip link set lo up
exec chroot "$root" setpriv --reuid=$user --regid=$user --clear-groups --no-new-privs --inh-caps=-all "$@"
"""

ASKED = """
import subprocess, sys, time, urllib.request
with subprocess.Popen(["/usr/bin/slurmsched", "web", "--demo"], stdout=subprocess.PIPE, text=True) as program:
    line = program.stdout.readline()
    address = next(word for word in line.split() if word.startswith("http://")).rstrip("/.,")
    print(urllib.request.urlopen(address + "/queue", timeout=120).read().decode())
    program.terminate()
"""


@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="a namespace needs root")
def test_the_image_serves_its_pages_without_privileges_in_a_tree_that_it_cannot_change(tmp_path):
    images = sorted(DIST.glob("slurmsched-*.oci.tar"))
    if not images:
        pytest.skip("dist has no image: make image")
    files, root = opened(images[-1]), tmp_path / "root"
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, entry))
    (tmp_path / "layer.tar.gz").write_bytes(blob(files, manifest["layers"][0]))
    root.mkdir()
    subprocess.run(["tar", "-xpf", tmp_path / "layer.tar.gz", "--numeric-owner", "-C", root], check=True)
    assert json.loads(blob(files, manifest["config"]))["config"]["User"] == "slurmsched"
    accounts = dict(line.split(":")[::2][:2] for line in (root / "etc/passwd").read_text().splitlines())
    user = accounts["slurmsched"]
    assert user != "0"
    apart = ["unshare", "--mount", "--propagation=private", "--net", "--pid", "--fork", "--kill-child"]
    python = "/opt/slurmsched/bin/python"
    entered = ["sh", "-c", ENTER, "sh", root, user, python, "-c", ASKED]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp"}
    done = subprocess.run([*apart, *entered], capture_output=True, text=True, timeout=600, env=environment)
    assert "<h1>Queue</h1>" in done.stdout, done.stdout + done.stderr

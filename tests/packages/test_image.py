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
from image_root import DIST, HERE, ImageRoot, blob, opened

from slurmsched.errors import LabError
from slurmsched.lab.users import nobody_gid, uid_of
from slurmsched.lab.waiting import wait_until

PACKAGES = Path(__file__).parents[2] / "packages"
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


GET = """
import http.client, socket, sys
connection = http.client.HTTPConnection("web")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
connection.request("GET", "/")
print(connection.getresponse().read().decode())
"""

ASKED = """
import subprocess, sys, time, urllib.request
with subprocess.Popen(["/usr/bin/slurmsched", "web", "--demo"], stdout=subprocess.PIPE, text=True) as program:
    line = program.stdout.readline()
    address = next(word for word in line.split() if word.startswith("http://")).rstrip("/.,")
    print(urllib.request.urlopen(address + "/queue", timeout=120).read().decode())
    program.terminate()
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> ImageRoot:
    """The image that `make image` wrote."""
    if os.geteuid() != 0:
        pytest.skip("a namespace needs root")
    images = sorted(DIST.glob("slurmsched-*.oci.tar"))
    if not images:
        pytest.skip("dist has no image: make image")
    return ImageRoot(images[-1], tmp_path_factory.mktemp("image") / "root")


@pytest.mark.soak
def test_the_image_serves_its_pages_without_privileges_in_a_tree_that_it_cannot_change(image, tmp_path):
    uid, gid = image.user()
    assert uid != 0
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, uid, gid)
    argv = image.argv("/opt/slurmsched/bin/python", "-c", ASKED, mounts=[("rw", state, "/var/lib/slurmsched")])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900, env=HERE)
    assert "<h1>Queue</h1>" in done.stdout, done.stdout + done.stderr


def running(image: ImageRoot, log: Path, *words: str, **how) -> subprocess.Popen:
    """A process of the image that goes on until it is stopped."""
    with log.open("ab") as file:
        return subprocess.Popen(image.argv(*words, network=True, **how), stdout=file, stderr=file, env=HERE)


@pytest.mark.soak
def test_the_image_answers_status_and_shows_a_page_beside_a_slurm_whose_files_are_mounted(image, lab):
    """Two containers share the directory of the daemon's socket: the daemon's, and that of the pages."""
    work = lab.layout.work / "image"
    places = {name: work / name for name in ("settings", "state", "run", "web")}
    gid, daemons, pages = nobody_gid(), uid_of(lab.user("operator")), uid_of(lab.user("dave"))
    for name, place in places.items():
        place.mkdir(parents=True)
        os.chown(place, pages if name == "web" else daemons, gid)
    (places["settings"] / "slurmsched.toml").write_text(
        "[daemon]\nmode = 'act'\nevery_s = 1\n[power]\norder = true\n[policy]\nordering = 'sjf'\n"
        f"[metrics]\nlisten = ''\n[web]\nuser = '{lab.user('dave')}'\nlisten = ''\n"
        "socket = '/run/slurmsched-web/users.sock'\n"
    )
    munge = lab.layout.munge_socket.parent
    slurm = [("ro", lab.layout.etc, str(lab.layout.etc)), ("ro", munge, str(munge))]
    shared = [
        *[("ro", Path(name), name) for name in ("/etc/passwd", "/etc/group")],
        ("ro", places["settings"], "/etc/slurmsched"),
        ("rw", places["run"], "/run/slurmsched"),
    ]
    own = [*shared, *slurm, ("rw", places["state"], "/var/lib/slurmsched")]
    conf = f"SLURM_CONF={lab.layout.slurm_conf}"
    program = ("/usr/bin/env", conf, *image.settings["Entrypoint"])
    log = work / "log"
    whole = ("--gres=gpu:4", "-N4", "--wrap=sleep 600", "-o/dev/null")
    _, job = (lab.submit(*whole, user="alice") for _ in range(2))
    daemon = running(image, log, *program, *image.settings["Cmd"], user=(daemons, gid), mounts=own)
    web = running(
        image, log, *program, "web", user=(pages, gid), mounts=[*shared, ("rw", places["web"], "/run/slurmsched-web")]
    )
    try:
        status = image.argv(*program, "status", user=(daemons, gid), mounts=own, network=True)

        def said() -> str:
            done = subprocess.run(status, capture_output=True, text=True, timeout=120, env=HERE)
            return done.stdout if "cycle" in done.stdout and done.returncode == 0 else ""

        def page() -> str:
            got = lab.run(
                ["/usr/bin/python3", "-c", GET, str(places["web"] / "users.sock")], user="alice", timeout_s=120.0
            )
            return got.stdout if f">{job}<" in got.stdout else ""

        told = wait_until(said, 600.0, "an answer of status", every_s=2.0)
        shown = wait_until(page, 600.0, "the page with the job", every_s=2.0)
    except LabError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-5000:]}") from error
    finally:
        for process in (web, daemon):
            process.kill()
            process.wait(60)
    assert "act" in told
    assert "<h1>My jobs</h1>" in shown
    assert list(places["state"].glob("*.db")), "its memory is on the host"

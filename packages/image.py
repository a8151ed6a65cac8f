#!/usr/bin/env python3
"""Build an OCI image of the daemon and of slurmsched web: packages/image.py [--suite SUITE] [--out DIRECTORY]

From the package of --out for that Debian and a tree of debootstrap, as root: no Docker and no other engine is needed.
Needs the mirror of this machine's apt, the first time. Beside the image come its bill of materials and SHA256SUMS.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from cyclonedx.model.component import ComponentType

from build import ROOT, TARGETS, Builder, run
from oci import write
from sbom import bill, debian_components, python_components, write_sums

SUITES = {"bookworm": "deb12", "trixie": "deb13"}
INCLUDED = (
    *("ca-certificates", "libgomp1", "libnss-sss", "libstdc++6", "procps"),
    *("python3", "slurm-client", "systemd", "zlib1g"),
)
"""What the package needs, the commands of Slurm, and users from sssd: sockets and slurm.conf are the host's."""

SETTINGS = {
    "User": "slurmsched",
    "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"],
    "Entrypoint": ["/usr/bin/slurmsched"],
    "Cmd": ["run"],
    "WorkingDir": "/var/lib/slurmsched",
    "Volumes": {"/var/lib/slurmsched": {}},
    "StopSignal": "SIGTERM",
    "Labels": {"org.opencontainers.image.title": "slurmsched", "org.opencontainers.image.licenses": "MIT"},
}


def tree(suite: str, directory: Path) -> Path:
    """Return a Debian tree without our package, made the first time."""
    made = directory / f"image-{suite}-{sha256(' '.join(INCLUDED).encode()).hexdigest()[:8]}"
    if not made.exists():
        part = made.with_name(f"{made.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        mirror = run(
            "apt-get", "indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(SUITE)", "Identifier: Packages"
        ).split()[0]
        run("debootstrap", "--variant=minbase", f"--include={','.join(INCLUDED)}", suite, part, mirror)
        part.rename(made)
    return made


@contextmanager
def installed(base: Path, package: Path) -> Iterator[Path]:
    """Give a copy of a tree in which the package is installed."""
    root = base.with_name(f"{base.name}.root")
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(root)], check=True)
    try:
        shutil.copy(package, root / "package.deb")
        policy = root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        # systemd-tmpfiles of the package needs /proc: mounted where nobody else sees it, and gone with the command.
        apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc")
        run(*apart, "chroot", root, "dpkg", "--install", "/package.deb", LC_ALL="C.UTF-8",
            DEBIAN_FRONTEND="noninteractive")  # fmt: skip
        policy.unlink()
        (root / "package.deb").unlink()
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def build(suite: str, builder: Builder, tree_directory: Path) -> list[Path]:
    """Build the image of a release, and its bill; return both."""
    target = SUITES[suite]
    packages = sorted(builder.out.glob(f"slurmsched_{builder.version}-1~{target}_*.deb"))
    if not packages:
        sys.exit(f"{builder.out} has no package of {builder.version} for {suite}: make packages TARGETS={target}")
    name = f"slurmsched-{builder.python_version}-{suite}"
    archive, parts = builder.out / f"{name}.oci.tar", builder.out / f"{name}.oci.cdx.json"
    with installed(tree(suite, tree_directory), packages[-1]) as root:
        machine = run("dpkg", f"--root={root}", "--print-architecture").strip()
        write(root, archive, tree_directory, settings=SETTINGS, name=builder.python_version, machine=machine,
              epoch_s=builder.epoch_s)  # fmt: skip
        shown = run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat=${Package} ${Version}\n")
    versions = dict(line.split() for line in shown.splitlines())
    python = TARGETS[target].python
    lock, wheels = (Path(__file__).parent / f"wheels-{python}.txt").read_text(), builder.wheels(python).glob("*.whl")
    every = [*python_components(lock, wheels), *debian_components(versions, machine)]
    parts.write_text(bill(name, builder.python_version, ComponentType.CONTAINER, every, builder.epoch_s))
    return [archive, parts]


def main() -> None:
    """Build what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=SUITES, default="bookworm")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the package is and the image goes")
    parser.add_argument("--work", type=Path, default=ROOT / "build/packages", help="for files of the build")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("an image is built from a tree of root's files: run as root")
    builder = Builder(ROOT, options.out.resolve(), options.work.resolve())
    os.umask(0o022)
    (builder.work / "image").mkdir(exist_ok=True)
    for path in build(options.suite, builder, builder.work / "image"):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB", flush=True)
    write_sums(builder.out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Build the packages: packages/build.py [--source CHECKOUT] [--out DIRECTORY] [--work DIRECTORY] [TARGET...]

Targets are deb12, deb13, el9 and wheelhouse; without one, all. Every package has the same layout as the documented
installation by pip: a virtual environment in /opt/slurmsched with the wheels of packages/wheels-PYTHON.txt, each
checked against its hash. No file of it is made by the target's Python, so that one machine builds for all. Needs
network for the wheels, the first time; debhelper for .deb and rpmbuild for .rpm.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from email.utils import formatdate
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VENV = "opt/slurmsched"
SHARE = f"{VENV}/share/slurmsched"
MACHINE = platform.machine()
OLDEST_GLIBC = 28
"""The wheels fit 2.28 and later: EL9 has 2.34, Debian 12 has 2.36."""


class Target(NamedTuple):
    """A distribution, and which Python of it the package takes."""

    python: str
    format: str
    suffix: str  #: of the version


TARGETS = {
    "deb12": Target("3.11", "deb", "~deb12"),
    "deb13": Target("3.13", "deb", "~deb13"),
    "el9": Target("3.11", "rpm", ".el9"),
}
WHEELHOUSES = ("3.11", "3.13")
NODE_FILES = {
    "prolog": 0o755, "epilog": 0o755, "taskprolog": 0o755, "node.sh": 0o644, "sampler.py": 0o644,
    "deliver.py": 0o644, "mps.py": 0o644, "mps_faults.py": 0o644, "amd.py": 0o644, "watch.py": 0o644,
}  # fmt: skip
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/slurmsched",
    "zsh": "usr/share/zsh/site-functions/_slurmsched",
    "fish": "usr/share/fish/vendor_completions.d/slurmsched.fish",
}
RESEARCH = "slurmsched/research"
"""Below the site-packages: what the package slurmsched-research has."""
DEBIAN_ZSH = "usr/share/zsh/vendor-completions/_slurmsched"


def run(*argv: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Return what a command prints; it has to succeed."""
    words = [str(word) for word in argv]
    done = subprocess.run(words, cwd=cwd, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def package_version(version: str) -> str:
    """Return a version of Python's as dpkg and rpm sort it: its candidates come before a release, .dev before them."""
    return re.sub(r"\.dev|(?<=\d)(?=(a|b|rc)\d)", lambda found: "~~dev" if found[0] else "~", version)


def research_pages(setup: Path) -> list[str]:
    """Return the manual pages of the commands that the research registers."""
    parser = configparser.ConfigParser()
    parser.read(setup)
    commands = parser["options.entry_points"]["slurmsched_commands"].split("\n")
    names = [line.partition("=")[0].strip().replace(".", "-") for line in commands if line]
    return [f"slurmsched-{name}.1" for name in names]


def template(text: str) -> str:
    """Return the unit of one cluster of several, slurmsched@CLUSTER, from the text of the unit of the only one."""
    text = re.sub(r"\bslurmsched(-release)?\.service\b", r"slurmsched\1@%i.service", text)
    text = text.replace("/etc/slurmsched/slurmsched.toml", "/etc/slurmsched/%i/slurmsched.toml")
    text = re.sub(r"^(Description=slurmsched)", r"\1 %i", text, flags=re.MULTILINE)
    text = re.sub(r"^(StateDirectory=slurmsched)$", r"\1/%i", text, flags=re.MULTILINE)
    # Beside the other clusters' and not below: systemd removes the whole directory with its unit.
    return re.sub(r"^((?:RuntimeDirectory|SyslogIdentifier)=slurmsched)$", r"\1-%i", text, flags=re.MULTILINE)


class Builder:
    """Builds packages of a checkout in a working directory; parts that targets share are made once."""

    def __init__(self, source: Path, out: Path, work: Path) -> None:
        self.source, self.out, self.work = source, out, work
        tree = ast.parse((source / "slurmsched/__init__.py").read_text())
        self.python_version = next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
        self.version = package_version(self.python_version)
        self.epoch_s = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", cwd=source))
        os.environ["SOURCE_DATE_EPOCH"] = str(self.epoch_s)
        for directory in (out, work):
            directory.mkdir(parents=True, exist_ok=True)

    def wheels(self, python: str) -> Path:
        """Return the directory of a Python's wheels, each with a hash of the lock."""
        lock, directory = HERE / f"wheels-{python}.txt", self.work / f"wheels-{python}"
        done = directory / "requirements.txt"
        if done.exists() and done.read_bytes() == lock.read_bytes():
            return directory
        shutil.rmtree(directory, ignore_errors=True)
        platforms = [f"manylinux_2_{minor}_{MACHINE}" for minor in range(OLDEST_GLIBC, 4, -1)]
        run(
            sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps",
            "--only-binary=:all:", f"--python-version={python}", "--implementation=cp",
            *(f"--platform={name}" for name in (*platforms, f"manylinux2014_{MACHINE}")),
            "--requirement", lock, "--dest", directory,
        )  # fmt: skip
        shutil.copy(lock, done)
        return directory

    @cached_property
    def own_wheel(self) -> Path:
        """The wheel of the checkout, made from a copy of the files that git knows."""
        made, copy = self.work / "own", self.work / "source"
        for directory in (made, copy):
            shutil.rmtree(directory, ignore_errors=True)
        for name in run("git", "ls-files", "-z", cwd=self.source).split("\0")[:-1]:
            if (self.source / name).exists():
                put(self.source / name, copy / name)
        run(sys.executable, "-m", "build", "--wheel", "--outdir", made, copy)
        return next(made.glob("*.whl"))

    def stage(self, target: Target) -> Path:
        """Return a directory with the file trees of all packages for a target's Python."""
        stage = self.work / f"stage-{target.python}-{target.format}"
        shutil.rmtree(stage, ignore_errors=True)
        root, node, research = (stage / name for name in ("slurmsched", "slurmsched-node", "slurmsched-research"))
        virtual_environment(root, target.python, [*sorted(self.wheels(target.python).glob("*.whl")), self.own_wheel])
        share = root / SHARE
        units(share / "systemd", root / "usr/lib")
        put(share / "contrib/slurmsched.toml", root / "etc/slurmsched/slurmsched.toml")
        put(HERE / "maintain", root / VENV / "libexec/maintain", 0o755)
        link(root / "usr/bin/slurmsched", f"/{VENV}/bin/slurmsched")
        self.man_pages(root / "usr/share/man/man1")
        self.split(root, research, target.python)
        self.completions(root, debian=target.format == "deb")
        for page in (self.source / "docs").rglob("*.md"):
            put(page, root / "usr/share/doc/slurmsched" / page.relative_to(self.source / "docs"))
        for name in ("README.md", "CHANGELOG.md"):
            put(self.source / name, root / "usr/share/doc/slurmsched" / name)
        for name, mode in NODE_FILES.items():
            if (share / "slurmsched/prolog" / name).exists():
                put(share / "slurmsched/prolog" / name, node / "usr/lib/slurmsched" / name, mode)
        site = root / VENV / f"lib/python{target.python}/site-packages"
        put(site / "pynvml.py", node / "usr/lib/slurmsched/pynvml.py")
        put(share / "contrib/node.conf", node / "etc/slurmsched/node.conf")
        put(share / "contrib/slurm.conf.d/profiling.conf", node / "usr/share/doc/slurmsched-node/profiling.conf")
        return stage

    def split(self, root: Path, research: Path, python: str) -> None:
        """Move the research, and the manual pages of its commands, to a tree of their own."""
        folder = f"{VENV}/lib/python{python}/site-packages/{RESEARCH}"
        pages = [f"usr/share/man/man1/{name}" for name in research_pages(self.source / "setup.cfg")]
        for name in (folder, *pages):
            (research / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).rename(research / name)
        (research.parent / "excluded").write_text("".join(f"%exclude /{name}\n" for name in (folder, *pages)))
        (research.parent / "research").write_text("".join(f"/{name}\n" for name in (folder, *pages)))

    def man_pages(self, directory: Path) -> None:
        """Write a page for each command of the checkout."""
        run(sys.executable, HERE / "man_pages.py", directory, PYTHONPATH=str(self.source))

    def completions(self, root: Path, *, debian: bool) -> None:
        """Write what shells complete by."""
        for shell, name in COMPLETIONS.items():
            path = root / (DEBIAN_ZSH if debian and shell == "zsh" else name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(run(sys.executable, "-m", "slurmsched", "completion", shell, PYTHONPATH=str(self.source)))

    def deb(self, target: Target) -> list[Path]:
        """Build all packages for a Debian release."""
        stage = self.stage(target)
        shutil.copytree(HERE / "debian", stage / "debian")
        control = stage / "debian/control"
        control.write_text(control.read_text().replace("@PYTHON@", f"python{target.python}"))
        (stage / "debian/changelog").write_text(
            f"slurmsched ({self.version}-1{target.suffix}) unstable; urgency=medium\n\n"
            "  * What changed is in /usr/share/doc/slurmsched/CHANGELOG.md.\n\n"
            f" -- The slurmsched authors <root@localhost>  {formatdate(self.epoch_s)}\n"
        )
        run("debian/rules", "binary", cwd=stage, DEB_RULES_REQUIRES_ROOT="no")
        return self.finished(stage.glob("*.deb"))

    def rpm(self, target: Target) -> list[Path]:
        """Build all packages for an EL release."""
        stage = self.stage(target)
        top = self.work / "rpmbuild"
        shutil.rmtree(top, ignore_errors=True)
        run(
            "rpmbuild", "-bb", "--quiet", "--define", f"_topdir {top}", "--define", f"stage {stage}",
            "--define", f"package_version {self.version}", "--define", f"package_release 1{target.suffix}",
            "--define", f"python python{target.python}", HERE / "slurmsched.spec",
        )  # fmt: skip
        return self.finished(top.glob("RPMS/*/*.rpm"))

    def wheelhouse(self, python: str) -> Path:
        """Pack the wheels of one Python, their lock and ours, for an installation by pip without a network."""
        name = f"slurmsched-{self.python_version}-wheels-python{python}-{MACHINE}"
        archive = self.out / f"{name}.tar"
        files = [*self.wheels(python).iterdir(), self.own_wheel]
        with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
            for path in sorted(files):
                tar.add(path, f"{name}/{path.name}", filter=self._of_nobody)
        return archive

    def bill(self, name: str, python: str) -> Path:
        """Write the bill of materials of a target, or of the wheels of a Python."""
        from cyclonedx.model.component import ComponentType

        from sbom import bill, python_components

        path = self.out / f"slurmsched-{self.python_version}-{name}.cdx.json"
        parts = python_components((HERE / f"wheels-{python}.txt").read_text(), self.wheels(python).glob("*.whl"))
        path.write_text(bill("slurmsched", self.python_version, ComponentType.APPLICATION, parts, self.epoch_s))
        return path

    def finished(self, packages: Iterable[Path]) -> list[Path]:
        """Move packages to where they are wanted; return them."""
        return [Path(shutil.move(path, self.out / path.name)) for path in sorted(packages)]

    def _of_nobody(self, entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mode, entry.mtime = 0o644, self.epoch_s
        return entry


def virtual_environment(root: Path, python: str, wheels: Iterable[Path]) -> None:
    """Make a virtual environment below *root* that works once *root* is /, with these wheels in it."""
    from installer import install
    from installer.destinations import SchemeDictionaryDestination
    from installer.sources import WheelFile

    home, site = root / VENV, f"/{VENV}/lib/python{python}/site-packages"
    (home / "bin").mkdir(parents=True)
    link(home / f"bin/python{python}", f"/usr/bin/python{python}")
    for name in ("python3", "python"):
        link(home / "bin" / name, f"python{python}")
    link(home / "lib64", "lib")
    (home / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"
        f"executable = /usr/bin/python{python}\n"
    )
    places = {"purelib": site, "platlib": site, "headers": f"/{VENV}/include"}
    places |= {"scripts": f"/{VENV}/bin", "data": f"/{VENV}"}
    destination = SchemeDictionaryDestination(
        places, f"/{VENV}/bin/python", "posix", bytecode_optimization_levels=(), destdir=str(root)
    )
    for wheel in wheels:
        with WheelFile.open(wheel) as source:
            install(source, destination, {"INSTALLER": b"slurmsched packages\n"})


def units(shipped: Path, lib: Path) -> None:
    """Put the files of systemd where a package has them, and beside each unit its template for several clusters."""
    for kind in ("sysusers.d", "tmpfiles.d"):
        shutil.copytree(shipped / kind, lib / kind)
    system = lib / "systemd/system"
    shutil.copytree(shipped, system, ignore=shutil.ignore_patterns("sysusers.d", "tmpfiles.d"))
    for unit in [*system.glob("*.service"), *system.glob("*.timer")]:
        (system / f"{unit.stem}@{unit.suffix}").write_text(template(unit.read_text()))


def put(source: Path, path: Path, mode: int = 0o644) -> None:
    """Copy a file, with the directories that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    path.chmod(mode)


def link(path: Path, to: str) -> None:
    """Make a symbolic link, with the directories that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


def main() -> None:
    """Build what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout to package")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where packages go")
    parser.add_argument("--work", type=Path, default=ROOT / "build/packages", help="for files of the build")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)}, wheelhouse")
    options = parser.parse_args()
    builder = Builder(options.source.resolve(), options.out.resolve(), options.work.resolve())
    os.umask(0o022)
    for name in options.targets or [*TARGETS, "wheelhouse"]:
        if name == "wheelhouse":
            made = [builder.wheelhouse(python) for python in WHEELHOUSES]
            made += [builder.bill(f"wheels-python{python}", python) for python in WHEELHOUSES]
        else:
            target = TARGETS[name]
            made = builder.deb(target) if target.format == "deb" else builder.rpm(target)
            made.append(builder.bill(name, target.python))
        for path in made:
            print(f"{path}  {path.stat().st_size / 1e6:.1f} MB", flush=True)
    from sbom import write_sums

    write_sums(builder.out)


if __name__ == "__main__":
    main()

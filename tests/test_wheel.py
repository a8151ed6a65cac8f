"""What pip installs is all that the pages speak of."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import slurmsched

ROOT = Path(__file__).parent.parent
SHARE = "share/slurmsched"
BUILT_FROM = ("slurmsched", "contrib", "systemd", "scripts", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")


def pip(*words: str | Path) -> None:
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, words)]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel built from a copy, so that nothing of an earlier build gets into it."""
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", made, source)
    return next(made.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A fresh virtual environment with the wheel and nothing else."""
    directory = tmp_path_factory.mktemp("opt") / "slurmsched"
    venv.create(directory, symlinks=True)
    pip("--python", directory / "bin/python", "install", "--no-deps", "--no-index", wheel)
    return directory


def files(*directories: str) -> set[str]:
    """The files below directories of the checkout, as the checkout calls them."""
    found = (path for directory in directories for path in (ROOT / directory).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}


def test_the_wheel_carries_the_version_of_the_package(wheel):
    assert wheel.name.split("-")[:2] == ["slurmsched", slurmsched.__version__]


def test_the_wheel_has_every_unit_and_every_file_to_copy(wheel):
    with ZipFile(wheel) as archive:
        inside = {
            name.partition(f"data/{SHARE}/")[2]: archive.read(name) for name in archive.namelist() if SHARE in name
        }
    wanted = files("contrib", "systemd") | files("slurmsched/prolog") - {"slurmsched/prolog/__init__.py"}
    wanted |= {"scripts/gpu-trial", "scripts/gpu-job", "scripts/uninstall"}
    assert set(inside) == wanted
    assert [name for name in wanted if inside[name] != (ROOT / name).read_bytes()] == []


def test_all_files_that_the_pages_name_lie_where_they_say(installed):
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "contrib/slurm.conf.d/00-readme.md"]
    named = {
        name
        for page in pages
        for name in re.findall(r"(?<![\w/.])(?:contrib|systemd|slurmsched/prolog)/[\w./-]*[\w*]", page.read_text())
    }
    assert len(named) > 12
    assert {name for name in named if not any((installed / SHARE).glob(name))} == set()
    assert any(f"/opt/slurmsched/{SHARE}" in page.read_text() for page in pages)


def test_the_installed_program_finds_them(installed):
    program = (
        "from slurmsched.config.shipped_files import shipped; print(shipped('contrib/slurm.conf.d/job_submit.lua'))"
    )
    environment = {"PATH": os.environ["PATH"]}
    argv = [str(installed / "bin/python"), "-I", "-c", program]
    done = subprocess.run(argv, cwd="/", env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == str(installed / SHARE / "contrib/slurm.conf.d/job_submit.lua"), done.stderr
    assert (installed / "bin/slurmsched").exists()

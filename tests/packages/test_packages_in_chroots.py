"""The packages of dist/ on bare Debian systems without a network: installed, tried, upgraded and taken away again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from chroots import ROOT, Chroot, NoChroot, tree

from slurmsched import __version__

pytestmark = pytest.mark.soak

DIST = ROOT / "dist"
SUITES = {"bookworm": "deb12", "trixie": "deb13"}
APT = "apt-get -y --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confold"
"""An admin who keeps the settings of the site where dpkg asks."""

MODULES = "highspy interpret.glassbox lightgbm numba psycopg pulp pynvml rapidfuzz scipy.optimize sklearn"
VERSION_0_1 = "db62290be11538dc951113ab4311f6ef721610c6"
"""The last commit of version 0.1; its tables have version 0010."""

RUNS = """
import sys
from slurmsched.db.store import Store
store = Store("sqlite:////var/lib/slurmsched/slurmsched.db")
if sys.argv[1:] == ["record"]:
    from slurmsched.cluster.columns import table_of
    from slurmsched.cluster.history import OutcomeTable
    columns = {"job_id": [1, 2, 3], "user": ["ada", "bob", "ada"], "gpus": [1, 2, 4], "ended_s": [10.0, 20.0, 30.0]}
    store.add_outcomes("here", table_of(OutcomeTable, 3, {}, columns))
runs = store.history("here")
print(*(f"{user}:{gpus}" for user, gpus in zip(runs.user, runs.gpus)))
"""
"""Has version 0.1 record three runs; prints those that are recorded, in every version."""

LIBRARIES_OF_NOBODY = ("libtbb.so.12",)
"""Of a part of Numba that it leaves alone where they are missing."""

SYSTEMCTL = """#!/bin/sh
echo "$*" >>/var/log/systemctl
case $1 in list-units) cat /var/log/units ;; esac
"""
"""Writes down what it is told to do; /var/log/units are the units that run."""


@pytest.fixture(scope="module", params=SUITES)
def suite(request) -> str:
    """A Debian release for which there are packages."""
    if len([*DIST.glob(f"slurmsched*~{SUITES[request.param]}_*.deb")]) != 3:
        pytest.skip(f"dist has not the three packages of one build: make packages TARGETS={SUITES[request.param]}")
    try:
        tree(request.param)
    except NoChroot as reason:
        pytest.skip(str(reason))
    return request.param


@pytest.fixture
def machine(suite, tmp_path) -> Iterator[Chroot]:
    yield Chroot(suite, tmp_path / "layer", DIST)
    shutil.rmtree(tmp_path / "layer")


def package(suite: str, name: str = "slurmsched") -> str:
    return f"/packages/{name}_*~{SUITES[suite]}_*.deb"


def older(suite: str, directory: Path) -> Path:
    """Make a package of the program of version 0.1, as git has it, with today's libraries and maintainer scripts."""
    (newest,) = DIST.glob(f"slurmsched_*~{SUITES[suite]}_*.deb")
    source = subprocess.run(["git", "archive", VERSION_0_1, "slurmsched"], cwd=ROOT, capture_output=True)
    if source.returncode:
        pytest.skip(f"this checkout has no version 0.1: {source.stderr.decode().strip()}")
    subprocess.run(["dpkg-deb", "--raw-extract", newest, directory / "old"], check=True)
    control = directory / "old/DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*$", f"Version: 0.1.0-1~{SUITES[suite]}", control.read_text()))
    (site,) = directory.glob("old/opt/slurmsched/lib/python3.*/site-packages")
    shutil.rmtree(site / "slurmsched")
    subprocess.run(["tar", "-x", "-C", site], input=source.stdout, check=True)
    settings = subprocess.run(["git", "show", f"{VERSION_0_1}:contrib/slurmsched.toml"], cwd=ROOT, capture_output=True)
    (directory / "old/etc/slurmsched/slurmsched.toml").write_bytes(settings.stdout)
    made = directory / "older"
    made.mkdir()
    subprocess.run(["dpkg-deb", "--build", "-Zzstd", "-z1", directory / "old", made / "older.deb"], check=True)
    shutil.rmtree(directory / "old")
    return made


def missing_libraries(machine: Chroot) -> set[str]:
    """The shared libraries that a wheel loads, and neither the system nor another wheel has."""
    files = "find /opt/slurmsched -name '*.so*' -type f"
    loaded = machine.sh(f"{files} | while read -r file; do ldd $file || true; done").splitlines()
    bundled = machine.sh(f"{files} -printf '%f\\n'").split()
    assert len(loaded) > 1000
    return {line.split()[0] for line in loaded if "not found" in line} - {*bundled, *LIBRARIES_OF_NOBODY}


def test_installed_it_works_and_purged_it_leaves_nothing(suite, machine):
    before = machine.files()
    machine.sh(f"{APT} install {package(suite)}")
    assert machine.sh("slurmsched --version").split()[-1] == __version__
    assert machine.sh("stat -c %U:%G:%a /etc/slurmsched /var/lib/slurmsched").split() == [
        "root:slurmsched:750", "slurmsched:slurmsched:750",
    ]  # fmt: skip
    for user in ("", "runuser -u slurmsched --"):
        checked = machine.run("sh", "-c", f"{user} slurmsched check")
        assert checked.returncode == 1
        assert "scontrol cannot be run" in checked.stdout
        assert "ok       settings" in checked.stdout
    system = "cd /usr/lib/systemd/system"
    instances = "for unit in slurmsched*@.*; do ln -s $unit ${unit%@.*}@a.${unit##*.}; done"
    units = "$(ls slurmsched* | grep -E '^slurmsched[^@]*(@a)?[.](service|timer|slice)$')"
    assert machine.sh(f"{system} && {instances} && systemd-analyze verify {units}; rm slurmsched*@a.*") == ""
    assert "average JCT" in machine.sh("slurmsched demo --simulated")
    assert machine.sh("man slurmsched-what-if").startswith("SLURMSCHED-WHAT-IF(1)")
    machine.sh("bash -c '. /usr/share/bash-completion/completions/slurmsched && complete -p slurmsched'")
    machine.sh(f"/opt/slurmsched/bin/python -c 'import {MODULES.replace(' ', ', ')}'")
    assert missing_libraries(machine) == set()
    assert machine.sh("find /opt/slurmsched /usr/lib/systemd/system '(' -perm /022 -o ! -user root ')' ! -type l") == ""
    machine.sh("su -s /bin/sh nobody -c 'slurmsched what-if --help'")

    alone = machine.run("slurmsched", "tune")
    assert (alone.returncode, "install the package slurmsched-research" in alone.stdout) == (1, True)
    machine.sh("mkdir -p /etc/slurmsched/conf.d; echo '[policy]\nordering = \"themis\"' >/etc/slurmsched/conf.d/1.toml")
    checked = machine.run("slurmsched", "config", "check")
    assert (checked.returncode, "install the package slurmsched-research" in checked.stdout) == (1, True)
    assert "Research" not in machine.sh("slurmsched --help")
    machine.sh(f"{APT} install {package(suite, 'slurmsched-research')}")
    machine.sh("slurmsched config check && slurmsched policy check fair --views 2 && man slurmsched-tune")
    assert "Research" in machine.sh("slurmsched --help")
    machine.sh("rm -r /etc/slurmsched/conf.d")

    machine.sh("runuser -u slurmsched -- slurmsched db upgrade")
    machine.sh("apt-get -y remove slurmsched-research")
    assert machine.run("sh", "-c", "ls /opt/slurmsched/lib/python3.*/site-packages/slurmsched/research").returncode != 0
    machine.sh("apt-get -y remove slurmsched")
    machine.sh("ls /etc/slurmsched/slurmsched.toml /var/lib/slurmsched/slurmsched.db")
    assert machine.run("ls", "/opt/slurmsched").returncode != 0
    machine.sh("apt-get -y purge slurmsched slurmsched-research")
    assert machine.files() - before == set()
    assert machine.run("getent", "passwd", "slurmsched").returncode == 2


def test_an_upgrade_takes_settings_and_what_ran_along_and_leaves_a_database_from_before(suite, machine, tmp_path):
    machine = machine.beside(older(suite, tmp_path))
    machine.sh(f"{APT} install /packages/older.deb")
    assert machine.sh("slurmsched --version").split()[-1] == "0.1.0"
    machine.sh("runuser -u slurmsched -- slurmsched db upgrade")
    runs = f"runuser -u slurmsched -- /opt/slurmsched/bin/python -c '{RUNS}'"
    assert machine.sh(f"{runs} record") == "ada:1 bob:2 ada:4\n"
    query = "select version_num from alembic_version"
    reader = (
        f'import sqlite3; print(*sqlite3.connect("/var/lib/slurmsched/slurmsched.db").execute("{query}").fetchone())'
    )
    tables = f"/opt/slurmsched/bin/python -c '{reader}'"
    assert machine.sh(tables) == "0010\n"
    machine.sh("echo '# of the site' >>/etc/slurmsched/slurmsched.toml")
    commands = set(re.findall(r"^  ([a-z-]+) ", machine.sh("slurmsched --help"), re.MULTILINE))
    assert {"pareto", "tune", "why"} <= commands

    machine = machine.beside(DIST)
    systemctl = SYSTEMCTL.replace("'", "'\\''")
    machine.sh(f"printf %s '{systemctl}' >/usr/bin/systemctl.new; chmod 755 /usr/bin/systemctl.new")
    machine.sh("mkdir -p /run/systemd/system && mv /usr/bin/systemctl.new /usr/bin/systemctl")
    machine.sh("printf '%s loaded active running x\\n' slurmsched.service slurmsched-train.timer >/var/log/units")
    kept = machine.sh("sha256sum /var/lib/slurmsched/slurmsched.db")
    upgraded = machine.sh(f"{APT} install {package(suite)} {package(suite, 'slurmsched-research')}")
    assert commands <= set(re.findall(r"^  ([a-z-]+) ", machine.sh("slurmsched --help"), re.MULTILINE))
    assert "predictions and simulations are compiled" in upgraded
    assert "before the first release" in upgraded
    assert "'slurmsched history import'" in upgraded
    assert machine.sh("slurmsched --version").split()[-1] == __version__
    assert machine.sh("sha256sum /var/lib/slurmsched/slurmsched.db") == kept
    machine.sh("cd /var/lib/slurmsched && mkdir -p old && mv slurmsched.db* old/")
    assert "version 0001" in machine.sh("runuser -u slurmsched -- slurmsched db upgrade")
    assert "of the site" in machine.sh("cat /etc/slurmsched/slurmsched.toml")
    calls = [line for line in machine.sh("cat /var/log/systemctl").splitlines() if "slurmsched" in line]
    running = "slurmsched.service slurmsched-train.timer"
    assert [line for line in calls if "list-units" not in line] == [f"stop {running}", f"--no-block start {running}"]

    machine = machine.beside(tmp_path / "older")
    downgraded = machine.sh(f"{APT} install /packages/older.deb")
    assert "the daemon does not start until this succeeds" in downgraded
    machine.sh("cd /var/lib/slurmsched && rm -f slurmsched.db* && mv old/slurmsched.db* .")
    assert machine.sh(tables) == "0010\n"
    assert "version 0010" in machine.sh("runuser -u slurmsched -- slurmsched db upgrade")
    assert machine.sh(runs) == "ada:1 bob:2 ada:4\n"

    machine.sh("sh /opt/slurmsched/share/slurmsched/scripts/uninstall --force")
    assert machine.run("dpkg-query", "-W", "slurmsched").returncode == 1
    assert "start slurmsched-release.service\ndisable slurmsched.service" in machine.sh("cat /var/log/systemctl")


def test_the_programs_of_nodes_measure_with_nothing_but_their_package(suite, machine):
    before = machine.files()
    machine.sh(f"{APT} install {package(suite, 'slurmsched-node')}")
    gcc = shutil.which("gcc") or pytest.skip("there is no C compiler to make the scripted NVML with")
    library = machine.path("opt/nvml/libnvidia-ml.so.1")
    library.parent.mkdir(parents=True)
    subprocess.run([gcc, "-shared", "-fPIC", "-o", library, ROOT / "tests/prolog/nvml.c"], check=True)
    script = ("* gpus 1", "* memory 1000", "* limit 400", "0 util 40/10", "0 processes 1")
    machine.path("opt/nvml/script").write_text("".join(f"0 {line}\n" for line in script))
    job = "SLURM_JOB_ID=7 SLURMD_NODENAME=n1 SLURM_JOB_UID=1000 SLURM_JOB_GPUS=0 SLURMSCHED_EVERY_S=0.02"
    nvml = "LD_LIBRARY_PATH=/opt/nvml FAKE_NVML_SCRIPT=/opt/nvml/script"
    until = "for _ in $(seq 600); do [ -e {0} ] && break; sleep 0.1; done; [ -e {0} ]"
    asked, record = "/opt/nvml/script.asked.7.n1", "/var/spool/slurmsched-node/*.json"
    measured = machine.sh(
        f"export {job} {nvml}; /usr/lib/slurmsched/prolog; {until.format(asked)}; "
        f"/usr/lib/slurmsched/epilog; {until.format(record)}; cat {record}"
    )
    assert '"gpu_util"' in measured
    machine.sh("rm -rf /opt/nvml")
    machine.sh("apt-get -y purge slurmsched-node")
    assert machine.files() - before == set()


def test_the_rpm_asks_for_packages_of_el9_and_its_files_work_where_they_are_unpacked(tmp_path):
    rpm, unpack = shutil.which("rpm"), shutil.which("rpm2archive")
    if rpm is None or unpack is None:
        pytest.skip("rpm is not installed")
    built = [*DIST.glob("slurmsched-*.el9.*.rpm")]
    if len(built) != 3:
        pytest.skip("dist has not the three packages of one build: make packages TARGETS=el9")
    node, research, main = sorted(built, key=lambda path: re.sub(r"-[0-9].*", "", path.name).split("-")[1:] or ["z"])
    needs = {
        package: {line.split()[0] for line in subprocess.check_output([rpm, "-qpR", package], text=True).splitlines()}
        for package in built
    }
    own = {name for names in needs.values() for name in names if name.startswith(("rpmlib(", "config("))} | {"/bin/sh"}
    assert needs[main] - own == {
        "glibc", "libgomp", "libstdc++", "python3.11", "systemd", "util-linux", "zlib",
    }  # fmt: skip
    assert needs[node] - own == {"/usr/bin/python3"}
    assert needs[research] - own == {"slurmsched"}
    for package in built:
        names = subprocess.check_output([rpm, "-qp", "--provides", package], text=True)
        assert [line for line in names.splitlines() if not re.match(r"(config\()?slurmsched", line)] == []

    try:
        machine = Chroot("bookworm", tmp_path / "layer")  # the same version of Python
    except NoChroot as reason:
        pytest.skip(str(reason))
    for package in built:
        pipe = 'set -o pipefail; "$0" --nocompression - <"$1" | tar -x -C "$2"'
        subprocess.run(["bash", "-c", pipe, unpack, package, machine.path("")], check=True)
    machine.sh("systemd-sysusers && systemd-tmpfiles --create slurmsched.conf")
    assert machine.sh("slurmsched --version").split()[-1] == __version__
    assert "version 00" in machine.sh("runuser -u slurmsched -- slurmsched db upgrade")
    assert machine.sh("stat -c %U:%G:%a /etc/slurmsched/slurmsched.toml /usr/lib/slurmsched/prolog").split() == [
        "root:root:644", "root:root:755",
    ]  # fmt: skip
    shutil.rmtree(tmp_path / "layer")


def test_the_archive_of_wheels_is_all_that_pip_needs(tmp_path):
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    archives = [*DIST.glob(f"slurmsched-*-wheels-python{python}-*.tar")]
    if len(archives) != 1:
        pytest.skip(f"dist has no archive of wheels for Python {python}: make packages TARGETS=wheelhouse")
    subprocess.run(["tar", "-x", "-f", archives[0], "--strip-components=1", "-C", tmp_path], check=True)
    (ours,) = tmp_path.glob("slurmsched-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    pip = ["unshare", "--net", tmp_path / "venv/bin/pip", "install", "--quiet", "--no-compile", "--no-index"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    for what in (["--find-links=.", "--require-hashes", "--requirement=requirements.txt"], ["--no-deps", ours]):
        subprocess.run([*pip, *what], cwd=tmp_path, env=environment, check=True)
    for words in (["-m", "slurmsched", "--version"], ["-m", "pip", "check"]):
        subprocess.run([tmp_path / "venv/bin/python", *words], env=environment, check=True)
    shutil.rmtree(tmp_path / "venv")

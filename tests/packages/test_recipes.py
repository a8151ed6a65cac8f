"""What `make packages` builds from: recipes, locks of wheels, units of several clusters, manual pages."""

from __future__ import annotations

import configparser
import re
import runpy
import shutil
import subprocess
import sys
from email import message_from_string
from itertools import pairwise
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from slurmsched.cli import main as program
from slurmsched.extensions import PACKAGE

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"
BUILD = runpy.run_path(str(PACKAGES / "build.py"))
MAN = runpy.run_path(str(PACKAGES / "man_pages.py"))
SHELL = [PACKAGES / "maintain", *(path for path in (PACKAGES / "debian").glob("slurmsched*") if path.is_file())]


def tool(name: str) -> str:
    return shutil.which(name) or pytest.skip(f"{name} is not installed")


def output(*argv: str | Path) -> str:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def pages() -> dict[str, str]:
    return MAN["pages"](click.Context(program, None, "slurmsched", **program.context_settings))


def locked(python: str) -> dict[str, tuple[str, int]]:
    """The version of each package of a lock, and the number of its hashes."""
    entries = re.split(r"\n(?=[a-z])", (PACKAGES / f"wheels-{python}.txt").read_text())
    heads = [(re.match(r"([a-z0-9-]+)==(\S+) \\\n", entry), entry.count("--hash=sha256:")) for entry in entries]
    return {head[1]: (head[2], hashes) for head, hashes in heads}


@pytest.mark.parametrize("script", SHELL, ids=lambda path: path.name)
def test_the_scripts_of_packages_are_posix_sh(script):
    output(shutil.which("dash") or "sh", "-n", script)


def test_packages_call_only_what_maintain_does():
    callers = [*SHELL[1:], PACKAGES / "slurmsched.spec"]
    called = {verb for path in callers for verb in re.findall(r"libexec/maintain (\w+)", path.read_text())}
    assert (
        called
        == {*re.findall(r"^(\w+)\)", SHELL[0].read_text(), re.MULTILINE)}
        == {"stop", "start", "compile", "remove"}
    )


def test_the_control_file_has_all_packages_and_the_python_of_each_release():
    text = (PACKAGES / "debian/control").read_text().replace("@PYTHON@", "python3.11")
    source, main, research, node = (message_from_string(paragraph.lstrip()) for paragraph in text.strip().split("\n\n"))
    assert (source["Source"], main["Package"], node["Package"]) == ("slurmsched", "slurmsched", "slurmsched-node")
    assert research["Package"] == PACKAGE
    assert PACKAGE in main["Recommends"]
    assert research["Replaces"] == research["Breaks"] == "slurmsched (<< ${binary:Version})"
    assert main["Depends"].startswith("python3.11, ")
    assert node["Architecture"] == "all"
    assert all(len(package["Description"].split("\n")[0]) <= 80 for package in (main, research, node))


def test_rpm_reads_the_recipe():
    defined = {"stage": "/nowhere", "package_version": "1", "package_release": "1", "python": "python3.11"}
    words = [word for key, value in defined.items() for word in ("--define", f"{key} {value}")]
    names = output(tool("rpmspec"), "--query", *words, "--queryformat", "%{name}\n", PACKAGES / "slurmsched.spec")
    assert names.split() == ["slurmsched", PACKAGE, "slurmsched-node"]


@pytest.mark.parametrize("python", sorted({target.python for target in BUILD["TARGETS"].values()}))
def test_a_lock_has_all_that_its_extras_need_with_hashes_and_no_older_than_allowed(python):
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    packaged = re.search(r"^PACKAGED := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    lines = [setup["options"]["install_requires"], *(setup["options.extras_require"][extra] for extra in packaged)]
    wanted = [Requirement(line) for text in lines for line in text.strip().splitlines()]
    versions = locked(python)
    assert all(hashes > 0 for _, hashes in versions.values())
    assert len(wanted) > 12
    for each in wanted:
        assert each.specifier.contains(versions[canonicalize_name(each.name)][0]), each


def test_versions_before_a_release_sort_before_it():
    dpkg = tool("dpkg")
    versions = [BUILD["package_version"](version) for version in ("0.1.0", "0.2.0.dev0", "0.2.0rc1", "0.2.0", "0.2.1")]
    assert versions[1] == "0.2.0~~dev0"
    for older, newer in pairwise(versions):
        output(dpkg, "--compare-versions", f"{older}-1~deb12", "lt", f"{newer}-1~deb12")
    output(dpkg, "--compare-versions", "0.2.0-1~deb12", "lt", "0.2.0-1~deb13")


def test_there_is_a_manual_page_for_each_command_with_each_of_its_options():
    made, helps = pages(), (ROOT / "docs/reference/commands.md").read_text()
    commands = re.findall(r"^## (slurmsched.*)$", helps, re.MULTILINE)
    assert {f"{command.replace(' ', '-')}.1" for command in commands} == set(made)
    assert len(commands) > 30
    for command, text in re.findall(r"^## (slurmsched[^\n]*)\n\n```text\n(.*?)```", helps, re.MULTILINE | re.DOTALL):
        page = made[f"{command.replace(' ', '-')}.1"].replace("\\-", "-")
        for option in re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE):
            assert option in page, (command, option)


def test_the_package_of_the_research_has_the_pages_of_its_commands_alone():
    of_research = BUILD["research_pages"](ROOT / "setup.cfg")
    assert set(of_research) < set(pages())
    assert {"slurmsched-pareto.1", "slurmsched-policy-check.1", "slurmsched-tune.1"} <= set(of_research)
    assert "slurmsched-simulate.1" not in of_research


def test_man_has_no_complaint_about_the_pages(tmp_path):
    man = tool("man")
    for name, text in pages().items():
        (tmp_path / name).write_text(text)
    shown = [output(man, "--warnings", "-E", "ascii", "-l", "-Tascii", "-Z", path) for path in tmp_path.iterdir()]
    assert len(shown) == len(pages())
    assert [line for text in shown for line in text.splitlines() if "warning: " in line] == []


@pytest.fixture
def units(tmp_path) -> Path:
    """The units as a package has them, with a program that is there."""
    BUILD["units"](ROOT / "systemd", tmp_path)
    system = tmp_path / "systemd/system"
    for unit in system.glob("*.service"):
        unit.write_text(unit.read_text().replace("/usr/bin/slurmsched", "/bin/true"))
    return system


def test_each_unit_has_one_for_a_cluster_of_several_which_systemd_accepts(units):
    analyze = tool("systemd-analyze")
    plain = {path.name for path in units.iterdir() if re.fullmatch(r"[^@]+\.(service|timer)", path.name)}
    assert len(plain) > 5
    of_a_cluster = [f"{stem}@a.{suffix}" for stem, suffix in (name.split(".") for name in sorted(plain))]
    for name in of_a_cluster:  # as an instance
        (units / name).symlink_to(units / name.replace("@a", "@"))
    assert output(analyze, "verify", *(units / name for name in [*sorted(plain), *of_a_cluster])) == ""
    assert output(analyze, "security", "--offline=true", "--threshold=20", units / "slurmsched@a.service")


def test_what_clusters_on_one_host_must_not_share_has_their_name(units):
    for unit in units.glob("*@.service"):
        text = unit.read_text()
        assert "/etc/slurmsched/slurmsched.toml" not in text
        assert re.findall(r"slurmsched(?:-release)?\.service", text) == []
    daemon = (units / "slurmsched@.service").read_text()
    for line in (
        "StateDirectory=slurmsched/%i",
        "RuntimeDirectory=slurmsched-%i",
        "OnFailure=slurmsched-release@%i.service",
    ):
        assert f"\n{line}\n" in daemon
    assert "ExecStart=/bin/true --config /etc/slurmsched/%i/slurmsched.toml run\n" in daemon
    assert "\nCacheDirectory=slurmsched\n" in daemon


def test_the_programs_of_nodes_are_those_of_the_page():
    page = (ROOT / "docs/profiling.md").read_text().partition("## Install on the nodes")[2].partition("\n## ")[0]
    assert {*BUILD["NODE_FILES"]} == {*re.findall(r"slurmsched/prolog/([\w.]+)", page)}


def test_the_environment_works_where_it_will_lie_and_has_the_programs_of_its_wheels(tmp_path):
    pytest.importorskip("installer", reason="installer is not installed (the extra packages)")
    from zipfile import ZipFile

    wheel = tmp_path / "small-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("small.py", "def main(): print('here')\n")
        archive.writestr("small-1.data/data/share/small/file", "")
        archive.writestr("small-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1\n")
        archive.writestr("small-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("small-1.dist-info/entry_points.txt", "[console_scripts]\nsmall = small:main\n")
        archive.writestr("small-1.dist-info/RECORD", "")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    BUILD["virtual_environment"](tmp_path / "root", python, [wheel])
    home = tmp_path / "root/opt/slurmsched"
    assert (home / "bin/small").read_text().startswith("#!/opt/slurmsched/bin/python\n")
    assert (home / "share/small/file").exists()
    assert (home / f"lib64/python{python}/site-packages/small.py").exists()
    assert str((home / f"bin/python{python}").readlink()) == f"/usr/bin/python{python}"

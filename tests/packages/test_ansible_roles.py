"""The roles of Ansible: linted, and run against a bare chroot without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from chroots import ROOT, Chroot, NoChroot

pytestmark = pytest.mark.soak

ROLES = ROOT / "contrib/ansible/roles"
TOOLS = ROOT / "build/packages/ansible/bin"
DIST = ROOT / "dist"

PLAY = """
- hosts: all
  roles:
    - role: slurmsched
    - role: slurmsched_node
"""


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{TOOLS}:{os.environ.get('PATH', '')}")
    return found or pytest.skip(f"{name} is not installed: make packages-test does it")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Chroot]:
    try:
        yield Chroot("bookworm", tmp_path / "layer")
    except NoChroot as reason:
        pytest.skip(str(reason))
    shutil.rmtree(tmp_path / "layer")


def package(name: str) -> str:
    built = [*DIST.glob(f"{name}_*~deb12_*.deb")]
    if len(built) != 1:
        pytest.skip("dist has not the packages of one build: make packages TARGETS=deb12")
    return str(built[0])


def test_the_roles_pass_the_linter(tmp_path):
    lint = [tool("ansible-lint"), "--offline", "--profile", "production", "--nocolor", ROOT / "contrib/ansible"]
    done = subprocess.run(
        lint, cwd=ROOT, env=os.environ | {"ANSIBLE_HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_they_install_and_set_up_what_they_are_told_and_change_nothing_the_second_time(machine, tmp_path):
    playbook = tool("ansible-playbook")
    (tmp_path / "play.yml").write_text(PLAY)
    told = {
        "slurmsched_package": package("slurmsched"),
        "slurmsched_research_package": package("slurmsched-research"),
        "slurmsched_node_package": package("slurmsched-node"),
        "slurmsched_enabled": False,  # no systemd runs in a chroot
        "slurmsched_settings": {"policy": {"ordering": "sjf"}, "daemon": {"every_s": 30}, "order": {"window": 200}},
        "slurmsched_node_settings": {"COLLECTOR": "10.0.0.1:9818", "EVERY_S": 2},
    }

    def played(**changes: object) -> subprocess.CompletedProcess[str]:
        return machine.outside(
            playbook, "--inventory", f"{machine.root},", "--connection", "community.general.chroot",
            "--extra-vars", json.dumps(told | changes), str(tmp_path / "play.yml"),
            ANSIBLE_HOME=str(tmp_path / "ansible"), ANSIBLE_ROLES_PATH=str(ROLES), ANSIBLE_NOCOLOR="1",
        )  # fmt: skip

    first = played()
    assert first.returncode == 0, first.stdout
    assert "every_s = 30" in machine.sh("runuser -u slurmsched -- cat /etc/slurmsched/conf.d/50-ansible.toml")
    shown = json.loads(machine.sh("runuser -u slurmsched -- slurmsched config show --json"))["settings"]
    assert (shown["policy.ordering"], shown["daemon.every_s"], shown["daemon.mode"]) == ("sjf", 30, "observe")
    assert "Research" in machine.sh("slurmsched --help")
    lines = machine.sh("grep -v ^# /etc/slurmsched/node.conf").split()
    assert lines == ["COLLECTOR=10.0.0.1:9818", "EVERY_S=2"]
    again = played()
    assert again.returncode == 0, again.stdout
    assert "changed=0 " in again.stdout
    wrong = played(slurmsched_settings={"policy": {"ordering": "no-such-order"}})
    assert wrong.returncode == 2
    assert "no-such-order" in wrong.stdout
    assert "no-such-order" not in machine.sh("cat /etc/slurmsched/conf.d/50-ansible.toml")
    assert "every_s = 30" in machine.sh("cat /etc/slurmsched/conf.d/50-ansible.toml")

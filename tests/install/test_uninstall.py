"""The commands of the install pages on a host that never had slurmsched, beside a real Slurm, and back again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh_host import FreshHost, fresh_host, place_program

from slurmsched.lab import Lab

ROOT = Path(__file__).parents[2]
SHARE = "/opt/slurmsched/share/slurmsched"
BUILDS = ("python3 -m venv", "/opt/slurmsched/bin/pip", f"cd {SHARE}")
"""Commands that fetch and build the program, which is placed where they would put it; all others run in SHARE."""
SYSTEMD = re.compile(r"^systemctl .*| && systemctl daemon-reload")
"""What takes a running systemd, and the site's own slurmctld."""
BACKUPS = {f"/etc/{name}" for name in ("passwd-", "group-", "shadow-", "gshadow-", "subuid-", "subgid-", ".pwd.lock")}
"""What useradd and systemd-sysusers keep of the files as they were."""
ACCOUNTS = {f"/etc/{name}" for name in ("passwd", "group", "shadow", "gshadow")}
ALONE = "unshare --pid --fork --mount-proc"
"""Runs what deletes a user, whose number a user of another test's lab may have on the machine below."""
SITE_CONF = "ClusterName=site\nSlurmctldHost=localhost\n"


def commands(page: str, heading: str) -> list[str]:
    """The first block of commands after *heading* on a page, without what needs a running systemd."""
    text = (ROOT / page).read_text().partition(heading)[2].replace("\\\n", " ")
    block = re.search(r"(?:^    .*\n)+", text, re.M)
    assert block is not None, (page, heading)
    lines = (re.sub(SYSTEMD, "", line.strip()) for line in block[0].splitlines())
    return [line for line in lines if line and not line.startswith(BUILDS)]


@pytest.fixture
def host(tmp_path, lab: Lab) -> Iterator[FreshHost]:
    """A host whose Slurm commands mean the lab, with a slurm.conf that the pages may change."""
    with fresh_host(tmp_path) as host:
        place_program(host)
        host.sh(f"mkdir -p /etc/slurm && printf '{SITE_CONF}' >/etc/slurm/slurm.conf")
        yield host


def run(host: FreshHost, lab: Lab, command: str) -> str:
    return host.sh(command, cwd=SHARE, SLURM_CONF=lab.env()["SLURM_CONF"])


def left_behind(host: FreshHost, before: list[str]) -> list[str]:
    """What system directories hold beyond *before* and beyond the machine below, or hold no more."""
    upper, found = host.directory / "layers" / "upper", []
    for name in sorted({*host.changes()} - {*before}):
        path = "/" + name.removeprefix("./")
        kind = host.sh(f"stat -c %F {upper}{path}").strip()
        below = Path(path)
        unchanged = kind == "directory" and below.is_dir()
        unchanged |= (
            kind.startswith("regular") and below.is_file() and below.read_bytes() == contents(host, upper, path)
        )
        if path in ACCOUNTS:  # labs of other tests add and remove their users below meanwhile
            unchanged = not re.search(rb"^slurmsched:", contents(host, upper, path), re.M)
        if not unchanged and path not in BACKUPS:
            found.append(f"{path} ({kind})")
    return found


def contents(host: FreshHost, upper: Path, path: str) -> bytes:
    return bytes.fromhex(host.sh(f"od -An -v -tx1 {upper}{path}"))


def test_the_documented_install_works_and_uninstall_leaves_nothing(host, lab):
    before, run_before = host.changes(), host.sh("find /run | sort")
    for command in [
        *commands("docs/install.md", "## The program"),
        *commands("contrib/slurm.conf.d/00-readme.md", "On the machine of slurmctld"),
    ]:
        if command.startswith("runuser"):
            done = host.run("sh", "-c", command, cwd=SHARE, SLURM_CONF=lab.env()["SLURM_CONF"])
            assert "cluster " in done.stdout, done.stderr
            assert "there is none yet" in done.stdout
        else:
            run(host, lab, command)
    for command in commands("docs/profiling.md", "## Install on the nodes"):
        run(host, lab, command)
    assert "runs ended" in run(host, lab, "slurmsched history import").replace("run ended", "runs ended")
    assert host.sh("stat -c %U:%a /var/lib/slurmsched/slurmsched.db") == "slurmsched:600\n"
    assert host.sh("stat -c %U:%G:%a /etc/slurmsched") == "root:slurmsched:750\n"
    assert "slurmsched|Operator" in lab.ask(["sacctmgr", "-nP", "show", "user", "slurmsched", "format=user,adminlevel"])
    host.sh("install -D /dev/null /var/spool/slurmsched-node/record")
    host.sh("mkdir -p /etc/bash_completion.d && slurmsched completion bash >/etc/bash_completion.d/slurmsched")

    told = run(host, lab, "sh scripts/uninstall --dry-run")
    assert "rm -rf -- /var/lib/slurmsched" in told
    assert host.sh("ls /var/lib/slurmsched") != ""
    done = run(host, lab, f"{ALONE} sh scripts/uninstall")
    assert "points taken from 0 jobs" in done
    assert left_behind(host, before) == []
    assert host.sh("find /run | sort") == run_before
    assert host.sh("cat /etc/slurm/slurm.conf") == SITE_CONF
    assert host.sh("getent passwd slurmsched || true") == ""
    assert lab.ask(["sacctmgr", "-nP", "show", "user", "slurmsched", "format=user"]) == ""
    again = host.sh(f"{ALONE} {ROOT}/scripts/uninstall")
    assert again == done.splitlines()[-1] + "\n"


def test_uninstall_stops_where_jobs_cannot_be_given_back(host):
    host.sh("ln -s /opt/slurmsched/bin/slurmsched /usr/bin/ && install -d /etc/slurmsched /var/lib/slurmsched")
    host.sh("echo 'Include /etc/slurm/slurm.conf.d/slurmsched.conf' >>/etc/slurm/slurm.conf")
    nowhere = "/etc/slurm/no-such.conf"
    done = host.run(*ALONE.split(), "scripts/uninstall", cwd=ROOT, SLURM_CONF=nowhere)
    assert done.returncode == 1
    assert "jobs were not given back" in done.stderr
    assert "Include" in host.sh("cat /etc/slurm/slurm.conf")
    forced = host.run(*ALONE.split(), "scripts/uninstall", "--force", cwd=ROOT, SLURM_CONF=nowhere)
    assert forced.returncode == 0, forced.stderr
    assert host.sh("cat /etc/slurm/slurm.conf") == SITE_CONF


def test_a_site_keeps_its_own_files_and_its_history_if_it_says_so(host, lab):
    host.sh(
        "install -d /etc/slurm/slurm.conf.d /var/lib/slurmsched && echo NodeName=n1 >/etc/slurm/slurm.conf.d/nodes.conf"
        " && echo 'Include /etc/slurm/slurm.conf.d/nodes.conf' >>/etc/slurm/slurm.conf"
        " && printf 'dofile(\"/etc/slurm/slurmsched.lua\")\\nreturn slurm.SUCCESS\\n' >/etc/slurm/job_submit.lua"
        f" && cp {ROOT}/contrib/slurm.conf.d/job_submit.lua /etc/slurm/slurmsched.lua"
        " && ln -s /opt/slurmsched/bin/slurmsched /usr/bin/ && slurmsched db upgrade"
    )
    run(host, lab, f"{ALONE} sh scripts/uninstall --keep-history")
    assert host.sh("cat /etc/slurm/slurm.conf") == SITE_CONF + "Include /etc/slurm/slurm.conf.d/nodes.conf\n"
    assert host.sh("cat /etc/slurm/job_submit.lua") == "return slurm.SUCCESS\n"
    assert host.sh("cd /etc/slurm && ls -d job_submit.lua slurm*") == "job_submit.lua\nslurm.conf\nslurm.conf.d\n"
    assert host.sh("ls /var/lib/slurmsched/slurmsched.db") == "/var/lib/slurmsched/slurmsched.db\n"

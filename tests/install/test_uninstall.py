"""The pages of a first day, followed on a host that never had slurmsched, beside a real Slurm, and back again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh_host import CHECKOUT, ROOT, FreshHost, NoHost, fresh_host, place_checkout
from newcomer import COURSE, Site, play
from pages import Reader

pytestmark = pytest.mark.lab

BACKUPS = {f"/etc/{name}" for name in ("passwd-", "group-", "shadow-", "gshadow-", "subuid-", "subgid-", ".pwd.lock")}
BACKUPS |= {
    f"/etc/{name}.lock" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")
}  # of useradd below
"""What useradd and systemd-sysusers keep of the files as they were."""
ACCOUNTS = {f"/etc/{name}" for name in ("passwd", "group", "shadow", "gshadow")}
UNINSTALL = f"{CHECKOUT}/scripts/uninstall"
FILES_OF_SLURM = "cd /etc/slurm && find . -type f | sort"


@pytest.fixture
def here(a_site: Site) -> Iterator[Site]:
    """The site, with nothing of slurmsched afterwards whatever the test did."""
    yield a_site
    a_site.host.sh(f"{UNINSTALL} --force")


def left_behind(host: FreshHost, before: list[str]) -> list[str]:
    """What system directories hold beyond *before* and beyond the machine below, or hold no more."""
    upper, found = host.directory / "layers" / "upper", []
    for name in sorted({*host.changes()} - {*before}):
        path = "/" + name.removeprefix("./")
        if path.startswith(CHECKOUT):  # pip builds there
            continue
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


def test_the_pages_of_a_first_day_can_be_followed_and_uninstall_leaves_nothing(here):
    host = here.host
    run_before, slurm_before = host.sh("find /run | grep -v ^/run/newcomer | sort"), host.sh(FILES_OF_SLURM)
    conf_before = host.sh("cat /etc/slurm/slurm.conf")
    here.begin_day()
    reader = Reader(here.shell, here.adapted)
    play(reader, COURSE[:-1])
    assert host.sh("stat -c %U:%a /var/lib/slurmsched/slurmsched.db") == "slurmsched:600\n"
    assert host.sh("stat -c %U:%G:%a /etc/slurmsched") == "root:slurmsched:750\n"
    assert "slurmsched|Operator" in host.sh("sacctmgr -nP show user slurmsched format=user,adminlevel")
    host.sh("install -D /dev/null /var/spool/slurmsched-node/record")
    host.sh("mkdir -p /etc/bash_completion.d && slurmsched completion bash >/etc/bash_completion.d/slurmsched")

    done = play(reader, COURSE[-1:])
    print(reader.summary())
    assert "rm -rf -- /var/lib/slurmsched" in done
    assert "points taken from" in done
    assert left_behind(host, here.before) == []
    assert host.sh("find /run | grep -v ^/run/newcomer | sort") == run_before
    assert host.sh("cat /etc/slurm/slurm.conf") == conf_before
    assert host.sh(FILES_OF_SLURM) == slurm_before
    assert host.sh("getent passwd slurmsched || true") == ""
    assert host.sh("sacctmgr -nP show user slurmsched format=user") == ""
    again = host.sh(UNINSTALL).splitlines()
    assert again[:-1] == ["systemctl daemon-reload"]
    assert again[-1].startswith("done;")


@pytest.mark.soak
def test_uninstall_stops_where_jobs_cannot_be_given_back(here):
    here.install_program()
    before = here.host.sh("cat /etc/slurm/slurm.conf")
    here.host.sh("ln -s /opt/slurmsched/bin/slurmsched /usr/bin/ && install -d /etc/slurmsched /var/lib/slurmsched")
    here.host.sh("echo 'Include /etc/slurm/slurm.conf.d/slurmsched.conf' >>/etc/slurm/slurm.conf")
    nowhere = "/etc/slurm/no-such.conf"
    done = here.host.run(UNINSTALL, SLURM_CONF=nowhere)
    assert done.returncode == 1
    assert "jobs were not given back" in done.stderr
    assert "Include" in here.host.sh("cat /etc/slurm/slurm.conf")
    forced = here.host.run(UNINSTALL, "--force", SLURM_CONF=nowhere)
    assert forced.returncode == 0, forced.stderr
    assert here.host.sh("cat /etc/slurm/slurm.conf") == before


@pytest.mark.soak
def test_a_site_keeps_its_own_files_and_its_history_if_it_says_so(here):
    here.install_program()
    files, before = here.host.sh(FILES_OF_SLURM), here.host.sh("cat /etc/slurm/slurm.conf")
    ours = "Include /etc/slurm/slurm.conf.d/nodes.conf\n"
    here.host.sh(
        "install -d /etc/slurm/slurm.conf.d /var/lib/slurmsched && : >/etc/slurm/slurm.conf.d/nodes.conf"
        f" && printf '{ours}' >>/etc/slurm/slurm.conf"
        " && printf 'dofile(\"/etc/slurm/slurmsched.lua\")\\nreturn slurm.SUCCESS\\n' >/etc/slurm/job_submit.lua"
        f" && cp {CHECKOUT}/contrib/slurm.conf.d/job_submit.lua /etc/slurm/slurmsched.lua"
        " && ln -s /opt/slurmsched/bin/slurmsched /usr/bin/ && slurmsched db upgrade"
    )
    here.host.sh(f"{UNINSTALL} --keep-history")
    assert here.host.sh("cat /etc/slurm/slurm.conf") == before + ours
    assert here.host.sh("cat /etc/slurm/job_submit.lua") == "return slurm.SUCCESS\n"
    kept = {"./job_submit.lua", "./slurm.conf.d/nodes.conf"}
    assert {*here.host.sh(FILES_OF_SLURM).split()} == {*files.split()} | kept
    assert here.host.sh("ls /var/lib/slurmsched/slurmsched.db") == "/var/lib/slurmsched/slurmsched.db\n"
    here.host.sh(
        f"sed -i /nodes.conf/d /etc/slurm/slurm.conf && rm -r {' '.join(f'/etc/slurm/{name}' for name in kept)}"
    )


ANSWERS = """#!/bin/sh
echo "${0##*/}" "$*" "${SLURM_CONF:-}" >>/var/lib/asked
case "$*" in
*list-units*) echo slurmsched@b.service loaded active running; echo slurmsched@c.service loaded activating ;;
*"config show"*)
    name=${2%/*} name=${name##*/}
    printf '"daemon.run_dir": "/run/slurmsched-%s",\\n"slurm.conf": "/etc/slurm/%s/slurm.conf"\\n' "$name" "$name" ;;
*"/b/slurmsched.toml release-all"*) exit "$(cat /var/lib/b)" ;;
*"show user slurmsched"*) case $SLURM_CONF in */b/*) echo slurmsched ;; esac ;;
esac
"""
"""Stands in for systemctl, slurmsched, scontrol and sacctmgr, and writes down what each was asked."""


@pytest.fixture
def two_clusters(tmp_path) -> Iterator[FreshHost]:
    """A host with a daemon for each of the clusters a and b, and a unit of c without settings."""
    try:
        with fresh_host(tmp_path) as host:
            place_checkout(host)
            (tmp_path / "answers").write_text(ANSWERS)
            host.sh(
                f"for name in systemctl slurmsched scontrol sacctmgr; do"
                f" install -D -m 755 {tmp_path}/answers /usr/local/bin/$name; done; rm -rf /etc/slurmsched"
                " && mkdir -p /run/systemd/system /run/slurmsched-a /etc/systemd/system/multi-user.target.wants"
                " && ln -s /nowhere /etc/systemd/system/multi-user.target.wants/slurmsched-history@a.timer"
                " && for c in a b; do mkdir -p /etc/slurmsched/$c /etc/slurm/$c"
                " && touch /etc/slurmsched/$c/slurmsched.toml"
                " && echo Include /etc/slurm/$c/slurm.conf.d/slurmsched.conf >/etc/slurm/$c/slurm.conf; done"
            )
            yield host
    except NoHost as reason:
        pytest.skip(str(reason))


def test_the_daemons_of_several_clusters_are_stopped_and_the_jobs_of_each_given_back(two_clusters):
    two_clusters.sh("echo 1 >/var/lib/b")
    refused = two_clusters.run(UNINSTALL)
    assert refused.returncode == 1
    assert "jobs were not given back" in refused.stderr
    two_clusters.sh("ls /etc/slurmsched/a/slurmsched.toml; echo 0 >/var/lib/b; rm /var/lib/asked")
    two_clusters.sh(UNINSTALL)
    asked = [line.rstrip() for line in two_clusters.sh("cat /var/lib/asked").splitlines()]
    stopped = "systemctl disable --now slurmsched-history@a.timer slurmsched@b.service slurmsched@c.service"
    given = [f"slurmsched --config /etc/slurmsched/{name}/slurmsched.toml release-all" for name in "ab"]
    assert [line for line in asked if line in (stopped, *given)] == [stopped, *given]
    assert "sacctmgr --immediate delete user slurmsched /etc/slurm/b/slurm.conf" in asked
    assert two_clusters.sh("cat /etc/slurm/a/slurm.conf /etc/slurm/b/slurm.conf") == ""
    assert two_clusters.sh("ls -d /etc/slurmsched /run/slurmsched* 2>/dev/null || true") == ""


@pytest.mark.parametrize("cluster", ["", "a"])
def test_the_removal_of_the_package_gives_the_jobs_of_each_cluster_back(two_clusters, cluster):
    two_clusters.sh(f"rm -r /etc/slurmsched/b{'' if cluster else ' /etc/slurmsched/a'}")
    two_clusters.sh(f"mkdir -p /opt/slurmsched && sh {ROOT}/packages/maintain remove")
    asked = [line.rstrip() for line in two_clusters.sh("cat /var/lib/asked").splitlines()]
    assert "systemctl start slurmsched-release.service" in asked
    instances = [
        "systemctl start slurmsched-release@a.service",
        "systemctl disable slurmsched@a.service slurmsched-history@a.timer slurmsched-train@a.timer",
    ]
    assert [line for line in asked if "@a" in line] == (instances if cluster else [])

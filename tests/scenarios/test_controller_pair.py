"""A pair of controllers, each with a slurmctld and a daemon, over one PostgreSQL: drills of their failover."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_site import Site

from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.files import host_name
from slurmsched.lab.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.attack,
    pytest.mark.skipif(os.geteuid() != 0, reason="a second host name needs root"),
]

BACKUP, ADDRESS = "slurm-backup", "127.0.0.2"
TIMEOUT_S = 10
START = """set -e
hostname "$1"
mount --bind "$2" /etc/hosts
exec slurmctld -D -f "$3"
"""


class Pair:
    """The lab's own slurmctld is the primary one; the backup runs under another host name."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self._directory = lab, lab.layout.work / "backup"
        shutil.copytree(lab.layout.etc, self._directory / "etc")
        conf = self._directory / "etc/slurm.conf"
        text = conf.read_text()
        for name in ("slurmctld.pid", "slurmctld.log"):
            text = text.replace(f"/{name}\n", f"/backup-{name}\n")
        conf.write_text(text)
        hosts = self._directory / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {host_name()}\n{ADDRESS} {BACKUP}\n")
        self._argv = ["unshare", "--uts", "--mount", "sh", "-c", START, "sh", BACKUP, str(hosts), str(conf)]

    def start_backup(self) -> subprocess.Popen[bytes]:
        with (self._directory / "output").open("ab") as log:
            return subprocess.Popen(self.lab.command(self._argv), env=self.lab.env(), stdout=log, stderr=log)

    def steering(self) -> str:
        """Which slurmctld decides now: primary, backup or neither."""
        lines = self.lab.run(["scontrol", "ping"], timeout_s=60.0).stdout.splitlines()
        up = [line.partition("(")[2].partition(")")[0] for line in lines if line.endswith("is UP")]
        if "primary" in up:
            return "primary"
        return "backup" if self.lab.run(["squeue", "-h"], timeout_s=60.0).returncode == 0 else "neither"

    def until_saved(self) -> None:
        """Until slurmctld has its jobs of now on disk: what a crash takes before that is lost, whoever takes over."""
        now_s, saved = time.time(), self.lab.layout.state / "job_state"
        wait_until(lambda: saved.exists() and saved.stat().st_mtime > now_s, 60.0, "a saved state", every_s=0.2)

    def until_steers(self, which: str) -> float:
        began_s = time.monotonic()
        wait_until(lambda: self.steering() == which, 180.0, f"the {which} slurmctld to decide", every_s=0.5)
        return time.monotonic() - began_s


@pytest.fixture
def pair(lab_directory: Path) -> Iterator[Pair]:
    extra = (f"SlurmctldHost={BACKUP}({ADDRESS})", f"SlurmctldTimeout={TIMEOUT_S}", "DebugFlags=NO_CONF_HASH")
    with Lab(lab_directory, LabSpec(extra_conf=extra)) as lab:
        found = Pair(lab)
        backup = found.start_backup()
        wait_until(
            lambda: lab.run(["scontrol", "ping"]).stdout.count("is UP") == 2, 60.0, "both to answer", every_s=0.2
        )
        yield found
        backup.send_signal(signal.SIGTERM)
        backup.wait(60.0)


def test_a_host_that_dies_takes_its_daemon_and_its_slurmctld_along_and_the_other_one_goes_on(pair, server):
    lab, url = pair.lab, server.new_database()
    first, second = (Site.of(lab, database=f"url = '{url}'\ntimeout_s = 5") for _ in range(2))
    with first.daemon() as process, second.daemon():
        first.until(lambda: first.said("status").get("mode") == "act", "the first to lead")
        first.fill()
        jobs = first.queue(2)
        first.until(lambda: first.ordered(jobs), "an order")
        pair.until_saved()
        lab.stop_controller(kill=True)
        process.kill()
        process.wait(90.0)
        took_s = pair.until_steers("backup")
        print(f"the backup decided {took_s:.1f} s after the primary died; SlurmctldTimeout is {TIMEOUT_S}")
        second.until(lambda: second.said("status").get("mode") == "act", "the second to lead")
        assert second.ordered(jobs), "the order is in the state that both share"
        more = first.queue(3)
        second.until(lambda: second.ordered(more), "an order by the second, from the backup")
        assert second.said("status")["problem"] == ""

        lab.start_controller()
        pair.until_steers("primary")
        with first.daemon():
            first.until(lambda: first.said("status").get("mode") == "observe", "the first to look on")
            last = first.queue(1)
            second.until(lambda: second.ordered([*last, more[1]]), "an order by the second, from the primary again")
            assert first.said("status")["why_mode"] == "another daemon leads this cluster"

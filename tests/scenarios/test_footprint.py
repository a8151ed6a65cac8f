"""What the daemon takes from the machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lab_site import Site

MOST_MIB = 250


def pending(site: Site, count: int) -> None:
    """*count* pending jobs, none like the other."""
    site.fill()
    each = "sbatch -Q --gres=gpu:4 -N4 -t$((1 + i % 60)) -J train_$i --wrap=true -o/dev/null"
    site.lab.ask(["bash", "-c", f"for i in $(seq {count}); do {each} || exit; done"], "bob", timeout_s=1200.0)


def peak_mib(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


def run(site: Site, count: int, cycles: int) -> None:
    pending(site, count)
    with site.daemon("env", *site.argv("run")) as process:  # of its own: a forked one shares what it has read
        site.more_cycles(cycles)
        assert site.said("status")["cycle"]["pending"] >= count
        assert len(site.said("queue", "--limit", "10000")["queue"]) >= count
        assert peak_mib(process.pid) <= MOST_MIB
        assert "a bug" not in site.log


def test_fifty_pending_jobs(site):
    run(site, 50, 1)


@pytest.mark.soak
def test_two_thousand_pending_jobs(site):
    run(site, 2000, 30)

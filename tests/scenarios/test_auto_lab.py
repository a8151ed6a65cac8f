"""A policy that chooses its composition, on a real Slurm: one switch, frozen, replayed, and what kills leave behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from lab_site import Site
from simulator.test_predict_completion import view as waiting

from slurmsched.cluster.job_record import outcomes_of
from slurmsched.decide.synthesis import SynthesisRules
from slurmsched.foresee.composition_outlooks import composition_outlooks
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cycle_driver import whole_queue

AUTO = "auto orderings=fifo,sjf loads=all,1.4 rounds=2 arrivals=0"


def composition(site: Site) -> str:
    return site.said("policy", "show")["auto"]["composition"]


def players(daemon: int) -> list[int]:
    """The processes of that daemon that play compositions forward."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        words = line.read_bytes().split(b"\0") if line.exists() else []
        parent = (line.parent / "stat").read_text().rpartition(")")[2].split()[1] if words else ""
        if b"slurmsched.foresee.synthesis_worker" in words and int(parent) == daemon:
            found.append(int(line.parent.name))
    return found


def switches(site: Site) -> list[dict]:
    """The switches on record, the latest first."""
    choices = site.said("policy", "show", "--all")["choices"]
    return [choice for choice in choices if choice["by"] == "auto" and choice["synthesis"]["step"]["acts"]]


def compile_first() -> None:
    """Compile as the owner of the sources what the daemon's user then only reads, which would take minutes."""
    policy, candidates = whole_queue(find_ordering("fifo")), SynthesisRules.of(AUTO).candidates
    composition_outlooks(waiting((100.0, 4), running=((10.0, 4),)), policy, candidates, {}, outcomes_of(()), 0.0)


@pytest.mark.soak
def test_it_switches_once_is_frozen_and_replayed_and_goes_on_after_kills(new_site):
    site = new_site(
        None,  # whose processes start others, which the operator may not where the interpreter is closed to others
        daemon="mode = 'act'\nevery_s = 2",
        policy=f"ordering = '{AUTO}'\nauto = 'act'",
        power="order = true",
    )
    compile_first()
    filler = site.fill()
    jobs = site.queue(3)
    with site.daemon() as process:
        site.until(lambda: composition(site) == "sjf", "a switch to sjf", 300.0)
        site.until(lambda: site.ordered(jobs), "the shortest job first")
        [switch] = switches(site)
        step = switch["synthesis"]["step"]
        assert (step["before"][0], step["after"][0]) == ("fifo", "sjf")
        words = " ".join(site.said("why", str(jobs[-1]))["why"]["details"])
        assert f"The order of jobs is sjf, by auto: {step['reason']}." in words
        cycle = next(
            number
            for (number,) in site.sql("SELECT number FROM cycles ORDER BY number")
            if (site.said("replay", str(number)).get("auto") or {}).get("now_s") == step["now_s"]
        )
        replayed = site.said("replay", str(cycle))
        assert replayed["identical"], replayed["differences"]

        assert site.run("policy", "freeze", "--reason", "a deadline").returncode == 0
        [player] = players(process.pid)
        os.kill(player, signal.SIGKILL)
        site.until(lambda: "the composition stays" in site.log, "a forecast that failed")
        site.until(lambda: players(process.pid), "a new process for forecasts")
        assert composition(site) == "sjf"
        assert 'slurmsched_synthesis_decisions_total{result="switched"} 1.0' in site.http("/metrics")
        process.kill()
        process.wait(90.0)
    assert players(process.pid) == []
    with site.daemon():
        site.more_cycles(6)
        assert composition(site) == "sjf"
        assert len(switches(site)) == 1
        assert site.said("policy", "show")["auto"]["frozen"]
    site.lab.run(["scancel", str(filler), *map(str, jobs)])

"""The totals of a report are those of sacct and sreport on a real Slurm with slurmdbd."""

from __future__ import annotations

import math
import subprocess
import time

import pytest
from lab_site import Site

from slurmsched.cluster.records.scope import Scope
from slurmsched.db.store import Store
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.report.summary import summary
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

EARLIER_S = 2 * 3600
"""How far the accounting of the runs is moved into the past: sreport sums up hours that are over."""

JOBS = [("alice", 1, 2), ("bob", 2, 4), ("alice", 4, 3), ("carol", 1, 5), ("dave", 0, 2), ("bob", 3, 1)]


@pytest.fixture
def own_lab(lab_directory):
    with Lab(lab_directory, LabSpec(nodes=3)) as made:
        yield made


def moved_back(lab):
    """Let the accounting of *lab* have happened earlier, and its hours be summed up by slurmdbd."""
    c, times = f"slurm_acct_db.{lab.cluster}", ("submit", "eligible", "start", "end")
    moves = ", ".join(f"time_{name} = time_{name} - {EARLIER_S}" for name in times)
    rollups = ", ".join(f"{each}_rollup = {each}_rollup - {2 * EARLIER_S}" for each in ("hourly", "daily", "monthly"))
    statements = (
        f"update {c}_job_table set {moves}",
        f"update {c}_event_table set time_start = time_start - {2 * EARLIER_S}",
        f"update {c}_last_ran_table set {rollups}",
        f"update {c}_assoc_table set creation_time = creation_time - {2 * EARLIER_S}",
    )
    lab.stop_slurmdbd()
    socket = f"--socket={lab.layout.database_socket}"
    subprocess.run(
        ["mariadb", "--no-defaults", socket, "--user=root", "-e", "; ".join(statements)], check=True, timeout=60
    )
    lab.start_slurmdbd()


def printed(lab, *command):
    """The cells of each line that a command of Slurm prints with -P."""
    return [line.split("|") for line in lab.ask(list(command)).splitlines() if line]


def test_the_gpu_hours_of_a_report_are_those_of_sacct_and_of_sreport(own_lab, tmp_path):
    lab = own_lab
    for user, gpus, seconds in JOBS:
        wanted = [f"--gres=gpu:{gpus}"] if gpus else []
        script = f"#!/bin/sh\nsleep {seconds}\n"
        lab.submit(*wanted, "-t5", "-o/dev/null", "-Jrun", script=script, user=user)
    wait_until(lambda: not lab.ask(["squeue", "-h"]).strip(), 120.0, "the end of all jobs", every_s=0.5)
    listed = ("sacct", "-a", "-X", "-n", "-P", "-o", "State")
    wait_until(
        lambda: printed(lab, *listed).count(["COMPLETED"]) == len(JOBS), 60.0, "all runs in accounting", every_s=0.5
    )
    moved_back(lab)
    until_s = math.floor(time.time() / 3600) * 3600.0
    since_s = until_s - 4 * 3600
    span = [time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at_s)) for at_s in (since_s, until_s)]
    used = ("sreport", "-n", "-P", "-t", "Seconds", "-T", "gres/gpu", "cluster", "AccountUtilizationByUser",
            f"Start={span[0]}", f"End={span[1]}")  # fmt: skip
    wait_until(lambda: printed(lab, *used), 120.0, "the hours that slurmdbd sums up", every_s=1.0)

    slurm = SlurmCommand(CommandRunner(environment=lab.env()))
    slurm.facts()
    store = Store(f"sqlite:///{tmp_path}/slurmsched.db")
    store.upgrade()
    assert store.add_outcomes("lab", slurm.outcomes(since_s, until_s)) == len(JOBS)

    def held_s(**scope):
        of = Scope(**scope)
        rows = store.report_rows("lab", since_s, until_s, of)
        report = summary(rows, of, cluster_name="lab", since_s=since_s, until_s=until_s)
        return round(report["total"]["held"] * 3600, 3)

    by_user: dict[str, float] = {}
    runs = printed(
        lab, "sacct", "-a", "-X", "-n", "-P", "-S", span[0], "-E", span[1], "-o", "User,ElapsedRaw,AllocTRES"
    )
    for user, elapsed_s, tres in runs:
        gpus = dict(part.split("=") for part in tres.split(",")).get("gres/gpu", "0")
        by_user[user] = by_user.get(user, 0.0) + int(elapsed_s) * int(gpus)
    assert len(runs) == len(JOBS)
    assert held_s() == sum(by_user.values()) > 0
    for user, seconds in by_user.items():
        assert held_s(user=user) == seconds

    rows = printed(lab, *used)
    told = {(account, user): float(seconds) for _, account, user, _, _, seconds in rows}
    assert held_s() == told["root", ""]
    for (account, user), seconds in told.items():
        if account != "root":
            assert held_s(account=account, user=user) == seconds, (account, user)
    sizes = ("sreport", "-n", "-P", "-t", "Seconds", "-T", "gres/gpu", "job", "sizesbyaccount", "FlatView",
             f"Start={span[0]}", f"End={span[1]}")  # fmt: skip
    for _, account, seconds, *_ in printed(lab, *sizes):
        assert held_s(account=account) == float(seconds)
    store.close()


def test_a_daemon_beside_a_real_slurm_counts_what_its_report_tells(lab):
    site = Site.of(lab)
    site.fill()
    with site.daemon() as daemon:
        site.queue(3)
        site.more_cycles(4)
        live = site.said("report", "--since", "1h")
        assert live["source"] == "daemon"
        assert live["running"] > 0
        daemon.terminate()
        daemon.wait(90.0)
    told = site.said("report", "--since", "1h")
    assert told["source"] == "record"
    book, machine = told["ledger"], told["machine"]
    assert book["writes"]["Rank"] >= 1
    assert book["calls"]["squeue"] >= 4
    (load,) = book["load"]
    assert (load["mode"], load["rpcs_per_min"] > 0, load["rpc_mean_s"] > 0) == ("act", True, True)
    assert 0 <= machine["free"] < machine["capacity"]
    assert [order["mode"] for order in told["order"]] == ["act"]
    file = site.directory / "week.html"
    assert site.run("report", "--since", "1h", "--html", str(file)).returncode == 0
    assert "Load of slurmctld before and after" in file.read_text("utf-8")

"""What a real Slurm accounts of the use of CPUs and memory."""

from __future__ import annotations

import time

import pytest
from lab_site import Site

from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

MEASURED = ("JobAcctGatherType=jobacct_gather/linux", "JobAcctGatherFrequency=1")
BUSY = "import time; taken = bytearray({mib} * 2**20); end = time.time() + 4\nwhile time.time() < end: pass"


@pytest.fixture
def lab(lab_directory):
    with Lab(lab_directory, LabSpec(nodes=2, extra_conf=MEASURED)) as made:
        yield made


def test_the_cpus_and_memory_that_a_run_used_come_from_accounting(lab):
    (lab.layout.work / "busy.py").write_text(BUSY.format(mib=200))
    script = f"#!/bin/sh\npython3 {lab.layout.work}/busy.py\n"
    job = lab.submit("--gres=gpu:1", "-c2", "-t5", "-o/dev/null", "-Jbusy", script=script, user="alice")
    slurm = SlurmCommand(CommandRunner(environment=lab.env()))
    slurm.facts()
    found = []

    def read() -> bool:
        found[:] = [slurm.usage(time.time() - 600, time.time() + 600)]
        return job in found[0].job_id.tolist()

    wait_until(read, 120.0, "the run in accounting", every_s=5.0)
    (use,) = found
    assert (use.user[0], use.name[0], use.gpus[0], use.nodes[0]) == (lab.user("alice"), "busy", 1, 1)
    assert 200 <= use.memory_mib[0] < 400
    assert 0.05 < use.cpus[0] <= 2
    assert use.held_memory_mib[0] == 4000  # of two CPUs


@pytest.mark.soak
def test_a_job_of_a_listed_account_gets_what_runs_of_its_kind_used(lab_directory):
    with Lab(lab_directory, LabSpec(nodes=5, extra_conf=MEASURED)) as lab:
        (lab.layout.work / "idle.py").write_text("import time; taken = bytearray(300 * 2**20); time.sleep(61)")
        script = f"#!/bin/sh\nexec python3 {lab.layout.work}/idle.py\n"

        def submit(*options: str, user: str = "alice") -> int:
            return lab.submit("--gres=gpu:1", "-t5", "-o/dev/null", "-Jidle_1", *options, script=script, user=user)

        for _ in range(20):
            submit("-c1", "--mem=500")
        site = Site.of(
            lab,
            power="order = true\nrightsize = true",
            rightsize=f"accounts = ['{lab.spec.accounts[0]}']",
            policy="ordering = 'fifo'",
        )
        site.until(lambda: set(site.states().values()) == {"COMPLETED"}, "runs that ended", 200.0)
        filler = lab.submit("--gres=gpu:4", "-N5", "-c8", "-t30", "--wrap=sleep 1200", "-o/dev/null", user="bob")
        site.until(lambda: site.states()[filler] == "RUNNING", "a job on all nodes")
        job, other = submit("-c6", "--mem=12000"), submit("-c6", "--mem=12000", user="carol")
        time.sleep(61)  # so late may runs be in accounting

        def asked_for() -> dict[int, str]:
            listed = lab.ask(["squeue", "-h", "-t", "PD", "--noconvert", "-O", "JobID:12,MinCpus:8,MinMemory:12"])
            return {int(job): " ".join(rest) for job, *rest in map(str.split, listed.splitlines())}

        with site.daemon():
            site.until(lambda: asked_for() == {job: "2 4000M", other: "6 12000M"}, "a job that is sized", 60.0)
            ours = "We let it ask for 2 CPUs and 4000 MiB; its owner asked for 6 CPUs and 12000 MiB. Runs of its kind"
            site.until(lambda: ours in " ".join(site.said("why", str(job))["why"]["details"]), ours)

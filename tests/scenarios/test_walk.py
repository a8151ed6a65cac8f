"""The README's first hour and the page for users, walked by an admin and a user of a site like a real one."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lab_site import Site, copied

from slurmsched.lab import Lab, LabSpec

sys.path.append(str(Path(__file__).parents[1] / "install"))

from pages import Command, Reader, Shell, commands

ROOT = Path(__file__).parents[2]
SHAPE = LabSpec(
    nodes=4,
    extra_conf=(
        "PartitionName=gpu Nodes=n[1-3] Default=YES MaxTime=7-0 DefaultTime=60 State=UP",
        "PartitionName=debug Nodes=n4 MaxTime=30 DefaultTime=10 PriorityTier=2 State=UP",
        "AccountingStorageEnforce=associations,limits,qos",
        "PriorityWeightFairShare=10000",
    ),
)
"""Two partitions, one with short jobs; two accounts with users, three QOS, fair share, and limits that are enforced."""

SETTINGS = {
    "daemon": "every_s = 1",
    "slurm": "timeout_s = 20\nbackend = 'auto'",
    "deadline": "enabled = true",
    "power": "hold = true\ncomment = true",
    "predict": "every_s = 1",
    "metrics": "listen = ''",
}
"""Of a site that promises deadlines; the walk adds mode, ordering and the power to order."""

STAND_IN = """#!/bin/bash
# systemctl, as far as the pages use it
cd {directory}
case "$1" in
enable) nohup slurmsched run >>log 2>&1 & echo $! >pid; until [ -S slurmsched.sock ]; do sleep 0.1; done ;;
reload) seen=$(grep -c "settings reloaded" log); kill -HUP $(cat pid)
    until [ $(grep -c "settings reloaded" log) -gt $seen ]; do sleep 0.1; done ;;
stop) kill -TERM $(cat pid); while kill -0 $(cat pid) 2>/dev/null && ! grep -q stopped log; do sleep 0.1; done ;;
esac
"""

WORDS = re.compile(r"a bug|Traceback|broke off|no new predictions|\b0\.0\d* GPU-")
"""What no command may print."""

LATER = ("slurmsched eta", "slurmsched deadline --check")
"""Commands of which the daemon may say for a moment that it is still starting."""


class Walk:
    """The lab, its jobs, and shells in which ``slurmsched`` and ``systemctl`` are there for an admin and for users."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.site = Site.of(lab, None, **SETTINGS)
        for section in ("policy", "order"):
            del self.site.settings[section]
        self.site.write()
        self.programs = self.site.directory / "programs"
        self.programs.mkdir()
        self._program("systemctl", STAND_IN.format(directory=self.site.directory))
        (self.site.directory / "conf.d").mkdir()
        self.job = self._jobs()

    def _program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def _jobs(self) -> int:
        """Return a job that waits for its turn, beside others that wait for much else."""
        submit, end = self.lab.submit, ("-o/dev/null", "-D/tmp")
        for user, seconds in (("alice", 1), ("bob", 2)):
            submit("--gres=gpu:1", "-t5", f"-J{user}_train", f"--wrap=sleep {seconds}", "--wait", *end, user=user)
        self.lab.ask(["sacctmgr", "-iQ", "modify", "qos", "low", "set", "maxtresperuser=gres/gpu=2"])
        for user in ("carol", "dave"):
            submit("--gres=gpu:4", "-N1", "-t120", f"-J{user}_long", "--wrap=sleep 3600", *end, user=user)
        submit("--gres=gpu:4", "-N1", "-t120", "--wrap=sleep 3600", *end, user="bob")
        self.site.until(lambda: list(self.site.states().values()).count("RUNNING") == 3, "full nodes")
        job = submit("--gres=gpu:4", "-N2", "-t300", "-Jalice_train", "--wrap=sleep 60", *end, user="alice")
        submit("--gres=gpu:1", "-t10", "-Jbob_train", "--wrap=sleep 60", *end, user="bob")
        submit("--gres=gpu:2", "-t10", "--comment=slurmsched:deadline=+9h", "--wrap=true", *end, user="alice")
        submit("--gres=gpu:4", "-t10", "--qos=low", "--wrap=sleep 60", *end, user="carol")
        submit("--gres=gpu:1", "-H", "--wrap=true", *end, user="dave")
        submit("--gres=gpu:1", "--array=1-4%1", "-t5", "--wrap=sleep 60", *end, user="dave")
        submit("-pdebug", "--gres=gpu:1", "-t5", f"--dependency=afterok:{job}", "--wrap=true", *end, user="bob")
        return job

    def shell(self, who: str) -> Shell:
        """Return a shell of root, or of a user of the cluster at home."""
        user = None if who in ("root", "slurmsched") else who
        python, path = (sys.executable, "") if user is None else copied(self.lab.directory)
        at = self.site.directory / f"programs-{who}"
        if not at.exists():
            shutil.copytree(self.programs, at)
            own = at / "slurmsched"
            own.write_text(f'#!/bin/sh\nexec {python} -m slurmsched --config {self.site.file} "$@"\n')
            own.chmod(0o755)
        environment = self.lab.env(user) | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PATH"] = f"{at}:{environment['PATH']}"
        return Shell(self.lab.command([], user=user), cwd=self.lab.layout.work, env=environment)

    def adapted(self, command: Command) -> tuple[str, str]:
        """Return what to run here for a command of a page, and why it is not the same."""
        text = command.text.replace("runuser -u slurmsched -- ", "").replace(
            "/etc/slurmsched", str(self.site.directory)
        )
        text = re.sub(r"\bJOB\b", str(self.job), text)
        if text.startswith(LATER):
            text = f"until {{ {text}\n}} >said 2>&1 || ! grep -q 'still starting' said; do sleep 0.5; done; {text}"
        return text, "" if text == command.text else "places, jobs and first moments are those of this lab"


@pytest.fixture
def walk(lab_directory: Path) -> Iterator[Walk]:
    pytest.importorskip("numba")
    if os.geteuid() != 0:
        pytest.skip("several users need root")
    with Lab(lab_directory, SHAPE) as lab:
        walking = Walk(lab)
        walking.lab.layout.work.chmod(0o777)
        (walking.lab.layout.work / "train.sh").write_text("#!/bin/sh\n#SBATCH -p gpu -G 1 -t 1:00\ntrue\n")
        yield walking
        if (pid := walking.site.directory / "pid").exists() and Path(f"/proc/{pid.read_text().strip()}").exists():
            os.kill(int(pid.read_text()), 9)


@pytest.mark.soak
def test_the_first_hour_of_an_admin_and_the_page_for_users_hold_on_a_site_like_a_real_one(walk):
    reader = Reader(walk.shell, walk.adapted)
    hour = commands(ROOT, "README.md", "An admin's first hour")
    undo = next(at for at, command in enumerate(hour) if command.text == "slurmsched pause")
    act = next(at for at, command in enumerate(hour) if "20-act.toml" in command.text)
    asks = [
        Command("the walk", "", 0, "alice", text)
        for text in (
            "slurmsched deadline --check '-p gpu -G 1 -t 10 --comment=slurmsched:deadline=+20h'",
            "slurmsched eta --check '-p gpu -G 1 -t 10'",
            "slurmsched eta --script train.sh",
            "slurmsched eta --all",
            "slurmsched status",
        )
    ]
    output = reader.play(hour[:act])
    refused = replace(asks[0], text=f"{asks[0].text} || [ $? = 1 ]")  # nothing is promised before the daemon acts
    output += reader.play([refused, *asks[1:]])  # in advise mode, under sjf, with the default [order]
    output += reader.play(hour[act:undo])
    output += reader.play([*commands(ROOT, "docs/users.md"), *asks])
    site, lab = walk.site, walk.lab
    shows = ["scontrol", "show", "job", "-o"]
    site.until(lambda: " AdminComment=slurmsched" in lab.ask(shows), "an answer to the deadline")
    assert max(site.points().values()) > 0
    output += reader.play(hour[undo : undo + 2])
    left = lab.ask(shows)
    assert set(site.points().values()) == {0}
    output += reader.play(hour[undo + 2 :])
    reader.leave_page()
    assert [line for line in output.splitlines() if WORDS.search(line)] == []
    waiting = [record for record in (*left.splitlines(), *lab.ask(shows).splitlines()) if "JobState=PENDING" in record]
    assert waiting
    for record in waiting:
        assert "AdminComment=slurmsched" not in record
        assert re.search(r" ReqNodeList=\(null\) ExcNodeList=\(null\)", record), record
    assert set(site.points().values()) == {0}
    assert site.begin_times() == {}

"""Prolog, epilog and task prolog on nodes where everything goes wrong: no node drains, no start waits for a second."""

from __future__ import annotations

import os
import socket
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from node_faults import CONTROLS, FAULTS, NONE, WAITED_S, WAITS, build, unmount
from node_worlds import wait_on_lab

from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs

pytestmark = pytest.mark.lab

BESIDE = 6
"""So many faults for one start of each control."""
#: Says when it runs, by the clock that the hooks use.
JOB = "read -r up _ </proc/uptime; echo job $SLURM_JOB_ID $up >>{home}/log"


@dataclass(frozen=True)
class Run:
    """One hook of one job; times in seconds since the machine started."""

    kind: int
    began_s: float
    ended_s: float
    status: int


@dataclass
class Site:
    """A Slurm of three nodes with two GPUs each, on which one job after the other has a fault of its own."""

    lab: Lab
    home: Path
    kinds: list[str]

    def run(self, jobs: int) -> dict[str, dict[int, Run]]:
        """Run so many jobs to their ends; each hook of each job, by its name and the job's id."""
        wrap = f"--wrap={JOB.format(home=self.home)}"
        self.lab.submit(f"--array=1-{jobs}", "--gpus=1", "-t60", "-o/dev/null", wrap)
        wait_on_lab(lambda: self.count("epilog") >= jobs, f"the epilogs of {jobs} jobs", 120.0 + 3.0 * jobs)
        runs: dict[str, dict[int, Run]] = defaultdict(dict)
        for name, job, kind, began, ended, status in self.lines(6):
            runs[name][int(job)] = Run(int(kind), float(began), float(ended), int(status))
        return runs

    def lines(self, words: int) -> list[list[str]]:
        rows = (line.split() for line in (self.home / "log").read_text().splitlines())
        return [row for row in rows if len(row) == words]

    def count(self, name: str) -> int:
        return sum(row[0] == name for row in self.lines(6))

    def starts(self) -> dict[int, float]:
        """When each job ran its first line."""
        return {int(job): float(at) for _, job, at in self.lines(3)}

    def nodes(self) -> set[str]:
        return set(self.lab.ask(["sinfo", "-h", "-N", "-o", "%t"]).split())


@contextmanager
def faulty_site(shells: list[str]) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("prologs are root's")
    kinds = [kind for at, kind in enumerate(FAULTS) for kind in ([*CONTROLS, kind] if at % BESIDE == 0 else [kind])]
    with (
        tempfile.TemporaryDirectory(prefix="faults-", dir="/tmp") as directory,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        home = Path(directory)
        home.chmod(0o755)
        try:
            hooks = build(home, kinds, shells, silent.getsockname()[1])
            spec = LabSpec(nodes=3, gpus=2, accounting=False, extra_conf=(*hooks, "PrologFlags=Alloc"))
            with ExitStack() as stack:
                try:
                    programs.check(spec)
                    lab = stack.enter_context(Lab(home / "lab", spec))
                except LabError as error:  # later ones are failures
                    pytest.skip(str(error))
                yield Site(lab, home, kinds)
        finally:
            unmount(home)


def hold(site: Site, jobs: int, noise: float) -> str:
    """Run *jobs* and demand that none is delayed and no node drained; the figures as text.

    A machine may be busy: the seconds by which the control that only waits is slower than its pauses, *noise* times,
    do not count.
    """
    runs = site.run(jobs)
    wait_on_lab(lambda: site.nodes() <= {"idle", "drain"}, f"nodes without jobs, not {site.nodes()}")
    assert site.nodes() == {"idle"}, site.lab.ask(["sinfo", "-R", "-o", "%N %E"])
    failed = [(name, site.kinds[run.kind], run.status) for name in runs for run in runs[name].values() if run.status]
    assert failed == []
    starts = site.starts()
    assert len(starts) == jobs
    delays = by_kind(site, {job: (run, starts[job] - run.began_s) for job, run in runs["prolog"].items()})
    ends = by_kind(site, {job: (run, run.ended_s - run.began_s) for job, run in runs["epilog"].items()})
    shown = [f"{jobs} jobs, {sum(map(len, runs.values()))} runs of prolog, task prolog and epilog"]
    for what, took in (("a start", delays), ("an end", ends)):
        none_s, waiting_s = (max(took.pop(kind)) for kind in (NONE, WAITS))
        worst = {kind: max(each) for kind, each in took.items()}
        slowest = max(worst, key=worst.__getitem__)
        shown.append(
            f"{what}: {worst[slowest]:.2f} s at most ({slowest}), {none_s:.2f} s without our programs,"
            f" {waiting_s:.2f} s with one that only waits"
        )
        bound_s = 1.0 + noise * max(0.0, waiting_s - WAITED_S)
        assert {kind: took_s for kind, took_s in worst.items() if took_s > bound_s} == {}, shown[-1]
    return "\n".join(shown)


def by_kind(site: Site, took: dict[int, tuple[Run, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for run, seconds in took.values():
        found[site.kinds[run.kind]].append(seconds)
    return found


def test_no_fault_of_a_node_drains_it_or_delays_a_start(capsys):
    with faulty_site(["dash"]) as site:
        shown = hold(site, len(site.kinds), 3.0)
    with capsys.disabled():
        print(f"\n{shown}")


@pytest.mark.soak
def test_a_thousand_faults(capsys):
    with faulty_site(["dash", "bash"]) as site:
        shown = hold(site, 1000 * (BESIDE + len(CONTROLS)) // BESIDE, 1.0)
    with capsys.disabled():
        print(f"\n{shown}")

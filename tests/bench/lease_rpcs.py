"""``python -m tests.bench.lease_rpcs``: what leases cost slurmctld, by its own counts of RPCs (sdiag), on a lab.

A lease that goes on is a decision of slurmsched alone. The central variant asks slurmctld about each running job in
each round. To revoke a lease, a job is asked to stop, requeued if it does not, and its delay after the requeue lifted.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slurmsched.cycle import CycleContext, CycleReport, run_cycle
from slurmsched.decide.rules import LeaseRules
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.users import uid_of
from slurmsched.lab.waiting import wait_until
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.cycle_driver import whole_queue
from slurmsched.slurm.adapters.command import SlurmCommand
from slurmsched.slurm.adapters.command_runner import CommandRunner

from .__main__ import make_world

LONG = LeaseRules("lease 20m", 1200.0)
SHORT = LeaseRules("lease 5s", 5.0, stop_s=60.0)
ROUNDS = 5
RUNNING = (8, 32, 128)
REVOKED = (1, 8, 32)
SETTLED_S = 5.0  #: after a requeue its delay is lifted no sooner than three seconds later
_COUNT = re.compile(r"^\s*([^\s(]+)\s*\(\s*(\d+)\)\s+count:(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class RpcCounts:
    """The RPCs that slurmctld has served: of each kind, and of each user by number."""

    kinds: Counter[str]
    users: Counter[int]

    @classmethod
    def of(cls, lab: Lab) -> RpcCounts:
        """The counts of *lab*; asking for them is an RPC of its SlurmUser."""
        kinds, _, rest = lab.ask(["sdiag"]).partition("statistics by user")
        users, _, _ = rest.partition("Pending RPC")
        return cls(
            Counter({kind: int(count) for kind, _, count in _COUNT.findall(kinds.partition("message type")[2])}),
            Counter({int(uid): int(count) for _, uid, count in _COUNT.findall(users)}),
        )

    def since(self, before: RpcCounts) -> RpcCounts:
        """The RPCs since *before*."""
        return RpcCounts(self.kinds - before.kinds, self.users - before.users)


@dataclass
class LeasedLab:
    """A lab whose operator runs cycles of ``las`` with leases, in this process, and at times of our choice."""

    lab: Lab
    context: CycleContext

    def cycle(self, lease: LeaseRules, now_s: float) -> CycleReport:
        """Run a cycle with this lease as if it were *now_s*."""
        self.context.policy = whole_queue(find_ordering("las"), None, lease)
        return run_cycle(self.context, self.context.memory.next_number(now_s), now_s, "act")

    def run_jobs(self, count: int, gpus: int) -> None:
        """Submit *count* jobs with ckpt that sleep, of so many *gpus* each."""
        one = f"sbatch -Q --gres=gpu:{gpus} -n1 -t60 --requeue --comment=slurmsched:ckpt -J sleeps -o/dev/null"
        loop = f"for i in $(seq {count}); do {one} --wrap='sleep 3000' || exit; done"
        self.lab.ask(["bash", "-c", loop], "alice", timeout_s=600)

    def jobs(self, states: str) -> list[int]:
        """The jobs in these states."""
        return [int(job) for job in self.lab.ask(["squeue", "-h", "-t", states, "-o", "%A"]).split()]

    def spent(self, before: RpcCounts) -> RpcCounts:
        """The RPCs since *before*."""
        return RpcCounts.of(self.lab).since(before)

    def operators(self, counts: RpcCounts) -> int:
        """The RPCs of slurmsched's user."""
        return counts.users[uid_of(self.lab.user("operator"))]

    def fill(self, count: int) -> None:
        """Let *count* jobs share all GPUs, and one more wait, which las would put before them after their lease."""
        spec = self.lab.spec
        self.run_jobs(count + 1, spec.nodes * spec.gpus // count)
        wait_until(lambda: len(self.jobs("R")) == count, 300, f"{count} running jobs", every_s=0.2)

    def going_on(self) -> RpcCounts:
        """The RPCs of ROUNDS cycles in which all running jobs go on, once the one that waits has its place."""
        self.cycle(LONG, time.time())
        before = RpcCounts.of(self.lab)
        for _ in range(ROUNDS):
            report = self.cycle(LONG, time.time())
            assert not report.actions, report.actions
        return self.spent(before)

    def central(self) -> RpcCounts:
        """The RPCs of ROUNDS rounds that ask about each running job."""
        jobs, before = self.jobs("R"), RpcCounts.of(self.lab)
        for _ in range(ROUNDS):
            for job in jobs:
                self.lab.ask(["scontrol", "show", "job", str(job)], "operator")
        return self.spent(before)

    def revoked(self, count: int) -> tuple[RpcCounts, Counter[str]]:
        """The RPCs and the actions of three cycles that revoke *count* leases of one GPU for as many jobs that wait."""
        self.run_jobs(count - 1, 1)  # one waits already
        self.cycle(LONG, time.time())  # gives the new ones their place in the order
        running = set(self.jobs("R"))
        before, over_s = RpcCounts.of(self.lab), time.time() + SHORT.lease_s
        asked = self.cycle(SHORT, over_s)
        requeued = self.cycle(SHORT, over_s + SHORT.stop_s)
        wait_until(lambda: len(running & set(self.jobs("PD"))) == count, 120, f"{count} requeued jobs", every_s=0.2)
        lifted = self.cycle(LONG, over_s + SHORT.stop_s + SETTLED_S)
        acted = sum((Counter(report.actions) for report in (asked, requeued, lifted)), Counter[str]())
        return self.spent(before), acted


@contextmanager
def leased(lab: Lab, directory: Path) -> Iterator[LeasedLab]:
    """The lab with cycles that have a database in *directory*."""
    console = CommandRunner(environment=lab.env(), prefix=tuple(lab.command([], user="operator")), timeout_s=60)
    world = make_world(SlurmCommand(console), directory, lab.cluster)
    world.learns = False  # what was cancelled says nothing about how long the others run
    yield LeasedLab(lab, world)
    lab.cancel_all()


def bench_going_on() -> None:
    """Print the RPCs of a round in which all jobs go on."""
    print(f"RPCs in a round in which all running jobs go on (mean of {ROUNDS})")
    for count in RUNNING:
        with new_lab(count) as site:
            site.fill(count)
            ours, central = site.operators(site.going_on()), site.operators(site.central())
            print(f"  {count:>4} jobs: {ours / ROUNDS:g}; one query for each job: {central / ROUNDS:g}", flush=True)


def bench_revoked() -> None:
    """Print the RPCs of revoked leases, by kind."""
    print("actions and RPCs of the three cycles that revoke leases: requests, requeues, ends of the delay after them")
    for count in REVOKED:
        with new_lab(REVOKED[-1]) as site:
            site.fill(REVOKED[-1])
            spent, acted = site.revoked(count)
            words = ", ".join(f"{kind} {many}" for kind, many in sorted((acted + spent.kinds).items()))
            print(f"  {count:>4} jobs: {words}", flush=True)


@contextmanager
def new_lab(gpus: int) -> Iterator[LeasedLab]:
    """A lab of so many GPUs, eight on each node."""
    spec = LabSpec(nodes=-(-gpus // 8), gpus=8, cpus=8)
    with tempfile.TemporaryDirectory(prefix="ssrpc-", dir="/tmp", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o755)  # the lab's users pass through
        with Lab(directory / "lab", spec) as lab, leased(lab, directory) as site:
            yield site


def main() -> None:
    """Print both tables."""
    try:
        bench_going_on()
        bench_revoked()
    except LabError as error:
        print(f"nothing on a real Slurm: {error}")


if __name__ == "__main__":
    main()

"""What jobs report, over the cycles of a daemon: orderings know it of jobs that wait again too."""

from __future__ import annotations

import numpy as np

from slurmsched.clock import ManualClock
from slurmsched.cluster.records.progress import ProgressTable
from slurmsched.cycle import CycleContext, Surroundings, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer


def reported(*job_ids: int) -> ProgressTable:
    many = len(job_ids)
    numbers, no = np.full(many, 0.5), np.zeros(many, np.bool_)
    return ProgressTable(np.array(job_ids), np.full(many, 400), numbers, numbers, numbers, no, no)


def test_a_policy_sees_what_running_and_waiting_jobs_reported_and_of_no_others(store):
    cluster = FakeSlurm(nodes=1)
    first, second = (cluster.submit(1000.0, gpus=4) for _ in range(2))
    cluster.advance(15.0)

    class Reporting(Surroundings):
        def progress(self) -> ProgressTable:
            return reported(first, second, 999)

    world = CycleContext(
        cluster=cluster,
        memory=Memory(store, cluster="fake", monotonic=lambda: cluster.now_s),
        model=RuntimeModel.fit(cluster.outcomes(0.0, 0.0)),
        policy=Policy(find_ordering("mlfs-h"), Rules(frozenset({"order"}), scope="queue")),
        writer=Writer(cluster, Budget(20.0, 100)),
        clock=ManualClock(),
        learns=False,
        beside=Reporting(),
    )
    view = run_cycle(world, 1, cluster.now_s, "act").view
    assert (view.running.job_id.tolist(), view.pending.job_id.tolist()) == ([first], [second])
    assert view.progress.job_id.tolist() == [first, second]

"""Shared GPUs on the modelled slurmctld: slots, pairs, their speeds, and what a requeue leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.actions import (
    Action,
    AskToStop,
    Hold,
    Release,
    Requeue,
    Resume,
    Share,
    StartShared,
    Suspend,
    Unmark,
    Unshare,
)
from slurmsched.cluster.jobs import JobState
from slurmsched.simulator.cluster_spec import ClusterSpec, Sharing, nodes_of, partition_of
from slurmsched.simulator.engine.job_state import COMPLETED
from slurmsched.simulator.machine.pair_speeds import UNMEASURED
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.multifactor import Weights
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig
from slurmsched.simulator.workload.workload import as_submitted, workload

PLAIN = Weights(age=0.0, fair_share=0.0, size=0.0, qos=0.0)
PROMPT = SlurmctldConfig(poll_s=0.0, batch_sched_delay_s=0.0, bf_interval_s=0.0, requeue_delay_s=0.0)
PAIRS = Sharing(("light", "heavy"), np.array([[0.8, 0.5], [0.25, 0.0]]))


def cluster_of(
    *rows: tuple[float, int, str], rules: SlurmctldConfig = PROMPT, ckpt: bool = False, **columns: object
) -> SimulatedCluster:
    """Jobs as (runtime, GPUs, name), submitted at 0 and held back, beside n1 with whole GPUs and n2 with slots."""
    parts = partition_of("gpu", "n1").joined(partition_of("shared", "n2"))
    nodes = nodes_of(2, 4, partitions=["gpu", "shared"], cpus=np.full(2, 16))
    fleet = ClusterSpec(nodes, parts, ClusterSpec.of(1, 1).qos, sharing=PAIRS, shared="shared")
    known = {
        "job_id": np.arange(1, len(rows) + 1),
        "submit_s": np.zeros(len(rows)),
        "runtime_s": [row[0] for row in rows],
        "gpus": [row[1] for row in rows],
        "name": [row[2] for row in rows],
        "partition": ["gpu"] * len(rows),
    }
    jobs = workload(len(rows), **(known | columns))
    table = replace(as_submitted(jobs), ckpt=np.full(len(rows), ckpt))
    cluster = SimulatedCluster(jobs, fleet, SlurmConf(rules, PLAIN), submitted=table)
    cluster.advance(-1.0)
    cluster.model.stage.life.begin_s[:] = 0.0
    cluster.model.wishes.held[:] = True
    cluster.advance(0.0)
    return cluster


def carry_out(cluster: SimulatedCluster, *actions: Action) -> list[str | None]:
    return [answer.refused for answer in cluster.act(actions)]


def share(job: int, gpus: str, *, comment: str = "", until_s: float = 30.0, node: str = "n2") -> Share:
    return Share(job, "gpu", "shared", node, gpus, comment, until_s)


def start_on(cluster: SimulatedCluster, **gpus: str) -> None:
    """Let jobs, as ``job1="0+1"``, start with slots now."""
    for name, token in gpus.items():
        job = int(name.removeprefix("job"))
        cluster.model.wishes.held[job - 1] = False
        assert carry_out(cluster, share(job, token, until_s=1e9)) == [None]
        assert carry_out(cluster, StartShared(job, token)) == [None]
    cluster.advance(cluster.now_s + 0.01)


def states(cluster: SimulatedCluster) -> dict[int, int]:
    state = cluster.observe()
    tables = (state.pending, state.running, state.ended)
    return {
        job: status for jobs in tables for job, status in zip(jobs.job_id.tolist(), jobs.state.tolist(), strict=True)
    }


def ends(cluster: SimulatedCluster) -> list[float]:
    cluster.advance(np.inf)
    cluster.validate()
    return [round(float(end_s), 1) for end_s in cluster.model.stage.life.ended_s]


def pending_row(cluster: SimulatedCluster, job: int) -> dict[str, object]:
    jobs = cluster.observe().pending
    row = jobs.row_of(job)
    names = ("partition", "required_nodes", "per_node", "comment", "share_token", "gpus", "eligible_s")
    return {name: getattr(jobs, name)[row] for name in names}


def test_a_share_shows_in_the_queue_as_on_slurm_and_can_be_undone():
    cluster = cluster_of((100, 2, "light"), (100, 2, "light"))
    before = pending_row(cluster, 1)
    assert before["per_node"] == "gres:gpu:2"
    assert carry_out(cluster, share(1, "0+2:time", comment="note")) == [None]
    assert pending_row(cluster, 1) == {
        "partition": "shared",
        "required_nodes": "n2",
        "per_node": "gres:slot:i0:1,gres:slot:i2:1",
        "comment": "note;slurmsched:share=0+2:time",
        "share_token": "0+2:time",
        "gpus": 2,
        "eligible_s": 30.0,
    }
    assert pending_row(cluster, 2) == before, "the other job is as it was"
    assert carry_out(cluster, Unshare(1, "gpu", 2, "note", 30.0)) == [None]
    assert pending_row(cluster, 1) == before | {"comment": "note"}
    assert carry_out(cluster, share(2, "1+3", comment="mine")) == [None]
    assert carry_out(cluster, Unmark(2, "mine")) == [None]
    assert pending_row(cluster, 2)["comment"] == "mine"


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (share(1, "0+4"), "Requested node configuration is not available for job 1"),
        (share(1, "0+1", node="n1"), "Requested node configuration is not available for job 1"),
        (share(1, "0+1", node="n9"), "Invalid node name specified for job 1"),
        (replace(share(1, "0+1"), partition="nowhere"), "Invalid partition name specified for job 1"),
        (share(1, "0"), "it asks for gres:gpu:2 by now, which is not 1 GPUs for job 1"),
        (share(1, "0+1", comment="two words"), "blanks or quotes"),
        (StartShared(1, "0+1"), "which is not what share=0+1 says for job 1"),
        (share(9, "0+1"), "Invalid job id specified for job 9"),
    ],
)
def test_a_share_that_slurm_could_not_carry_out_is_refused(action, words):
    cluster = cluster_of((100, 2, "light"))
    before = pending_row(cluster, 1)
    (refused,) = carry_out(cluster, action)
    assert words in (refused or "")
    assert pending_row(cluster, 1) == before


def test_a_running_job_is_not_changed_to_slots():
    cluster = cluster_of((100, 2, "light"))
    start_on(cluster, job1="0+1")
    assert carry_out(cluster, share(1, "2+3")) == ["Job is no longer pending execution for job 1"]


def test_a_job_with_slots_starts_by_itself_at_the_begin_time_of_its_change():
    cluster = cluster_of((100, 1, "light"))
    cluster.model.wishes.held[:] = False
    assert carry_out(cluster, share(1, "3", until_s=40.0)) == [None]
    cluster.advance(39.0)
    assert states(cluster) == {1: JobState.PENDING}
    cluster.advance(41.0)
    running = cluster.observe().running
    assert (list(running.node_list), list(running.partition), running.gpus.tolist()) == (["n2"], ["shared"], [1])


def test_two_jobs_share_gpus_a_third_waits_and_none_of_them_takes_whole_gpus():
    cluster = cluster_of((100, 2, "light"), (100, 2, "light"), (100, 2, "light"), (50, 2, "light"))
    start_on(cluster, job1="0+1", job2="0+1", job4="2+3", job3="0+1")
    assert states(cluster) == {1: 2, 2: 2, 3: 0, 4: 2}
    assert cluster.observe().nodes.gpus_used.tolist() == [0, 4], "as sinfo is read where GPUs have slots"
    assert cluster.model.stage.life.joined.tolist() == [0, 1, 0, 0]
    cluster.validate()
    assert ends(cluster)[2] > 100


def test_a_job_that_waits_for_slots_keeps_its_node_from_jobs_that_would_end_later_than_it_may_start():
    limits_s = np.array([300.0, 400.0, 400.0, 299.0, 301.0])
    cluster = cluster_of(*[(100, 1, "light")] * 5, time_limit_s=limits_s)
    start_on(cluster, job1="0", job2="0")
    start_on(cluster, job3="0")
    start_on(cluster, job4="1", job5="2")
    assert states(cluster) == {1: 2, 2: 2, 3: 0, 4: 2, 5: 0}
    assert ends(cluster)[4] > 200, "until the one before it has started"


def test_whole_gpus_of_nodes_with_slots_are_not_handed_out():
    cluster = cluster_of((100, 4, "light"), (100, 4, "light"), partition=["gpu,shared"] * 2)
    cluster.model.wishes.held[:] = False
    assert carry_out(cluster, Release(1), Release(2)) == [None, None]
    cluster.advance(60.0)
    assert sorted(states(cluster).values()) == [JobState.PENDING, JobState.RUNNING]


def test_each_of_two_runs_at_its_speed_beside_the_other_and_alone_again_at_full_speed():
    cluster = cluster_of((100, 1, "light"), (30, 1, "heavy"))
    start_on(cluster, job1="0", job2="0")
    # The heavy one takes 30 / 0.25 = 120 s at this speed; the light one has done 60 s by then.
    assert ends(cluster) == [160.0, 120.0]


def test_a_wide_job_runs_at_the_lowest_speed_beside_any_of_its_guests_and_they_beside_it_alone():
    cluster = cluster_of((100, 4, "light"), (30, 1, "heavy"), (40, 2, "light"))
    start_on(cluster, job1="0+1+2+3", job2="3", job3="0+1")
    # The first guest takes 30 / 0.25 = 120 s, in which the wide one does 60 s of work; the other takes 40 / 0.8 = 50 s.
    assert ends(cluster) == [160.0, 120.0, 50.0]


def test_a_pair_without_a_measured_speed_runs_at_the_stated_default():
    cluster = cluster_of((40, 1, "heavy"), (40, 1, "heavy"), (40, 1, "unknown"))
    start_on(cluster, job1="0", job2="0", job3="1")
    assert ends(cluster) == [40 / UNMEASURED, 40 / UNMEASURED, 40]


def test_a_job_that_joins_later_slows_the_host_from_then_on():
    cluster = cluster_of((100, 1, "light"), (80, 1, "light"))
    start_on(cluster, job1="0")
    cluster.advance(50.0)
    start_on(cluster, job2="0")
    # 50 s of work are left at 0.8, so the host ends after 62.5 s more; the guest has done 50 s of its 80 by then.
    assert ends(cluster) == [112.5, 142.5]


def test_the_launch_of_a_job_is_not_shortened_by_a_partner():
    cluster = cluster_of((80, 1, "light"), (80, 1, "light"))
    model = cluster.model
    cluster.model = model._replace(stage=model.stage._replace(launch_s=5.0))
    start_on(cluster, job1="0", job2="0")
    assert ends(cluster) == [105.0, 105.0]


def test_beside_a_suspended_job_the_other_runs_at_full_speed():
    cluster = cluster_of((100, 1, "light"), (100, 1, "light"))
    start_on(cluster, job1="0", job2="0")
    assert carry_out(cluster, Suspend(2)) == [None]
    cluster.advance(50.0)
    assert carry_out(cluster, Resume(2)) == [None]
    assert ends(cluster) == [112.5, 162.5]


def test_a_requeued_job_keeps_its_request_for_slots_and_the_other_goes_on_alone():
    cluster = cluster_of((100, 1, "light"), (100, 1, "light"))
    start_on(cluster, job1="0", job2="0")
    cluster.advance(50.0)
    assert carry_out(cluster, Requeue(2), Hold(2, 1000.0)) == [None, None]
    assert pending_row(cluster, 2)["per_node"] == "gres:slot:i0:1"
    cluster.validate()
    cluster.advance(900.0)
    assert carry_out(cluster, Release(2)) == [None]
    assert ends(cluster) == [110.0, 1000.0], "its first run is lost, its second is alone"


def test_a_requeue_of_a_job_with_ckpt_keeps_its_work_and_costs_the_restart():
    rules = PROMPT._replace(restart_s=7.0, restart_doubling_s=2.0)
    for ckpt, end_s in ((True, 100 + 7 + 2.0), (False, 50 + 100 + 7 + 2.0)):
        cluster = cluster_of((100, 2, "light"), rules=rules, ckpt=ckpt)
        start_on(cluster, job1="0+1")
        cluster.advance(50.0)
        assert carry_out(cluster, Requeue(1)) == [None]
        assert ends(cluster) == [end_s]


def test_a_job_that_is_asked_to_stop_saves_its_work_first_without_progress():
    cluster = cluster_of((100, 1, "light"), rules=PROMPT._replace(saves_s=20.0, restart_s=5.0), ckpt=True)
    start_on(cluster, job1="0")
    cluster.advance(50.0)
    assert carry_out(cluster, AskToStop(1, "URG")) == [None]
    cluster.advance(60.0)
    assert carry_out(cluster, AskToStop(1, "URG")) == [None], "a second request changes nothing"
    cluster.advance(69.9)
    assert states(cluster) == {1: JobState.RUNNING}
    cluster.advance(70.0)
    assert cluster.observe().running.restarts.tolist() == [1]
    assert ends(cluster) == [70 + 50 + 5]


def test_a_job_without_ckpt_ignores_the_request_to_stop():
    cluster = cluster_of((100, 1, "light"), rules=PROMPT._replace(saves_s=20.0))
    start_on(cluster, job1="0")
    assert carry_out(cluster, AskToStop(1, "URG")) == [None]
    assert ends(cluster) == [100.0]


@examples(60)
@given(data=st.data())
def test_any_writes_leave_two_slots_a_gpu_and_all_work_done(data):
    count = data.draw(st.integers(1, 8))
    rows = [(data.draw(st.integers(5, 60)), (1, 2, 4)[job % 3], "light") for job in range(count)]
    cluster = cluster_of(*rows, ckpt=True)
    cluster.model.wishes.held[:] = False
    cluster.act([Release(job) for job in range(1, count + 1)])
    tokens = {1: ("0", "1", "3"), 2: ("0+1", "1+2", "2+3"), 4: ("0+1+2+3",)}
    for _ in range(data.draw(st.integers(1, 25))):
        job = data.draw(st.integers(1, count))
        gpus = rows[job - 1][1]
        token = data.draw(st.sampled_from(tokens[gpus]))
        until_s = cluster.now_s + 10.0
        cluster.act(
            [
                data.draw(
                    st.sampled_from(
                        [
                            share(job, token, until_s=until_s),
                            StartShared(job, token),
                            Unshare(job, "gpu", gpus, "", until_s),
                            Requeue(job),
                            AskToStop(job, "URG"),
                        ]
                    )
                )
            ]
        )
        cluster.advance(cluster.now_s + data.draw(st.floats(0.0, 12.0)))
        cluster.validate()
    cluster.advance(np.inf)
    cluster.validate()
    life = cluster.model.stage.life
    assert (life.state == COMPLETED).all()
    assert (life.ended_s - life.first_s >= cluster.jobs.runtime_s - 1e-6).all()

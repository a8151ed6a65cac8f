from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import modelled_slurm, simulate, trace

from examples import examples
from slurmsched.cluster.actions import Requeue
from slurmsched.errors import ConfigError
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.engine.job_state import COMPLETED
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.multifactor import Weights
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig
from slurmsched.simulator.workload.workload import Workload

PLAIN = Weights(age=0.0, fair_share=0.0, size=0.0, qos=0.0)
PROMPT = SlurmctldConfig(poll_s=0.0, batch_sched_delay_s=0.0, bf_interval_s=0.0, bf_resolution_s=1.0)
TEXTBOOK = PROMPT._replace(whole_nodes=False)


def jobs_of(*rows: tuple[float, float, int], **columns: object) -> Workload:
    """Jobs as (submit, runtime, GPUs) in order of submission; limits are twice the runtime where none are given."""
    return trace(*rows, **({"time_limit_s": [2.0 * row[1] for row in rows]} | columns))


def run(
    jobs: Workload, fleet: ClusterSpec, rules: SlurmctldConfig = PROMPT, weights: Weights = PLAIN
) -> SimulatedCluster:
    """The jobs to their end."""
    cluster = modelled_slurm(jobs, fleet, SlurmConf(rules, weights))
    cluster.advance(np.inf)
    return cluster


def starts(cluster: SimulatedCluster) -> list[float]:
    return cluster.model.stage.life.first_s.tolist()


def two_partitions(nodes: ClusterSpec, first: str, second: str, tiers: tuple[int, int] = (1, 1)) -> ClusterSpec:
    """Partitions ``a`` and ``b`` over host lists; every node says in which it is."""
    both = partition_of("a", first).joined(partition_of("b", second))
    return replace(nodes, partitions=replace(both, tier=np.array(tiers)))


def in_partitions(partitions: list[str], gpus: int = 4, **columns: object) -> ClusterSpec:
    return ClusterSpec(nodes_of(len(partitions), gpus, partitions=partitions, **columns), *_empty())


def _empty():
    plain = ClusterSpec.of(1, 1)
    return plain.partitions, plain.qos


def test_a_job_that_nothing_stands_before_starts_as_it_is_submitted():
    assert starts(run(jobs_of((5, 10, 4)), ClusterSpec.of(1, 4), SlurmctldConfig())) == [5]


def test_a_job_of_lower_priority_waits_for_the_backfill_loop():
    jobs = jobs_of((0, 100, 3), (1, 100, 4), (2, 10, 1))
    for every_s in (20.0, 30.0, 50.0):
        rules = SlurmctldConfig(bf_interval_s=every_s)
        assert starts(run(jobs, ClusterSpec.of(1, 4), rules))[2] == pytest.approx(every_s, abs=1), (
            "only that loop lets it pass"
        )


def test_backfill_does_not_start_what_would_delay_a_reservation():
    jobs = jobs_of((0, 100, 3), (1, 100, 4), (2, 150, 1))
    assert starts(run(jobs, ClusterSpec.of(1, 4))) == [0, 100, 200]


def test_a_job_without_a_limit_is_planned_for_a_year():
    jobs = jobs_of((0, 100, 3), (1, 100, 4), (2, 10, 1), time_limit_s=[200.0, 200.0, np.inf])
    assert starts(run(jobs, ClusterSpec.of(1, 4))) == [0, 100, 200]


def test_a_job_that_does_not_fit_stops_only_its_own_partition():
    jobs = jobs_of((0, 100, 4), (1, 100, 4), (2, 100, 4), partition=["a", "a", "b"])
    fleet = two_partitions(in_partitions(["a", "b"]), "n1", "n2")
    assert starts(run(jobs, fleet)) == [0, 100, 2]


def test_a_higher_tier_is_served_first_whatever_the_priorities():
    jobs = jobs_of((0, 100, 4), (1, 50, 4), (2, 50, 4), partition=["a", "a", "b"])
    fleet = two_partitions(in_partitions(["a,b"]), "n1", "n1", tiers=(1, 2))
    assert starts(run(jobs, fleet)) == [0, 150, 100]


def test_a_job_in_two_partitions_runs_where_there_is_room():
    jobs = jobs_of((0, 100, 4), (1, 100, 4), partition=["a", "a,b"])
    fleet = two_partitions(in_partitions(["a", "b"]), "n1", "n2")
    assert starts(run(jobs, fleet)) == [0, 1]


def test_a_partition_that_is_down_starts_nothing():
    fleet = in_partitions(["a"])
    down = replace(fleet, partitions=partition_of("a", "n1", up=np.array([False])))
    cluster = modelled_slurm(jobs_of((0, 10, 1), partition=["a"]), down)
    cluster.advance(1000.0)
    assert list(cluster.observe().pending.reason) == ["PartitionDown"]


def test_jobs_run_on_the_gpu_type_and_features_they_ask_for():
    fleet = ClusterSpec(nodes_of(3, 4, gpu_type=["a100", "v100", "v100"], features=["ib", "", "ib,big"]), *_empty())
    jobs = jobs_of((0, 10, 4), (0, 10, 4), (0, 10, 4), gpu_type=["v100", "", "a100"], features=["ib&big", "", ""])
    cluster = modelled_slurm(jobs, fleet, SlurmConf(PROMPT, PLAIN))
    cluster.advance(5.0)
    assert dict(zip(cluster.observe().running.job_id.tolist(), cluster.observe().running.node_list, strict=True)) == {
        1: "n3",
        2: "n1",
    }
    cluster.advance(np.inf)
    assert starts(cluster)[2] == 10


def test_cpus_and_memory_of_a_node_bound_what_runs_on_it():
    fleet = ClusterSpec(nodes_of(1, 8, cpus=np.array([10]), memory_mib=np.array([100.0])), *_empty())
    by_cpus = jobs_of(*[(0, 10, 1)] * 3, cpus=[4, 4, 4])
    by_memory = jobs_of(*[(0, 10, 1)] * 3, memory_mib=[60.0, 40.0, 1.0])
    assert starts(run(by_cpus, fleet)) == [0, 0, 10]
    assert starts(run(by_memory, fleet)) == [0, 0, 10]


def test_a_job_without_gpus_takes_cpus_alone():
    fleet = ClusterSpec(nodes_of(1, 1, cpus=np.array([4])), *_empty())
    assert starts(run(jobs_of((0, 10, 0), (0, 10, 1), (0, 10, 0), cpus=[3, 1, 1]), fleet)) == [0, 0, 10]


def test_a_job_on_two_nodes_takes_as_many_gpus_of_each():
    jobs = jobs_of((0, 10, 1), (0, 10, 4), (0, 10, 3), nodes=[1, 2, 0])
    cluster = modelled_slurm(jobs, ClusterSpec.of(2, 4), SlurmConf(PROMPT, PLAIN))
    cluster.advance(1.0)
    assert cluster.observe().nodes.gpus_used.tolist() == [3, 2]
    cluster.advance(np.inf)
    assert starts(cluster) == [0, 0, 10]


def test_an_account_has_no_more_gpus_at_once_than_its_limit_and_holds_up_nobody_else():
    fleet = replace(ClusterSpec.of(2, 4), account_gpus={"physics": 4})
    jobs = jobs_of((0, 10, 3), (0, 10, 3), (1, 10, 2), account=["physics", "physics", "chemistry"])
    cluster = modelled_slurm(jobs, fleet, SlurmConf(PROMPT, PLAIN))
    cluster.advance(5.0)
    assert list(cluster.observe().pending.reason) == ["AssocGrpGRES"]
    cluster.advance(np.inf)
    assert starts(cluster) == [0, 10, 1]


def test_nodes_of_several_sizes_take_a_job_on_the_largest_it_fills():
    fleet = ClusterSpec(replace(nodes_of(3, 4), gpus=np.array([4, 8, 4])), *_empty())
    jobs = jobs_of((0, 10, 8), (0, 10, 8), (0, 10, 16))
    cluster = modelled_slurm(jobs, fleet, SlurmConf(PROMPT, PLAIN))
    cluster.advance(1.0)
    assert list(cluster.observe().running.node_list) == ["n2", "n[1,3]"]
    cluster.advance(np.inf)
    assert starts(cluster) == [0, 0, 10], "a job that no size holds alone spreads over all"


def test_who_has_used_much_waits_behind_who_has_not():
    jobs = jobs_of((0, 1000, 4), (1, 10, 4), (2, 10, 4), user=["heavy", "heavy", "light"])
    weights = PLAIN._replace(fair_share=1000.0)
    assert starts(run(jobs, ClusterSpec.of(1, 4), PROMPT, weights)) == [0, 1010, 1000]
    assert starts(run(jobs, ClusterSpec.of(1, 4), PROMPT, PLAIN)) == [0, 1000, 1010]


def test_larger_jobs_and_better_qos_weigh_as_configured():
    jobs = jobs_of((0, 10, 4), (1, 10, 1), (2, 10, 4), qos=["low", "high", "low"])
    qos = ClusterSpec.of(1, 4)
    fleet = replace(qos, qos=type(qos.qos)(jobs.qos, np.array([1, 9, 1])))
    assert starts(run(jobs, fleet, PROMPT, PLAIN._replace(size=100.0)))[2] == 10
    assert starts(run(jobs, fleet, PROMPT, PLAIN._replace(qos=100.0)))[1] == 10


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"gpus": [9]}, "job 1 asks for 9 GPUs; no nodes of the cluster can hold it"),
        ({"gpu_type": ["h100"]}, "job 1 asks for 1 GPU of type h100"),
        ({"nodes": [3]}, "on 3 nodes"),
        ({"cpus": [2_000_000]}, "with 2,000,000 CPUs"),
        ({"features": ["gold"]}, "and features gold"),
    ],
)
def test_a_job_that_could_never_run_is_named(columns, words):
    with pytest.raises(ConfigError, match=words):
        modelled_slurm(jobs_of((0, 1, 1), **columns), ClusterSpec.of(2, 4))


def test_a_partition_that_the_fleet_has_not_is_named_with_those_it_has():
    with pytest.raises(ConfigError, match="partition 'c', which the cluster does not have; there are: a, b"):
        modelled_slurm(jobs_of((0, 1, 1), partition=["c"]), two_partitions(in_partitions(["a", "b"]), "n1", "n2"))


def test_a_limit_longer_than_its_partition_allows_is_named():
    fleet = in_partitions(["a"])
    short = replace(fleet, partitions=partition_of("a", "n1", max_time_s=np.array([60.0])))
    with pytest.raises(ConfigError, match="job 1 has a limit of 200 s, its partition 'a' allows 60 s"):
        modelled_slurm(jobs_of((0, 100, 1), partition=["a"]), short)


@st.composite
def random_jobs(draw, nodes: int, gpus: int) -> Workload:
    one = st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, nodes * gpus), st.integers(0, 15))
    rows = sorted(draw(st.lists(one, min_size=1, max_size=25)), key=lambda row: row[0])
    limits = [float(runtime + more) for _, runtime, _, more in rows]
    return jobs_of(*[row[:3] for row in rows], time_limit_s=limits)


@examples(150)
@given(data=st.data(), gpus=st.integers(1, 12))
def test_with_one_reservation_and_no_delays_it_is_easy_backfill(data, gpus):
    jobs = data.draw(random_jobs(1, gpus))
    easy = simulate(jobs, ClusterSpec.of(1, gpus), Setup.of("fifo", "easy"))
    assert starts(run(jobs, ClusterSpec.of(1, gpus), TEXTBOOK._replace(reservations=1))) == easy.start_s.tolist()


@examples(150)
@given(data=st.data(), gpus=st.integers(1, 8))
def test_with_a_reservation_for_each_job_it_is_conservative_backfill(data, gpus):
    jobs = data.draw(random_jobs(1, gpus))
    conservative = simulate(jobs, ClusterSpec.of(1, gpus), Setup.of("fifo", "conservative"))
    assert starts(run(jobs, ClusterSpec.of(1, gpus), TEXTBOOK)) == conservative.start_s.tolist()


@examples(60)
@given(data=st.data(), beat_s=st.floats(0.3, 20.0))
def test_time_in_pieces_and_at_once_give_the_same(data, beat_s):
    jobs = data.draw(random_jobs(3, 4))
    at_once = run(jobs, ClusterSpec.of(3, 4), SlurmctldConfig(bf_interval_s=7.0))
    pieces = modelled_slurm(jobs, ClusterSpec.of(3, 4), SlurmConf(SlurmctldConfig(bf_interval_s=7.0), PLAIN))
    now_s = 0.0
    while not pieces.drained:
        now_s += beat_s
        pieces.advance(now_s)
        state = pieces.observe()
        assert (state.nodes.gpus_used <= 4).all()
        assert state.nodes.gpus_used.sum() == state.running.gpus.sum()
    assert starts(pieces) == starts(at_once)


@examples(60)
@given(data=st.data(), launch_s=st.floats(0, 3), release_s=st.floats(0, 3))
def test_every_job_ends_after_all_its_work_and_gives_its_gpus_back(data, launch_s, release_s):
    jobs = data.draw(random_jobs(2, 8))
    conf = SlurmConf(SlurmctldConfig(), PLAIN).with_overheads(launch_s, release_s)
    cluster = modelled_slurm(jobs, ClusterSpec.of(2, 8), conf)
    cluster.advance(np.inf)
    life = cluster.model.stage.life
    assert (life.state == COMPLETED).all()
    assert (life.first_s >= jobs.submit_s).all()
    assert life.ended_s - life.first_s == pytest.approx(jobs.runtime_s + launch_s)
    assert cluster.model.stage.resources.free.gpus.tolist() == [8, 8]


def test_a_requeued_job_comes_after_others_of_its_priority_as_on_slurm():
    jobs = trace((0, 100, 4), (1, 50, 4), (2, 50, 4), time_limit_s=np.full(3, 200.0), ckpt=np.ones(3, dtype=np.bool_))
    cluster = modelled_slurm(jobs, ClusterSpec.of(1, 4), SlurmConf(PROMPT._replace(requeue_delay_s=0.0), PLAIN))
    cluster.advance(10.0)
    cluster.act([Requeue(1)])
    cluster.advance(np.inf)
    assert cluster.model.stage.life.ended_s.tolist() == [200.0, 60.0, 110.0]

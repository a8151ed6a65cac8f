"""Guests suspended in turns on a modelled Slurm: what is foretold of them, and of jobs that wait for their GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.records.faults import Instability
from slurmsched.cluster.records.predictions import PredictionKind, PredictionTable
from slurmsched.cluster.state import ClusterState
from slurmsched.cycle import CycleReport
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules, SharingRules, SuspensionRules
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import with_halts
from slurmsched.powers.suspend.pauses import LEAST_S
from slurmsched.powers.suspend.turns import suspended_s
from slurmsched.simulator.cluster_spec import ClusterSpec, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.multifactor import Weights
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig
from slurmsched.simulator.workload.workload import as_submitted, workload

HOST, GUEST, THIRD, FOURTH = 1, 2, 3, 4
LATER_S = 5000.0
PLAIN = Weights(age=0.0, fair_share=0.0, size=0.0, qos=0.0)
PROMPT = SlurmctldConfig(poll_s=0.0, batch_sched_delay_s=0.0, bf_interval_s=0.0, requeue_delay_s=0.0)
UNSTABLE = Instability(GUEST, 0, "n2", 0, 1, (0,), (HOST,), (0,), "it jumps")
CYCLE_S = 1.0


@dataclass
class InTurns(CycleDriver):
    """The daemon's cycles beside a host and a guest that it had on one GPU before, without MPS."""

    def filled(self, state: ClusterState) -> ClusterState:
        """Return *state* with the token of the two jobs, which is ours."""
        ours = np.isin(state.running.job_id, (HOST, GUEST))
        token = Labels.of(["0:time" if one else "" for one in ours])
        return super().filled(replace(state, running=state.running.changed(shares=ours, share_token=token)))


@dataclass
class Played:
    """Cycles of a daemon, and what became of the jobs."""

    cycles: list[CycleReport]
    cluster: SimulatedCluster

    def started_s(self, job: int) -> float:
        return float(self.cluster.model.stage.life.started_s[job - 1])

    def ended_s(self, job: int) -> float:
        return float(self.cluster.model.stage.life.ended_s[job - 1])


def played(host_s: float, guest_s: float, most_s: float) -> Played:
    """A host and a guest on a GPU that take turns, and two jobs that wait for a slot of it, to the end of all."""
    parts = partition_of("gpu", "n1").joined(partition_of("shared", "n2"))
    nodes = nodes_of(2, 4, partitions=["gpu", "shared"], cpus=np.full(2, 16))
    fleet = ClusterSpec(nodes, parts, ClusterSpec.of(1, 1).qos, shared="shared")
    jobs = workload(
        4,
        job_id=np.array([HOST, GUEST, THIRD, FOURTH]),
        submit_s=np.arange(4) * 0.01,
        runtime_s=[host_s, guest_s, LATER_S, LATER_S],
        time_limit_s=np.full(4, 20_000.0),
        gpus=np.ones(4),
        user=["alice", "bob", "carol", "dave"],
        partition=["shared"] * 4,
    )
    slots = {"per_node": Labels.of(["gres:slot:i0:1"] * 4), "required_nodes": Labels.of(["n2"] * 4)}
    table = as_submitted(jobs).changed(**slots)
    cluster = SimulatedCluster(jobs, fleet, SlurmConf(PROMPT, PLAIN), submitted=table, unmeasured=1.0)
    sharing = SharingRules(partition="shared", memory_mib=16_000.0, unstable=(UNSTABLE,))
    powers = frozenset({"order", "share", "suspend"})
    rules = Rules(powers=powers, scope="queue", sharing=sharing, suspension=SuspensionRules(most_s))
    known = Forecast(*(jobs.runtime_s.copy() for _ in range(3)), Labels.of(["known"] * 4))
    cycles: list[CycleReport] = []
    model, policy = FixedForecast(jobs.job_id, known), Policy(find_ordering("fifo"), rules)
    InTurns(cluster, policy, model, every_s=CYCLE_S, watch=cycles.append).run()
    return Played(cycles, cluster)


def foretold(cycle: CycleReport) -> PredictionTable:
    return predict_completion(cycle.view, cycle.plan.jobs.rank, cycle.plan.jobs.standing, {})


def turns(play: Played) -> int:
    """How often the guest was suspended."""
    return sum(cycle.actions.get("Suspend", 0) for cycle in play.cycles)


@given(host_s=st.integers(60, 3000), guest_s=st.integers(60, 2500), most_s=st.sampled_from([20.0, 60.0, 300.0, 3600.0]))
@examples(30)
def test_the_end_of_a_guest_in_turns_and_the_starts_of_those_who_wait_for_its_gpu_are_foretold(host_s, guest_s, most_s):
    play = played(float(host_s), float(guest_s), most_s)
    ends_s = sorted(play.ended_s(job) for job in (HOST, GUEST))
    assert [play.started_s(job) for job in (THIRD, FOURTH)] == pytest.approx(ends_s, abs=2 * CYCLE_S)
    looks = [cycle for cycle in play.cycles if {HOST, GUEST} <= set(cycle.view.running.job_id.tolist())]
    # Each turn begins and ends with the cycle after its time, and Slurm's answer is seen in the one after that.
    within_s = LEAST_S + 3 * CYCLE_S * (turns(play) + 1)
    for cycle in looks[:: max(len(looks) // 8, 1)]:
        told = foretold(cycle)
        guest = told.row_of(GUEST)
        assert told.kind[guest] == PredictionKind.RUNNING
        assert told.finish_s[guest] == pytest.approx(play.ended_s(GUEST), abs=within_s)
        for job in (THIRD, FOURTH):
            assert told.start_s[told.row_of(job)] == pytest.approx(play.started_s(job), abs=within_s)


def test_a_guest_in_turns_runs_as_long_as_it_is_suspended_until_its_host_has_ended():
    play = played(2000.0, 1500.0, 300.0)
    assert turns(play) == 4
    assert play.ended_s(GUEST) == pytest.approx(1500.0 + 3 * 300.0 + 200.0, abs=20.0)
    assert play.ended_s(HOST) == pytest.approx(2000.0, abs=1.0)


def test_nobody_knows_when_a_job_goes_on_that_others_suspended():
    cycle = next(one for one in played(600.0, 500.0, 300.0).cycles if (one.view.running.suspended_by_us).any())
    theirs = cycle.view.running.changed(suspended_s=np.zeros(2))
    rules = Rules(suspension=SuspensionRules(300.0), sharing=SharingRules(partition="shared", unstable=(UNSTABLE,)))
    none_s = np.zeros(2)
    view = with_halts(
        cycle.view.changed(running=theirs.changed(halts_low_s=none_s, halts_s=none_s, halts_high_s=none_s)), rules
    )
    told = foretold(replace(cycle, view=view))
    assert told.kind[told.row_of(GUEST)] == PredictionKind.SUSPENDED
    assert np.isnan(told.finish_s[told.row_of(GUEST)])
    assert told.start_s[told.row_of(THIRD)] == pytest.approx(600.0, abs=5.0)
    assert told.start_s[told.row_of(FOURTH)] == pytest.approx(600.0 + LATER_S, abs=5.0)


def by_seconds(left_s: int, host_s: float, most_s: int, since_s: int | None, rest_s: float) -> int:
    """The seconds of suspensions to come, played second by second."""
    never_again, suspended, total = rest_s == np.inf, since_s is not None, 0
    lasted = since_s or 0
    until = min(most_s, left_s) if suspended else 0
    while left_s > 0:
        if suspended and (lasted >= until or host_s <= 0):
            suspended, rest_s = False, np.inf if never_again else lasted
        if not suspended and rest_s <= 0 and host_s > 0 and min(most_s, left_s) >= LEAST_S:
            suspended, lasted, until = True, 0, min(most_s, left_s)
        if suspended:
            lasted, total = lasted + 1, total + 1
        else:
            left_s, rest_s = left_s - 1, rest_s - 1
        host_s -= 1
    return total


@given(data=st.data())
@examples(300, each_change=30)
def test_the_suspensions_to_come_are_those_of_a_play_by_seconds(data):
    draw = data.draw
    left_s, most_s = draw(st.integers(1, 900)), draw(st.integers(10, 200))
    host_s = draw(st.one_of(st.integers(1, 2000), st.just(np.inf)))
    since_s = draw(st.one_of(st.none(), st.integers(0, 250)))
    rest_s = draw(st.one_of(st.integers(0, 200), st.just(np.inf)))
    assert suspended_s(left_s, host_s, most_s, since_s, rest_s) == by_seconds(left_s, host_s, most_s, since_s, rest_s)


def test_a_guest_and_a_host_without_any_bound_may_take_turns_for_ever():
    assert suspended_s(np.inf, np.inf, 300.0, None, 0.0) == np.inf
    assert suspended_s(np.inf, 1000.0, 100.0, None, 0.0) == 500.0

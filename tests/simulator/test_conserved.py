"""Any composition of a policy, on both executors: jobs run whole, none is lost, and no work is lost or done twice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import trace

from examples import examples
from slurmsched.cluster.actions import Preempt, Start
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.promises import PromiseState
from slurmsched.cycle import CycleReport
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, ProfilingRules, Rules, SharingRules
from slurmsched.policies.contract import ORDERINGS, PLACEMENTS, SELECTIONS, find_ordering
from slurmsched.simulator.cluster_spec import ClusterSpec, Sharing, nodes_of, partition_of
from slurmsched.simulator.cycle_driver import CycleDriver, IdealDriver, composed
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.ideal_cluster import IdealCluster
from slurmsched.simulator.machine.direct import rules_of
from slurmsched.simulator.run import forecast_of
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig
from slurmsched.simulator.workload.workload import Workload, as_submitted

RESTART_S = 2.0


@dataclass
class Ledger:
    """The runs of jobs by the plans alone: each start and each preemption, with the GPUs of each node."""

    open: dict[int, tuple[float, dict[str, int]]] = field(default_factory=dict)
    runs: list[tuple[int, float, float, dict[str, int]]] = field(default_factory=list)

    def watch(self, report: CycleReport) -> None:
        """Note the starts and preemptions of a plan, and the ends of jobs."""
        for at in np.flatnonzero(report.ended.state == JobState.COMPLETED).tolist():
            self.close(int(report.ended.job_id[at]), float(report.ended.ended_s[at]))
        for action in report.plan.actions:
            if isinstance(action, Preempt):
                self.close(action.job_id, report.now_s)
        for action in report.plan.actions:
            if isinstance(action, Start):
                nodes = (part.rpartition(":") for part in action.nodes.split(","))
                assert action.job_id not in self.open, f"job {action.job_id} was started twice"
                self.open[action.job_id] = report.now_s, {name: int(gpus) for name, _, gpus in nodes}

    def close(self, job: int, now_s: float) -> None:
        """End the run of *job*."""
        started_s, gpus = self.open.pop(job)
        self.runs.append((job, started_s, now_s, gpus))

    def most_gpus(self) -> dict[str, int]:
        """The most GPUs of each node that were in use at once; at one instant ends come first."""
        changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for _, started_s, ended_s, gpus in self.runs:
            for node, many in gpus.items():
                changes[node] += [(started_s, many), (ended_s, -many)]
        return {node: int(np.cumsum([many for _, many in sorted(each)]).max()) for node, each in changes.items()}


@st.composite
def few_jobs(draw: st.DrawFn, most: int) -> Workload:
    """Up to a dozen jobs in whole seconds, so that many events fall on one instant."""
    rows = draw(
        st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20), st.integers(1, most)), min_size=1, max_size=12)
    )
    return trace(
        *rows, deadline_s=draw(st.lists(st.sampled_from([np.inf, 40.0]), min_size=len(rows), max_size=len(rows)))
    )


@pytest.mark.parametrize("selection", sorted(SELECTIONS))
@examples(20)
@given(
    data=st.data(),
    name=st.sampled_from(sorted(ORDERINGS)),
    placement=st.sampled_from(sorted(set(PLACEMENTS) - {"pool"})),
    admission=st.sampled_from([np.inf, 0.5, 1.5]),
)
def test_plans_carried_out_as_they_are_run_each_job_whole_and_do_its_work_once(
    selection: str, data: st.DataObject, name: str, placement: str, admission: float
) -> None:
    nodes, gpus = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 2, 4]))
    jobs = data.draw(few_jobs(nodes * gpus))
    setup = Setup.of(name, selection, placement=placement, admission=admission)
    preempts = SELECTIONS[selection].preempts
    conf = SlurmConf(rules_of("preemptive" if preempts else "strict", 0.0, 10)._replace(restart_s=RESTART_S))
    steps = setup.ordering.steps if preempts else ()
    cluster = IdealCluster(jobs, ClusterSpec.of(nodes, gpus), conf, checked=True, steps=steps)
    model, ledger = FixedForecast(jobs.job_id, forecast_of(jobs, setup, None)), Ledger()
    driver = IdealDriver(
        cluster, composed(setup.ordering, setup.composition, admission=setup.admits), model, watch=ledger.watch
    )
    driver.run()
    driver.cycle(cluster.now_s)
    assert cluster.drained
    assert ledger.open == {}
    assert all(many <= gpus for many in ledger.most_gpus().values())
    for row, job in enumerate(jobs.job_id.tolist()):
        runs = [run for run in ledger.runs if run[0] == job]
        assert all(sum(run[3].values()) == jobs.gpus[row] for run in runs), "a job runs whole"
        assert min(run[1] for run in runs) >= jobs.submit_s[row]
        ran_s = sum(ended_s - started_s for _, started_s, ended_s, _ in runs)
        assert ran_s == pytest.approx(jobs.runtime_s[row] + RESTART_S * (len(runs) - 1))


KINDS = ("light", "heavy")
PAIRS = Sharing(KINDS, np.array([[0.9, 0.7], [0.6, 0.0]]))
LAB = SlurmctldConfig(batch_sched_delay_s=0.0, bf_interval_s=10.0, bf_resolution_s=1.0)
ASKS = 2  #: most requests a day that a job make room
POWERS = frozenset({"order", "hold", "requeue", "share", "partition", "profile", "nodes", "comment"})


@st.composite
def site(draw: st.DrawFn) -> tuple[SimulatedCluster, Rules]:
    """Any few jobs on four nodes of four GPUs, and any of promises, sharing and profiling.

    All jobs have as many GPUs: a promise counts the GPUs of partitions, and others could leave them on several nodes.
    """
    gpus = draw(st.sampled_from([1, 2, 4]))
    rows = draw(st.lists(st.tuples(st.integers(0, 120), st.integers(20, 200), st.just(gpus)), min_size=1, max_size=16))
    count = len(rows)

    def each(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=count, max_size=count))

    sharing, profiling = draw(st.booleans()), draw(st.booleans())
    names, ckpt = each(st.sampled_from(KINDS)), np.array(each(st.booleans()), dtype=np.bool_)
    home = "profile,gpu" if profiling else "gpu"
    jobs = trace(*rows)
    within_s = np.array(each(st.sampled_from([np.inf, np.inf, 10.0, 100.0, 400.0])))
    light = np.array([name == "light" for name in names])
    jobs = replace(
        trace(
            *rows,
            name=names,
            work=names,
            user=each(st.sampled_from(["alice", "bob"])),
            partition=each(st.sampled_from(["gpu", home])),
            nodes=np.ones(count),
            time_limit_s=2.0 * jobs.runtime_s,
            gpu_util=np.where(light, 0.1, 0.9),
            memory_util=np.where(light, 0.05, 0.6),
            gpu_memory_mib=np.full(count, 3000.0),
            ckpt=ckpt,
            deadline_s=jobs.submit_s + jobs.runtime_s + within_s,
        )
    )
    where = ["gpu", "gpu", "profile" if profiling else "gpu", "shared" if sharing else "gpu"]
    parts = [
        partition_of(name, ",".join(f"n{at}" for at, of in enumerate(where, 1) if of == name), tier=np.array([tier]))
        for name, tier in (("gpu", 1), ("profile", 2), ("shared", 1))
        if name in where
    ]
    table = parts[0]
    for part in parts[1:]:
        table = table.joined(part)
    nodes = nodes_of(4, 4, partitions=where, cpus=np.full(4, 32))
    fleet = ClusterSpec(
        nodes, table, ClusterSpec.of(1, 1).qos, sharing=PAIRS if sharing else None, shared="shared" if sharing else ""
    )
    cluster = SimulatedCluster(jobs, fleet, SlurmConf(LAB), submitted=as_submitted(jobs), checked=True)
    promises = DeadlineRules(
        lead_s=15.0,
        hold_s=15.0,
        reserve=0.0,
        yields=draw(st.booleans()),
        lease_s=10.0,
        promised_lease_s=draw(st.sampled_from([10.0, 40.0])),
        stop_s=10.0,
        asks_a_day=ASKS,
        slack_s=draw(st.sampled_from([0.0, 60.0])),
        again_s=draw(st.sampled_from([0.0, 30.0])),
    )
    measured = ProfilingRules("profile", t_s=30.0, n_max=4, home=draw(st.sampled_from(["", "gpu"])), pressure=1.0)
    rules = Rules(
        powers=POWERS,
        scope="queue",
        deadlines=draw(st.sampled_from([None, promises])),
        sharing=SharingRules(memory_mib=20_000.0, wait_s=10.0) if sharing else None,
        profiling=measured if profiling else None,
    )
    return cluster, rules


@dataclass
class Witness:
    """What the cycles of a run showed."""

    cluster: SimulatedCluster
    ran_s: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    ends: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    writes: list[tuple[float, int]] = field(default_factory=list)
    promises: dict[int, tuple[PromiseState, str]] = field(default_factory=dict)
    reports: list[CycleReport] = field(default_factory=list)

    def watch(self, report: CycleReport) -> None:
        """Note runs that ended, writes and promises."""
        self.cluster.validate()
        view, ended, table = report.view, report.ended, report.plan.promises
        assert (view.nodes.gpus_used <= view.nodes.gpus).all()
        assert (view.running.stop_requests <= ASKS).all()
        for job, state, ran_s in zip(
            ended.job_id.tolist(), ended.state.tolist(), ended.runtime_s.tolist(), strict=True
        ):
            self.ran_s[job] += ran_s
            self.ends[job] += state == JobState.COMPLETED
        self.writes.append((report.now_s, sum(report.actions.values()) + report.refused))
        for job, state, why in zip(table.job_id.tolist(), table.state.tolist(), table.reason, strict=True):
            self.promises[job] = PromiseState(state), why
        self.reports.append(report)


@examples(40)
@given(site(), st.sampled_from(["fifo", "sjf", "las", "edf"]))
def test_any_rules_on_the_modelled_slurm_lose_no_job_and_no_work_and_keep_every_promise(
    cluster_and_rules: tuple[SimulatedCluster, Rules], ordering: str
) -> None:
    cluster, rules = cluster_and_rules
    jobs, witness = cluster.jobs, Witness(cluster)
    model = FixedForecast(jobs.job_id, forecast_of(jobs, Setup.of("sjf"), None))
    driver = CycleDriver(cluster, Policy(find_ordering(ordering), rules), model, every_s=5.0, watch=witness.watch)
    driver.run()
    driver.cycle(cluster.now_s + 1.0)
    assert cluster.drained
    assert dict(witness.ends) == dict.fromkeys(jobs.job_id.tolist(), 1)
    ran_s = np.array([witness.ran_s[job] for job in jobs.job_id.tolist()])
    if rules.sharing is None:
        assert ran_s == pytest.approx(jobs.runtime_s)
    assert (ran_s >= jobs.runtime_s - 1e-6).all()
    times, sent = (np.array(column) for column in zip(*witness.writes, strict=True))
    total = np.cumsum(sent)
    within = total[:, np.newaxis] - total + sent <= 100 + 20.0 * (times[:, np.newaxis] - times) + 1e-9
    assert within[np.tril_indices(len(times))].all()
    broken = {job: why for job, (state, why) in witness.promises.items() if state == PromiseState.BROKEN}
    assert broken == {}

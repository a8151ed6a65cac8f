"""What becomes of promises over the cycles of a daemon, on a Slurm in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.clock import ManualClock
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.promises import PromiseState
from slurmsched.cycle import World, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.decide.engine import decide
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.models.runtime import RuntimeModel
from slurmsched.policies.hooks import find_ordering
from slurmsched.slurm.budget import Budget
from slurmsched.slurm.fake import FakeSlurm
from slurmsched.slurm.writer import Writer

RULES = Rules(frozenset({"order", "hold"}), scope="queue", deadlines=DeadlineRules(lead_s=30.0, reserve=0.0))


@pytest.fixture
def store(tmp_path):
    made = Store(f"sqlite:///{tmp_path}/a.db")
    made.upgrade()
    yield made
    made.close()


class Site:
    """A daemon's cycles every 15 seconds; *ordering* decides about jobs without a promise."""

    def __init__(self, store, cluster=None, ordering="sjf"):
        self.store, self.cluster, self.cycles = store, cluster or FakeSlurm(nodes=1), 0
        self.world = World(
            cluster=self.cluster,
            memory=Memory(store, cluster="fake"),
            model=RuntimeModel.fit(self.cluster.outcomes(0.0, 0.0)),
            policy=Policy(find_ordering(ordering), RULES),
            writer=Writer(self.cluster, Budget(20.0, 100)),
            clock=ManualClock(),
            learns=False,
        )

    def cycle(self, mode="act"):
        self.cycles += 1
        return run_cycle(self.world, self.cycles, self.cluster.now_s, mode)

    def run(self, seconds):
        for _ in range(int(seconds // 15)):
            self.cycle()
            self.cluster.advance(15.0)
        return self.cycle()

    def states(self):
        table = self.store.promises("fake", 0.0)
        return {int(job): PromiseState(state).name for job, state in zip(table.job_id, table.state, strict=True)}

    def change(self, job, **details):
        self.cluster.jobs[job] = replace(self.cluster.jobs[job], **details)


@pytest.fixture
def site(store):
    return Site(store)


def asking(site, runtime_s=600.0, within="+1h", **details):
    known = {"comment": f"slurmsched:deadline={within}", "time_limit_s": runtime_s, "gpus": 4}
    return site.cluster.submit(runtime_s, **(known | details))


def test_a_promise_is_met_when_the_job_ends_in_time(site):
    job = asking(site)
    site.cycle()
    assert site.states() == {job: "OPEN"}
    site.run(900)
    assert site.cluster.jobs[job].state is JobState.COMPLETED
    assert site.states() == {job: "MET"}
    assert [event.details["what"] for event in site.store.story("fake", job) if event.kind == "deadline"] == [
        "open",
        "met",
    ]


def test_a_promise_that_nobody_could_keep_is_broken_and_its_owner_was_told_before(site):
    asking(site, 300.0, "+20m")
    site.cycle()
    site.cluster.submit(1e5, gpus=4, time_limit_s=2e5, base=10**9, nice=1)
    site.run(1300)
    table = site.store.promises("fake", 0.0)
    assert PromiseState(table.state[0]) is PromiseState.BROKEN
    assert table.announced_s[0] < table.promised_s[0] - 600


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"comment": "slurmsched:deadline=+2h"}, "its deadline was changed"),
        ({"comment": ""}, "its deadline was changed"),
        ({"gpus": 2}, "its GPUs were changed"),
        ({"state": JobState.CANCELLED, "ended_s": 1_000_001.0}, "the job was cancelled"),
        ({"held": True}, "its owner holds it"),
    ],
)
def test_a_change_by_the_owner_withdraws_a_promise_and_says_why(site, change, reason):
    blocker = site.cluster.submit(300.0, gpus=4, time_limit_s=300.0)
    site.cluster.advance(1.0)
    job = asking(site)
    site.cycle()
    site.change(job, **change)
    site.cluster.advance(15.0)
    site.cycle()
    table = site.store.promises("fake", 0.0)
    assert PromiseState(table.state[0]) is PromiseState.WITHDRAWN
    assert table.reason[0] == reason
    assert blocker in site.cluster.jobs


def test_a_changed_deadline_is_answered_anew(site):
    site.cluster.submit(300.0, gpus=4, time_limit_s=300.0)
    site.cluster.advance(1.0)
    job = asking(site)
    site.cycle()
    site.change(job, comment="slurmsched:deadline=+1m")
    site.cluster.advance(15.0)
    site.cycle()
    table = site.store.promises("fake", 0.0)
    assert [PromiseState(state).name for state in table.state] == ["WITHDRAWN", "REFUSED"]


def test_promises_survive_the_daemon(store, site):
    site.cluster.submit(300.0, gpus=4, time_limit_s=300.0)
    site.cluster.advance(1.0)
    job = asking(site)
    report = site.cycle()
    again = Site(store, site.cluster)
    again.cycles = 1
    kept = again.cycle().plan.promises
    assert kept.job_id.tolist() == [job]
    assert kept.asked_s.tolist() == report.plan.promises.asked_s.tolist()


def test_who_looks_on_promises_nothing_and_takes_over_what_another_promised(store, site):
    site.cluster.submit(300.0, gpus=4, time_limit_s=300.0)
    site.cluster.advance(1.0)
    second = Site(store, site.cluster)
    second.cycle("observe")
    job = asking(site)
    second.cycle("observe")
    assert site.states() == {}
    site.cycle()
    second.cycles = 5
    assert second.cycle().view.promises.job_id.tolist() == [job]


def test_a_cycle_with_promises_can_be_decided_again_from_its_record(site):
    asking(site)
    site.run(60)
    record = site.store.latest_decision("fake")
    policy = Policy.from_json(record.settings_json)
    assert decide(record.view, policy.ordering, policy.rules).promises.equals(record.plan.promises)
    assert len(record.plan.promises) == 1


def test_a_promise_made_while_the_database_was_away_is_kept_in_it_afterwards(store, site, tmp_path):
    site.cycle()
    (tmp_path / "a.db").rename(tmp_path / "gone")
    job = asking(site, runtime_s=2000.0)
    assert site.cycle().plan.promises.job_id.tolist() == [job]
    (tmp_path / "gone").rename(tmp_path / "a.db")
    site.run(60)
    assert site.states() == {job: "OPEN"}


@pytest.mark.parametrize("seed", [2])
def test_every_promise_is_kept_beside_a_stream_of_other_jobs(store, seed):
    """Runtimes are the limits, so that whatever is promised can be kept."""
    random = np.random.default_rng(seed)
    site = Site(store, FakeSlurm(nodes=2))
    promised = []
    for _ in range(40):
        runtime_s, gpus = float(random.choice([60.0, 120.0, 300.0, 900.0])), int(random.choice([1, 2, 4]))
        if random.random() < 0.4:
            minutes = int(runtime_s / 60 * random.uniform(1.5, 6.0)) + 2
            promised.append(asking(site, runtime_s, f"+{minutes}m", gpus=gpus))
        else:
            site.cluster.submit(runtime_s, gpus=gpus, time_limit_s=runtime_s)
        site.run(45)
    site.run(1200)
    states = site.states()
    assert set(states) == set(promised)
    assert "BROKEN" not in states.values()
    assert list(states.values()).count("MET") >= 5

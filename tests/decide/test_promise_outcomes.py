"""What becomes of promises over the cycles of a daemon, on a Slurm in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slurmsched.clock import ManualClock
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.promises import PromiseState
from slurmsched.cycle import MISSING_MOST, CycleContext, run_cycle
from slurmsched.db.memory import Memory
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.errors import SlurmUnavailable
from slurmsched.explain.deadlines import deadline
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.budget import Budget
from slurmsched.slurm.write.writer import Writer

RULES = Rules(frozenset({"order", "hold"}), scope="queue", deadlines=DeadlineRules(lead_s=30.0, reserve=0.0))


class Site:
    """The cycles of a daemon; *ordering* decides about jobs without a promise."""

    def __init__(self, store, cluster=None, ordering="sjf"):
        self.store, self.cluster, self.cycles = store, cluster or FakeSlurm(nodes=1), 0
        self.world = CycleContext(
            cluster=self.cluster,
            memory=Memory(store, cluster="fake", monotonic=lambda: self.cluster.now_s),
            model=RuntimeModel.fit(self.cluster.outcomes(0.0, 0.0)),
            policy=Policy(find_ordering(ordering), RULES),
            writer=Writer(self.cluster, Budget(20.0, 100)),
            clock=ManualClock(),
            learns=False,
        )

    def cycle(self, mode="act"):
        self.cycles += 1
        self.world.clock.now_s = self.cluster.now_s
        return run_cycle(self.world, self.cycles, self.cluster.now_s, mode)

    def run(self, seconds, every_s=15.0):
        for _ in range(int(seconds // every_s)):
            self.cycle()
            self.cluster.advance(every_s)
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
    site.run(900, 60.0)
    assert site.cluster.jobs[job].state is JobState.COMPLETED
    assert site.states() == {job: "MET"}
    assert [event.details["what"] for event in site.store.story("fake", job) if event.kind == "deadline"] == [
        "open",
        "met",
    ]


def test_of_a_promise_that_is_over_the_time_counts_from_the_submission_whenever_one_asks(site):
    job = asking(site)
    for report in (site.run(900, 60.0), site.run(1800, 60.0)):
        told = deadline(report.view, report.plan, job).sentences
        assert told == ("It was promised to end within 60 min of its first submission, and did.",)


def test_a_promise_that_nobody_could_keep_is_broken_and_its_owner_was_told_before(site):
    asking(site, 300.0, "+20m")
    site.cycle()
    site.cluster.submit(1e5, gpus=4, time_limit_s=2e5, base=10**9, nice=1)
    site.run(1300, 30.0)
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


class Forgetful(FakeSlurm):
    """A Slurm whose looks leave jobs out, that loses jobs as after a restart from an older state, with accounting."""

    left_out: frozenset[int] = frozenset()
    accounting_away = False
    asked = 0  #: how often accounting was

    def observe(self):
        state = super().observe()
        tables = {
            name: (table := getattr(state, name)).take(~np.isin(table.job_id, list(self.left_out)))
            for name in ("pending", "running", "ended")
        }
        return replace(state, **tables)

    def past_runs(self, job_ids, since_s):
        self.asked += 1
        if self.accounting_away:
            raise SlurmUnavailable("slurmdbd does not answer")
        return super().past_runs(job_ids, since_s)

    def lose(self, job, accounted=False):
        lost = self.jobs.pop(job)
        if accounted:
            self.accounted[job] = lost


@pytest.fixture
def forgetful(store):
    site = Site(store, Forgetful(nodes=1))
    site.job = asking(site)
    site.cycle()
    assert site.states() == {site.job: "OPEN"}
    return site


@pytest.mark.parametrize("at_s", [15.0, 300.0, 900.0])
def test_a_look_that_leaves_jobs_out_is_no_look_and_settles_nothing(forgetful, at_s):
    cluster, other = forgetful.cluster, forgetful.cluster.submit(600.0, gpus=4)
    cluster.advance(15.0)
    forgetful.cycle()
    cluster.advance(at_s)
    cluster.left_out = frozenset([forgetful.job, other])
    for _ in range(2):
        with pytest.raises(SlurmUnavailable, match="in part only"):
            forgetful.cycle()
    assert forgetful.states() == {forgetful.job: "OPEN"}
    cluster.left_out = frozenset()
    forgetful.run(1500, 60.0)
    assert forgetful.states() == {forgetful.job: "MET"}
    assert forgetful.store.history("fake", None, None).job_id.tolist() == [forgetful.job, other], "each ended once"


def test_a_promise_to_a_job_that_slurm_lost_is_lost_and_never_met(forgetful):
    forgetful.cluster.lose(forgetful.job)
    forgetful.cluster.advance(15.0)
    report = forgetful.cycle()
    assert forgetful.states() == {forgetful.job: "LOST"}
    assert report.plan.promises.counts()["lost"] == 1
    (sentence,) = deadline(report.view, report.plan, forgetful.job).sentences
    assert "was lost: Slurm no longer has the job, and no run of it is known to have ended in time" in sentence
    told = [event.details["what"] for event in forgetful.store.story("fake", forgetful.job) if event.kind == "deadline"]
    assert told == ["open", "lost"]


@pytest.mark.parametrize(("ran_s", "state"), [(600.0, "MET"), (4000.0, "BROKEN")])
def test_of_a_job_that_ended_while_nobody_looked_accounting_says_whether_it_was_in_time(store, ran_s, state):
    site = Site(store, Forgetful(nodes=1))
    job = asking(site, runtime_s=ran_s, time_limit_s=600.0)
    site.cycle()
    site.cluster.advance(5000.0)
    site.cluster.lose(job, accounted=True)
    Site(store, site.cluster).cycle()
    assert site.states() == {job: state}


def test_while_accounting_is_away_a_promise_to_a_vanished_job_stands(forgetful):
    cluster = forgetful.cluster
    cluster.advance(5000.0)
    cluster.lose(forgetful.job, accounted=True)
    cluster.accounting_away = True
    forgetful.cycle()
    forgetful.cycle()
    assert forgetful.states() == {forgetful.job: "OPEN"}
    cluster.accounting_away = False
    forgetful.cycle()
    assert forgetful.states() == {forgetful.job: "MET"}


@pytest.mark.parametrize(("ran_s", "state"), [(600.0, "MET"), (4000.0, "BROKEN")])
def test_a_promise_that_counts_as_lost_is_settled_by_a_run_that_accounting_shows_later(store, ran_s, state):
    site = Site(store, Forgetful(nodes=1))
    job = asking(site, runtime_s=ran_s, time_limit_s=600.0)
    site.cycle()
    site.cluster.advance(5000.0)
    run = site.cluster.jobs[job]
    site.cluster.lose(job)
    site.cycle()
    assert site.states() == {job: "LOST"}
    site.cluster.advance(3600.0)
    site = Site(store, site.cluster)
    site.cycles = 10
    site.cycle()
    assert site.states() == {job: "LOST"}
    site.cluster.accounted[job] = run
    site.run(600)
    assert site.states() == {job: state}
    told = [event.details["what"] for event in store.story("fake", job) if event.kind == "deadline"]
    assert told == ["open", "lost", state.lower()]


def test_accounting_is_asked_about_promises_that_count_as_lost_now_and_then_and_a_week_long(forgetful):
    cluster = forgetful.cluster
    cluster.lose(forgetful.job)
    asked_before = cluster.asked
    forgetful.run(3600, 60.0)
    assert 10 <= cluster.asked - asked_before <= 15
    cluster.advance(8 * 86_400.0)
    asked_before = cluster.asked
    forgetful.run(900, 60.0)
    assert cluster.asked == asked_before


def test_a_run_of_another_job_with_the_same_number_meets_no_promise(forgetful):
    lost = forgetful.cluster.jobs[forgetful.job]
    forgetful.cluster.lose(forgetful.job)
    forgetful.cluster.advance(60.0)
    now_s = forgetful.cluster.now_s
    another = replace(lost, submitted_s=now_s, begin_s=now_s, state=JobState.PENDING, comment="", left_s=10.0)
    forgetful.cluster.jobs[forgetful.job] = another
    forgetful.cycle()
    assert forgetful.states() == {forgetful.job: "LOST"}
    forgetful.run(60)
    assert forgetful.states() == {forgetful.job: "LOST"}


def test_a_job_that_slurm_took_out_of_the_queue_never_ran_and_meets_no_promise(site):
    site.cluster.submit(300.0, gpus=4, time_limit_s=300.0)
    site.cluster.advance(1.0)
    job = asking(site)
    site.cycle()
    site.cluster.advance(15.0)
    now_s = site.cluster.now_s
    site.change(job, state=JobState.TIMEOUT, started_s=now_s, ended_s=now_s)  # as sbatch --deadline does
    site.cycle()
    assert site.states() == {job: "BROKEN"}


def test_many_jobs_that_are_gone_are_asked_about_over_several_cycles_and_each_ends_once(store):
    site = Site(store, Forgetful(nodes=1))
    jobs = [site.cluster.submit(1e6) for _ in range(2 * MISSING_MOST + 10)]
    job = asking(site, runtime_s=60.0)
    site.cycle()
    for lost in [*jobs, job]:
        site.cluster.lose(lost)
    ended = [len(site.cycle().ended) for _ in range(4)]
    assert ended == [MISSING_MOST, MISSING_MOST, 11, 0]
    assert site.states() == {job: "LOST"}


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


@pytest.mark.parametrize(("seed", "rounds"), [(3, 16), pytest.param(2, 40, marks=pytest.mark.soak)])
def test_every_promise_is_kept_beside_a_stream_of_other_jobs(store, seed, rounds):
    """Runtimes are the limits, so that whatever is promised can be kept."""
    random = np.random.default_rng(seed)
    site = Site(store, FakeSlurm(nodes=2))
    promised = []
    for _ in range(rounds):
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

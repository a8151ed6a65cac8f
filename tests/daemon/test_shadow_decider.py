"""An ordering in shadow that raises, hangs or dies costs its own record, and nothing of the cycle."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest
from daemon.test_plugin_decider import TROUBLE, installed, unknown_here  # noqa: F401
from decide.test_engine_promises import world

from slurmsched.clock import ManualClock
from slurmsched.cluster.jobs import JobState
from slurmsched.cycle import CycleContext, CycleReport, run_cycle
from slurmsched.daemon.shadow_decider import AGAIN_S, ShadowDecider
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.policies.contract import Ordering, find_ordering
from slurmsched.powers import decide
from slurmsched.powers.shadow import with_shadow
from slurmsched.slurm.adapters.fake import FakeSlurm

POLICY = Policy(
    find_ordering("sjf"),
    Rules(powers=frozenset({"order"}), scope="queue"),
    shadow=Ordering("moody", unknown_here, "Moody.", built_in=False),
)
"""The shadow's code depends on the number of jobs, and only its process knows it."""


class Site:
    """A cluster with one busy node, a database, and a decider in shadow that counts its failures."""

    def __init__(self) -> None:
        self.cluster, self.clock, self.store, self.failures = FakeSlurm(nodes=1), ManualClock(), Store("sqlite://"), 0
        self.store.upgrade()
        self.decider = ShadowDecider(self.clock, self._failed, limit_s=5.0, startup_s=120.0)
        self.context: CycleContext = world(self.cluster)
        self.context.policy, self.context.shadow = POLICY, self.decider
        self.context.memory = Memory(self.store, cluster="fake")
        self.cluster.submit(600.0, gpus=4)
        self.cluster.advance(1.0)
        self._number = 0

    def cycle(self, pending: int) -> CycleReport:
        """Run a cycle with so many jobs in the queue."""
        while len(self.waiting) > pending:
            del self.cluster.jobs[self.waiting.pop()]
        for _ in range(pending - len(self.waiting)):
            self.cluster.submit(600.0 + len(self.cluster.jobs), gpus=4)
        self._number += 1
        return run_cycle(self.context, self._number, self.cluster.now_s, "act")

    @property
    def waiting(self) -> list[int]:
        return [job.job_id for job in self.cluster.jobs.values() if job.state == JobState.PENDING]

    def _failed(self) -> None:
        self.failures += 1


@pytest.fixture
def site(installed, monkeypatch) -> Iterator[Site]:  # noqa: F811
    monkeypatch.setenv("PYTHONPATH", str(installed))
    made = Site()
    with closing(made.decider):
        yield made


@pytest.mark.parametrize("count", TROUBLE)
def test_a_shadow_that_fails_costs_its_own_record_alone(site, count, caplog):
    caplog.set_level(logging.WARNING)
    report = site.cycle(count)
    assert (report.pending, report.ranked, report.refused) == (count, count, 0)
    assert TROUBLE[count].replace("a decision", "a decision in shadow") in report.shadow_trouble
    assert report.fallbacks == ("shadow 'moody'",)
    assert report.plan.shadow == ()
    record = site.store.decision(1)
    stored = Policy.from_json(record.settings_json)
    assert (stored.ordering.name, stored.shadow) == ("sjf", None)
    again = with_shadow(decide(record.view, stored.ordering, stored.rules), record.view, stored)
    assert list(differences(record.plan, again, record.view.pending)) == []
    assert site.cycle(count).shadow_trouble == report.shadow_trouble
    assert site.failures == 1, "it is left in peace for a while"
    assert [one.message for one in caplog.records] == [report.shadow_trouble]


def test_it_is_tried_again_later_and_warns_once_until_it_succeeds(site, caplog):
    caplog.set_level(logging.WARNING)
    site.cycle(3)
    site.clock.now_s += AGAIN_S
    assert "failed 2 times" in site.cycle(3).shadow_trouble
    site.clock.now_s += AGAIN_S
    report = site.cycle(2)
    assert (report.shadow_trouble, report.fallbacks) == ("", ())
    assert "moody in shadow would run" in report.sentence
    assert len(caplog.records) == 1
    assert "failed, since" in site.cycle(3).shadow_trouble
    assert (site.failures, len(caplog.records)) == (3, 2)


def test_the_record_has_what_another_process_decided(site):
    site.context.policy = Policy(POLICY.ordering, POLICY.rules, shadow=find_ordering("fifo"))
    report = site.cycle(4)
    assert report.plan.shadow == with_shadow(report.plan, report.view, site.context.policy).shadow
    assert report.shadow_trouble == ""

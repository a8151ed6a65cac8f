"""The use of CPUs and memory, read from accounting beside the cycles."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from slurmsched.clock import ManualClock
from slurmsched.cluster.columns import table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.usage import UsageTable
from slurmsched.config.settings import RightsizeSettings
from slurmsched.daemon.usage_service import EVERY_S, LAG_S, UsageService
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import RightsizingRules, Rules
from slurmsched.errors import MemoryUnavailable, SlurmUnavailable
from slurmsched.policies.contract import find_ordering

NOW_S = 2_000_000.0
ON = Policy(find_ordering("fifo"), Rules(powers=frozenset({"rightsize"}), rightsizing=RightsizingRules()))
OFF = Policy(find_ordering("fifo"), Rules())


class Accounting:
    """Twenty runs of one kind in each answer; what was asked for; no answer while it is away."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, float]] = []
        self.away = False

    def usage(self, since_s, until_s):
        self.asked.append((since_s, until_s))
        if self.away:
            raise SlurmUnavailable("slurmdbd is away")
        columns = {
            "user": ["alice"] * 20,
            "name": ["train"] * 20,
            "gpus": np.ones(20),
            "state": [JobState.COMPLETED] * 20,
        }
        return table_of(UsageTable, 20, {"runtime_s": 600.0, "cpus": 1.5, "memory_mib": 900.0}, columns)


@pytest.fixture
def accounting():
    return Accounting()


@pytest.fixture
def clock():
    return ManualClock(NOW_S)


@pytest.fixture
def policies():
    """The policy in force, the last one of a list."""
    return [ON]


@pytest.fixture
def config():
    """Slurm's configuration."""
    return {}


@pytest.fixture
def service(accounting, clock, policies, config):
    made = UsageService(
        accounting, lambda: policies[-1], lambda: RightsizeSettings(history_days=1.0), lambda: config, clock
    )
    made.start()
    yield made
    made.close()


def test_what_was_read_is_kept_for_reports_also_once_the_database_is_back(accounting, clock):
    kept, away = [], [True]

    def keep(runs):
        if away[0]:
            raise MemoryUnavailable("the database is away")
        kept.append(len(runs))

    settings = RightsizeSettings(history_days=1.0)
    made = UsageService(accounting, lambda: OFF, lambda: settings, dict, clock, keep, lambda: True)
    made._work()
    assert (kept, made.ready) == ([], True)
    away[:] = [False]
    made._work()
    assert kept == [20, 20]
    assert len(accounting.asked) == 2


@pytest.mark.parametrize(("reported", "followed"), [(True, True), (False, False)])
def test_accounting_is_read_for_reports_only_where_they_are_to_have_it(accounting, clock, reported, followed):
    made = UsageService(
        accounting, lambda: OFF, lambda: RightsizeSettings(), dict, clock, lambda runs: None, lambda: reported
    )
    assert made._note(SimpleNamespace()) == followed


def until(reached):
    for _ in range(1200):
        if reached():
            return True
        time.sleep(0.05)
    return False


def look(service):
    service.observe(SimpleNamespace(mode="act"))


def test_the_history_is_read_once_and_then_what_came_since(service, accounting, clock):
    assert not service.ready
    assert service.with_history(ON).rules.rightsizing.history is False
    assert service.with_history(OFF) is OFF
    look(service)
    assert until(lambda: service.ready)
    assert service.with_history(ON) is ON
    assert [(use.kind, use.cpus, use.memory_mib) for use in service.history.table()] == [("alice/train", 1.5, 900.0)]
    clock.now_s += EVERY_S + 1
    look(service)
    assert until(lambda: len(accounting.asked) == 2)
    read_s = NOW_S - LAG_S
    assert accounting.asked == [(read_s - 86_400.0, read_s), (read_s, read_s + EVERY_S + 1)]


def test_without_the_power_nothing_is_asked(service, accounting, policies):
    policies.append(OFF)
    look(service)
    policies.append(ON)
    look(service)
    assert until(lambda: service.ready)
    assert len(accounting.asked) == 1


def test_accounting_that_is_away_is_asked_again_for_the_same_time(service, accounting, clock):
    accounting.away = True
    look(service)
    assert until(lambda: service.trouble)
    assert not service.ready
    accounting.away = False
    clock.now_s += EVERY_S
    look(service)
    assert until(lambda: service.ready)
    assert service.trouble == ""
    assert [since_s for since_s, _ in accounting.asked] == [
        NOW_S - LAG_S - 86_400.0,
        NOW_S - LAG_S + EVERY_S - 86_400.0,
    ]


@pytest.mark.parametrize("enforced", ["associations,limits", "associations,limits,qos,safe", "all"])
def test_no_job_is_sized_where_slurm_would_hold_it_to_its_limits_no_longer(service, config, enforced):
    config["AccountingStorageEnforce"] = enforced
    assert service.with_history(ON).rules.rightsizing is None
    config["AccountingStorageEnforce"] = "associations,qos"
    assert service.with_history(ON).rules.rightsizing is not None


def test_the_admin_may_say_that_no_limit_is_of_cpus_or_memory(accounting, clock):
    allows = RightsizeSettings(despite_limits=True)
    service = UsageService(
        accounting, lambda: ON, lambda: allows, lambda: {"AccountingStorageEnforce": "associations,limits"}, clock
    )
    assert service.with_history(ON).rules.rightsizing is not None
    service.close()

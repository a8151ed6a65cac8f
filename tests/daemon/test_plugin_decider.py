"""A plug-in that raises, hangs or dies costs the order of one cycle, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from decide.test_engine_promises import world
from decide.views import jobs, view

from slurmsched.cluster.plan import Plan
from slurmsched.cycle import run_cycle
from slurmsched.daemon.plugin_decider import PluginDecider
from slurmsched.db.memory import Memory
from slurmsched.db.store import Store
from slurmsched.decide.plan_differences import differences
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules, SharingRules
from slurmsched.policies.contract import Ordering, find_ordering
from slurmsched.powers import decide
from slurmsched.powers.decision import Decision, decide_here
from slurmsched.slurm.adapters.fake import FakeSlurm

ROOT = Path(__file__).parents[2]
RULES = Rules(powers=frozenset({"order"}), scope="queue")

SOURCE = """
import os, time
from slurmsched.policies.contract import ordering, preemption, sharing

@preemption('moody-yields')
def yields(jobs, late):
    'Nobody yields.'
    return late(())

@sharing('moody-pairs')
def pairs(waiting, wait_s, running, able, limits):
    'Nobody joins.'
    return ()

@ordering('moody')
def moody(view):
    'Widest jobs first, where it works; what it does instead depends on the number of jobs.'
    count = len(view.pending)
    if count == 3:
        raise KeyError('a name that is nobody else\\'s business')
    while count == 4:
        time.sleep(0.1)
    if count == 5:
        os._exit(1)
    if count == 6:
        view.pending.gpus[:] = 7
    return -1.0 * view.pending.gpus
"""


def unknown_here(seen):
    raise AssertionError("the plug-in runs in the process of the daemon")


MOODY = Policy(Ordering("moody", unknown_here, "Moody.", built_in=False), RULES)
"""The policy as the daemon has it: its process only knows the name."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A directory with the plug-in, as pip leaves it."""
    directory = tmp_path_factory.mktemp("installed")
    (directory / "moody.py").write_text(SOURCE)
    metadata = directory / "moody-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: moody\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[slurmsched.policies]\nmoody = moody\n")
    return directory


@pytest.fixture(scope="module")
def shared_decider() -> Iterator[PluginDecider]:
    """A decider that starts a process where it has none: one that is left goes on in the next test."""
    with closing(PluginDecider(limit_s=5.0, startup_s=120.0)) as made:
        yield made


@pytest.fixture
def decider(installed, shared_decider, monkeypatch) -> PluginDecider:
    """A decider whose process finds the plug-in."""
    monkeypatch.setenv("PYTHONPATH", str(installed))
    return shared_decider


def queue(count: int):
    return view(jobs(count, gpus=np.arange(1, count + 1), priority=1000 + np.arange(count)))


def order(decision: Decision) -> list[int]:
    return decision.plan.jobs.rank.tolist()


TROUBLE = {3: "it raised KeyError", 4: "a decision took longer than 5 s", 5: "has died", 6: "it raised ValueError"}


@pytest.mark.parametrize("count", TROUBLE)
def test_a_plug_in_that_fails_costs_the_order_of_one_decision(decider, count):
    assert order(decider(queue(2), MOODY)) == [1, 0]
    failed = decider(queue(count), MOODY)
    assert failed.failed == ("ordering 'moody'",)
    assert failed.trouble.startswith("ordering 'moody' failed, since ")
    assert TROUBLE[count] in failed.trouble
    assert "business" not in failed.trouble
    assert failed.trouble.endswith(": jobs stay in the order that they have")
    assert order(failed) == list(range(count))[::-1], "by the priority that they have"
    assert failed.policy.ordering.name == "unchanged"
    again = decider(queue(2), MOODY)
    assert (order(again), again.failed, again.trouble, again.policy) == ([1, 0], (), "", MOODY)


def test_a_policy_without_plug_ins_is_decided_in_the_process_itself():
    policy, seen = Policy(find_ordering("sjf"), RULES), queue(3)
    with closing(PluginDecider(startup_s=0.0)) as made:  # no process would start in no time
        decided = made(seen, policy)
    assert list(differences(decided.plan, decide_here(seen, policy).plan, seen.pending)) == []
    assert policy.plugins == ()


def test_a_plug_in_that_cannot_be_loaded_any_more_costs_the_order_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with closing(PluginDecider(startup_s=120.0)) as made:
        assert "it raised ConfigError" in made(queue(2), MOODY).trouble


def test_the_record_of_a_cycle_without_the_plug_in_replays_and_a_later_cycle_has_its_order_again(decider):
    cluster = FakeSlurm(nodes=1)
    here, store = world(cluster), Store("sqlite://")
    store.upgrade()
    here.policy, here.decider, here.memory = MOODY, decider, Memory(store, cluster="fake")
    cluster.submit(600.0, gpus=4)
    cluster.advance(1.0)
    for gpus in (1, 2, 3):
        cluster.submit(600.0, gpus=gpus)
    report = run_cycle(here, 1, cluster.now_s, "act")
    assert report.fallbacks == ("ordering 'moody'",)
    assert "ordering 'moody' away" in report.sentence
    assert "it raised KeyError" in report.plugin_trouble
    record = store.decision(1)
    assert record is not None
    stored = Policy.from_json(record.settings_json)
    assert stored.ordering.name == "unchanged"
    again: Plan = decide(record.view, stored.ordering, stored.rules)
    assert list(differences(record.plan, again, record.view.pending)) == []
    for _ in range(4):
        cluster.submit(600.0, gpus=4)
    report = run_cycle(here, 2, cluster.now_s, "act")
    assert (report.fallbacks, report.plugin_trouble) == ((), "")
    assert report.view.pending.gpus[report.plan.jobs.rank == 0].tolist() == [4]


def test_the_unchanged_order_costs_no_write():
    seen = queue(6)
    points = np.array([50, 40, 30, 20, 10, 0])
    pending = replace(seen.pending, site_points=points, priority=1000 + points)
    plan = decide(replace(seen, pending=pending), find_ordering("unchanged"), RULES)
    assert plan.actions == ()


def test_a_decision_without_plug_ins_keeps_the_built_in_parts():
    rules = replace(RULES, deadlines=DeadlineRules(yields=True), sharing=SharingRules())
    kept = Policy(MOODY.ordering, rules).without_plugins()
    assert kept.rules == rules
    assert kept.ordering.name == "unchanged"
    assert Policy(find_ordering("sjf"), rules).without_plugins() == Policy(find_ordering("sjf"), rules)


PROGRAM = """
import json, sys
from pathlib import Path
from cli.fake_site import ORDERS, FakeSite
from slurmsched.cli.daemon.build import build

site = FakeSite(Path(sys.argv[1]), ORDERS.replace("sjf", "moody"))
site.slurm.submit(5000.0, gpus=16)
site.slurm.advance(1.0)
jobs = [site.slurm.submit(600.0, gpus=gpus) for gpus in (1, 2, 3)]
daemon = build(site)
turn = daemon.service.once()
why = daemon.service.questions.answer({"ask": "why", "job_id": jobs[0]}, 0)["why"]["details"]
status = daemon.service.status()
site.slurm.submit(600.0, gpus=4)
for number in range(3):
    site.slurm.submit(600.0, gpus=1)
later = daemon.service.once()
now = daemon.service.status()
print(json.dumps([turn.ok, turn.bug, why, status["degraded"], status["mode"], later.ok, now["degraded"]]))
daemon.close()
"""


def run(installed: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that may load the plug-in, which stays for the life of a process."""
    path = os.pathsep.join([str(installed), str(ROOT), str(ROOT / "tests")])
    argv = [sys.executable, "-c", program, str(installed)]
    done = subprocess.run(argv, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def test_a_daemon_goes_on_acting_and_says_by_name_what_failed(installed):
    done = run(installed, PROGRAM)
    ok, bug, why, degraded, mode, later_ok, later = json.loads(done.stdout)
    trouble = "ordering 'moody' failed, since it raised KeyError: jobs stay in the order that they have"
    assert (ok, bug, mode) == (True, False, "act")
    assert degraded.startswith(trouble)
    assert why[-1] == f"In the last cycle {trouble}."
    assert later_ok
    assert "moody" not in later
    assert "a name that is nobody else's business" in done.stderr, "the log has the whole error"


PARTS = """
import json
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules, SharingRules
from slurmsched.policies.contract import find_ordering

rules = Rules(
    deadlines=DeadlineRules(yields=True, preemption="moody-yields"), sharing=SharingRules(rule="moody-pairs")
)
policy = Policy(find_ordering("moody"), rules)
rest = policy.without_plugins()
print(json.dumps([policy.plugins, rest.plugins, rest.rules.deadlines.yields, rest.rules.sharing.makes_pairs]))
"""


def test_a_decision_without_plug_ins_stops_nobody_and_makes_no_pairs_by_their_parts(installed):
    wanted, rest, yields, pairs = json.loads(run(installed, PARTS).stdout)
    assert wanted == ["ordering 'moody'", "preemption 'moody-yields'", "sharing 'moody-pairs'"]
    assert (rest, yields, pairs) == ([], False, False)

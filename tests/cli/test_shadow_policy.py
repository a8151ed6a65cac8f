"""A second ordering in shadow: its record, its replay, its explanation; and the end of an actor that is not trusted."""

from __future__ import annotations

import numpy as np
import pytest
from cli.fake_site import ORDERS, FakeSite, json_of

from slurmsched.cli.daemon.build import build
from slurmsched.decide.policy import Policy
from slurmsched.models.artifact import Artifact
from slurmsched.models.registry import ACTOR
from slurmsched.policies.ordering.mlfs_rl import FEATURES, Actor

WIDE = len(FEATURES)


def weights(span: float = 100.0) -> str:
    """Weights that prefer long jobs, trained on features up to *span*."""
    linear = np.eye(WIDE)[0]
    return Actor(linear, np.full(WIDE, -span), np.full(WIDE, span), np.zeros((WIDE, 1)), np.zeros(1), np.zeros(1)).text


def artifact(*, promoted: bool, span: float = 100.0) -> Artifact:
    model = {"features": list(FEATURES), "actor": weights(span), "why": "it was tried"}
    return Artifact(ACTOR, 0.0, 1.0, {"promoted": float(promoted)}, model)


@pytest.fixture
def make(tmp_path):
    """Make sites, where a short job of 16 GPUs and a long one of as many wait for an empty cluster of 16."""
    made = []

    def new(ordering: str, shadow: str = ""):
        site = FakeSite(tmp_path, ORDERS.replace("'sjf'", f"'{ordering}'\nshadow = '{shadow}'"))
        for limit_s in (1000.0, 30000.0):
            site.slurm.submit(limit_s, gpus=16, time_limit_s=limit_s)
        site.clock.now_s = site.slurm.now_s
        site.make_tables()
        site.artifacts().directory.mkdir()
        made.append(site)
        return site

    yield new
    for one in made:
        one.close()


def cycle(site, daemon):
    site.clock.now_s += 15.0
    turn = daemon.service.once()
    assert turn.ok, turn.error
    return turn.report


def test_the_record_has_what_the_shadow_would_run_and_replays(make):
    site = make("sjf", shadow="mlfs-rl")
    site.artifacts().put(artifact(promoted=False))
    daemon = build(site)
    report = cycle(site, daemon)
    record = site.store().latest_decision()
    short, long = report.view.pending.job_id.tolist()
    assert record.plan.shadow == report.plan.shadow == (long,)
    assert report.view.pending.job_id[report.plan.jobs.runs].tolist() == [short]
    assert "mlfs-rl in shadow would run 1 other now" in report.sentence
    assert Policy.from_json(record.settings_json).shadow.settings["actor"] == weights()
    assert json_of(site, "replay", str(record.number))["identical"]
    told = json_of(site, "explain", str(long))["explain"]["sentences"]
    assert "In shadow, mlfs-rl would have it in place 1 of 2, and would run now; this is recorded only." in told
    assert any(one.startswith("By mlfs-rl its key is") for one in told)
    daemon.close()


def test_a_shadow_whose_process_has_ended_shows_in_the_status_and_the_cycles_go_on(make):
    site = make("sjf", shadow="fifo")
    daemon = build(site)

    def explained(job: int) -> list[str]:
        return daemon.service.questions.answer({"ask": "explain", "job_id": job}, 0)["explain"]["sentences"]

    short, long = cycle(site, daemon).view.pending.job_id.tolist()
    assert "in shadow" not in daemon.service.status()["degraded"]
    assert any(one.startswith("In shadow, fifo") for one in explained(long))
    daemon.parts.shadow.close()
    report = cycle(site, daemon)
    assert report.view.pending.job_id[report.plan.jobs.runs].tolist() == [short]
    status = daemon.service.status()
    assert status["degraded"].startswith("fifo in shadow failed, since the daemon is stopping")
    assert status["cycle"]["fallbacks"] == ["shadow 'fifo'"]
    assert (status["mode"], status["problem"]) == ("act", "")
    assert not any("In shadow" in one for one in explained(long))
    record = site.store().latest_decision()
    assert json_of(site, "replay", str(record.number))["identical"]
    daemon.close()


def test_an_actor_without_promotion_orders_nobody_and_one_that_is_promoted_later_does(make):
    site = make("mlfs-rl")
    site.artifacts().put(artifact(promoted=False))
    daemon = build(site)
    cycle(site, daemon)
    assert daemon.policy.ordering.name == "mlfs-h"
    site.artifacts().put(artifact(promoted=True))
    cycle(site, daemon)
    assert daemon.policy.ordering.name == "mlfs-rl"
    site.artifacts().path(ACTOR).write_text("{}")
    cycle(site, daemon)
    assert daemon.policy.ordering.name == "mlfs-h"
    daemon.close()


def test_an_actor_whose_queue_lies_outside_its_training_serves_no_more(make):
    site = make("mlfs-rl")
    site.artifacts().put(artifact(promoted=True, span=0.5))
    daemon = build(site)
    names = [cycle(site, daemon) and daemon.policy.ordering.name for _ in range(103)]
    assert names == ["mlfs-rl"] * 100 + ["mlfs-h"] * 3
    daemon.close()

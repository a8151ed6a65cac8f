"""``simulate --from-db``, ``advice`` and ``what-if`` tell one gain of one cluster, one queue and the same settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.fake_site import NOW_S, FakeSite, json_of

from slurmsched.clock import ManualClock
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.foresee import whatif
from slurmsched.slurm.adapters.fake import FakeSlurm

DAY_S = 86_400.0
USERS, JOBS, GPUS = 8, 48, 4
WEIGHT = 100_000
CONFIG = {
    "PriorityType": "priority/multifactor",
    "PriorityFlags": "NO_FAIR_TREE",
    "PriorityWeightFairShare": str(WEIGHT),
    "PriorityDecayHalfLife": "7-00:00:00",
}
RUNTIME_S = np.array([600.0, 36_000.0] * (USERS // 2))
"""A user's jobs all take as long, so that every forecast is exact: half of the users have short ones."""
USED_S = np.where(RUNTIME_S == 600.0, 400_000.0, 20_000.0)
"""What each user has used beside these: fair share lets those with long jobs go first."""


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """As few as of a long queue: every draw has the same runtimes."""
    monkeypatch.setattr(whatif, "MOST_DRAWS", whatif.FEWEST_DRAWS)


def runs(
    first_job: int, submit_s: np.ndarray, user: np.ndarray, name: str = "train", runtime_s: np.ndarray = RUNTIME_S
) -> OutcomeTable:
    """Runs that waited for an hour each."""
    started_s = submit_s + 3600.0
    return table_of(
        OutcomeTable,
        len(user),
        {"state": JobState.COMPLETED, "nodes": 1, "cpus": 4, "gpus": GPUS},
        {
            "job_id": np.arange(first_job, first_job + len(user)),
            "user": Labels.of(f"user{number}" for number in user.tolist()),
            "name": Labels.of([name] * len(user)),
            "partition": Labels.of(["gpu"] * len(user)),
            "qos": Labels.of(["normal"] * len(user)),
            "time_limit_s": np.full(len(user), DAY_S),
            "runtime_s": runtime_s[user],
            "first_submit_s": submit_s,
            "eligible_s": submit_s,
            "started_s": started_s,
            "ended_s": started_s + runtime_s[user],
        },
    )


def one_queue(directory: Path, order: str) -> dict[str, dict[str, Any]]:
    """Return the answers of the three for a queue on an idle cluster: before it runs, and when it has run."""
    slurm = FakeSlurm(now_s=NOW_S, config=FakeSlurm().config | CONFIG)
    site = FakeSite(directory, f"mode = 'advise'\n[policy]\nordering = 'sjf'\n[order]\n{order}", slurm)
    site.make_tables()
    store = site.open_store()
    long_ago, everybody = NOW_S - 60 * DAY_S, np.arange(USERS)
    for number in range(40):
        store.add_outcomes(
            "fake", runs(1 + USERS * number, long_ago + DAY_S / 2 * (number + np.zeros(USERS)), everybody)
        )
    store.add_outcomes("fake", runs(900, NOW_S - DAY_S - 3600.0 - USED_S, everybody, "other", USED_S))
    user = np.random.default_rng(1).permutation(np.arange(JOBS) % USERS)
    fair = 2.0 ** (-USED_S / USED_S.sum() * USERS)
    first_job = 1000
    slurm._ids = iter(range(first_job, first_job + JOBS))
    for number in user.tolist():
        slurm.submit(
            RUNTIME_S[number],
            user=f"user{number}",
            name="train",
            gpus=GPUS,
            time_limit_s=DAY_S,
            base=int(WEIGHT * fair[number]),
        )
    answers = {"what-if": json_of(site, "what-if")}
    json_of(site, "once")
    store.add_outcomes("fake", runs(first_job, NOW_S + 0.01 * np.arange(JOBS), user))
    store.close()
    later_s = NOW_S + 3 * DAY_S
    site.clock = ManualClock(later_s)
    answers["simulate"] = json_of(site, "simulate", "--from-db", "3d")
    answers["advice"] = json_of(site, "advice", "--from-db", "3d")
    return answers


def gains(answers: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
    """Return the ratio of the settings, and that of the ideal, by command."""
    rows = {
        "what-if": answers["what-if"]["rows"][1:],
        "simulate": answers["simulate"]["policies"][1:],
    }
    found = {name: [row["gain"]["ratio"] for row in some] for name, some in rows.items()}
    return found | {"advice": [row["ratio"] for row in answers["advice"]["gain"]["rows"]]}


def agree(told: dict[str, list[float]]) -> None:
    """Check that the settings have one gain; the ideal of what-if has slurmctld's loops, that of the others none."""
    assert told["advice"] == told["simulate"]
    assert told["what-if"][0] == pytest.approx(told["simulate"][0], rel=0.05)
    assert 1.5 < told["what-if"][1] < told["simulate"][1] < 1.5 * told["what-if"][1]


def test_over_the_whole_queue_the_settings_have_one_gain_in_all_three(tmp_path):
    told = gains(one_queue(tmp_path, "scope = 'queue'\n"))
    agree(told)
    assert min(ratios[0] for ratios in told.values()) > 1.5


def test_under_a_cap_that_fair_share_outweighs_the_settings_gain_nothing_in_all_three(tmp_path):
    told = gains(one_queue(tmp_path, "max_points = 10\n"))
    agree(told)
    assert [ratios[0] for ratios in told.values()] == pytest.approx([1.0] * 3, abs=0.02)

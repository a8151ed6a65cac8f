"""``slurmsched tune``: on a trace and on the database."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.fake_site import NOW_S, FakeSite, run
from json_forms import answer_of

from slurmsched.cli.app import App
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.profiles import NodeProfile
from slurmsched.config.files import load
from slurmsched.db.store import Store
from slurmsched.research.tuning import search

DAYS, DAY_S = 10, 86400.0


@pytest.fixture
def app(tmp_path: Path) -> App:
    return FakeSite(tmp_path, "every_s = 120\n[policy]\nordering = 'sjf'\n")


def history() -> OutcomeTable:
    """Each midnight thirty jobs of six hours with a GPU each: two days' work for six GPUs every day and a half."""
    submit_s = NOW_S - DAYS * DAY_S + np.repeat(np.arange(DAYS) * DAY_S, 30)
    length = len(submit_s)
    times = dict.fromkeys(("first_submit_s", "eligible_s", "started_s"), submit_s)
    return table_of(
        OutcomeTable,
        length,
        {"state": JobState.COMPLETED, "nodes": 1, "gpus": 1, "cpus": 1, "time_limit_s": 30000.0},
        {
            "job_id": np.arange(1, length + 1),
            "user": Labels.of(["alice"] * length),
            "name": Labels.of(f"train_{number}" for number in range(length)),
            "ended_s": submit_s + 21600.0,
            "runtime_s": np.full(length, 21600.0),
            **times,
        },
    )


def profile_of(job_id: int, start_s: float) -> NodeProfile:
    return NodeProfile(
        job_id, 0, "n1", int(start_s), int(start_s) + 21600, 1, 21600.0, 1.0, 0.2, 0.01, 0.1, 900.0, 90.0, 0.0
    )


def stocked(app: App) -> None:
    app.make_tables()
    store = app.open_store(Store)
    runs = history()
    store.add_outcomes("lab", runs)
    store.add_profiles(
        "lab", [profile_of(*known) for known in zip(runs.job_id.tolist(), runs.started_s.tolist(), strict=True)]
    )
    store.close()


def test_the_database_is_searched_and_the_lines_to_add_are_printed(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "FEWEST", 60)  # two days before the week that is held out
    stocked(app)
    before = (tmp_path / "slurmsched.toml").read_text()
    cluster = ("--nodes", "6x1", "--share-nodes", "2", "--gpu-memory", "20000")
    said = run(app, "tune", *cluster, "--evaluations", "3", "--json")
    assert said.exit_code == 0, said.output
    told = answer_of(["tune"], said.output)
    assert told["jobs"] == told["measured"] == 30 * DAYS
    assert told["recommended"], "light jobs that wait for each other had better share"
    assert told["current"]["share.capacity"] == 0
    assert told["best"]["share.capacity"] > 0
    assert told["held_out"]["low"] > 0
    assert (tmp_path / "slurmsched.toml").read_text() == before, "nothing is changed"
    text = "\n".join(line for line in told["settings"] if not line.startswith("and in slurm.conf"))
    (tmp_path / "new.toml").write_text(text)
    loaded = load(str(tmp_path / "new.toml"), {}).settings
    assert loaded.power.share
    assert loaded.power.order
    assert loaded.share.capacity == told["best"]["share.capacity"]
    assert loaded.share.memory_mib == 20000


def test_a_trace_is_tried_and_people_are_told_why_not(app: App):
    said = run(app, "tune", "--trace", "synthetic:420:0.15", "--nodes", "4", "--evaluations", "2", "--ckpt", "0.5")
    assert said.exit_code == 0, said.output
    assert "sharing was not tried" in said.output
    assert "recommended" in said.output


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--trace", "synthetic:100", "--from-db", "30d", "--nodes", "4"), "exclude each other"),
        (("--trace", "synthetic:100"), "Say --nodes N or --cluster FILE"),
        (("--trace", "synthetic:100", "--nodes", "4"), "as many before"),
        (("--trace", "synthetic:100", "--nodes", "4", "--ordering", "nonsense"), "is not known"),
        (("--trace", "synthetic:100", "--nodes", "4", "--profile-nodes", "4"), "leaves at least one"),
        (("--trace", "synthetic:100", "--nodes", "4", "--profile-nodes", "2", "--share-nodes", "2"), "leaves at least"),
        (("--nodes", "4"), "database"),
        (("--nodes", "4", "--gpus-per-node", "1"), "--gpus-per-node is no option any more: say --nodes 16x4"),
        (("--nodes", "4", "--cluster-name", "lab"), "--cluster-name is no option any more: say --from-db 30d@NAME"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(app: App, words: tuple[str, ...], error: str):
    said = run(app, "tune", *words)
    assert said.exit_code != 0
    assert error in said.output
    assert "Traceback" not in said.output

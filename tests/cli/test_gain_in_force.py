"""The gain that ``simulate --from-db`` tells: of the settings as they would act, with the ideal apart."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from cli.fake_site import NOW_S, FakeSite, json_of, run
from cli.test_train_command import kept

from slurmsched.cli.study.settings_in_force import fair_share_notes
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.associations import NO_ASSOCIATIONS, AssociationTable
from slurmsched.cluster.records.outcomes import OutcomeTable

DAY_S = 86_400.0
CYCLE_S = 1500  #: of replays: most of what they take is cycles
FEW = 100  #: jobs, where no figure matters
REPLAY = ("simulate", "--from-db", "6d@fake", "--nodes", "4x4")
WEIGHTS = {
    "PriorityType": "priority/multifactor",
    "PriorityWeightFairShare": "100000",
    "PriorityWeightAge": "1000",
    "PriorityDecayHalfLife": "7-00:00:00",
}


EQUAL = "assumed: Fair Tree over the accounts of the jobs, with equal shares, of GPU-hours"


def history(size: int, *, mixed: bool) -> OutcomeTable:
    """Twelve days on 16 GPUs: eight users have short jobs, the four others long ones; or *mixed*, all.

    A thousand jobs keep them full for the most part.
    """
    random = np.random.default_rng(0)
    submit_s = np.sort(NOW_S - 13 * DAY_S + random.uniform(0, 12 * DAY_S, size))
    user = random.choice(12, size, p=np.array([1] * 8 + [2] * 4) / 16)
    is_long = random.random(size) < 0.4 if mixed else user >= 8
    runtime_s = np.where(is_long, random.uniform(4, 12, size) * 3600, random.uniform(5, 30, size) * 60)
    wait_s = random.uniform(0, 3600, size)
    return table_of(
        OutcomeTable,
        size,
        {"state": JobState.COMPLETED, "nodes": 1, "cpus": 8},
        {
            "job_id": np.arange(1, size + 1),
            "gpus": random.choice([1, 2, 4], size),
            "user": Labels.of(f"user{number}" for number in user.tolist()),
            "name": Labels.of(np.where(is_long, "train", "test").tolist()),
            "time_limit_s": np.full(size, DAY_S),
            "runtime_s": runtime_s,
            "first_submit_s": submit_s,
            "eligible_s": submit_s,
            "started_s": submit_s + wait_s,
            "ended_s": submit_s + wait_s + runtime_s,
        },
    )


def site_with(directory: Path, scope: str, *, mixed: bool = False, jobs: int = 1000) -> FakeSite:
    order = f"[order]\nscope = '{scope}'\nmax_points = 100\n"
    seldom = f"mode = 'advise'\nevery_s = {CYCLE_S}\n"
    site = FakeSite(directory, f"{seldom}[policy]\nordering = 'sjf'\nstarvation_s = 2592000\n{order}")
    site.slurm.config.update(WEIGHTS)
    site.make_tables()
    store = site.open_store()
    store.add_outcomes("fake", history(jobs, mixed=mixed))
    store.close()
    return site


def test_where_fair_share_outweighs_the_points_the_settings_gain_nothing_and_the_ideal_is_apart(tmp_path):
    rows = json_of(site_with(tmp_path, "points"), *REPLAY)["policies"]
    assert [row["policy"] for row in rows] == ["slurm", "sjf, baseline", "sjf, ideal"]
    assert rows[1]["forecast"] == "history"
    assert 0.95 < rows[1]["gain"]["ratio"] < 1.05
    assert rows[1]["gain"]["low"] < 1 < rows[1]["gain"]["high"]
    assert rows[2]["gain"]["ratio"] > 1.3
    assert rows[2]["gain"]["low"] > rows[1]["gain"]["high"]


def test_over_the_whole_queue_the_same_settings_gain_and_the_first_lines_say_what_is_assumed(tmp_path):
    site = site_with(tmp_path, "queue", mixed=True)
    rows = json_of(site, *REPLAY[:2], "4d", *REPLAY[3:])["policies"]
    assert rows[1]["gain"]["low"] > 1.1
    first = run(site, *REPLAY[:2], "2d", *REPLAY[3:]).output.splitlines()[0]
    assert first == EQUAL


def test_what_earlier_runs_and_slurm_do_not_tell_is_said_in_the_first_line(tmp_path):
    site = site_with(tmp_path, "points", jobs=FEW)
    whole = run(site, *REPLAY[:2], "60d", *REPLAY[3:]).output.splitlines()[0]
    assert whole.startswith("assumed: no run before this span is known: fair share begins with nobody")


def test_nodes_that_slurm_does_not_show_are_named_before_any_figure(tmp_path):
    site = site_with(tmp_path, "points", jobs=FEW)
    site.slurm.unshown = {"gpu": "c[1-2]"}
    (first, *_) = run(site, *REPLAY[:3]).output.splitlines()
    assert first.startswith("Slurm does not show c[1-2] of gpu: they count for nothing here")
    assert run(site, *REPLAY).output.splitlines()[0] == EQUAL, "other nodes were named"


def test_first_lines_name_the_kind_of_fair_share_whose_shares_and_what_is_not_modelled():
    odd = {"PriorityFlags": "DEPTH_OBLIVIOUS,NO_NORMAL_QOS", "PriorityWeightTRES": "cpu=1,billing=5,license/matlab=0"}
    notes = fair_share_notes(WEIGHTS | odd, NO_ASSOCIATIONS, True)
    left_out = "not modelled of Slurm's priority: DEPTH_OBLIVIOUS; NO_NORMAL_QOS; PriorityWeightTRES of billing"
    assert notes == [EQUAL, left_out]
    classic = WEIGHTS | {"PriorityFlags": "NO_FAIR_TREE"}
    assert fair_share_notes(classic, NO_ASSOCIATIONS, True) == [EQUAL.replace("Fair Tree", "classic fair share")]
    assert fair_share_notes(WEIGHTS, accounts(hungry=1, others=1), True) == [
        "assumed: Fair Tree over Slurm's accounts and shares, of GPU-hours"
    ]


def accounts(**shares: int) -> AssociationTable:
    """Two accounts with these shares: the users with short jobs are in the second, all others in the first."""
    members = {"hungry": range(8, 12), "others": range(8)}
    rows = [("root", "", "", 1), *((name, "", "root", own) for name, own in shares.items())]
    rows += [(name, f"user{number}", "", 1) for name in shares for number in members[name]]
    account, user, parent, own = zip(*rows, strict=True)
    texts = {"account": Labels.of(account), "user": Labels.of(user), "parent": Labels.of(parent)}
    return table_of(AssociationTable, len(rows), {"default": True}, texts | {"shares": np.array(own)})


def test_shares_of_accounts_decide_whose_jobs_stock_slurm_lets_wait(tmp_path):
    waits = []
    for name, shares in (("rich", {"hungry": 1, "others": 1000}), ("poor", {"hungry": 1000, "others": 1})):
        (tmp_path / name).mkdir()
        site = site_with(tmp_path / name, "points")
        site.slurm.accounts = accounts(**shares)
        rows = json_of(site, *REPLAY[:2], "3d", *REPLAY[3:])["policies"]
        waits.append(rows[0]["jct_s"]["mean"])
    assert waits[0] < 0.9 * waits[1], "users of short jobs go first where they have the shares"


def test_the_row_of_the_settings_has_the_kind_of_model_that_serves_trained_on_what_had_ended(tmp_path):
    site, day = site_with(tmp_path, "queue", mixed=True), (*REPLAY[:2], "1d", *REPLAY[3:])
    kept(site)
    answer = json_of(site, *day)
    rows = [(row["policy"], row["forecast"]) for row in answer["policies"]]
    assert rows[1:] == [("sjf, trained", "model"), ("sjf, ideal", "exact")]
    assert any("scope queue; forecasts by a model trained each day" in note for note in answer["notes"])
    site.write(f"mode = 'advise'\nevery_s = {CYCLE_S}\n[policy]\nordering = 'sjf'\n[models]\nserve = 'baseline'\n")
    site.reload()
    assert json_of(site, *day)["policies"][1]["policy"] == "sjf, baseline"


def test_advice_begins_with_the_gain_of_the_settings_by_their_latest_jobs(tmp_path):
    site = site_with(tmp_path, "points")
    site.slurm.submit(600.0, gpus=1)
    run(site, "once")
    lines = run(site, "advice", "--from-db", "2d").output.splitlines()
    assert lines[0] == EQUAL
    assert re.fullmatch(
        r"sjf, baseline: 1\.0\dx \(.*\), no sure gain: what acting .* at most 100 points beside .*", lines[1]
    )
    assert re.fullmatch(r"sjf, ideal: .*x \(.*\).*: exact runtimes, .* no site reaches it", lines[2])
    assert re.fullmatch(r"by a replay of the last 2d00h00m00s, \d+ jobs: the mean JCT under Slurm .*", lines[3])
    assert lines[4].startswith("WHO GAINS")


def test_advice_without_any_run_says_why_the_gain_is_not_known(tmp_path):
    site = FakeSite(tmp_path, "mode = 'advise'\n[policy]\nordering = 'sjf'\n")
    site.slurm.submit(600.0, gpus=1)
    run(site, "once")
    answer = json_of(site, "advice")
    assert answer["gain"]["rows"] == []
    first = run(site, "advice").output.splitlines()[0]
    assert first == "the gain of the settings is not known: the database holds no runs; try: slurmsched history import"


def test_advice_without_the_gain_replays_nothing(tmp_path):
    site = site_with(tmp_path, "points", jobs=FEW)
    site.slurm.submit(600.0, gpus=1)
    run(site, "once")
    assert "gain" not in json_of(site, "advice", "--no-gain")
    assert run(site, "advice", "--no-gain").output.startswith("WHO GAINS")
    assert "does not go with --no-gain" in run(site, "advice", "--no-gain", "--from-db", "2d").output

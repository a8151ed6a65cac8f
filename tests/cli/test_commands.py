"""The commands against a Slurm in memory and a database on disk, with no daemon running."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from cli.fake_site import FakeSite, json_of, run

from slurmsched.cluster.actions import Rank
from slurmsched.cluster.records.outcomes import RefusedRecord
from slurmsched.db.store import Store


@pytest.fixture
def site(tmp_path):
    """Six jobs for sixteen GPUs, long ones first; the cluster is full."""
    site = FakeSite(tmp_path)
    site.slurm.submit(5000.0, gpus=16, name="blocker")
    site.slurm.advance(1.0)
    for limit_s in (3000.0, 2000.0, 1000.0):
        site.slurm.submit(limit_s / 2, gpus=8, time_limit_s=limit_s, user="bob", name=f"\x1b[31mevil{limit_s:.0f}")
    site.clock.now_s = site.slurm.now_s
    return site


def test_a_cycle_orders_the_queue_and_says_so(site):
    result = run(site, "once")
    assert result.exit_code == 0, result.output
    assert "4 pending" in result.output or "3 pending" in result.output
    assert any(isinstance(action, Rank) for action in site.slurm.written)


def test_a_dry_run_writes_nothing_anywhere(site, tmp_path):
    site.make_tables()
    before = Store(f"sqlite:///{tmp_path}/slurmsched.db").decision_numbers()
    answer = json_of(site, "once", "--dry-run")
    assert answer["wanted"]
    assert answer["advice"]
    assert site.slurm.written == []
    assert Store(f"sqlite:///{tmp_path}/slurmsched.db").decision_numbers() == before


def test_a_dry_run_needs_no_database(site, tmp_path):
    result = run(site, "once", "--dry-run")
    assert "would write" in result.output
    assert "database" in result.output
    assert not (tmp_path / "slurmsched.db").exists()


def test_without_a_daemon_the_record_answers(site):
    run(site, "once")
    result = run(site, "queue")
    assert result.exit_code == 0, result.output
    assert "from the record: no daemon answers" in result.output
    assert "\x1b" not in result.output
    assert "\\x1b[31mevil1000" in result.output
    rows = json_of(site, "queue")["queue"]
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert rows[0]["forecast_s"] <= rows[1]["forecast_s"] <= rows[2]["forecast_s"]


def test_a_limit_on_the_queue_says_how_many_are_left_out(site):
    run(site, "once")
    assert "... and 2 more" in run(site, "queue", "--limit", "1").output


def test_why_and_explain_speak_of_one_job_and_say_as_of_when(site):
    run(site, "once")
    waiting = json_of(site, "queue")["queue"][-1]["job_id"]
    for command in ("why", "explain"):
        result = run(site, command, str(waiting))
        assert result.exit_code == 0
        assert (f"Job {waiting}" if command == "explain" else "Reason: ") in result.output
        assert "as of " in result.output
        assert json_of(site, command, f"{waiting}_3")[command]["job_id"] == waiting


@pytest.mark.parametrize("command", ["why", "explain", "story"])
def test_a_job_that_is_not_there_is_status_3(site, command):
    run(site, "once")
    result = run(site, command, "987654")
    assert result.exit_code == 3
    assert "987654" in result.stderr


def test_before_the_first_cycle_it_is_said_what_is_missing(site):
    result = run(site, "why", "1")
    assert result.exit_code == 1
    assert "no daemon listens on" in result.stderr
    assert "and without it:" in result.stderr


def test_the_story_of_a_job_is_told_in_sentences(site):
    run(site, "once")
    job = json_of(site, "queue")["queue"][0]["job_id"]
    result = run(site, "story", str(job))
    assert result.exit_code == 0, result.output
    assert "it was submitted" in result.output
    assert "points (cycle 1)" in result.output
    assert next(event["kind"] for event in json_of(site, "story", str(job))["story"]) == "submitted"


def test_a_cycle_replays_to_the_identical_plan(site):
    run(site, "once")
    result = run(site, "replay", "1")
    assert (result.exit_code, "identical" in result.output) == (0, True), result.output
    assert json_of(site, "replay", "1")["identical"] is True


def test_a_cycle_that_is_not_kept_is_status_3(site):
    run(site, "once")
    assert run(site, "replay", "99").exit_code == 3


def test_status_without_a_daemon_is_status_1_and_knows_the_last_cycle(site):
    run(site, "once")
    result = run(site, "status")
    assert result.exit_code == 1
    assert "no daemon answers; Slurm decides alone" in result.output
    assert "cycle 1" in result.output


def test_a_pause_makes_the_next_cycle_only_observe_until_resumed(site):
    site.make_tables()
    assert run(site, "pause").output == "paused until resumed\n"
    run(site, "once")
    assert site.slurm.written == []
    run(site, "resume")
    run(site, "once")
    assert site.slurm.written != []


def test_a_pause_ends_by_itself(site):
    site.make_tables()
    assert "paused until" in run(site, "pause", "--until", "+2h").output
    run(site, "once")
    assert site.slurm.written == []
    site.clock.now_s += 7201.0
    run(site, "once")
    assert site.slurm.written != []


@pytest.mark.parametrize("text", ["yesterday", "+2h,soft", "2001-01-01T00:00Z", "", "+0s", "+2h slurmsched:off"])
def test_a_pause_needs_a_time_that_is_to_come(site, text):
    site.make_tables()
    result = run(site, "pause", "--until", text)
    assert result.exit_code == 2, result.output


def test_release_all_takes_every_point_away(site):
    run(site, "once")
    assert any(job.points for job in site.slurm.jobs.values())
    result = run(site, "release-all")
    assert result.exit_code == 0, result.output
    assert [job.points for job in site.slurm.jobs.values() if job.points] == []


def test_release_all_needs_no_database(site, tmp_path):
    run(site, "once")
    for file in tmp_path.glob("slurmsched.db*"):
        file.unlink()
    assert json_of(site, "release-all")["ranked"] > 0
    assert [job.points for job in site.slurm.jobs.values() if job.points] == []


def test_history_is_imported_once_however_often(site):
    site.make_tables()
    site.slurm.advance(20_000.0)
    site.clock.now_s = site.slurm.now_s
    first = json_of(site, "history", "import", "--days", "1")
    assert first["read"] == first["new"] == 4
    again = json_of(site, "history", "import")
    assert (again["read"], again["new"]) == (4, 0)
    stats = json_of(site, "history", "stats")
    assert stats["runs"] == 4
    assert [row["gpus"] for row in stats["by_gpus"]] == [8, 16]
    assert "4 runs of 2 users" in run(site, "history", "stats").output


def test_records_that_are_no_runs_are_counted_by_reason_and_listed(site, tmp_path):
    site.make_tables()
    site.slurm.bad_records = [
        RefusedRecord("a field is no GRES", "7|al\nice"),
        RefusedRecord("a field is no number", "8|"),
    ]
    site.slurm.bad_records *= 2
    assert json_of(site, "history", "import", "--days", "1")["refused"] == {
        "a field is no GRES": 2, "a field is no number": 2
    }  # fmt: skip
    said = run(site, "history", "import", "--days", "1").output
    assert "2 records left out: a field is no GRES" in said
    assert "'--rejected FILE' lists them" in said
    run(site, "history", "import", "--days", "1", "--rejected", str(tmp_path / "bad.tsv"))
    assert (tmp_path / "bad.tsv").read_text().splitlines()[0] == "a field is no GRES\t7|al\\nice"


def test_an_import_says_where_accounting_does_not_count_gpus(site):
    site.make_tables()
    site.slurm.advance(20_000.0)
    site.clock.now_s = site.slurm.now_s
    assert "lacks gres/gpu" not in run(site, "history", "import", "--days", "1").output
    site.slurm.config |= {"GresTypes": "gpu", "AccountingStorageTRES": "cpu,mem,billing"}
    assert "AccountingStorageTRES in slurm.conf lacks gres/gpu" in run(site, "history", "import", "--days", "1").output


def test_an_empty_history_is_status_3(site):
    site.make_tables()
    assert run(site, "history", "stats").exit_code == 3


def test_check_lists_what_is_missing_with_its_remedy(site):
    result = run(site, "check")
    assert result.exit_code == 1
    assert "add: " in result.output
    site.make_tables()
    findings = {found["name"]: found for found in json_of(site, "check")["findings"]}
    assert findings["database"]["ok"] is True
    assert findings["settings"]["text"] == "the ordering is sjf"
    assert findings["daemon"]["ok"] is None


def test_check_goes_on_where_slurm_does_not_answer(site):
    site.slurm.away = True
    findings = {found["name"]: found for found in json_of(site, "check")["findings"]}
    assert findings["Slurm"]["ok"] is False
    assert "settings" in findings


def test_an_ordering_that_is_not_known_is_told_with_those_that_are(tmp_path):
    site = FakeSite(tmp_path)
    file = tmp_path / "slurmsched.toml"
    file.write_text(file.read_text().replace("sjf", "magic"))
    result = run(site, "once")
    assert result.exit_code == 1
    assert "magic" in result.stderr
    assert "qssf" in result.stderr


def test_slurm_being_away_is_one_line(site):
    site.slurm.away = True
    result = run(site, "once")
    assert result.exit_code == 1
    assert result.stderr.startswith("slurmsched: ")
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("once",), ("once", "--dry-run"), ("check",), ("status",), ("queue",), ("why", "1"), ("story", "1"),
        ("replay", "1"), ("pause",), ("resume",), ("config", "show"), ("history", "stats"),
        ("db", "upgrade"), ("release-all",),
    ],
)  # fmt: skip
def test_no_command_tells_a_secret_even_when_it_fails(site, words):
    site.environ = {"SLURMSCHED_DATABASE_URL": "postgresql://me:canary@127.0.0.1:1/none"}
    result = run(site, *words)
    assert "canary" not in result.output + result.stderr + repr(site.settings())


@pytest.mark.parametrize(
    "words",
    [("history", "import"), ("pause",), ("resume",), ("policy", "set", "sjf")],
    ids=lambda words: " ".join(words),
)
def test_a_command_that_writes_makes_the_database_where_there_is_none(site, tmp_path, words):
    result = run(site, *words)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "slurmsched.db").exists()
    assert run(site, "once", "--dry-run").exit_code == 0


@pytest.mark.parametrize("words", [("history", "stats"), ("queue",), ("accuracy",), ("policy", "show")])
def test_a_command_that_reads_makes_none(site, tmp_path, words):
    run(site, *words)
    assert not (tmp_path / "slurmsched.db").exists()


def test_a_database_that_the_first_start_makes_is_not_missing(site):
    database = next(one for one in json_of(site, "check")["findings"] if one["name"] == "database")
    assert database["ok"] is None
    assert "does not exist yet" in database["text"]
    run(site, "history", "import")
    assert next(one for one in json_of(site, "check")["findings"] if one["name"] == "database")["ok"] is True


COMMANDS_ON_TABLES = (
    ("history", "import"), ("history", "stats"), ("db", "upgrade"), ("run",), ("once",), ("pause",), ("story", "1"),
    ("replay", "1"), ("policy", "set", "sjf", "--reason", "x"), ("train",), ("what-if",), ("queue",),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS_ON_TABLES, ids=" ".join)
def test_tables_from_before_the_first_release_are_left_alone_by_every_command(site, tmp_path, command):
    with closing(sqlite3.connect(tmp_path / "slurmsched.db")) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('0016')")
        connection.commit()
    before = (tmp_path / "slurmsched.db").read_bytes()
    result = run(site, *command)
    assert result.exit_code == 1, result.output
    assert "before the first release" in result.stderr
    assert "'slurmsched history import'" in result.stderr
    assert (tmp_path / "slurmsched.db").read_bytes() == before
    assert not list(tmp_path.glob("slurmsched.db.before*"))

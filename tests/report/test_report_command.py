"""``slurmsched report``: text, JSON, CSV and a page, also of a site whose users chose hostile names."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from cli.fake_site import NOW_S, FakeSite, json_of, run
from new_store import new_store
from site_month import site_month

from slurmsched.cluster.columns import Labels
from slurmsched.report.csv_lines import csv_text
from slurmsched.report.page import page

HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style><b>", "=cmd|' /C calc'!A0", "@SUM(1+1)*cmd",
    "+1;=2", "-3", "a;=1+1", "\u202eevil\x1b[31m", "&lt;", "{{ 7*7 }}", "{% raw %}", "]]>", "'",
)  # fmt: skip


ELEMENTS = (
    "html head meta title style body header main h1 h2 h3 p ul li b span div table thead tbody tr th td figure "
    "svg rect line text circle polyline"
)


@pytest.fixture
def site(tmp_path):
    site = FakeSite(tmp_path, "")
    site.make_tables()
    yield site
    site.close()


@pytest.fixture(scope="module")
def month():
    return site_month(400, seed=7)


def hostile(month):
    users = Labels(month.runs.user.codes % len(HOSTILE), HOSTILE)
    accounts = Labels(month.runs.account.codes % len(HOSTILE), HOSTILE[::-1])
    runs = replace(month.runs, user=users, account=accounts)
    hours = {counted._replace(account=HOSTILE[hash(counted.account) % len(HOSTILE)]) if counted.account else counted: v
             for counted, v in month.hours.items()}  # fmt: skip
    return replace(month, runs=runs, hours=hours)


@pytest.fixture(scope="module")
def databases(month, tmp_path_factory):
    """The files of databases with the month as it is, and with hostile names."""
    return [kept(one, tmp_path_factory.mktemp("month") / "kept.db") for one in (month, hostile(month))]


def kept(month, file):
    store = new_store(file)
    month.save(store, "fake")
    store.close()
    return file.read_bytes()


@pytest.fixture
def site_with_month(databases, tmp_path):
    yield from site_with(databases[0], tmp_path)


@pytest.fixture
def site_with_hostile_month(databases, tmp_path):
    yield from site_with(databases[1], tmp_path)


def site_with(database, directory):
    (directory / "slurmsched.db").touch(0o600)
    (directory / "slurmsched.db").write_bytes(database)
    site = FakeSite(directory, "")
    yield site
    site.close()


def test_text_and_json_say_the_same(site_with_month, month):
    site = site_with_month
    answer = json_of(site, "report", "--since", "30d")
    text = run(site, "report", "--since", "30d").output
    assert answer["total"]["runs"] == len(month.runs)
    for words in ("held by jobs", "used, weighted by utilisation", "Waits", "Reliability", "The order in mode act",
                  "Load of slurmctld before and after", f"{answer['total']['held']:,.0f}"):  # fmt: skip
        assert words in text
    assert "More work ahead, for sure: group5" in text


def test_a_week_is_the_default_and_one_job_can_be_asked_for(site_with_month, month):
    site = site_with_month
    week = json_of(site, "report")
    assert week["until_s"] - week["since_s"] == 7 * 86_400.0
    job = int(month.runs.job_id[0])
    one = json_of(site, "report", "--since", "4w", "--job", str(job))
    assert (one["of"]["job_id"], one["jobs"]) == (job, 1)


@pytest.mark.parametrize("words", [("--week", "--since", "3d"), ("--csv", "--json"), ("--html", "x", "--text")])
def test_what_does_not_go_together_is_refused(site, words):
    result = run(site, "report", *words)
    assert result.exit_code == 2
    assert "give one of them" in result.stderr


def test_a_page_is_one_file_without_scripts_and_names_are_text(site_with_hostile_month, tmp_path):
    site = site_with_hostile_month
    file = tmp_path / "week.html"
    result = run(site, "report", "--since", "30d", "--html", str(file))
    assert (result.exit_code, result.output) == (0, f"wrote {file}\n")
    text = file.read_text("utf-8")
    assert "default-src 'none'" in text
    for markup in (
        "<script",
        "<img",
        "onerror=alert(1)>",
        "</style><b>",
        "javascript:",
        "\u202e",
        "\x1b",
        "http:",
        "https:",
    ):
        assert markup not in text.replace('"http://www.w3.org/2000/svg"', ""), markup
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{ 7*7 }}" in text
    assert set(re.findall(r"<(\w+)", text)) <= set(ELEMENTS.split())


def test_no_cell_of_the_csv_is_a_formula(site_with_hostile_month):
    site = site_with_hostile_month
    text = run(site, "report", "--since", "30d", "--csv").output
    for delimiter in ",;":
        for row in csv.reader(io.StringIO(text), delimiter=delimiter):
            for cell in row:
                assert not re.match(r"\s*[=+@|%]|\s*-\D", cell), cell
    head, *rows = csv.reader(io.StringIO(text))
    assert head == ["section", "name", "figure", "value"]
    held = next(row for row in rows if row[0] == "total" and row[2] == "held")
    assert float(held[3]) == pytest.approx(json_of(site, "report", "--since", "30d")["total"]["held"])


def test_a_page_of_a_site_without_any_measurement_says_what_to_switch_on(site, month):
    site.store().add_outcomes("fake", month.runs)
    answer = json_of(site, "report", "--since", "30d")
    text = page(answer)
    assert "not measured: use of GPUs" in text
    assert "profile.listen" in text
    assert "by utilisation" not in text
    assert csv_text(answer)


def test_a_page_opens_in_a_browser_without_a_complaint(site_with_hostile_month, tmp_path):
    site, browser = site_with_hostile_month, shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium: apt-get install chromium")
    file = tmp_path / "week.html"
    assert run(site, "report", "--since", "30d", "--html", str(file)).exit_code == 0
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
               "--enable-logging=stderr", "--v=0", "--window-size=800,600", "--dump-dom", f"file://{file}"]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert "Content Security Policy" not in shown.stderr
    assert "CONSOLE" not in shown.stderr
    assert shown.stdout.count("<svg") == file.read_text("utf-8").count("<svg") > 4


def test_where_no_database_and_no_daemon_is_there_that_is_said(tmp_path):
    site = FakeSite(tmp_path, "")
    result = run(site, "report")
    assert result.exit_code != 0
    assert "no daemon listens" in result.stderr
    site.close()


def test_the_answer_in_json_has_no_nan(site_with_month):
    site = site_with_month
    json.loads(run(site, "report", "--json").stdout, parse_constant=pytest.fail)
    assert site.clock.now() == NOW_S

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.worlds import simulate

from slurmsched.errors import ConfigError
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.report.charts import POINTS, change_bars, charts
from slurmsched.simulator.report.harm import GroupChange, GroupChanges
from slurmsched.simulator.report.page import labels_of, page
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.workload import Workload, workload

HOSTILE = "<script>alert(1)</script>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
JOBS = synthetic(SyntheticSpec(jobs=400, cluster_gpus=16, load=1.2, partitions=3))


def replays(jobs: Workload, *names: str) -> list[Replay]:
    return [simulate(jobs, ClusterSpec.of(2, 8), Setup.of(name, placement="pool")) for name in names]


def renamed(jobs: Workload, user: str) -> Workload:
    """The same jobs of users whose names end in *user*."""
    return replace(jobs, user=replace(jobs.user, names=tuple(f"{at}{user}" for at in range(len(jobs.user.names)))))


def figures(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])


def curves(replayed: list[Replay], key: str) -> list[dict]:
    labels = labels_of([replay.setup for replay in replayed])
    return next(chart.figure["data"] for chart in charts(replayed, labels) if chart.key == key)


class Tags(HTMLParser):
    """What a parser of HTML makes of a page: its tags, and the text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if not self.tags or self.tags[-1][0] not in ("script", "style"):
            self.words += data


@pytest.fixture(scope="module")
def compared() -> str:
    pytest.importorskip("plotly")
    return page(replays(JOBS, "fifo", "sjf", "srtf"), "Three policies", ["synthetic jobs"])


def test_the_page_needs_nothing_from_anywhere_else(compared):
    tags = Tags(compared).tags
    assert [attrs for tag, attrs in tags if tag == "link" or "src" in attrs or "href" in attrs] == []
    rules = next(attrs["content"] for tag, attrs in tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert rules is not None
    assert rules.startswith("default-src 'none'; script-src 'sha256-")


def test_the_table_has_a_column_for_each_policy_and_marks_the_baseline(compared):
    columns = re.findall(r'<th scope=col class="number[^"]*">(.*?)</th>', compared)
    assert columns == ["fifo<small>baseline</small>", "sjf", "srtf"]
    assert "Compared with fifo." in compared


def test_figures_that_apply_to_no_policy_have_no_row(compared):
    assert "mean JCT" in compared
    assert "deadlines missed" not in compared


def test_each_policy_but_the_baseline_tells_whom_it_harms(compared):
    harmed = figures(compared)["harm"]
    assert [row["policy"] for row in harmed] == ["sjf", "srtf"]
    assert all(row["users"]["count"] > 20 and row["virtual_clusters"]["count"] == 3 for row in harmed)
    assert len(harmed[0]["users"]["data"][0]["x"]) == 20, "the ten worst and the ten best"


def test_a_trace_without_users_and_virtual_clusters_has_no_such_section():
    pytest.importorskip("plotly")
    jobs = workload(2, job_id=[1, 2], submit_s=[0, 1], runtime_s=[5, 5], gpus=[1, 1])
    assert "Users who are worse off" not in page(replays(jobs, "fifo", "sjf"), "Plain", [])


def test_names_from_outside_are_shown_and_never_run():
    pytest.importorskip("plotly")
    jobs = renamed(JOBS, HOSTILE)
    named = [replace(replay, setup=replace(replay.setup, name=f"{HOSTILE}&{at}"))
             for at, replay in enumerate(replays(jobs, "fifo", "sjf"))]  # fmt: skip
    text = page(named, f"{{{{plotly}}}}{HOSTILE}", [HOSTILE, "a bad byte: \udcff"])
    assert HOSTILE not in text
    assert "alert(1)" in Tags(text).words
    assert sum(tag == "script" for tag, _ in Tags(text).tags) == 3
    text.encode()


def test_a_name_that_plotly_would_read_as_markup_is_escaped_for_it():
    pytest.importorskip("plotly")
    jobs = renamed(JOBS, "<b>bold</b>&amp;")
    made = figures(page(replays(jobs, "fifo", "sjf"), "Markup", []))
    ticks = made["harm"][0]["users"]["layout"]["yaxis"]["ticktext"]
    assert all(re.fullmatch(r"\d+&lt;b&gt;bold&lt;/b&gt;&amp;amp;", name) for name in ticks)


def test_jobs_that_are_compared_must_be_the_same():
    pytest.importorskip("plotly")
    other = synthetic(SyntheticSpec(jobs=400, cluster_gpus=16, seed=1))
    with pytest.raises(ConfigError, match="they replayed different jobs"):
        page([*replays(JOBS, "fifo"), *replays(other, "sjf")], "Apples and pears", [])


def test_a_page_of_nothing_is_refused():
    pytest.importorskip("plotly")
    with pytest.raises(ConfigError, match="at least one policy"):
        page([], "Nothing", [])


def test_an_empty_trace_still_makes_a_page():
    pytest.importorskip("plotly")
    text = page(replays(workload(0), "fifo", "sjf"), "Empty", [])
    assert figures(text)["charts"] == []
    assert "0 jobs on 2 nodes" in text


def test_without_plotly_the_extra_is_named():
    code = (
        "import sys; sys.modules['plotly'] = None\n"
        "from slurmsched.simulator.report.page import page\n"
        "from slurmsched.errors import ConfigError\n"
        "try:\n    page([], '', [])\n"
        "except ConfigError as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith("the page needs Plotly, which is not installed; in a checkout of slurmsched: pip install")
    assert "'.[report]'" in told


def test_policies_of_one_name_are_told_apart_by_what_differs():
    setups = [Setup.of("fifo"), Setup.of("fifo", "backfill"), Setup.of("sjf"), Setup.of("sjf", restart_s=60.0)]
    assert labels_of(setups) == ["fifo (strict)", "fifo (backfill)", "sjf (restart_s 0)", "sjf (restart_s 60)"]
    assert labels_of([setups[0], setups[0]]) == ["fifo", "fifo #2"]


def test_a_curve_says_which_share_of_the_jobs_took_no_longer():
    jobs = workload(4, job_id=[1, 2, 3, 4], submit_s=[0, 0, 0, 0], runtime_s=[10, 20, 20, 80], gpus=[1, 1, 1, 1])
    curve = curves(replays(jobs, "fifo"), "jct")[0]
    assert list(zip(curve["x"], curve["y"], strict=True)) == [(10, 0.25), (20, 0.5), (20, 0.75), (80, 1)]


def test_a_curve_of_many_jobs_keeps_few_points_and_both_ends():
    replayed = replays(synthetic(SyntheticSpec(jobs=20_000, cluster_gpus=16, load=0.5)), "sjf")
    curve = curves(replayed, "jct")[0]
    jct_s = replayed[0].end_s - replayed[0].workload.submit_s
    assert len(curve["x"]) <= POINTS
    assert (curve["x"][0], curve["x"][-1]) == pytest.approx((jct_s.min(), jct_s.max()), rel=1e-4)
    between = np.interp(np.sort(jct_s)[:-200], curve["x"], curve["y"])
    assert np.abs(between - np.arange(1, len(jct_s) - 199) / len(jct_s)).max() < 0.01


def areas(replay: Replay, key: str) -> float:
    """What lies under the curve over time, in its unit times seconds."""
    curve = curves([replay], key)[0]
    unit_s = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}[curve["kind"]]
    return float((np.array(curve["y"][:-1]) * np.diff(curve["x"])).sum() * unit_s)


@pytest.mark.parametrize("name", ["fifo", "sjf"])
def test_gpus_busy_and_jobs_waiting_over_time_come_to_all_work_and_all_waiting(name):
    replay = replays(JOBS, name)[0]
    assert areas(replay, "busy") == pytest.approx(float((JOBS.runtime_s * JOBS.gpus).sum()), rel=1e-3)
    assert areas(replay, "queued") == pytest.approx(float((replay.start_s - JOBS.submit_s).sum()), rel=1e-3)


def test_runs_that_were_kept_are_drawn_as_they_were():
    kept = simulate(JOBS, ClusterSpec.of(2, 8), Setup.of("srtf", placement="pool"), segments=True)
    assert kept.stops.sum() > 0
    assert areas(kept, "busy") == pytest.approx(float((JOBS.runtime_s * JOBS.gpus).sum()), rel=1e-3)
    queue_s = kept.end_s - JOBS.submit_s - JOBS.runtime_s
    assert areas(kept, "queued") == pytest.approx(float(queue_s.sum()), rel=1e-3)


def test_work_whose_moments_are_not_known_is_owned_up_to(compared):
    assert "the work of a preempted job is drawn evenly" in compared
    pytest.importorskip("plotly")
    assert "is drawn evenly" not in page(replays(JOBS, "fifo", "sjf"), "None preempted", [])


def test_a_hundred_thousand_jobs_stay_under_a_megabyte_beside_plotly():
    offline = pytest.importorskip("plotly.offline")
    jobs = synthetic(SyntheticSpec(jobs=100_000, cluster_gpus=16, load=0.7))
    text = page(replays(jobs, "fifo", "sjf", "qssf", "srtf"), "Many", [])
    assert len(text.encode()) - len(offline.get_plotlyjs().encode()) < 1_000_000


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_bars_of_any_ratios_have_an_axis_that_can_be_read(ratios):
    changes = tuple(GroupChange(f"u{at}", 1, 60.0, 60.0 * ratio, ratio) for at, ratio in enumerate(sorted(ratios)))
    layout = change_bars(GroupChanges(len(changes), 0, changes[::-1][:10], changes[:10]))["layout"]
    low, high = layout["xaxis"]["range"]
    ticks = [tick for tick in layout["xaxis"]["tickvals"] if low <= tick <= high]
    assert low < 0 < high, "the bars begin at a ratio of 1"
    assert 2 <= len(ticks) <= 15


def opened(file: Path, profile: Path) -> tuple[str, list[str]]:
    """The page as a browser has it after its scripts, and what they said on the console."""
    assert CHROMIUM is not None
    quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *quiet, f"--user-data-dir={profile}",
         "--virtual-time-budget=8000", "--window-size=1400,3000", "--enable-logging=stderr", "--v=0", "--dump-dom",
         file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def in_a_browser(tmp_path_factory) -> tuple[str, list[str]]:
    pytest.importorskip("plotly")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium to open the page with")
    place = tmp_path_factory.mktemp("page")
    file = place / "page.html"
    jobs = renamed(JOBS, "<b><img src=x>")
    file.write_text(page(replays(jobs, "fifo", "sjf", "srtf"), HOSTILE, [HOSTILE]), "utf-8")
    return opened(file, place / "profile")


def test_a_browser_draws_every_chart(in_a_browser):
    seen, _ = in_a_browser
    drawn = re.findall(r'<div class="chart(?: bars)? js-plotly-plot" id="chart-(\w+)"', seen)
    assert drawn == ["jct", "queue", "first", "rho", "busy", "queued", "users", "virtual_clusters"]
    assert seen.count('class="scatterlayer') >= 6
    assert len(re.findall(r"<button[^>]*aria-pressed=\"true\"", seen)) == 3


def test_a_browser_has_nothing_to_complain_of(in_a_browser):
    _, console = in_a_browser
    assert console == []


def test_names_from_outside_are_text_in_a_browser(in_a_browser):
    seen, _ = in_a_browser
    assert "<img" not in seen
    assert len(re.findall(r">\d+&lt;b&gt;&lt;img src=x&gt;</text>", seen)) == 20, (
        "each named as it is, none taken for bold"
    )
    assert "&lt;script&gt;alert(1)" in seen


def test_nothing_on_the_page_offers_to_send_it_away(in_a_browser):
    seen, _ = in_a_browser
    offers = set(re.findall(r'data-title="([^"]*)"', seen))
    assert any("Download plot" in offer for offer in offers)
    assert not any("Share" in offer or "cloud" in offer for offer in offers)

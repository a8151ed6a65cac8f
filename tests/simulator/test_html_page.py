from __future__ import annotations

import importlib
import re
import shutil
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.errors import ConfigError
from slurmsched.pages.scales import ratios
from slurmsched.pages.step_curves import Curve
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.replay import Replay
from slurmsched.simulator.report.charts import POINTS, change_bars, charts
from slurmsched.simulator.report.harm import GroupChange, GroupChanges
from slurmsched.simulator.report.page import labels_of, page
from slurmsched.simulator.report.time_labels import span
from slurmsched.simulator.run import simulate
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.workload.synthetic import SyntheticSpec, synthetic
from slurmsched.simulator.workload.workload import Workload, workload

HOSTILE = "<script>alert(1)</script>"
DRIVER, CHROMIUM = (shutil.which(name) for name in ("chromedriver", "chromium"))
JOBS = synthetic(SyntheticSpec(jobs=400, cluster_gpus=16, load=1.2, partitions=3))


def replays(jobs: Workload, *names: str) -> list[Replay]:
    return [replay_of_them(name) if jobs is JOBS else replayed(jobs, name) for name in names]


def replayed(jobs: Workload, name: str) -> Replay:
    return simulate(jobs, ClusterSpec.of(2, 8), Setup.of(name, placement="pool"))


@cache
def replay_of_them(name: str) -> Replay:
    return replayed(JOBS, name)


def renamed(jobs: Workload, user: str) -> Workload:
    """The same jobs of users whose names end in *user*."""
    return replace(jobs, user=replace(jobs.user, names=tuple(f"{at}{user}" for at in range(len(jobs.user.names)))))


def curve(replayed: list[Replay], key: str) -> Curve:
    """The curve of the first policy in a chart."""
    labels = labels_of([replay.setup for replay in replayed])
    return next(chart.curves[0] for chart in charts(replayed, labels) if chart.key == key)


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
    return page(replays(JOBS, "fifo", "sjf", "srtf"), "Three policies", ["synthetic jobs"])


def test_the_page_needs_nothing_from_anywhere_else_and_no_script(compared):
    tags = Tags(compared).tags
    assert [attrs for tag, attrs in tags if tag in ("link", "script") or "src" in attrs or "href" in attrs] == []
    rules = next(attrs["content"] for tag, attrs in tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert rules is not None
    assert rules.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in rules


def test_the_table_has_a_column_for_each_policy_and_marks_the_baseline(compared):
    head = re.search(r"<thead>(.*?)</thead>", compared, re.S)
    assert head is not None
    assert re.findall(r"<th [^>]*>(.*?)</th>", head[1]) == ["measure", "fifo (baseline)", "sjf", "srtf"]
    assert "Compared with fifo." in compared


def test_each_policy_has_its_line_in_each_chart_and_a_switch(compared):
    assert re.findall(r'<input type="checkbox" id="show-(\d)" checked>', compared) == ["0", "1", "2"]
    shown = [re.findall(r'<path class="curve [^"]*p(\d)"', drawn) for drawn in compared.split("<figure")[1:7]]
    assert shown == [["1", "2", "0"]] * 6, "the baseline on top"
    assert "main:has(#show-2:not(:checked)) .p2{display:none}" in compared


def test_each_chart_has_a_table_with_the_same_figures(compared):
    rows = re.findall(r"<tr>(.*?)</tr>", compared.split("Job completion time as a table")[1].split("</details>")[0])
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    assert cells[0] == ["policy", "10 %", "25 %", "half", "75 %", "90 %", "99 %", "all"]
    measures = [re.findall(r"<td[^>]*>(.*?)</td>", compared.split(f">{name} <span")[1].split("</tr>")[0])
                for name in ("p90", "p99")]  # fmt: skip
    assert [row[0] for row in cells[1:]] == ["fifo", "sjf", "srtf"]
    assert [row[7] for row in cells[1:]] == [span(float((replay.end_s - JOBS.submit_s).max()))
                                             for replay in replays(JOBS, "fifo", "sjf", "srtf")]  # fmt: skip
    assert len(measures[0]) == len(measures[1]) == 3


def test_figures_that_apply_to_no_policy_have_no_row(compared):
    assert "mean JCT" in compared
    assert "deadlines missed" not in compared


def test_each_policy_but_the_baseline_tells_whom_it_harms(compared):
    said = re.findall(r"<summary>(\w+): \d+ of (\d+) ([a-z ]+) have a mean JCT worse", compared)
    assert [(name, noun) for name, _, noun in said] == [
        ("sjf", "users"), ("sjf", "virtual clusters"), ("srtf", "users"), ("srtf", "virtual clusters"),
    ]  # fmt: skip
    assert all(int(many) > 20 for _, many, noun in said if noun == "users")
    assert [many for _, many, noun in said if noun == "virtual clusters"] == ["3", "3"]
    users = compared.split("<summary>sjf: ")[1].split("</svg>")[0]
    assert len(re.findall(r'<rect class="(?:worse|better)"', users)) == 20, "the ten worst and the ten best"


def test_a_trace_without_users_and_virtual_clusters_has_no_such_section():
    jobs = workload(2, job_id=[1, 2], submit_s=[0, 1], runtime_s=[5, 5], gpus=[1, 1])
    assert "Users who are worse off" not in page(replays(jobs, "fifo", "sjf"), "Plain", [])


def test_names_from_outside_are_shown_and_never_run():
    jobs = renamed(JOBS, HOSTILE)
    named = [replace(replay, setup=replace(replay.setup, name=f"{HOSTILE}&{at}"))
             for at, replay in enumerate(replays(jobs, "fifo", "sjf"))]  # fmt: skip
    text = page(named, f"{{{{ style }}}}{HOSTILE}", [HOSTILE, "a bad byte: \udcff", "\x1b[2Jcleared"])
    assert HOSTILE not in text
    assert "alert(1)" in Tags(text).words
    assert "{{ style }}" in Tags(text).words
    assert "\x1b" not in text
    assert sum(tag == "script" for tag, _ in Tags(text).tags) == 0
    text.encode()


def test_jobs_that_are_compared_must_be_the_same():
    other = synthetic(SyntheticSpec(jobs=400, cluster_gpus=16, seed=1))
    with pytest.raises(ConfigError, match="they replayed different jobs"):
        page([*replays(JOBS, "fifo"), *replays(other, "sjf")], "Apples and pears", [])


def test_a_page_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="at least one policy"):
        page([], "Nothing", [])


def test_an_empty_trace_still_makes_a_page():
    text = page(replays(workload(0), "fifo", "sjf"), "Empty", [])
    assert "<figure" not in text
    assert "0 jobs on 2 nodes" in text


def test_policies_of_one_name_are_told_apart_by_what_differs():
    setups = [Setup.of("fifo"), Setup.of("fifo", "backfill"), Setup.of("sjf"), Setup.of("sjf", restart_s=60.0)]
    assert labels_of(setups) == ["fifo (strict)", "fifo (backfill)", "sjf (restart_s 0)", "sjf (restart_s 60)"]
    assert labels_of([setups[0], setups[0]]) == ["fifo", "fifo #2"]


def test_a_curve_says_which_share_of_the_jobs_took_no_longer():
    jobs = workload(4, job_id=[1, 2, 3, 4], submit_s=[0, 0, 0, 0], runtime_s=[10, 20, 20, 80], gpus=[1, 1, 1, 1])
    seen = curve(replays(jobs, "fifo"), "jct")
    assert list(zip(seen.xs, seen.ys, strict=True)) == [(10, 0.25), (20, 0.5), (20, 0.75), (80, 1)]


def test_a_curve_of_many_jobs_keeps_few_points_and_both_ends():
    replayed = replays(synthetic(SyntheticSpec(jobs=20_000, cluster_gpus=16, load=0.5)), "sjf")
    seen = curve(replayed, "jct")
    jct_s = replayed[0].end_s - replayed[0].workload.submit_s
    assert len(seen.xs) <= POINTS
    assert (seen.xs[0], seen.xs[-1]) == pytest.approx((max(jct_s.min(), 10.0), jct_s.max()), rel=1e-4)
    between = np.interp(np.sort(jct_s)[:-200], seen.xs, seen.ys)
    drawn = np.sort(jct_s)[:-200] > 10.0
    assert np.abs(between - np.arange(1, len(jct_s) - 199) / len(jct_s))[drawn].max() < 0.01


def areas(replay: Replay, key: str) -> float:
    """What lies under the curve over time, in its unit times seconds."""
    seen = curve([replay], key)
    return float((np.array(seen.ys[:-1]) * np.diff(seen.xs)).sum())


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
    assert "is drawn evenly" not in page(replays(JOBS, "fifo", "sjf"), "None preempted", [])


def test_a_hundred_thousand_jobs_stay_under_a_megabyte():
    jobs = synthetic(SyntheticSpec(jobs=100_000, cluster_gpus=16, load=0.7))
    text = page(replays(jobs, "fifo", "sjf", "qssf", "srtf"), "Many", [])
    assert len(text.encode()) < 1_000_000


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_bars_of_any_ratios_have_an_axis_that_can_be_read(values):
    axis = ratios(values, 0.0, 100.0)
    assert axis.low < 1 < axis.high, "the bars begin at a ratio of 1"
    assert axis.low <= min(values)
    assert max(values) <= axis.high
    assert 2 <= len(axis.ticks) <= 15
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)


def test_bars_say_ratio_and_times():
    change = GroupChange("ada", 3, 3600.0, 7200.0, 2.0)
    drawn = str(change_bars(GroupChanges(1, 1, (change,), (change,)), "Change"))
    assert "<title>ada: 3 jobs, mean JCT ×2.00, 1 h before and 2 h now</title>" in drawn
    assert len(re.findall('<rect class="worse"', drawn)) == 1


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (DRIVER and CHROMIUM):
        pytest.skip("apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options, profile = webdriver.ChromeOptions(), tmp_path_factory.mktemp("profile")
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--disable-background-networking", f"--user-data-dir={profile}"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = importlib.import_module("selenium.webdriver.chrome.service").Service(DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(300)
    file = tmp_path_factory.mktemp("page") / "page.html"
    jobs = renamed(JOBS, "<b><img src=x>")
    file.write_text(page(replays(jobs, "fifo", "sjf", "srtf"), HOSTILE, [HOSTILE]), "utf-8")
    driver.get(file.as_uri())
    yield driver
    driver.quit()


def test_a_browser_has_nothing_to_complain_of(browser):
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.querySelectorAll('script, img, b img').length") == 0


def test_names_from_outside_are_text_in_a_browser(browser):
    names = browser.execute_script("return [...document.querySelectorAll('svg text')].map(one => one.textContent)")
    assert sum(name.endswith("<b><img src=x>") for name in names) == 2 * 20
    assert browser.execute_script("return document.querySelector('h1').textContent") == HOSTILE


def test_a_policy_can_be_hidden_without_a_script(browser):
    shown = "return [...document.querySelectorAll('path.curve.p1')].map(one => getComputedStyle(one).display)"
    assert browser.execute_script(shown) == ["inline"] * 6
    browser.find_element("id", "show-1").click()
    assert browser.execute_script(shown) == ["none"] * 6
    browser.find_element("id", "show-1").click()
    assert browser.execute_script(shown) == ["inline"] * 6


@pytest.mark.parametrize("wide", [800, 360])
def test_the_page_is_no_wider_than_the_screen(browser, wide):
    metrics = {"width": wide, "height": 800, "deviceScaleFactor": 1, "mobile": wide < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= wide
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

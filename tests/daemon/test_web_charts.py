"""What charts of pages say: the plan behind a promise, pairs on a GPU, GPUs over time, the front of orders."""

from __future__ import annotations

import math
import re

import pytest

pytest.importorskip("flask")

from slurmsched.daemon.api.query_handlers import plain
from slurmsched.explain.lease_chart import Bar, FreeCount, LeaseChart
from slurmsched.explain.node_gpus import GpuHolder, JobGpus, NodeGpus
from slurmsched.pages.front import Choice, front_of, nearest
from slurmsched.pages.gantt import Block, Group, gantt
from slurmsched.web import cluster_pages, job_pages

NOW_S = 1_000_000.0
HOLDER = GpuHolder(7, "ada", 2, True, 0.5, 20_480.0, 0, math.nan)


def job_page(**given):
    """The page of job 5, of which nothing else is known."""
    told = {"why": {"reason": "It waits.", "time": "", "advice": "", "details": []}, "as_of_s": NOW_S, "cycle": 3}
    explained = {"explain": {"terms": [], "forecast_s": None}}
    promise = {"deadline": {"answer": "promised", "sentences": ["It is promised."]}}
    gpus = {"gpus": plain(JobGpus(5, False, False, "", 0, *[math.nan] * 3, False, 0, math.nan, ()))}
    parts = {"gpus": gpus, "plan": None} | given
    return job_pages.job(5, told, explained, {"story": []}, {"eta": []}, promise, parts["gpus"], parts["plan"])


def test_the_plan_behind_a_promise_is_a_chart_and_a_table_without_names_of_others():
    bars = (
        Bar(5, "ada", 4, "this", NOW_S + 3600.0, NOW_S + 7200.0),
        Bar(0, "somebody", 8, "running", NOW_S - 60.0, None),
    )
    found = LeaseChart(5, True, 4, NOW_S + 9000.0, NOW_S + 8000.0, bars, (FreeCount(NOW_S, 4),), ("Ask for 2 GPUs.",))
    plan = job_page(plan={"chart": plain(found)})["plan"]
    assert [row[:4] for row in plan["rows"]] == [
        ["5 ada", "4", "this", "in 1 h"],
        ["somebody else's", "8", "running", "now"],
    ]
    assert plan["changes"] == ["Ask for 2 GPUs."]
    drawn = str(plan["chart"])
    assert re.findall(r"<title>(its deadline|promised): in ([^<]+)</title>", drawn) == [
        ("its deadline", "2.5 h"),
        ("promised", "2.2 h"),
    ]
    assert "somebody (" not in drawn


def test_a_forecast_without_a_source_has_no_empty_parentheses():
    told = {"why": {"reason": "It waits.", "time": "", "advice": "", "details": []}, "as_of_s": NOW_S, "cycle": 3}
    terms = {"terms": [], "forecast_s": 60.0, "low_s": 30.0, "high_s": 89.0, "source": ""}
    promise = {"deadline": {"answer": "unasked", "sentences": []}}
    gpus = {"gpus": plain(JobGpus(5, False, False, "", 0, *[math.nan] * 3, False, 0, math.nan, ()))}
    page = job_pages.job(5, told, {"explain": terms}, {"story": []}, {"eta": []}, promise, gpus, None)
    assert page["forecast"] == "60 s, 80 % between 30 s and 89 s."


def test_a_plan_that_cannot_be_drawn_leaves_the_page_without_one():
    assert job_page(plan={"chart": plain(LeaseChart(5, False))})["plan"] is None


def test_a_job_says_what_it_does_with_its_gpus_and_who_shares_them():
    hidden = GpuHolder(0, "", 2, True, math.nan, math.nan, 0, math.nan)
    found = JobGpus(5, True, True, "n1", 2, 0.25, 0.1, 10_240.0, True, 1, NOW_S - 3600.0, (HOLDER, hidden))
    rows = job_page(gpus={"gpus": plain(found)})["gpus"]
    assert ("use of its GPUs, mean", "25 %, unsteady") in rows
    assert ("memory of a GPU, most", "10 GiB") in rows
    assert ("without a process", "1 GPU for 1 h") in rows
    shares = [value for name, value in rows if name == "shares GPUs with"]
    assert shares == ["job 7 of ada (2 GPUs)", "a job of somebody else (2 GPUs)"]


def node(**given):
    usual = {
        "name": "n1", "partitions": "gpu", "state": "MIXED", "power": "up", "usable": True, "reason": "",
        "gpu_type": "a100",
        "gpus": 4, "gpus_used": 2, "window": "", "window_from_s": math.nan, "window_until_s": math.nan, "jobs": (),
    }  # fmt: skip
    return NodeGpus(**(usual | given))


def grid(*nodes):
    answer = {"nodes": plain(nodes), "total": len(nodes), "as_of_s": NOW_S, "cycle": 1}
    return cluster_pages.gpus(answer, 1, "")


def test_two_jobs_on_one_gpu_are_halves_and_the_rest_is_free():
    shown = grid(node(jobs=(HOLDER, GpuHolder(8, "ben", 2, True, 0.9, 10.0, 0, math.nan))))
    drawn = str(shown["chart"])
    assert len(re.findall(r'height="10\.2"', drawn)) == 4
    assert drawn.count("n1: free") == 2
    assert "(shared): 50 % used, 20 GiB" in shown["rows"][0][-1]


def test_a_node_that_is_off_drained_or_in_a_window_says_so():
    off = node(name="n2", power="powered down", state="IDLE+POWERED_DOWN", gpus_used=0)
    drained = node(name="n3", usable=False, state="IDLE+DRAIN", reason="fan failed", gpus_used=0)
    kept = node(name="n4", window="cooling", window_from_s=NOW_S - 1, window_until_s=NOW_S + 3600, gpus_used=0)
    shown = grid(off, drained, kept)
    drawn = str(shown["chart"])
    for words in ("powered down", "idle, drain", "in a window"):
        assert words in drawn
    assert [row[4] for row in shown["rows"]] == ["powered down", "idle, drain: fan failed", "mixed"]
    assert shown["rows"][2][5].startswith("cooling: ")


def test_a_gpu_that_runs_nothing_has_its_minutes():
    shown = grid(node(jobs=(GpuHolder(9, "cleo", 2, False, 0.0, math.nan, 2, NOW_S - 2400.0),)))
    assert "no process for 40 min" in shown["rows"][0][-1]
    assert "2 of them have had no process" in shown["lead"]


def test_blocks_run_to_the_median_and_on_faded_and_lie_on_free_gpus():
    blocks = [
        Block("first", "gpu", 2, "used", 0.0, 3600.0, 7200.0),
        Block("second", "gpu", 2, "used", 0.0, 1800.0, math.nan),
        Block("third", "gpu", 2, "waits", 1800.0, 5400.0, 9000.0),
    ]
    drawn = str(gantt(blocks, [Group("gpu", 4)], (), "GPUs", ()))
    found = re.findall(r'<rect class="(\w+) (block|faded)" x="([\d.]+)" y="([\d.]+)"', drawn)
    at = {(kind, part, y): float(x) for kind, part, x, y in found}
    solid = [(kind, y) for kind, part, y in at if part == "block"]
    assert solid[0][1] != solid[1][1]
    assert ("waits", solid[1][1]) in solid, "on the GPUs that come free first"
    assert sum(part == "faded" for _, part, _ in at) == 2


def test_the_front_has_what_nothing_beats_and_the_weight_chooses_on_it():
    worse, short, kind = Choice("worse", 9.0, 9.0), Choice("short", 1.0, 8.0), Choice("kind", 7.0, 0.0)
    front = front_of([worse, kind, short, Choice("unknown", math.nan, 0.0)])
    assert front == [short, kind]
    assert [nearest(front, weight).name for weight in (0.0, 1.0)] == ["kind", "short"]

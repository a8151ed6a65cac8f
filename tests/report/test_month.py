"""A month in the database: the totals of a report are those of a sum over the same records, one by one."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from new_store import new_store
from site_month import DAY_S, MONTH_S, NOW_S, site_month

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.job_record import JobRecord, Phase
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.profiles import MeasuredNodes, NodeProfile
from slurmsched.cluster.records.report_rows import ReportRows
from slurmsched.cluster.records.scope import Scope
from slurmsched.db.pending_writes import PendingWrites
from slurmsched.db.store import Store
from slurmsched.report.gpu_time import gpu_time, run_of
from slurmsched.report.summary import OTHERS, summary

SPANS = [(NOW_S - MONTH_S, NOW_S), (NOW_S - 7 * DAY_S, NOW_S), (NOW_S - 20 * DAY_S + 1234, NOW_S - 3 * DAY_S)]


@pytest.fixture(scope="module")
def month():
    return site_month(1500, seed=49)


@pytest.fixture(scope="module")
def store(month, tmp_path_factory):
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('month')}/slurmsched.db")
    store.upgrade()
    month.save(store, "site")
    yield store
    store.close()


@pytest.fixture(scope="module")
def whole(store):
    """The report of the whole month."""
    return report_of(store, *SPANS[0])


def report_of(store, since_s, until_s, **scope):
    of = Scope(**scope)
    rows = store.report_rows("site", since_s, until_s, of)
    return summary(rows, of, cluster_name="site", since_s=since_s, until_s=until_s)


def one_by_one(month, since_s, until_s, **only):
    """Sum the records of *month* in plain Python, knowing nothing of the program's tables."""
    sums = defaultdict(list)
    profiles = defaultdict(list)
    for profile in month.profiles:
        profiles[profile.job_id].append(profile)
    runs = month.runs
    for row in range(len(runs)):
        if any(getattr(runs, name)[row] != value for name, value in only.items()):
            continue
        began_s, ended_s = float(runs.started_s[row]), float(runs.ended_s[row])
        if ended_s < since_s or began_s >= until_s:
            continue
        sums["runs"].append(1)
        inside_s = max(0.0, min(ended_s, until_s) - max(began_s, since_s))
        sums["held"].append(runs.gpus[row] * inside_s / 3600)
        sums["cpus"].append(runs.cpus[row] * inside_s / 3600)
        for profile in profiles[int(runs.job_id[row])]:
            seconds = profile.end_s - profile.start_s
            part = max(0.0, min(profile.end_s, until_s) - max(profile.start_s, since_s)) / max(seconds, 1)
            hours = profile.gpus * profile.measured_s * part / 3600
            sums["measured"].append(hours)
            sums["used"].append(hours * profile.process_share * profile.gpu_util)
            sums["no_process"].append(hours * (1 - profile.process_share))
            sums["below"].append(hours * profile.process_share if profile.gpu_util < 0.05 else 0.0)
        if math.isfinite(runs.time_limit_s[row]):
            sums["asked"].append(runs.gpus[row] * runs.time_limit_s[row] / 3600)
    return {name: math.fsum(values) for name, values in sums.items()}


@pytest.mark.parametrize(("since_s", "until_s"), SPANS)
def test_the_totals_are_those_of_a_sum_over_the_records(store, month, since_s, until_s):
    report, own = report_of(store, since_s, until_s), one_by_one(month, since_s, until_s)
    for name in ("runs", "held", "measured", "used", "no_process", "below"):
        assert report["total"][name] == pytest.approx(own[name], rel=1e-9), name
    assert report["total"]["unmeasured"] == pytest.approx(own["held"] - own["measured"])
    assert report["asked"] == pytest.approx(own["asked"])
    assert report["cpus"]["held"] == pytest.approx(own["cpus"])
    assert own["used"] > 0


@pytest.mark.parametrize("kind", ["account", "user", "partition", "gpu_type"])
def test_groups_and_days_add_up_to_the_totals(whole, month, kind):
    (since_s, until_s), report = SPANS[0], whole
    groups = [group for group in report["groups"] if group["kind"] == kind]
    for name in ("held", "measured", "used", "no_process", "below", "runs"):
        assert math.fsum(group[name] for group in groups) == pytest.approx(report["total"][name])
    for group in groups:
        if group["name"] != OTHERS:
            own = one_by_one(month, since_s, until_s, **{kind: group["name"]})
            assert group["held"] == pytest.approx(own["held"])
    for name in ("held", "used", "unmeasured"):
        assert math.fsum(day[name] for day in report["spans"]) == pytest.approx(report["total"][name])


@pytest.mark.parametrize("choice", ["user", "account", "partition", "job_id"])
def test_a_choice_of_jobs_has_their_part(store, month, choice):
    row = int(np.argmax(month.runs.gpus * month.runs.runtime_s))
    value = getattr(month.runs, choice)[row]
    value = int(value) if choice == "job_id" else value
    report = report_of(store, *SPANS[0], **{choice: value})
    own = one_by_one(month, *SPANS[0], **{choice: value})
    for name in ("runs", "held", "used"):
        assert report["total"][name] == pytest.approx(own.get(name, 0.0))
    assert (report["machine"], report["ledger"], report["order"]) == (None, None, [])
    theirs = [r for r in range(len(month.runs)) if getattr(month.runs, choice)[r] == value]
    assert report["reliability_by"][0].starts == len(theirs)


def test_cpus_and_memory_are_those_of_whole_runs_that_accounting_knows(store, month):
    since_s, until_s = SPANS[1]
    report = report_of(store, since_s, until_s)
    held, used, memory = [], [], []
    known = {int(month.use.job_id[row]): row for row in range(len(month.use)) if month.use.ended_s[row] >= since_s}
    for row in range(len(month.runs)):
        at = known.get(int(month.runs.job_id[row]))
        if at is not None:
            hours = month.runs.runtime_s[row] / 3600
            held.append(month.runs.cpus[row] * hours)
            used.append(month.use.cpus[at] * month.use.nodes[at] * hours)
            memory.append(month.use.memory_mib[at] * month.use.nodes[at] * hours / 1024)
    assert report["cpus"]["measured"] == pytest.approx(math.fsum(held))
    assert report["cpus"]["used"] == pytest.approx(math.fsum(used))
    assert (report["node_memory"]["runs"], report["node_memory"]["used"]) == (
        len(held),
        pytest.approx(math.fsum(memory)),
    )
    assert 0.5 < report["node_memory"]["share_p50"] < 0.6


def test_runs_that_held_gpus_without_a_process_are_named_the_longest_first(store, month):
    since_s, until_s = SPANS[1]
    named = report_of(store, since_s, until_s)["idle_runs"]
    hours = defaultdict(float)
    for profile in month.profiles:
        part = max(0.0, min(profile.end_s, until_s) - max(profile.start_s, since_s)) / max(
            profile.end_s - profile.start_s, 1
        )
        hours[profile.job_id] += profile.gpus * profile.measured_s * part * (1 - profile.process_share) / 3600
    longest = sorted(((value, job_id) for job_id, value in hours.items() if value >= 0.5), reverse=True)[:20]
    assert [(pytest.approx(value), job_id) for value, job_id in longest] == [
        (one["no_process"], one["job_id"]) for one in named
    ]
    owners = dict(zip(month.runs.job_id.tolist(), month.runs.user, strict=True))
    assert all(one["user"] == owners[one["job_id"]] and not one["running"] for one in named)


def test_waits_are_those_of_first_starts_in_the_span_beside_what_was_said(store, month):
    since_s, until_s = SPANS[1]
    (whole, *rest) = report_of(store, since_s, until_s)["waits"]
    runs, said = month.runs, month.predictions
    rows = [row for row in range(len(runs)) if since_s <= runs.started_s[row] < until_s]
    waited = sorted(float(runs.started_s[row] - runs.eligible_s[row]) for row in rows)
    assert (whole["starts"], whole["most_s"]) == (len(rows), waited[-1])
    assert whole["p50_s"] == pytest.approx(float(np.median(waited)))
    both = [row for row in rows if np.isfinite(said.slurm_start_s[row])]
    assert whole["slurm_jobs"] == len(both)
    off = np.median([abs(runs.started_s[row] - said.slurm_start_s[row]) for row in both])
    assert whole["slurm_off_s"] == pytest.approx(off)
    assert sum(one["starts"] for one in rest if one["by"] == "size") == len(rows)


def test_a_running_job_counts_until_the_last_cycle(tmp_path):
    store = new_store(tmp_path / "slurmsched.db")
    came_s = NOW_S - 7200
    names = ("j", "zoe", "lab", "normal", "gpu")
    job = JobRecord(9_000_001, 0, -1, 1, *names, 4, 1, 8, math.inf, came_s, came_s, NOW_S - 3600, 0)
    job = job._replace(phase=Phase.RUNNING, first_submit_s=came_s)
    store.save("site", PendingWrites(jobs={job.unit: job}))
    assert report_of(store, *SPANS[0], user="zoe")["total"]["held"] == 0.0
    with store.database.transaction("as a cycle does", write=True) as connection:
        connection.exec_driver_sql("INSERT INTO cycles VALUES ('site', 1, ?, 'observe', '', '')", (NOW_S - 1800,))
    report = report_of(store, *SPANS[0], user="zoe")
    assert (report["running"], report["jobs"]) == (1, 1)
    assert report["total"]["held"] == pytest.approx(4 * 0.5)
    store.close()


def test_what_nobody_measured_is_named_with_what_to_switch_on(tmp_path, month):
    store = new_store(tmp_path / "other.db")
    store.add_outcomes("site", month.runs)
    report = report_of(store, *SPANS[0])
    told = {one["what"]: one["switch_on"] for one in report["not_measured"]}
    assert "profile.listen" in told["use of GPUs, GPUs without a process, memory of GPUs"]
    assert "predict.enabled" in told["accuracy of predicted times"]
    assert any("free and stranded" in what for what in told)
    assert "report.usage" in told["CPUs and memory of nodes that runs used"]
    assert (report["machine"], report["ledger"], report["gpu_memory"], report["sources"]) == (None, None, None, [])
    store.close()


def runs_of(rows):
    """Runs as (job, restart, start, end, GPUs)."""
    job_id, restart, started_s, ended_s, gpus = zip(*rows, strict=True)
    columns = {"job_id": job_id, "restart": restart, "started_s": started_s, "ended_s": ended_s, "gpus": gpus}
    spent = np.array(ended_s, dtype=float) - np.array(started_s, dtype=float)
    state = [int(JobState.COMPLETED)] * len(rows)
    return table_of(OutcomeTable, len(rows), {}, {**columns, "runtime_s": np.nan_to_num(spent), "state": state})


def nodes_of(*profiles):
    names = list(MeasuredNodes.__dataclass_fields__)
    return table_of(MeasuredNodes, len(profiles), {}, {n: [getattr(p, n) for p in profiles] for n in names})


def profile(job_id, start_s, end_s, restart=0, util=0.5):
    return NodeProfile(job_id, restart, "n1", start_s, end_s, 1, float(end_s - start_s), 1.0, util, 0, 0, 0, 0, 0)


def test_of_jobs_that_had_the_same_id_each_gets_what_was_measured_of_it():
    runs = runs_of([(7, 0, 1000.0, 2000.0, 1), (7, 1, 3000.0, 4000.0, 1), (7, 0, 90_000.0, 91_000.0, 1)])
    at = nodes_of(
        profile(7, 1003, 1990), profile(7, 90_002, 90_900), profile(7, 3001, 3990, restart=1), profile(8, 1, 9)
    )
    assert run_of(runs, at.job_id, at.restart, at.start_s).tolist() == [0, 2, 1, -1]
    assert run_of(runs_of([(7, 0, math.nan, 5.0, 1)]), at.job_id, at.restart, at.start_s).tolist() == [-1] * 4


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(0, 4)), min_size=1, max_size=8),
    st.integers(0, 60),
    st.integers(1, 60),
)
@settings(max_examples=50)
def test_gpu_time_in_any_span_is_a_count_of_seconds(jobs, since, length):
    runs = runs_of(
        [(n + 1, 0, float(start), float(start + lasts), gpus) for n, (start, lasts, gpus) in enumerate(jobs)]
    )
    time = gpu_time(runs, nodes_of(), since, since + length)
    counted = [
        gpus * sum(start <= second < start + lasts for second in range(since, since + length))
        for start, lasts, gpus in jobs
    ]
    assert time.held_s.tolist() == pytest.approx(counted)
    assert not time.measured_s.any()


def test_a_report_on_nothing_is_made_too():
    rows = ReportRows(table_of(OutcomeTable, 0, {}, {}), nodes_of())
    report = summary(rows, Scope(), cluster_name="c", since_s=0.0, until_s=3600.0)
    assert (report["jobs"], report["total"]["held"], report["waits"], report["requests"]) == (0, 0.0, [], [])

"""Each format on a small sample: what a row means, and what is left out, never silently."""

from __future__ import annotations

import gzip
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from slurmsched.simulator import traces
from slurmsched.simulator.traces import FORMATS, Trace, TraceError
from slurmsched.simulator.traces.file import PROGRESS
from slurmsched.simulator.workload.rewards import steps_of

DATA = Path(__file__).parents[1] / "data"
SACCT = Path(__file__).parents[1] / "golden" / "22.05" / "sacct.txt"
SACCT_HEADER = (
    "JobIDRaw|User|UID|Account|QOS|Partition|AllocTRES|ReqTRES|NNodes|ReqCPUS|Timelimit|Submit|Eligible|Start|End"
    "|State|JobName|ElapsedRaw|"
)


def row(trace: Trace, job_id: int) -> dict[str, object]:
    """What the workload says about one job, texts as texts."""
    jobs = trace.workload
    at = int(np.flatnonzero(jobs.job_id == job_id)[0])
    columns = {name: getattr(jobs, name) for name in jobs.__dataclass_fields__}
    return {name: column[at] for name, column in columns.items()}


def rules(trace: Trace) -> dict[str, int]:
    return {note.rule: note.rows for note in trace.notes}


def written(tmp_path: Path, text: str, name: str = "trace.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "format_", "jobs", "gpu_s"),
    [
        ("philly.csv", "philly", 300, 5_237_256),
        ("philly_oct5_cap6h.csv", "philly", 300, 1_043_024),
        ("philly_semisynthetic.csv.gz", "semisynthetic", 300, 395_268_479),
        ("chronus_philly_mix2.csv", "chronus", 289, 14_884_800),
        ("pcs_trace_ee9e8c.csv", "pcs", 300, 137_596_163),
        ("tiresias_60_job.csv", "tiresias", 60, 26_624),
        ("nasa_ipsc_1993.swf.gz", "swf", 295, 11_182_367),
        ("ub_week.events", "ub", 28, 5_909_636),
        ("eagle_sample.csv", "eagle", 4, 36_486),
        ("gavel_single_100.csv", "gavel", 100, math.inf),
        ("synergy_dynamic_100.csv", "synergy", 100, math.inf),
    ],
)
def test_a_sample_is_recognised_and_read_whole(name, format_, jobs, gpu_s):
    trace = traces.read(DATA / name)
    assert trace.format == format_
    assert len(trace) == jobs
    assert float(np.sum(trace.workload.gpus * trace.workload.runtime_s)) == pytest.approx(gpu_s, abs=0.5)
    assert np.all(np.diff(trace.workload.submit_s) >= 0)
    assert traces.read(DATA / name, format_).workload.equals(trace.workload)


def test_philly_rows_are_sorted_by_timestamp_and_numbered_as_they_stood():
    trace = traces.read(DATA / "philly.csv")
    job = row(trace, 1)
    assert job["submit_s"] == 1507532515  # 2017-10-09 07:01:55 UTC
    assert (job["runtime_s"], job["gpus"], job["partition"]) == (66, 1, "11cb48")
    assert math.isinf(job["time_limit_s"])
    assert rules(trace) == {"order": 152}


def test_a_cut_of_philly_keeps_its_own_ids():
    trace = traces.read(DATA / "philly_oct5_cap6h.csv")
    assert row(trace, 1)["submit_s"] - row(trace, 0)["submit_s"] == 9
    assert trace.notes == ()


def test_semisynthetic_says_that_it_is():
    trace = traces.read(DATA / "philly_semisynthetic.csv.gz")
    job = row(trace, 2)
    assert (job["user"], job["name"], job["partition"]) == ("u0110", "seg_24_v1", "6214e9")
    assert job["time_limit_s"] == 4838400
    assert str(trace.notes[0]).startswith("semi-synthetic")


def test_chronus_minutes_become_seconds_and_deadlines_count_from_submission():
    trace = traces.read(DATA / "chronus_philly_mix2.csv")
    job = row(trace, 0)
    assert (job["submit_s"], job["runtime_s"], job["user"]) == (5601 * 60, 96 * 60, "vc_ed69ec")
    assert job["deadline_s"] == (5601 + 159) * 60
    assert not job["best_effort"]
    assert steps_of(job["rewards"]) == ((9540, 1.0), (11340, 0.8), (13740, 0.5), (17340, 0.2))
    assert steps_of(row(trace, 1)["rewards"]) == ((235 * 60, 1.0),)
    assert rules(trace)["gpus"] == 11


def test_a_best_effort_job_of_chronus_has_no_deadline():
    trace = traces.read(DATA / "chronus_philly_mix2.csv")
    best_effort = trace.workload.best_effort
    assert 0 < np.count_nonzero(best_effort) < len(trace)
    assert np.array_equal(np.isinf(trace.workload.deadline_s), best_effort)
    assert {text == "" for text in trace.workload.take(best_effort).rewards} == {True}


def test_models_with_skewed_weights_are_sensitive_to_placement():
    trace = traces.read(DATA / "tiresias_60_job.csv")
    told = dict(zip(trace.workload.name, trace.workload.sensitive.tolist(), strict=True))
    assert (told["vgg19"], told["inception4"]) == (True, False)


def test_a_pcs_job_runs_as_fast_as_its_gpus_let_it():
    job = row(traces.read(DATA / "pcs_trace_ee9e8c.csv"), 1)
    speed = job["runtime_s"] / 8562099.517582526
    assert job["gpus"] == 8
    assert 1 / 8 < speed < 1


def test_without_speedups_a_pcs_job_is_taken_as_linear(tmp_path):
    shutil.copy(DATA / "pcs_trace_ee9e8c.csv", tmp_path / "pcs.csv")
    trace = traces.read(tmp_path / "pcs.csv")
    assert row(trace, 1)["runtime_s"] == pytest.approx(8562099.517582526 / 8)
    assert "taken as linear" in str(trace.notes[0])


def test_swf_processors_are_gpus_and_the_header_gives_the_origin():
    trace = traces.read(DATA / "nasa_ipsc_1993.swf.gz")
    job = row(trace, 2)
    assert (job["submit_s"], job["runtime_s"], job["gpus"]) == (749458803 + 1460, 3726, 128)
    assert (job["user"], job["account"], job["partition"]) == ("user1", "group1", "")
    assert rules(trace)["processors"] == 300


def test_a_part_of_a_swf_job_is_no_job(tmp_path):
    line = "{} {} -1 10 4 -1 -1 8 60 -1 {} 3 1 7 2 -1 -1 -1\n"
    lines = [line.format(1, 0, 1), line.format(1, 0, 2), line.format(1, 5, 4), line.format(2, -1, 1)]
    trace = traces.read(written(tmp_path, "; Queue: 2 night\n" + "".join(lines), "a.swf"))
    job = row(trace, 1)
    assert len(trace) == 1
    assert (job["gpus"], job["time_limit_s"], job["name"], job["partition"]) == (8, 60, "app7", "night")
    assert rules(trace) == {"processors": 4, "partial": 2, "submit": 1}


def test_ub_jobs_ask_per_node():
    trace = traces.read(DATA / "ub_week.events", cpu_jobs=True)
    job = row(trace, 111)
    assert (job["gpus"], job["nodes"], job["cpus"], job["memory_mib"]) == (4, 2, 40, 180 * 1024)
    assert (job["user"], job["qos"], job["time_limit_s"]) == ("user005", "general-compute", 3 * 86400)
    assert row(trace, 2)["memory_mib"] == 187000
    assert "gpus" not in rules(trace)


def test_jobs_without_gpus_are_left_out_unless_wanted():
    trace = traces.read(DATA / "eagle_sample.csv")
    everything = traces.read(DATA / "eagle_sample.csv", cpu_jobs=True)
    assert rules(trace)["gpus"] == 296
    assert len(everything) == 300
    assert rules(everything) == {"ids": 2}
    assert len(np.unique(everything.workload.job_id)) == 300


def test_eagle_totals_are_spread_over_nodes():
    trace = traces.read(DATA / "eagle_sample.csv", cpu_jobs=True)
    wide = trace.workload.take(trace.workload.gpus == 16)
    assert (wide.nodes[0], wide.cpus[0], wide.runtime_s[0]) == (8, 1, 1713)
    assert np.max(trace.workload.memory_mib) == 720000


def test_helios_with_lucids_names(tmp_path):
    text = (
        "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,duration\n"
        "7,u1,vcA,train-1,16,128,2,COMPLETED,2020-04-01 00:00:05,100\n"
        "8,u2,vcB,cpu,0,8,1,COMPLETED,2020-04-01 00:00:06,100\n"
        "9,u2,vcB,none,1,8,1,FAILED,2020-04-01 00:00:07,0\n"
    )
    trace = traces.read(written(tmp_path, text))
    job = row(trace, 7)
    assert trace.format == "helios"
    assert (job["submit_s"], job["gpus"], job["cpus"], job["nodes"], job["name"]) == (1585699205, 16, 64, 0, "train-1")
    assert rules(trace) == {"runtime": 1, "gpus": 1}


def test_a_real_answer_of_sacct_is_read_and_torn_records_are_counted(tmp_path):
    text = SACCT.read_text(encoding="utf-8", errors="surrogateescape").replace("~golden", "|")
    path = tmp_path / "dump.txt"
    path.write_text(SACCT_HEADER + "\n" + text, encoding="utf-8", errors="surrogateescape")
    trace = traces.read(path)
    job = row(trace, 1)
    assert trace.format == "sacct"
    assert (job["user"], job["qos"], job["gpus"], job["memory_mib"], job["time_limit_s"]) == (
        "lab-alice", "normal", 1, 2000, 600,
    )  # fmt: skip
    assert (job["runtime_s"], job["name"]) == (3, "train_12_v3")
    assert rules(trace)["torn"] >= 2
    assert "99999" not in set(trace.workload.user)


def sacct(tmp_path: Path, *records: str) -> Trace:
    header = "JobID|User|Submit|Eligible|Start|End|Elapsed|State|Timelimit|NNodes|NCPUS|AllocTRES"
    return traces.read(written(tmp_path, "\n".join((header, *records)) + "\n", "dump.txt"))


def test_an_older_sacct_dump_with_texts_for_times_and_array_tasks(tmp_path):
    trace = sacct(
        tmp_path,
        "12_1|ann|2023-01-01T00:00:00|2023-01-01T00:00:00|2023-01-01T00:01:00|2023-01-02T01:01:00|1-01:00:00|TIMEOUT"
        "|1-00:00:00|2|64|billing=64,cpu=64,gres/gpu:a100=8,gres/gpu=8,mem=512G,node=2",
        "12_1.batch||2023-01-01T00:01:00||2023-01-01T00:01:00|2023-01-02T01:01:00|1-01:00:00|CANCELLED||1|32|cpu=32",
        "12_2|ann|2023-01-01T00:00:00|2023-01-01T00:30:00|2023-01-01T00:30:00|2023-01-01T00:31:00|00:01:00|COMPLETED"
        "|UNLIMITED|1|1|gres/gpu=1",
        "13|bob|2023-01-01T00:00:09|2023-01-01T00:00:09|Unknown|Unknown|00:00:00|PENDING|1|1|1|",
        "14|bob|2023-01-01T00:00:10|2023-01-01T00:00:10|None|2023-01-01T00:00:20|00:00:00|CANCELLED by 1000|1|1|1|",
    )
    jobs = trace.workload
    assert list(zip(jobs.job_id.tolist(), jobs.gpus.tolist(), strict=True)) == [(12, 8), (13, 1)]
    assert list(jobs.gpu_type) == ["a100", ""]
    assert jobs.runtime_s.tolist() == [90000, 60]
    assert jobs.time_limit_s.tolist() == [86400, math.inf]
    assert (jobs.cpus[0], jobs.memory_mib[0]) == (32, 256 * 1024)
    assert rules(trace) == {"steps": 1, "unfinished": 1, "eligible": 1, "runtime": 1, "ids": 1}


def test_without_the_time_when_a_job_became_eligible_it_arrives_when_it_is_submitted(tmp_path):
    record = "5|ann|100|{}|200|300|00:01:40|COMPLETED|10|1|1|gres/gpu=1"
    for unknown in ("Unknown", ""):
        assert sacct(tmp_path, record.format(unknown)).workload.submit_s.tolist() == [100]
    header = "JobID|User|Submit|Start|End|Elapsed|State|AllocTRES"
    dump = written(tmp_path, f"{header}\n5|ann|100|200|300|00:01:40|COMPLETED|gres/gpu=1\n", "short.txt")
    trace = traces.read(dump)
    assert trace.workload.submit_s.tolist() == [100]
    assert "eligible" not in rules(trace)


def test_a_requeued_job_of_sacct_arrives_when_first_submitted_and_runs_as_long_as_its_last_run(tmp_path):
    trace = sacct(
        tmp_path,
        "5|ann|100|100|200|300|00:01:40|PREEMPTED|10|1|1|gres/gpu=1",
        "5|ann|300|420|420|500|00:01:20|COMPLETED|10|1|1|gres/gpu=1",
        "5|bob|900000|900000|900000|900007|00:00:07|COMPLETED|10|1|1|gres/gpu=1",
    )
    assert trace.workload.submit_s.tolist() == [100, 900000]
    assert trace.workload.runtime_s.tolist() == [80, 7]
    assert rules(trace)["requeues"] == 1


def test_a_sacct_dump_without_what_is_needed_says_how_to_make_one(tmp_path):
    path = written(tmp_path, "JobID|Submit|Elapsed\n1|100|00:01:00\n")
    with pytest.raises(TraceError, match=r"trace.csv:1: there is no column AllocTRES or ReqTRES: .*sacct -a -X -D -P"):
        traces.read(path)


def test_cleaning_counts_each_row_once(tmp_path):
    text = (
        "timestamp,duration,num_gpus,cluster\n"
        ",10,1,a\n"
        "2017-10-01 00:00:09,,1,a\n"
        "2017-10-01 00:00:08,-5,0,a\n"
        "2017-10-01 00:00:07,0,1,a\n"
        "2017-10-01 00:00:06,10,0,a\n"
        "2017-10-01 00:00:05,10,2,a\n"
        "2017-10-01 00:00:04,20,1,a\n"
        "2017-10-01T00:00:04+00:00,30,1,a\n"
    )
    trace = traces.read(written(tmp_path, text))
    assert trace.workload.job_id.tolist() == [7, 8, 6]
    assert [(note.rule, note.rows) for note in trace.notes] == [
        ("submit", 1), ("runtime", 1), ("runtime", 2), ("gpus", 1), ("order", 1),
    ]  # fmt: skip
    assert str(trace.notes[-1]) == "1 job stood after one submitted later: sorted by submit time, ties as in the source"


def test_a_gzipped_trace_needs_no_suffix(tmp_path):
    path = tmp_path / "philly"
    path.write_bytes(gzip.compress((DATA / "philly.csv").read_bytes()))
    assert traces.read(path).workload.equals(traces.read(DATA / "philly.csv").workload)


def test_quoted_fields_blank_lines_and_a_byte_order_mark_are_no_trouble(tmp_path):
    text = '\ufefftimestamp,duration,num_gpus,cluster\r\n\r\n"2017-10-01 00:00:09",10,1,"a,\nb"\r\n\r\n'
    assert list(traces.read(written(tmp_path, text)).workload.partition) == ["a,\nb"]


@pytest.mark.parametrize(
    ("span", "ids"), [("0:2", [1, 2]), (":2", [1, 2]), ("58:", [59, 60]), ("59:999", [60]), (" 3:4 ", [4])]
)
def test_jobs_are_chosen_by_their_place(span, ids):
    trace = traces.read(DATA / "tiresias_60_job.csv").jobs(span)
    assert [job_id + 1 for job_id in trace.workload.job_id.tolist()] == ids
    assert trace.notes[-1].rule == "jobs"


@pytest.mark.parametrize("span", ["", "5", "a:b", "-3:4", "4:4", "5:4", "60:", "1:2:3"])
def test_a_choice_that_makes_no_sense_is_refused(span):
    with pytest.raises(TraceError, match="choosing jobs"):
        traces.read(DATA / "tiresias_60_job.csv").jobs(span)


def test_twice_the_load_halves_the_gaps_and_leaves_deadlines_where_they_were():
    trace = traces.read(DATA / "chronus_philly_mix2.csv")
    denser = trace.scaled(2)
    assert np.allclose(np.diff(denser.workload.submit_s), np.diff(trace.workload.submit_s) / 2)
    assert denser.workload.submit_s[0] == trace.workload.submit_s[0]
    one, other = (jobs.take(~jobs.best_effort) for jobs in (trace.workload, denser.workload))
    assert np.allclose(one.deadline_s - one.submit_s, other.deadline_s - other.submit_s)
    assert trace.scaled(1) is trace


@pytest.mark.parametrize("load", [0, -1, math.inf, math.nan])
def test_a_load_that_makes_no_sense_is_refused(load):
    with pytest.raises(TraceError, match="accepted is a number above 0"):
        traces.read(DATA / "tiresias_60_job.csv").scaled(load)


def test_every_format_has_its_heading():
    page = (Path(__file__).parents[2] / "docs" / "traces.md").read_text()
    for one in FORMATS:
        assert f"\n### {one.name}\n" in page


@pytest.mark.parametrize("packed", [False, True])
def test_who_watches_hears_how_far_a_file_is_read(tmp_path, packed):
    data = (DATA / "philly.csv").read_bytes()
    path = tmp_path / "trace.csv"
    path.write_bytes(gzip.compress(data) if packed else data)
    heard: list[tuple[int, int]] = []
    watched = PROGRESS.set(lambda done, total: heard.append((done, total)))
    try:
        traces.read(path)
    finally:
        PROGRESS.reset(watched)
    size = path.stat().st_size
    assert heard[-1] == (size, size)
    count = len(heard)
    traces.read(path)
    assert len(heard) == count, "nobody watches any more"

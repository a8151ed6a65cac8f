"""What is wrong with a trace: file, line, column, and what is accepted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from slurmsched.simulator import traces
from slurmsched.simulator.traces import TraceError

DATA = Path(__file__).parents[1] / "data"


def message(path: Path, format_: str | None = None) -> str:
    with pytest.raises(TraceError) as caught:
        traces.read(path, format_)
    return str(caught.value)


def broken(tmp_path: Path, name: str, line: int, before: str, after: str) -> Path:
    """The sample *name* with something replaced in one line."""
    data = (DATA / name).read_bytes()
    lines = (gzip.decompress(data) if name.endswith(".gz") else data).decode().split("\n")
    assert before in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(before, after, 1)
    path = tmp_path / name.removesuffix(".gz")
    path.write_text("\n".join(lines))
    (tmp_path / "pcs_speedups.json").write_bytes((DATA / "pcs_speedups.json").read_bytes())
    return path


@pytest.mark.parametrize(
    ("name", "line", "before", "after", "column", "said"),
    [
        ("philly.csv", 3, "2951.0,1", "soon,1", "duration", "'soon' is no number: accepted are 12, 0.5"),
        ("philly.csv", 3, "2951.0,1", "2951.0,half", "num_gpus", "'half' is no count: accepted are whole numbers"),
        ("philly.csv", 3, "2951.0,1", "2951.0,-1", "num_gpus", "'-1' is no count"),
        ("philly.csv", 3, "2951.0,1", "2951.0,1.5", "num_gpus", "'1.5' is no count"),
        ("philly.csv", 3, "2951.0,1", "inf,1", "duration", "'inf' is no number"),
        ("philly.csv", 4, "2017-09-29", "29.09.2017", "timestamp", "is no time: accepted are Unix seconds"),
        ("philly.csv", 4, "2017-09-29", "2017-19-29", "timestamp", "is no time"),
        ("philly_semisynthetic.csv.gz", 2, ",4838400,", ",0,", "time_limit_s", "'0' is no time limit: accepted are"),
        ("chronus_philly_mix2.csv", 3, ",235,", ",2h,", "expect_time_list", "'2h' is no list: accepted are numbers"),
        ("chronus_philly_mix2.csv", 2, "159-189", "189-159", "expect_time_list", "falls: accepted are deadlines by"),
        ("chronus_philly_mix2.csv", 2, "10-8-5-2", "10-8", "expect_value_list", "2 values for 4 deadlines"),
        ("chronus_philly_mix2.csv", 2, "10-8-5-2,0", "10-8-5-2,maybe", "best_effort", "'maybe' is neither yes nor no"),
        ("pcs_trace_ee9e8c.csv", 3, "VggnetModel256", "Nova", "model_name", "'Nova' is no model of pcs_speedups.json"),
        ("pcs_trace_ee9e8c.csv", 3, "8562099.517582526", "x", "service", "'x' is no number"),
        ("tiresias_60_job.csv", 61, ",", ",x", "num_gpu", "is no count"),
        ("nasa_ipsc_1993.swf.gz", 34, "1460", "noon", "submit time", "'noon' is no number: accepted are numbers"),
        ("ub_week.events", 2, "-t 3-00:00:00", "-t 3days", "--time", "'3days' is no time: accepted are MM"),
        ("ub_week.events", 2, "12688.00", "long", "-sim-walltime", "'long' is no number of seconds: accepted"),
        ("ub_week.events", 2, "--mem=187000M", "--mem=much", "--mem", "'much' is no memory: accepted are"),
        ("ub_week.events", 111, "--gres=gpu:2 --gres=gpu:2", "--gres=gpu:x:y:2", "--gres", "is no GRES: accepted"),
        ("eagle_sample.csv", 2, "2019-01-01 08:55:55,", "yesterday,", "submit_time", "'yesterday' is no time"),
    ],
)
def test_a_malformed_cell_is_named_with_what_is_accepted(tmp_path, name, line, before, after, column, said):
    path = broken(tmp_path, name, line, before, after)
    text = message(path)
    assert text.startswith(f"{path}:{line}, column {column}: ")
    assert said in text


def test_the_line_is_right_behind_blank_lines_and_names_with_line_ends(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('timestamp,duration,num_gpus,cluster\n\n1,1,1,"a\nb\nc"\n\n2,x,1,a\n')
    assert message(path).startswith(f"{path}:7, column duration: ")


def test_the_line_is_right_far_down(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("timestamp,duration,num_gpus,cluster\n" + "1,1,1,a\n" * 20000 + "1,1,1,a,b\n")
    assert message(path) == f"{path}:20002: the record has 5 fields: accepted are 4, as many as the header has"
    path.write_text("timestamp,duration,num_gpus,cluster\n" + "1,1,1,a\n" * 20000 + "1,1,x,a\n")
    assert message(path).startswith(f"{path}:20002, column num_gpus: ")


def test_a_missing_column_is_named_with_the_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("timestamp,duration,gpus\n1,1,1\n")
    said = "there is no column num_gpus, cluster: the header has timestamp, duration, gpus"
    assert message(path, "philly") == f"{path}:1: {said}"


def test_an_unknown_file_is_told_all_formats(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,jobs\n1,1\n")
    text = message(path)
    assert text.startswith(f"{path}:1: no format of traces begins with 'time,jobs': accepted are")
    assert all(f"\n  {one.name}: " in text for one in traces.FORMATS)


def test_an_unknown_format_is_told_all_names():
    assert "accepted are mlfs, slurmsched, semisynthetic, philly" in message(DATA / "philly.csv", "borg")


def test_a_swf_line_that_is_too_short_is_named(tmp_path):
    path = broken(tmp_path, "nasa_ipsc_1993.swf.gz", 35, " -1 -1", "")
    assert message(path).startswith(f"{path}:35: the line has 16 fields: accepted are the 18")


def test_an_event_that_is_none_is_named(tmp_path):
    path = broken(tmp_path, "ub_week.events", 5, "-dt", "at")
    assert message(path).startswith(f"{path}:5: 'at ")


def test_records_of_sacct_with_a_bad_cell_are_counted_by_column(tmp_path):
    path = tmp_path / "dump"
    rows = ["1|1|00:01", "3|5|00:01:00|gres/gpu:a:b=1", "x|5|00:01:00|gres/gpu=1", "4|5|soon|gres/gpu=1"]
    path.write_text("\n".join(["JobID|Submit|Elapsed|AllocTRES", *rows, ""]))
    for column in ("AllocTRES", "JobID", "Elapsed"):
        assert f"1 record left out with a {column} that cannot be read" in message(path)


@pytest.mark.parametrize("content", ['{"speedup": []}', "{", '{"speedup": {"M": []}}', '{"speedup": {"M": [0]}}'])
def test_speedups_that_make_no_sense_are_refused(tmp_path, content):
    path = broken(tmp_path, "pcs_trace_ee9e8c.csv", 2, "0,", "0,")
    (tmp_path / "pcs_speedups.json").write_text(content)
    assert "accepted is {" in message(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert message(tmp_path / "none.csv") == f"reading the trace {tmp_path / 'none.csv'}: No such file or directory"


def test_a_cut_off_gzip_file_is_named(tmp_path):
    path = tmp_path / "philly.csv.gz"
    path.write_bytes(gzip.compress((DATA / "philly.csv").read_bytes())[:-500])
    assert f"reading the trace {path}: " in message(path)


def test_a_trace_without_a_job_left_says_why(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("timestamp,duration,num_gpus,cluster\n1,1,0,a\n1,0,1,a\n")
    assert message(path) == (
        f"reading the trace {path}: no job is left; 1 job with a runtime of zero or less left out;"
        " 1 job without GPUs left out"
    )


def test_a_database_is_pointed_to_the_right_door(tmp_path):
    path = tmp_path / "slurmsched.db"
    path.write_bytes(b"SQLite format 3\x00" + bytes(100))
    assert "--from-db" in message(path)


def test_a_stray_quote_is_an_error_not_a_long_field(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('timestamp,duration,num_gpus,cluster\n1,1,1,"a"b\n')
    assert message(path).startswith(f"{path}:2: ")


@pytest.mark.parametrize(
    ("said", "at_s"), [("1970-01-01 00:01+00", 60), ("1970-01-01T00:01:05", 65), ("1970-01-02", 86400), ("60.50", 60.5)]
)
def test_times_are_read_with_or_without_an_offset(tmp_path, said, at_s):
    path = tmp_path / "a.csv"
    path.write_text(f"timestamp,duration,num_gpus,cluster\n{said},1,1,a\n")
    assert traces.read(path).workload.submit_s.tolist() == [at_s]


@pytest.mark.parametrize("said", ["now", "today", "1970-01-01 00:00:xx", "inf"])
def test_what_only_looks_like_a_time_is_refused(tmp_path, said):
    path = tmp_path / "a.csv"
    path.write_text(f"timestamp,duration,num_gpus,cluster\n{said},1,1,a\n")
    assert "is no time" in message(path)

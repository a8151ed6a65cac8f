"""The project's own format: what is written is what is read."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels
from slurmsched.simulator import traces
from slurmsched.simulator.traces import TraceError
from slurmsched.simulator.workload.workload import Workload, workload

DATA = Path(__file__).parents[1] / "data"
MARKS = ['"', ",", "\r", "\n", "a\r\nb", " ", "#", ";"]
WORDS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(MARKS)
SECONDS = st.floats(0, 1e10) | st.integers(0, 2**40).map(float)
ROW = st.fixed_dictionaries(
    {
        "runtime_s": SECONDS.filter(lambda value: value > 0),
        "gpus": st.integers(1, 2**31),
        "nodes": st.integers(0, 4096),
        "cpus": st.integers(0, 4096),
        "memory_mib": SECONDS,
        "time_limit_s": SECONDS.filter(lambda value: value > 0) | st.just(math.inf),
        "deadline_s": SECONDS | st.just(math.inf),
        "best_effort": st.booleans(),
        "sensitive": st.booleans(),
        "rewards": st.sampled_from(["", "1@60", "1@9540,0.8@11340"]),
        **dict.fromkeys(("user", "account", "partition", "qos", "name", "gpu_type", "features"), WORDS),
    }
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    rows = draw(st.lists(ROW, min_size=1, max_size=6))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    ids = draw(st.lists(st.integers(0, 2**53 - 1), min_size=len(rows), max_size=len(rows), unique=True))
    submit_s = sorted(draw(st.lists(SECONDS, min_size=len(rows), max_size=len(rows))))
    return workload(len(rows), job_id=ids, submit_s=submit_s, **columns)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(jobs=workloads(), name=st.sampled_from(["t.csv", "t.csv.gz"]))
def test_what_is_written_is_read_back(tmp_path, jobs, name):
    traces.write(jobs, tmp_path / name)
    trace = traces.read(tmp_path / name)
    assert trace.workload.equals(jobs)
    assert (trace.format, trace.notes) == ("slurmsched", ())


@pytest.mark.parametrize("name", ["chronus_philly_mix2.csv", "philly_semisynthetic.csv.gz", "ub_week.events"])
def test_any_trace_can_be_kept_in_our_format(tmp_path, name):
    jobs = traces.read(DATA / name).workload
    traces.write(jobs, tmp_path / "kept.csv.gz")
    assert traces.read(tmp_path / "kept.csv.gz").workload.equals(jobs)


def test_the_same_jobs_make_the_same_file(tmp_path):
    jobs = traces.read(DATA / "tiresias_60_job.csv").workload
    for name in ("a.csv.gz", "b.csv.gz"):
        traces.write(jobs, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_names_that_are_no_utf8_survive(tmp_path):
    jobs = workload(1, job_id=[1], submit_s=[0], runtime_s=[1], gpus=[1], name=["\udcff"])
    traces.write(jobs, tmp_path / "a.csv")
    assert traces.read(tmp_path / "a.csv").workload.equals(jobs)


def test_three_columns_are_enough_and_others_are_noted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("submit_s,runtime_s,gpus,colour\n2017-10-09T07:01:55Z,60,1,red\n")
    trace = traces.read(path)
    assert trace.workload.job_id.tolist() == [1]
    assert trace.workload.submit_s.tolist() == [1507532515]
    assert math.isinf(trace.workload.time_limit_s[0])
    assert trace.workload.best_effort[0]
    assert [str(note) for note in trace.notes] == ["columns that are not of this format are not read: colour"]


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("time_limit_s", "-1", "is no time limit"),
        ("deadline_s", "soon", "is no time"),
        ("rewards", "2@60", "is no list of rewards: accepted are steps like 1@9540,0.8@11340"),
        ("rewards", "1@60;0@70", "is no list of rewards"),
        ("memory_mib", "-5", "is no amount"),
        ("best_effort", "2", "is neither yes nor no"),
        ("nodes", "", "is no count"),
    ],
)
def test_a_malformed_cell_is_named(tmp_path, column, cell, said):
    path = tmp_path / "a.csv"
    path.write_text(f"submit_s,runtime_s,gpus,{column}\n0,60,1,{cell}\n")
    with pytest.raises(TraceError, match=said) as caught:
        traces.read(path)
    assert str(caught.value).startswith(f"{path}:2, column {column}: ")


def test_writing_where_it_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(TraceError, match="writing the trace"):
        traces.write(workload(0), tmp_path / "no" / "a.csv")
    with pytest.raises(TraceError, match="writing the trace"):
        traces.write(workload(1, name=["\ud800"]), tmp_path / "a.csv")


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_parquet_is_as_good_as_csv(tmp_path):
    jobs = traces.read(DATA / "chronus_philly_mix2.csv").workload
    traces.write(jobs, tmp_path / "a.parquet")
    assert traces.read(tmp_path / "a.parquet").workload.equals(jobs)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(TraceError, match="reading the trace"):
        traces.read(tmp_path / "b.parquet")


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is not None, reason="pyarrow is installed")
def test_without_pyarrow_parquet_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "a.parquet"
    with pytest.raises(TraceError, match=r"\[parquet\]'\); accepted without it are \.csv"):
        traces.write(workload(0), path)
    path.write_bytes(b"PAR1")
    with pytest.raises(TraceError, match=r"reading the trace .* needs pyarrow"):
        traces.read(path)


def test_long_files_are_joined_from_their_parts(tmp_path):
    count = 20_000
    jobs = workload(
        count,
        job_id=np.arange(count),
        submit_s=np.arange(count),
        runtime_s=np.ones(count),
        gpus=np.ones(count),
        name=Labels.of(f"n{row % 9001}" for row in range(count)),
    )
    traces.write(jobs, tmp_path / "a.csv")
    assert traces.read(tmp_path / "a.csv").workload.equals(jobs)

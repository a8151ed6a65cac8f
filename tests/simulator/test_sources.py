"""Sources and cases: the same jobs wherever and whenever they are loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurmsched.errors import ConfigError
from slurmsched.simulator.case import Case
from slurmsched.simulator.traces import TraceError, write
from slurmsched.simulator.traces.cleaning import Raw
from slurmsched.simulator.traces.source import Source
from slurmsched.simulator.workload.synthetic_users import SyntheticUsers
from slurmsched.simulator.workload.workload import workload

SPEC = """\
[workload]
jobs = 50
load = 1.5
seed = 4
arrivals = "bursty"

[gpu_mix]
1 = 0.5
4 = 0.5

[habits]
users = 3
limits = false
"""


@pytest.fixture
def four(tmp_path: Path) -> str:
    """Jobs of 10, 20, 30 and 40 s, a minute apart."""
    path = tmp_path / "four.csv"
    jobs = workload(4, job_id=[1, 2, 3, 4], submit_s=[0, 60, 120, 180], runtime_s=[10, 20, 30, 40], gpus=[1] * 4)
    write(jobs, path)
    return str(path)


def test_a_synthetic_trace_is_made_for_the_cluster_at_its_load():
    source = Source.of("synthetic:200:1.2", 8)
    jobs = source.load().workload
    assert len(jobs) == 200
    assert jobs.gpus.max() <= 8
    work = float((jobs.runtime_s * jobs.gpus).sum())
    assert work / (8 * jobs.submit_s[-1]) == pytest.approx(1.2, rel=1e-3)


def test_the_seed_decides_what_is_made_up():
    source = Source.of("synthetic:100", 64)
    assert source.load(1).workload.equals(source.load(1).workload)
    assert not source.load(1).workload.equals(source.load(2).workload)
    assert source.load().workload.equals(source.load(0).workload)
    assert [str(note) for note in source.load(2).notes] == ["synthetic: 100 jobs made up from seed 2"]


def test_a_toml_file_says_what_to_make(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    source = Source.of(str(path), 16)
    jobs = source.load().workload
    assert source.seed == 4
    assert (len(jobs), set(jobs.gpus.tolist()), len(set(jobs.user))) == (50, {1, 4}, 3)
    assert np.isinf(jobs.time_limit_s).all()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("synthetic:", "accepted are synthetic:JOBS and synthetic:JOBS:LOAD"),
        ("synthetic:many", "accepted are synthetic:JOBS and synthetic:JOBS:LOAD"),
        ("synthetic:0", "jobs = 0: accepted are 1 and more"),
        ("synthetic:5:0", "load = 0.0: accepted are a number above 0"),
    ],
)
def test_a_synthetic_trace_that_cannot_be_is_refused(said, error):
    with pytest.raises(TraceError, match=error):
        Source.of(said, 8)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[workload]\njbos = 5\n", "'jbos' is no key; accepted are jobs, cluster_gpus, load"),
        ("[workload]\njobs = 0\n", "jobs = 0: accepted are 1 and more"),
        ("[gpu_mix]\nmany = 1.0\n", "accepted are GPUs = weight"),
        ("[gpu_mix]\n8 = 'often'\n", "8 = 'often': accepted is a number"),
        ("[habits]\nusers = 0\n", "users = 0: accepted are 1 and more"),
        ("jobs = 5\n", r"accepted are \[workload\], \[gpu_mix\], \[habits\]"),
    ],
)
def test_a_workload_file_that_makes_no_sense_is_refused(tmp_path, text, error):
    path = tmp_path / "spec.toml"
    path.write_text(text)
    with pytest.raises((TraceError, ConfigError), match=error):
        Source.of(str(path), 8)


def test_habits_are_attached_to_the_jobs_of_a_file(four):
    assert Source.of(four, 8).seed is None
    source = Source.of(four, 8, habits=SyntheticUsers())
    trace = source.load(7)
    assert all(trace.workload.user)
    assert trace.workload.user.equals(source.load(7).workload.user)
    assert trace.notes[-1].rule == "semi-synthetic"


def test_a_copy_is_the_trace_it_was_made_from(four, tmp_path):
    trace = Source.of(four, 8, habits=SyntheticUsers()).load(1)
    copy = Source.copy("kept", trace, str(tmp_path / "copy.csv")).load()
    assert copy.workload.equals(trace.workload)
    assert (copy.notes, copy.format) == (trace.notes, trace.format)


def test_a_case_chooses_jobs_and_then_scales_their_arrivals(four):
    case = Case(Source.of(four, 8), load=2.0, span="1:3")
    assert case.trace().workload.submit_s.tolist() == [60, 90]
    assert str(case) == f"{four}, load 2"


def test_forecasts_are_learnt_from_the_jobs_before_the_chosen_ones(four):
    def told(**how: str) -> list[str]:
        return list(Case(Source.of(four, 8), load=0.01, **how).foresight().source)

    assert told(span="3:") == ["median of 3 runs of /"]
    assert told(span="3:", train="1:3") == ["median of 2 runs of /"]
    assert told() == [
        "no history: the time limit",
        "median of 1 run of /",
        "median of 2 runs of /",
        "median of 3 runs of /",
    ]


def test_forecasts_are_never_learnt_from_the_jobs_that_are_replayed(four):
    with pytest.raises(TraceError, match=r"learning from jobs '0:3': accepted are jobs before those replayed, 0:2"):
        Case(Source.of(four, 8), span="2:", train="0:3").foresight()


def test_notes_count_one_job_as_one():
    raw = Raw({"submit_s": np.zeros(1)})
    for rows in (1, 2000):
        raw.note("runs", rows, "{earlier runs} of {jobs} left out")
    assert [str(note) for note in raw.notes] == [
        "1 earlier run of 1 job left out",
        "2,000 earlier runs of 2,000 jobs left out",
    ]

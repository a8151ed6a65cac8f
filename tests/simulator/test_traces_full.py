"""The whole public files, where they lie beside the repository: rows and totals, and how long reading takes."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from slurmsched.simulator import traces

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the public traces are not in {DATA}")


@cache
def whole(name: str) -> traces.Trace:
    """The jobs of a file, read once for several tests."""
    return traces.read(DATA / name, cpu_jobs=True)


@pytest.mark.parametrize(
    ("name", "rows", "left_out", "gpu_s"),
    [
        ("philly.csv", 82_247, 0, 3_521_082_502),
        ("philly_semisynthetic.csv.gz", 82_247, 0, 3_521_082_502),
        ("philly_oct_w1.csv", 10_650, 0, 308_890_315),
        ("philly_oct5_cap6h.csv", 3_205, 0, 15_570_353),
        ("chronus_philly_mix1.csv", 30_940, 0, 1_336_781_280),
        ("chronus_philly_mix2.csv", 30_940, 0, 1_364_311_320),
        ("pcs_trace_ee9e8c.csv", 5_452, 0, 2_085_065_704),
        ("pcs_trace_0e4a51.csv", 2_465, 0, 527_234_918),
        ("tiresias_60_job.csv", 60, 0, 26_624),
        ("nasa_ipsc_1993.swf.gz", 18_239, 173, 474_238_015),
        ("ub_week.events", 19_579, 27, 8_458_826),
        ("eagle_sample.csv", 1_000, 0, 36_486),
    ],
)
def test_all_rows_are_read_and_add_up(name, rows, left_out, gpu_s):
    trace = whole(name)
    assert len(trace) == rows - left_out
    assert sum(note.rows for note in trace.notes if note.text.endswith("left out")) == left_out
    assert float(np.sum(trace.workload.gpus * trace.workload.runtime_s)) == pytest.approx(gpu_s, abs=0.5)


def test_philly_adds_up_to_its_own_column():
    column = np.loadtxt(DATA / "philly.csv", delimiter=",", skiprows=1, usecols=3)
    jobs = whole("philly.csv").workload
    assert float(np.sum(jobs.gpus * jobs.runtime_s)) == column.sum()


@pytest.mark.parametrize(("mix", "jobs"), [("mix1", 5146), ("mix2", 5224)])
def test_the_first_day_of_chronus_has_as_many_jobs_as_its_authors_count(mix, jobs):
    trace = traces.read(DATA / f"chronus_philly_{mix}.csv")
    assert np.count_nonzero(trace.workload.submit_s <= 1440 * 60) == jobs


def test_semisynthetic_jobs_are_those_of_philly():
    real, made = (whole(name).workload for name in ("philly.csv", "philly_semisynthetic.csv.gz"))
    assert np.array_equal(made.submit_s, real.submit_s - real.submit_s[0])
    assert sorted(zip(made.submit_s.tolist(), made.runtime_s.tolist(), made.gpus.tolist(), strict=True)) == sorted(
        zip((real.submit_s - real.submit_s[0]).tolist(), real.runtime_s.tolist(), real.gpus.tolist(), strict=True)
    )


def test_philly_is_read_in_well_under_a_second():
    def took_s() -> float:
        start_s = time.process_time()  # whatever else this machine does
        traces.read(DATA / "philly.csv")
        return time.process_time() - start_s

    assert any(took_s() < 0.8 for _ in range(3))


@pytest.mark.parametrize("name", ["helios_venus_throughput.csv", "alibaba_openb_pods.csv", "lucid_single_data.csv"])
def test_what_is_no_list_of_jobs_is_not_taken_for_one(name):
    with pytest.raises(traces.TraceError, match="no format of traces begins with"):
        traces.read(DATA / name)

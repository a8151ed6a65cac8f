"""What the sampler says of a job's GPUs, asked through the real pynvml."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import shutil
import stat
import statistics
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from node_worlds import PROGRAMS, TWO_GPUS, V100_LINKS, four_gpus

from slurmsched.daemon.profiles.profile_record import read_record
from slurmsched.prolog.sampler import BINS, BLOCK, HUNG_S, RunningStatistics, Steadiness, first_record_s

FIGURES = ("gpu_util", "memory_util", "memory_mib", "power_w", "processes")


@pytest.mark.parametrize(
    "program", ["sampler.py", "deliver.py", "mps.py", "mps_faults.py", "amd.py", "watch.py", "probe.py"]
)
def test_programs_for_nodes_are_python_3_6_and_import_nothing_of_ours(program):
    tree = ast.parse((PROGRAMS / program).read_text(), feature_version=(3, 6))
    for found in ast.walk(tree):
        if isinstance(found, ast.ImportFrom):
            assert found.level == 0
            assert found.module in ("typing",)
        assert not isinstance(found, ast.Import) or not any(name.name.startswith("slurmsched") for name in found.names)


@given(st.lists(st.integers(0, BINS - 1), min_size=2, max_size=60))
def test_figures_of_whole_numbers_are_exact(values):
    running = RunningStatistics(1.0)
    for value in values:
        running.add(value)
    said = running.summary()
    assert said["n"] == len(values)
    assert said["max"] == max(values)
    assert said["mean"] == pytest.approx(statistics.fmean(values), abs=1e-3)
    assert said["var"] == pytest.approx(statistics.variance(values), abs=1e-3)
    for name, share in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95)):
        assert sum(value <= said[name] for value in values) >= share * len(values)
        assert sum(value < said[name] for value in values) < share * len(values)


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=60))
def test_percentiles_of_a_quantity_are_right_to_half_a_step(values):
    running = RunningStatistics(1000.0)
    for value in values:
        running.add(value)
    true = sorted(values)[-(-len(values) // 2) - 1]
    assert abs(running.percentile(0.5) - true) <= 500.0 + 1e-6


def test_nothing_measured_is_no_figure():
    assert RunningStatistics(1.0).summary() is None


def steadiness(levels):
    steady = Steadiness()
    for level in levels:
        for sample in range(BLOCK):
            steady.add(min(100.0, max(0.0, level + (20 if sample % 2 else -20))))
    return steady.unstable


def test_a_level_that_moves_is_unstable_and_jumping_samples_are_not():
    assert steadiness([50, 50, 50]) is None
    assert steadiness([50, 50, 50, 50]) is False
    assert steadiness([20, 80, 20, 80]) is True


def test_each_gpu_of_the_job_is_measured(node):
    began_s = time.monotonic()
    record = node.measure(5)
    elapsed_s = time.monotonic() - began_s
    assert {key: record[key] for key in ("version", "job_id", "node", "uid", "restart", "hung")} == {
        "version": 1,
        "job_id": 7,
        "node": "n1",
        "uid": 1000,
        "restart": 0,
        "hung": False,
    }
    busy, idle = record["gpus"]
    assert 4 <= busy["samples"] <= 2 + elapsed_s / 0.02, "it keeps to its interval"
    assert (busy["uuid"], busy["name"], busy["memory_total_mib"], busy["no_process"]) == ("GPU-0", "Scripted", 81920, 0)
    assert {name: busy[name]["mean"] for name in FIGURES} == {
        "gpu_util": 40.0,
        "memory_util": 10.0,
        "memory_mib": 1000.0,
        "power_w": 100.0,
        "processes": 1.0,
    }
    assert idle["no_process"] == idle["samples"] > 0
    assert [idle[name] for name in FIGURES] == [None] * 5


def test_gpus_that_no_process_uses_are_counted_with_the_time_since_the_last_one(node):
    record = node.measure(15, SLURMSCHED_IDLE_S="0.05")
    assert (record["idle_gpus"], record["idle_s"]) == (1, 0)
    (node.spool / node.files()[0]).unlink()
    node.script(TWO_GPUS + "#3 0 util 0/0\n#3 0 processes 0\n#6 1 processes 1\n")
    record = node.measure(90, SLURMSCHED_IDLE_S="1")
    assert record["idle_gpus"] == 1, "the first stopped after three samples, the second began after six"
    assert 1 <= record["idle_s"] <= record["end_s"] - record["start_s"]
    (node.spool / node.files()[0]).unlink()
    assert "idle_gpus" not in node.measure(2, SLURMSCHED_IDLE_S="0")


def test_only_the_gpus_of_the_job_are_measured_found_by_their_device_files(node):
    node.script(TWO_GPUS + "0 0 minor 5\n0 1 minor 4\n")
    record = node.measure(SLURM_JOB_GPUS="5", CUDA_VISIBLE_DEVICES="0")
    assert [gpu["uuid"] for gpu in record["gpus"]] == ["GPU-0"]


def test_the_links_of_the_node_are_recorded_with_the_gpus_that_the_job_has_of_it(node):
    node.script(four_gpus(*V100_LINKS))
    record = node.measure(SLURM_JOB_GPUS="0,1")
    assert record["links"] == {
        "counts": [[-1, 1, 1, 2], [1, -1, 2, 1], [1, 2, -1, 2], [2, 1, 2, -1]],
        "gpus": [0, 1],
    }
    (name,) = node.files()
    profile = read_record((node.spool / name).read_bytes(), time.time())
    assert (profile.link_gbps, profile.best_link_gbps) == (25.0, 50.0)


@pytest.mark.parametrize(
    ("ends", "gpus"),
    [((), "0,1"), (("0-99", "1-99", "2-99", "3-99"), "0,1"), (V100_LINKS, "2")],
    ids=["no link", "switches", "one GPU"],
)
def test_there_are_no_links_to_record_where_all_pairs_are_alike_or_there_is_no_pair(node, ends, gpus):
    node.script(four_gpus(*ends))
    assert "links" not in node.measure(SLURM_JOB_GPUS=gpus)


def test_zero_percent_no_process_and_not_measured_are_three_values(node):
    node.script("0 * gpus 3\n0 * processes 1\n0 0 util 0/0\n0 1 util 0/0\n0 1 processes 0\n")
    zero, nobody, unknown = node.measure(SLURM_JOB_GPUS="0,1,2")["gpus"]
    assert (zero["gpu_util"]["mean"], zero["no_process"]) == (0.0, 0)
    assert (nobody["gpu_util"], nobody["no_process"]) == (None, nobody["samples"])
    assert (unknown["gpu_util"], unknown["no_process"], unknown["processes"]["mean"]) == (None, 0, 1.0)


def test_load_without_a_process_in_sight_counts(node):
    node.script("0 * gpus 1\n0 * processes 0\n0 * util 70/5\n")
    (gpu,) = node.measure()["gpus"]
    assert (gpu["no_process"], gpu["gpu_util"]["mean"]) == (0, 70.0)


def test_clients_of_mps_count_and_their_server_does_not(node):
    server = node.home / "nvidia-cuda-mps-server"
    shutil.copy(shutil.which("sleep"), server)
    with subprocess.Popen([server, "60"]) as runs:
        node.script(TWO_GPUS + f"0 0 processes 1/{runs.pid}\n0 0 clients 2/900000\n0 1 processes 3\n")
        gpus = node.measure()["gpus"]
        runs.kill()
    assert [gpu["processes"]["mean"] for gpu in gpus] == [2, 3]


def test_a_slice_is_measured_by_its_uuid_as_far_as_it_tells(node):
    node.script("0 * gpus 2\n0 * mig 1\n0 * memory 500\n0 * processes 1\n0 * util error:2\n0 * power error:3\n")
    record = node.measure(SLURM_JOB_GPUS="0,1", CUDA_VISIBLE_DEVICES="MIG-1")
    (gpu,) = record["gpus"]
    assert (gpu["mig"], gpu["gpu_util"], gpu["power_w"], gpu["memory_mib"]["mean"]) == (True, None, None, 500.0)


def test_a_gpu_cut_into_slices_is_not_measured_as_a_whole(node):
    node.script(TWO_GPUS + "0 0 mig 1\n")
    assert [gpu["uuid"] for gpu in node.measure()["gpus"]] == ["GPU-1"]


def test_a_gpu_lost_on_the_way_keeps_what_it_said_and_the_other_goes_on(node):
    node.script(TWO_GPUS + "#5 0 memory error:15\n")
    lost, other = node.measure(8)["gpus"]
    assert (lost["lost"], other["lost"]) == (True, False)
    assert 0 < lost["samples"] < other["samples"]
    assert lost["gpu_util"]["mean"] == 40.0


def test_when_all_gpus_are_lost_the_record_is_written_at_once(node):
    node.script(TWO_GPUS + "#5 * util error:15\n")
    record = node.measure(1000)
    assert [gpu["lost"] for gpu in record["gpus"]] == [True, True]


def test_an_error_in_passing_costs_one_sample(node):
    node.script(TWO_GPUS + "#5 0 util error:999\n#10 0 util 60/20\n")
    gpu = node.measure(8)["gpus"][0]
    assert gpu["gpu_util"]["n"] < gpu["samples"] == gpu["memory_mib"]["n"]
    assert gpu["gpu_util"]["max"] == 60


def test_an_nvml_that_hangs_keeps_nobody_waiting(node):
    node.script(TWO_GPUS + "#5 1 util hang:600\n")
    record = node.measure(2)
    assert record["gpus"][0]["gpu_util"]["mean"] == 40.0


@pytest.mark.soak
def test_a_record_says_that_nvml_hung(node):
    node.script(TWO_GPUS + "#5 1 util hang:600\n")
    assert node.measure(2, then_s=HUNG_S + 1.0)["hung"]


@pytest.mark.parametrize(
    "script", ["0 * init hang:60\n", "0 * init error:9\n", "0 * gpus 0\n", "0 * gpus error:999\n", ""]
)
def test_where_nothing_can_be_measured_there_is_no_record(node, script):
    node.script(script)
    assert node.measure(0) == {}
    assert node.files() == []


def test_without_the_library_there_is_no_record(node):
    assert node.measure(LD_LIBRARY_PATH="") == {}


def test_pynvml_may_lie_beside_the_programs(node, tmp_path):
    node.programs = shutil.copytree(PROGRAMS, tmp_path / "programs", ignore=shutil.ignore_patterns("__pycache__"))
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without any site's packages
    bare.chmod(0o755)
    node.settings["PYTHON"] = str(bare)
    assert node.measure(0) == {}
    shutil.copy(inspect.getfile(importlib.import_module("pynvml")), node.programs)
    assert len(node.measure(2)["gpus"]) == 2


@pytest.mark.parametrize("name", ["../n1", ".n1", "", "n/1"])
def test_a_node_with_no_proper_name_writes_nothing(node, name):
    assert node.measure(SLURMD_NODENAME=name) == {}


def test_without_a_receiver_the_record_of_the_end_is_the_only_one(node):
    node.measure(10, SLURMSCHED_EARLY_S="0.05")
    (name,) = node.files()
    assert not name.endswith(".early.json")


@pytest.mark.parametrize(
    ("comment", "due_s"),
    [
        ("", 200.0),
        ("slurmsched:ckpt,coldstart=600", 800.0),
        ("mine slurmsched:coldstart=60;coldstart=x", 260.0),
        ("slurmsched:coldstart=99999", 86600.0),
        ("slurmsched:coldstart=1234567 slurmsched:coldstart=-1", 200.0),
        ("slurmsched:" * 20_000, 200.0),
    ],
)
def test_the_first_record_comes_after_the_warm_up_that_the_owner_declared(monkeypatch, comment, due_s):
    monkeypatch.setenv("SLURMSCHED_COLLECTOR", "127.0.0.1:9818")
    monkeypatch.setenv("SLURM_JOB_COMMENT", comment)
    assert first_record_s() == due_s


def test_the_daemon_believes_the_record(node):
    node.measure()
    (name,) = node.files()
    profile = read_record((node.spool / name).read_bytes(), time.time())
    assert (profile.job_id, profile.gpus, profile.gpu_util, profile.process_share) == (7, 2, 0.4, 0.5)
    assert profile.memory_mib == 1000.0


def test_the_page_describes_every_field(node):
    node.script(four_gpus(*V100_LINKS))
    record = node.measure()
    page = (PROGRAMS.parents[1] / "docs/profiling.md").read_text()
    for name in {*record, *record["gpus"][0], *record["gpus"][0]["gpu_util"]}:
        assert f"`{name}`" in page


def test_a_record_is_for_root_alone_and_leaves_no_draft(node):
    node.measure()
    (name,) = node.files()
    assert name.startswith("7.n1.")
    assert stat.S_IMODE((node.spool / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(node.spool.stat().st_mode) == 0o700


def test_a_spool_that_others_can_write_is_not_used(node):
    node.spool.mkdir()
    node.spool.chmod(0o777)
    assert node.measure() == {}


def test_a_link_in_place_of_the_spool_is_not_followed(node):
    elsewhere = node.home / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    node.spool.symlink_to(elsewhere)
    node.measure()
    assert list(elsewhere.iterdir()) == []


def test_old_records_make_room_for_new_ones(node):
    node.spool.mkdir(mode=0o700)
    for number in range(4):
        old = node.spool / f"{number}.n1.1.json"
        old.write_bytes(b"{}".ljust(6000))
        os.utime(old, (time.time() - 100 + number,) * 2)
    ancient = node.spool / ".draft.of.a.killed.sampler"
    ancient.touch()
    os.utime(ancient, (0, 0))
    node.measure(SLURMSCHED_SPOOL_MIB="0.016")
    assert [name.split(".")[0] for name in node.files()] == ["2", "3", "7"]
    assert sum((node.spool / name).stat().st_size for name in node.files()) <= 0.016 * 2**20


def test_a_record_larger_than_the_spool_is_not_written(node):
    node.measure(SLURMSCHED_SPOOL_MIB="0.0001")
    assert node.files() == []

"""The sampler on AMD's GPUs, with a stand-in for amdsmi beside it."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from node_worlds import PROGRAMS

from slurmsched.daemon.profiles.profile_record import read_record
from slurmsched.lab.waiting import wait_until
from slurmsched.prolog.amd import Amd
from slurmsched.prolog.sampler import Gpu, find_gpus

ASKED = 40  #: questions about processes that a sampler has asked before it is told to stop
LIBRARY = Path(__file__).parent / "amd_library"


@pytest.fixture
def library():
    """The stand-in, as the sampler imports it."""
    sys.path.insert(0, str(LIBRARY))
    try:
        yield importlib.import_module("amdsmi")
    finally:
        sys.path.remove(str(LIBRARY))
        sys.modules.pop("amdsmi", None)


def measured(tmp_path: Path, gpus: str, **more: str) -> bytes | None:
    """The record of a sampler that stands beside the stand-in and measures for a while; None without any."""
    programs, spool = tmp_path / "programs", tmp_path / "spool"
    programs.mkdir()
    for program in ("sampler.py", "amd.py"):
        shutil.copy(PROGRAMS / program, programs)
    shutil.copy(LIBRARY / "amdsmi.py", programs)
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "1000", "SLURM_JOB_GPUS": gpus, "SLURMD_NODENAME": "n1"}
    ours = {"SLURMSCHED_SPOOL_DIR": str(spool), "SLURMSCHED_EVERY_S": "0.02"}
    ours |= {"SLURMSCHED_PID_FILE": str(tmp_path / "p"), "FAKE_AMD_ASKED": str(asked := tmp_path / "asked")}
    running = subprocess.Popen(
        [sys.executable, "-I", str(programs / "sampler.py")],
        env={name: text for name, text in os.environ.items() if name != "LD_LIBRARY_PATH"} | job | ours | more,
        preexec_fn=lambda: (tmp_path / "p").write_text(str(os.getpid())) and None,
    )
    try:
        wait_until(
            lambda: running.poll() is not None or (asked.exists() and asked.stat().st_size > ASKED), 60.0, "questions"
        )
        running.terminate()
        running.wait(60.0)
    finally:
        running.kill()
    found = sorted(spool.glob("*.json")) if spool.exists() else []
    return found[-1].read_bytes() if found else None


def test_the_record_of_amds_gpus_is_that_of_nvidias(tmp_path):
    body = measured(tmp_path, "0,1")
    assert body is not None
    one, other = json.loads(body)["gpus"]
    assert (one["name"], one["memory_total_mib"], one["mig"]) == ("AMD Instinct MI300X", 192 * 1024, False)
    figures = {name: one[name]["mean"] for name in ("gpu_util", "memory_util", "memory_mib", "power_w", "processes")}
    assert figures == {"gpu_util": 80, "memory_util": 20, "memory_mib": 4096, "power_w": 500, "processes": 1}
    assert other["no_process"] == other["samples"] > 0, "a GPU without a process is no GPU at 0 %"
    profile = read_record(body, time.time())
    assert (profile.gpus, profile.gpu_util) == (2, pytest.approx(0.8))
    assert profile.process_share == pytest.approx(0.5, abs=0.1)


def test_without_a_driver_of_either_there_is_no_measurement(tmp_path):
    body = measured(tmp_path, "0", FAKE_AMD="none")
    assert body is None or b'"gpus": []' in body


def test_gpus_are_found_by_place_or_by_their_device_files(library, tmp_path):
    for bus, number in (("0000:05:00.0", 136), ("0000:26:00.0", 128)):
        (tmp_path / bus / "drm" / f"renderD{number}").mkdir(parents=True)
        (tmp_path / bus / "drm" / "card1").mkdir()
    for gpus, uuids in (("0", ["one"]), ("1", ["two"]), ("128", ["two"]), ("128,136", ["one", "two"]), ("129", [])):
        nvml = Amd(library, gpus, str(tmp_path))
        nvml.nvmlInit()
        assert [gpu.uuid.rpartition("-")[2] for gpu in find_gpus(nvml, gpus, "")] == uuids


def test_what_the_library_does_not_tell_is_not_measured(library):
    nvml = Amd(library, "1")
    nvml.nvmlInit()
    readings = Gpu(nvml, "two", False).read()
    assert readings == {"gpu_util": 0.0, "memory_mib": 283.0, "power_w": 130.0, "processes": 0}


def test_a_call_that_is_refused_costs_its_own_figure(library):
    os.environ["FAKE_AMD"] = "refused"
    try:
        nvml = Amd(library, "0")
        nvml.nvmlInit()
        gpu = Gpu(nvml, "one", False)
        assert set(gpu.read()) == set(gpu.read()) == {"gpu_util", "memory_util", "memory_mib", "power_w"}
    finally:
        del os.environ["FAKE_AMD"]
    assert not gpu.lost

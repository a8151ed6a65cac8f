"""job_submit.lua lets new jobs for GPUs of any type wait a moment, where it is told to, and no others."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "contrib/slurm.conf.d/job_submit.lua"
LUA = shutil.which("lua5.1")

pytestmark = pytest.mark.skipif(LUA is None, reason="lua5.1 is not installed")

UNSAID = 4294967294
DELAY_S = 20
TICK_S = 0.02  #: by which the clock of time(2), and so Lua's, may be behind

HARNESS = """
slurm = {{ SUCCESS = 0, ERROR = -1 }}
function slurm.log_user(...) end
function slurm.log_info(...) io.stderr:write(string.format(...), "\\n") end
assert(dofile(arg[1]) == slurm.SUCCESS)
local job = {{ {job} }}
print(slurm_job_submit(job, {{}}, 1000), job.begin_time)
"""
JOB = {"script": "#!/bin/sh", "tres_per_node": "gres:gpu:1", "het_job_offset": UNSAID, "begin_time": 0}


def lua(value: object) -> str:
    return "nil" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


@pytest.fixture
def begins(tmp_path):
    """Submits a job; its begin time in seconds from now, None where that is not set."""

    def submit(delay_s=DELAY_S, power="STEER", **job):
        script, harness = tmp_path / "job_submit.lua", tmp_path / "harness.lua"
        setting = f"local {power}_DELAY_S = "
        script.write_text(SCRIPT.read_text().replace(f"{setting}0", f"{setting}{delay_s}"))
        columns = (JOB | job).items()
        harness.write_text(HARNESS.format(job=", ".join(f"{key} = {lua(value)}" for key, value in columns)))
        before_s = int(time.time() - TICK_S)
        done = subprocess.run([LUA, harness, script], capture_output=True, text=True, timeout=300, check=True)
        assert done.stderr == ""
        answer, begin = done.stdout.split()
        assert answer == "0"
        return None if begin in ("nil", "0") else (int(begin), before_s)

    return submit


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"tres_per_node": "gres/gpu=2"},
        {"tres_per_node": "gpu"},
        {"tres_per_node": None, "tres_per_job": "gres:gpu:8"},
        {"tres_per_node": None, "tres_per_task": "gres/gpu:1"},
        {"begin_time": 5},
        {"comment": "slurmsched:ckpt,types=a100"},
        {"array_inx": "1-10"},
    ],
    ids=str,
)
def test_a_new_job_for_gpus_of_any_type_waits_until_the_daemon_has_seen_it(begins, job):
    begin_s, before_s = begins(**job)
    assert before_s + DELAY_S <= begin_s <= int(time.time()) + DELAY_S


@pytest.mark.parametrize(
    "job",
    [
        {"delay_s": 0},
        {"tres_per_node": "gres:gpu:a100:1"},
        {"tres_per_node": "gres/gpu:a100=2"},
        {"tres_per_node": "gres:gpu:1", "tres_per_job": "gres:gpu:a100:2"},
        {"tres_per_node": None},
        {"tres_per_node": "gres:shard:4"},
        {"script": None},
        {"het_job_offset": 0},
        {"req_nodes": "n1"},
        {"exc_nodes": "n1"},
        {"features": "ib"},
        {"reservation": "class"},
        {"comment": "see slurmsched:off"},
    ],
    ids=str,
)
def test_any_other_job_starts_when_it_can(begins, job):
    assert begins(**job) is None


@pytest.mark.parametrize("said", ["cpus=4-16", "ckpt,mem=16G-64G", "cpus=4"])
def test_a_new_job_that_names_its_size_waits_until_the_daemon_has_seen_it(begins, said):
    job = {"comment": f"slurmsched:{said}", "tres_per_node": "gres:gpu:a100:1", "features": "ib"}
    begin_s, before_s = begins(power="RIGHTSIZE", **job)
    assert before_s + DELAY_S <= begin_s <= int(time.time()) + DELAY_S
    assert begins(**job) is None, "it asks for a type"


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"comment": "slurmsched:ckpt"},
        {"comment": "slurmsched:cpus=4-16,off"},
        {"comment": "slurmsched:cpus=4-16", "script": None},
        {"comment": "slurmsched:cpus=4-16", "reservation": "class"},
        {"comment": "slurmsched:cpus=4-16", "delay_s": 0},
    ],
    ids=str,
)
def test_a_job_that_names_none_starts_when_it_can(begins, job):
    assert begins(power="RIGHTSIZE", **job) is None


def test_a_later_begin_time_of_the_users_stays(begins):
    later_s = int(time.time()) + 3600
    assert begins(begin_time=later_s)[0] == later_s

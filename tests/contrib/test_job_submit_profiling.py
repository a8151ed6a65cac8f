"""job_submit.lua lets new jobs start in the profiling partition too, where it is told to, and only those that may."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "contrib/slurm.conf.d/job_submit.lua"
LUA = shutil.which("lua5.1")

pytestmark = pytest.mark.skipif(LUA is None, reason="lua5.1 is not installed")

UNSAID, ENDLESS = 4294967294, 4294967295
HARNESS = """
slurm = {{ SUCCESS = 0, ERROR = -1 }}
function slurm.log_user(...) end
function slurm.log_info(...) io.stderr:write(string.format(...), "\\n") end
{before}
assert(dofile(arg[1]) == slurm.SUCCESS)
local partitions = {{ {partitions} }}
local job = {{ {job} }}
print(slurm_job_submit(job, partitions, 1000), job.partition, job.time_limit)
"""
JOB = {"script": "#!/bin/sh", "tres_per_node": "gres:gpu:1", "min_nodes": UNSAID, "max_nodes": UNSAID,
       "time_limit": UNSAID, "array_inx": None, "het_job_offset": UNSAID}  # fmt: skip
GPU = {"max_time": ENDLESS, "default_time": 60, "flag_default": 1}
PROFILE = {"max_time": ENDLESS, "default_time": 60, "flag_default": 0}


def lua(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"[{lua(key)}] = {lua(each)}" for key, each in value.items()) + " }"
    return {None: "nil"}.get(value) or (f'"{value}"' if isinstance(value, str) else str(value))


@pytest.fixture
def submitted(tmp_path):
    """Submits a job to a slurmctld with these partitions; its partition and time limit afterwards."""
    script = tmp_path / "job_submit.lua"

    def submit(partitions=None, before="", partition_of_ours="profile", **job):
        text = SCRIPT.read_text().replace('PROFILE_PARTITION = ""', f'PROFILE_PARTITION = "{partition_of_ours}"')
        script.write_text(text)
        known = {"gpu": GPU, "profile": PROFILE, "debug": GPU | {"flag_default": 0}} | (partitions or {})
        harness = tmp_path / "harness.lua"
        harness.write_text(
            HARNESS.format(
                before=before,
                partitions=lua(known)[1:-1],
                job=", ".join(f"{key} = {lua(value)}" for key, value in (JOB | job).items()),
            )
        )
        done = subprocess.run([LUA, harness, script], capture_output=True, text=True, timeout=300, check=True)
        assert done.stderr == ""
        answer, partition, limit = done.stdout.split()
        assert answer == "0"
        return partition, limit

    return submit


def test_a_new_job_may_start_in_its_own_partition_too_and_keeps_its_time_limit(submitted):
    assert submitted() == ("profile,gpu", str(UNSAID))
    assert submitted(time_limit=7) == ("profile,gpu", "7")
    assert submitted(partition="debug,gpu")[0] == "profile,debug,gpu"


def test_nothing_changes_where_no_profiling_partition_is_named_or_none_of_that_name_is_open_to_the_user(submitted):
    assert submitted(partition_of_ours="") == ("nil", str(UNSAID))
    assert submitted(partition_of_ours="elsewhere")[0] == "nil"


@pytest.mark.parametrize(
    "job",
    [
        {"script": None},
        {"comment": "hello slurmsched:noprofile"},
        {"comment": "slurmsched:ckpt,off"},
        {"array_inx": "1-10"},
        {"het_job_offset": 0},
        {"req_nodes": "n1"},
        {"reservation": "mine"},
        {"tres_per_node": None},
        {"tres_per_node": "gres:gpu:9"},
        {"tres_per_node": "gres:gpu:3", "min_nodes": 3, "max_nodes": 3},
        {"tres_per_node": "gres:gpu:1", "min_nodes": 2, "max_nodes": 4},
        {"tres_per_node": None, "tres_per_socket": "gres:gpu:1"},
        {"tres_per_node": None, "tres_per_task": "gres:gpu:1", "num_tasks": UNSAID},
        {"partition": "profile"},
        {"partition": "hidden"},
    ],
    ids=lambda job: str(sorted(job.items())),
)
def test_a_job_that_is_not_to_be_measured_first_stays_as_it_is(submitted, job):
    assert submitted(**job)[0] == str(job.get("partition", "nil"))


@pytest.mark.parametrize(
    "request_of",
    [
        {"tres_per_node": "gres/gpu:8"},
        {"tres_per_node": "gres:gpu:a100:4", "min_nodes": 2, "max_nodes": 2},
        {"tres_per_node": "gres/gpu"},
        {"tres_per_node": None, "tres_per_job": "gres/gpu=a100:8"},
        {"tres_per_node": None, "tres_per_task": "gres/gpu:2", "num_tasks": 4},
        {"comment": "slurmsched:ckpt,coldstart=60"},
    ],
    ids=str,
)
def test_gpus_are_counted_in_every_spelling(submitted, request_of):
    assert submitted(**request_of)[0] == "profile,gpu"


def test_a_job_is_not_sent_where_its_time_limit_would_mean_something_else(submitted):
    short, other = PROFILE | {"max_time": 100}, PROFILE | {"default_time": 5}
    assert submitted({"profile": short}, time_limit=101)[0] == "nil"
    assert submitted({"profile": short}, time_limit=100)[0] == "profile,gpu"
    assert submitted({"profile": short})[0] == "nil"
    assert submitted({"profile": other})[0] == "nil"
    assert submitted({"profile": other}, time_limit=7)[0] == "profile,gpu"


def test_a_script_of_the_sites_has_the_first_word(submitted):
    moves = 'function slurm_job_submit(job) job.partition = "debug" return slurm.SUCCESS end'
    assert submitted(before=moves)[0] == "profile,debug"

"""The options of sbatch, as far as an answer about a new job needs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.nodes import PartitionTable
from slurmsched.cluster.permissions import OLDEST, SINCE_24_11, SINCE_25_11, SINCE_26_05, Permissions, Release
from slurmsched.cluster.sbatch_probe import PROBE_ID, Probe, Site, probe
from slurmsched.cluster.sbatch_request import request_of
from slurmsched.cluster.text.sbatch import as_text, not_understood, read_job, read_options
from slurmsched.cluster.text.sbatch_options import (
    ALIASES,
    COUNTED,
    FLAGS,
    NOT_UNDERSTOOD,
    OPTIONAL,
    SHORT,
    VARIABLES,
    WITHOUT_EFFECT,
)
from slurmsched.errors import CommentError, ConfigError
from slurmsched.policies.selection.could_hold import never
from slurmsched.simulator.cluster_spec import nodes_of

NOW_S = 1_000_000.0
GOLDEN = Path(__file__).parent.parent / "golden"


def site(partitions: str = "gpu*", default_s: float = np.nan, max_s: float = np.inf, **nodes: object) -> Site:
    """Four nodes of 8 CPUs, 16,000 MiB and 8 GPUs in all *partitions*, of which one with ``*`` is the default."""
    names = [name.rstrip("*") for name in partitions.split(",")]
    columns: dict[str, object] = {
        "cpus": np.full(4, 8), "memory_mib": np.full(4, 16000.0), "features": Labels.of(["a,ib"] * 4),
        "partitions": Labels.of([",".join(names)] * 4),
    }  # fmt: skip
    return Site(
        table_of(
            PartitionTable,
            len(names),
            {"tier": 1, "up": True, "max_time_s": max_s, "default_time_s": default_s},
            {"name": names, "default": [name.endswith("*") for name in partitions.split(",")]},
        ),
        nodes_of(4, 8, **columns | nodes),
    )


def tried(text: str, where: Site | None = None, zone: object = UTC, now_s: float = NOW_S) -> Probe:
    return probe(read_options(text), "alice", now_s, zone, where or site())


def job(text: str, where: Site | None = None, **more: object):
    return tried(text, where, **more).job


@pytest.mark.parametrize(
    ("text", "gpus", "nodes"),
    [
        ("-G 4", 4, 1),
        ("-G4", 4, 1),
        ("--gpus 4 -N 2", 4, 2),
        ("--gres=gpu:4 -N2", 8, 2),
        ("--gpus-per-node=2 --nodes=3-4", 6, 3),
        ("--gpus-per-task=1 -n 6", 6, 1),
        ("--gpus-per-socket=2 --sockets-per-node=2 -N2", 8, 2),
        ("--ntasks-per-gpu=2 -n 8", 4, 1),
        ("sbatch -G2 --mem=4G train.sh -G 9", 2, 1),
        ("-N 2", 0, 2),
        ("--mem 4G -x n1 -HQ --no-kill -G 3 -d afterok:7 train.sh", 3, 1),
        ("--gpus-per-n 2 --nodes 2", 4, 2),
        ("-G 1 -G 5", 5, 1),
    ],
)
def test_gpus_and_nodes_are_counted_as_slurm_does(text, gpus, nodes):
    asked = job(text)
    assert (asked.gpus.tolist(), asked.nodes.tolist()) == ([gpus], [nodes])


def test_a_type_of_digits_alone_is_a_type_where_a_number_follows():
    where = site(gpu_type=Labels.of(["3090"] * 4))
    for text in ("--gres=gpu:3090:2", "--gpus=3090:2", "--gpus-per-node=3090:2"):
        asked = job(text, where)
        assert (asked.gpus[0], asked.gpu_type[0]) == (2, "3090")


def test_the_rest_of_what_matters_is_read_too():
    asked = job("-p gpu -t 2:00:00 -J train_1 -A Astro --comment='x; slurmsched:deadline=+6h,ckpt' -G 1")
    assert asked.time_limit_s.tolist() == [7200.0]
    assert asked.deadline_s.tolist() == [NOW_S + 6 * 3600]
    assert (asked.name[0], asked.account[0], asked.user[0], asked.partition[0]) == ("train_1", "astro", "alice", "gpu")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-t soon", "Invalid --time specification"),
        ("-N 0", "a job without nodes"),
        ("-N 4-2", "Maximum node count 2 is less than minimum node count 4"),
        ("-N=2", '"=2" is not a valid node count'),
        ("-n 0", 'Invalid numeric value "0" for --ntasks.'),
        ("--gres=gpu:", "Invalid generic resource"),
        ("-G 2,a100:2", "with and without type identification"),
        ("-G 3 --gpus-per-node=2", "is not multiple of"),
        ("--gpus-per-task=2", "without either --gpus or -n/--ntasks"),
        ("--gpus-per-socket=1", "requires --sockets-per-node"),
        ("--mem lots", "Invalid --mem specification"),
        ("--mem-per-cpu=1.5G", "Invalid --mem-per-cpu specification"),
        ("--mem=1G --mem-per-cpu=1G", "mutually exclusive"),
        ("-c two", 'Invalid numeric value "two" for --cpus-per-task.'),
        ("-Z 1", "invalid option -- 'Z'"),
        ("--quantum=3", "unrecognized option '--quantum'"),
        ("--hold=yes", "option '--hold' doesn't allow an argument"),
        ("--nodes", "option '--nodes' requires an argument"),
        ("-J 'half", "cannot be read"),
        ("-p cpu", "Invalid partition name specified.*one of gpu"),
        ("-C h100", "Invalid feature specification"),
        ("-w n9", "Invalid node name specified"),
        ("-w n1 -x n[1-2]", "Invalid node name specified"),
        ("-a 4-1", "Invalid job array specification"),
        ("--begin=soon", "Invalid --begin specification"),
        ("--exclusive=me", "Invalid --exclusive specification"),
        ("--gres=gpu:16", "Requested node configuration is not available"),
        ("--mem=17000", "Memory specification can not be satisfied"),
        ("-m plane=2 -N 4", "Too few processes for the requested {plane,node} distribution"),
        ("-m plane=2 -N 4 -n 6", "Too few processes"),
        ("-m plane=2,pack", "Invalid --distribution specification"),
        ("-G1 : -G2", "several components"),
    ],
)
def test_what_sbatch_refuses_is_refused_with_its_words(text, words):
    with pytest.raises(ConfigError, match=words):
        job(text)


@pytest.mark.parametrize("text", ["-m plane=2 -N 4 -n 7", "-m plane=4 -n 3", "-m plane=2 -N 2 --ntasks-per-node=2"])
def test_a_distribution_in_planes_with_a_task_on_each_node_is_taken(text):
    assert len(job(text)) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--comment=slurmsched:deadlin=+6h", "did you mean deadline"),
        ("--comment=slurmsched:deadline=2001-01-01T00:00", "has passed"),
    ],
)
def test_a_comment_that_means_nothing_is_refused(text, words):
    with pytest.raises(CommentError, match=words):
        job(text, now_s=1.7e9)


def test_a_local_time_that_happens_twice_is_refused():
    with pytest.raises(CommentError, match="happens twice"):
        job("--comment=slurmsched:deadline=2026-10-25T02:30", zone=ZoneInfo("Europe/Berlin"))


def test_a_job_that_names_no_partition_goes_to_the_default_one():
    assert job("-G 1", site("fast,gpu*")).partition[0] == "gpu"
    with pytest.raises(ConfigError, match="system default partition; say -p and one of gpu, fast"):
        job("-G 1", site("gpu,fast"))


def test_a_job_that_names_no_limit_gets_that_of_its_partition():
    assert job("-G 1", site(default_s=3600.0, max_s=7200.0)).time_limit_s[0] == 3600.0
    assert job("-G 1", site(max_s=7200.0)).time_limit_s[0] == 7200.0
    assert np.isinf(job("-G 1").time_limit_s[0])
    assert np.isinf(job("-G 1 -t 0", site(default_s=3600.0)).time_limit_s[0])


@pytest.mark.parametrize(
    ("text", "limit_s"),
    [("90", 5400), ("1:30", 120), ("0:1", 60), ("2:00:00", 7200), ("2-", 172800), ("1-2", 93600), ("1-2:3:4", 93840)],
)
def test_limits_are_whole_minutes_as_slurm_has_them(text, limit_s):
    assert job(f"-t {text}").time_limit_s[0] == limit_s


@pytest.mark.parametrize(
    ("text", "memory_mib"),
    [
        ("--mem=1gb", 1024), ("--mem=64G -N2", 0), ("--mem=4g -N2", 8192), ("--mem=1k", 1),
        ("--mem-per-cpu=500 -n3", 1500), ("-G 4 --mem-per-gpu=1G", 4096), ("--mem=0", 16000),
        ("--mem=0 -N2", 32000), ("--mem-per-cpu=0", 16000),
    ],
)  # fmt: skip
def test_memory_is_counted_in_all_its_units_and_0_is_all_of_each_node(text, memory_mib):
    if not memory_mib:
        with pytest.raises(ConfigError, match="Memory specification"):
            job(text)
        return
    assert job(text).memory_mib.tolist() == [memory_mib]


def test_cpus_features_and_nodes_are_counted_too():
    asked = job("-N 2 --ntasks-per-node=4 -c 2 -C 'ib&a' -w n[1-2] -x n4 --exclusive -G 4")
    assert asked.cpus.tolist() == [16]
    assert (asked.features[0], asked.required_nodes[0], asked.exclusive.tolist()) == ("ib&a", "n1,n2", [True])
    assert asked.excluded_nodes[0] == "n4"
    assert job("-G 4 --cpus-per-gpu=6").cpus.tolist() == [24]
    assert job("--exclusive --oversubscribe").exclusive.tolist() == [False]


def test_cpus_over_several_nodes_need_as_many_nodes_as_hold_them():
    assert job("-n 20").nodes.tolist() == [3]
    assert job("-n 8").nodes.tolist() == [1]
    assert job("-n 3 -c 5").nodes.tolist() == [3]
    assert job("-n 4 --mem-per-cpu=8000").nodes.tolist() == [2]
    assert job("-n 5 --ntasks-per-node=2").nodes.tolist() == [3]
    assert job("-n 20 --mem=4000").memory_mib.tolist() == [12000]


def test_an_array_a_hold_and_a_begin_time_are_counted():
    array = job("-a 1-9:2,20%2")
    assert (array.tasks.tolist(), array.array_job_id[0] > 0) == ([6], True)
    assert job("-H").reason[0] == "JobHeldUser"
    later = job("--begin=now+2hours")
    assert (later.eligible_s.tolist(), later.reason[0]) == ([NOW_S + 7200], "BeginTime")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("-G 4 -o out.txt --mail-type=END -D /tmp --wrap='sleep 1'", ()),
        ("-L x -G 4 --nice", ("--nice", "--licenses=x (how many are free was not read)")),
        ("-C 'a|ib'", ()),
        ("-C '[a*2&ib'", ("--constraint=[a*2&ib",)),
        ("-C 'a&ib'", ()),
    ],
)
def test_what_is_not_understood_is_named(text, parts):
    assert tried(text).not_understood == parts


def odd_site() -> Site:
    """Four nodes, of which the first two have a disk, and threads, and the last one bandwidth to share."""
    return site(
        disk_mib=np.array([9000.0, 9000.0, 0.0, 0.0]),
        sockets=np.full(4, 1),
        cores=np.full(4, 4),
        threads=np.array([2, 2, 1, 1]),
        other_gres=Labels.of(["", "", "", "bw=10+tape:lto=2"]),
    )


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("--tmp=9000", "n[3-4]"),
        ("--tmp=0", ""),
        ("--tmp=9G -x n1", None),
        ("--tmp=8G -x n1", "n[1,3-4]"),
        ("--threads-per-core=2 -N 2", "n[3-4]"),
        ("--threads-per-core=2 -N 3", None),
        ("--threads-per-core=3", None),
        ("--sockets-per-node=2", None),
        ("--cores-per-socket=4", ""),
        ("--cores-per-socket=5", None),
        ("-B 1:4:2", "n[3-4]"),
        ("-B *:*:2", "n[3-4]"),
        ("-B 2", None),
        ("--gres=bw:10", "n[1-3]"),
        ("--gres=bw:11", None),
        ("--gres=bw:lto:1", None),
        ("--gres=tape:lto:2", "n[1-3]"),
        ("--gres=tape:3", None),
        ("--gres=lustre", None),
        ("--gres=bw:10 -N 2", None),
        ("--gres=bw:1 -w n1", None),
    ],
)
def test_nodes_that_do_not_meet_an_option_are_left_out_and_a_job_for_too_few_is_refused(text, without):
    if without is None:
        with pytest.raises(ConfigError, match="Requested node configuration is not available"):
            job(text, odd_site())
    else:
        assert job(text, odd_site()).excluded_nodes[0] == without


def test_parts_of_nodes_that_were_not_read_refuse_nothing_and_are_named():
    assert tried("--tmp=9000").not_understood == ("--tmp=9000 (how large the disks of nodes are is not read)",)
    assert tried("--cores-per-socket=5").not_understood == ("--cores-per-socket=5",)
    assert tried("--gres=bw:10", odd_site()).not_understood == ("--gres=bw:10 (how much of it is in use is not read)",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--prefer=nosuch", "Invalid preferred feature specification"),
        ("--prefer=ib&nosuch", "Invalid preferred feature specification"),
        ("-C ib --batch=a", "Job --batch option is invalid"),
        ("-d expand:5", "Requested operation not supported"),
        ("-d nosuch:5", "Job dependency problem"),
        ("-d afterok:abc", "Job dependency problem"),
        ("-d afterok", "Job dependency problem"),
        ("--mail-type=NOSUCH", "Invalid --mail-type"),
        ("--mail-type=FAILED,done", "Invalid --mail-type"),
        ("--kill-on-invalid-dep=maybe", "Invalid --kill-on-invalid-dep"),
        ("--signal=XYZ@10", "Invalid --signal"),
        ("--open-mode=x", "Invalid --open-mode"),
        ("--gres-flags=nosuch", "Invalid --gres-flags"),
        ("--propagate=NOSUCH", "Bad rlimit name: NOSUCH"),
        ("--propagate=core", "Bad rlimit name: core"),
        ("--gpu-freq=nosuch", "Invalid --gpu-freq"),
        ("--cpu-freq=nosuch", "Invalid --cpu-freq"),
        ("--acctg-freq=nosuch", "Invalid --acctg-freq"),
        ("--wait-all-nodes=5", "Invalid --wait-all-nodes"),
        ("--hint=fast", "Invalid --hint"),
        ("--nice=2147483650", "out of range"),
    ],
)
def test_words_that_sbatch_does_not_know_are_refused(text, words):
    with pytest.raises(ConfigError, match=words):
        tried(text)


@pytest.mark.parametrize(
    "text",
    [
        "--prefer=ib",
        "-C a&ib --batch=ib",
        "-d afterok:5:6_2,after:7+10 --kill-on-invalid-dep=yes",
        "-d singleton?afterany:3_*",
        "--mail-type=END,FAILED",
        "--mail-type=end,FAIL,TIME_LIMIT_80 --signal=B:USR1@300 --open-mode=append",
        "--signal=SIGTERM --propagate=STACK,RLIMIT_CORE --gres-flags=enforce-binding --hint=nomultithread",
        "--cpu-freq=low-high:performance --gpu-freq=medium,memory=900 --acctg-freq=task=30,energy=10",
    ],
)
def test_words_that_sbatch_knows_are_taken(text):
    assert tried(text).job.job_id.tolist() == [PROBE_ID]


def test_a_reservation_is_named_first():
    assert tried("--reservation=x").not_understood[0].startswith("--reservation=x")


SCRIPT = b"""#!/bin/bash
#SBATCH --job-name=train --gpus 4   # four of them
  # an indented comment

#SBATCH -p gpu
#SBATCH --comment="slurmsched:ckpt; x" --mem
#SBATCH 4G
#SBATCH -t 2:00:00
srun train
#SBATCH -G 9
"""


def test_a_script_is_read_up_to_its_first_command():
    assert read_job(SCRIPT, {}, "") == {
        "job-name": "train", "gpus": "4", "partition": "gpu", "comment": "slurmsched:ckpt; x", "mem": "4G",
        "time": "2:00:00",
    }  # fmt: skip
    assert read_job(b"#!/bin/sh\necho hello\n", {}, "") == {}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (b"", "Batch script is empty!"),
        (b" \n", "contains only whitespace"),
        (b"echo hello\n", "This does not look like a batch script"),
        (b"#!/bin/sh\r\n#SBATCH -G1\r\n", "DOS line breaks"),
        (b"#!/bin/sh\n\0", "NULL character"),
        (b"#!/bin/sh\n#SBATCH --job-name=big run\n", "Invalid directive found in batch script: run"),
        (b"#!/bin/sh\n#SBATCH -p gpu    (the queue)\n", r"Invalid directive found in batch script: \(the"),
        (b"#!/bin/sh\n#SBATCH -J 'half\n", "Unmatched"),
        (b"#!/bin/sh\n#SBATCH -G 1\n#SBATCH hetjob\n#SBATCH -G 2\n", "line 3: a job of several components"),
        (b"#!/bin/sh\n#PBS -l nodes=2\n", "line 2: #PBS lines cannot be tried out"),
        (b"#!/bin/sh\n" + b"#" * 2**22, "too long"),
    ],
)
def test_scripts_that_sbatch_does_not_take_are_refused(script, words):
    with pytest.raises(ConfigError, match=words):
        read_job(script, {}, "")


def test_the_environment_overrides_the_script_and_the_command_line_both():
    script = b"#!/bin/sh\n#SBATCH -p cpu -t 10 --exclusive\n"
    environment = {"SBATCH_PARTITION": "gpu", "SBATCH_TIMELIMIT": "3:00:00", "SBATCH_OVERCOMMIT": "no"}
    assert read_job(script, environment, "-t 20") == {"partition": "gpu", "time": "20", "exclusive": ""}


def test_memory_of_the_environment_gives_way_to_what_was_written():
    written = b"#!/bin/sh\n#SBATCH --mem=1G\n"
    assert read_job(written, {"SBATCH_MEM_PER_CPU": "2G"}, "") == {"mem": "1G"}
    with pytest.raises(ConfigError, match="mutually exclusive"):
        read_job(written, {}, "--mem-per-cpu=2G")


def test_threads_of_the_environment_give_way_to_a_hint_that_was_written():
    threads = {"SBATCH_THREADS_PER_CORE": "2"}
    assert read_job(None, threads, "--hint=compute_bound") == {"hint": "compute_bound"}
    assert "threads-per-core" in read_job(None, threads, "")
    assert "threads-per-core" in read_job(None, {}, "--hint=compute_bound --threads-per-core=2")


def test_a_number_of_gpus_behind_no_type_is_taken_by_newer_releases_beside_cpus_by_gpu_alone():
    newer = replace(site(), permissions=Permissions(releases=(SINCE_26_05,)))
    assert job("-G =3 --cpus-per-gpu=1", newer).gpus[0] == 3
    assert job("-G 2 --gpus-per-task==1", newer).gpus[0] == 2
    with pytest.raises(ConfigError, match="a number behind no type"):
        tried("-n 2 --gpus-per-task==1", newer)
    with pytest.raises(ConfigError, match="a number behind no type"):
        tried("-G =3", newer)


def test_a_time_to_get_the_environment_of_users_is_left_open_where_only_a_variable_may_have_it():
    newer = replace(site(), permissions=Permissions(releases=(SINCE_26_05,)))
    assert "SBATCH_GET_USER_ENV" in "".join(tried("--get-user-env=10L", newer).not_understood)
    with pytest.raises(ConfigError, match="Invalid --get-user-env"):
        tried("--get-user-env=x", replace(site(), permissions=Permissions(releases=(OLDEST,))))


def test_options_survive_as_text():
    options = read_job(SCRIPT, {}, "") | {"exclusive": "", "constraint": "a&b", "account": ""}
    assert read_options(as_text(options)) == options


# The lists


def listed(help_text: str) -> list[tuple[str, str]]:
    return re.findall(r"^ +(?:-([A-Za-z])[, ] *)?--([a-z-]+)", help_text, re.MULTILINE)


def help_of_this_host(tmp_path: Path) -> str:
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        pytest.skip("no sbatch here")
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=a\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n")
    environment = os.environ | {"SLURM_CONF": str(conf)}
    return subprocess.run([sbatch, "--help"], env=environment, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize(
    "release", ["this host", *sorted(path.parent.name for path in GOLDEN.glob("*/sbatch-help.txt"))]
)
def test_every_option_of_sbatch_stands_in_exactly_one_list(release, tmp_path):
    text = help_of_this_host(tmp_path) if release == "this host" else (GOLDEN / release / "sbatch-help.txt").read_text()
    options = listed(text)
    assert len(options) > 50
    lists = (COUNTED, WITHOUT_EFFECT, NOT_UNDERSTOOD)
    assert [name for _, name in options if sum(name in one for one in lists) != 1] == []
    assert [letter for letter, name in options if letter and SHORT.get(letter) != name] == []


def test_the_lists_share_no_option_and_forms_and_variables_are_of_options():
    assert not COUNTED & (WITHOUT_EFFECT | NOT_UNDERSTOOD)
    assert not WITHOUT_EFFECT & NOT_UNDERSTOOD
    known = COUNTED | WITHOUT_EFFECT | NOT_UNDERSTOOD
    assert {*FLAGS, *OPTIONAL, *SHORT.values(), *ALIASES.values(), *VARIABLES.values()} <= known
    assert not_understood({"gpus": "1"}) == ()


BY_RELEASE = {"22.05": OLDEST, "24.11": SINCE_24_11, "25.05": SINCE_24_11, "25.11": SINCE_25_11, "26.05": SINCE_26_05}
WORDS = json.loads((GOLDEN / "option_words.json").read_text())
"""Whether each release took jobs with these options on a lab of one partition (sbatch --test-only)."""

FORMS = json.loads((GOLDEN / "gpu_forms.json").read_text())
"""The GPUs of requests by job, node and task, as each release has counted them; null where it refused the job."""


@pytest.mark.parametrize("release", FORMS["releases"])
def test_gpus_by_job_node_and_task_are_counted_as_each_release_counts_them(release):
    at, ours = FORMS["releases"].index(release), dict[str, int | None]()
    for text in FORMS["gpus"]:
        try:
            ours[text] = request_of(read_options(text), BY_RELEASE[release].sizes).all_gpus
        except ConfigError:
            ours[text] = None
    assert ours == {text: counts[at] for text, counts in FORMS["gpus"].items()}


@pytest.mark.parametrize("release", sorted(BY_RELEASE))
def test_options_are_taken_and_refused_as_each_release_does_or_named_as_not_understood(release):
    where = replace(site(), permissions=Permissions(releases=(BY_RELEASE[release],)))
    wrong = []
    for text, took in WORDS.items():
        try:
            ours = probe(read_options(text), "root", NOW_S, UTC, where)
        except ConfigError as error:
            wrong += [f"{text}: {error}"] * took[release]
        else:
            wrong += [f"{text}: taken"] * (not took[release] and not ours.not_understood)
    assert len(WORDS) > 200
    assert wrong == []


def test_where_releases_between_two_that_were_tried_may_count_otherwise_it_is_said():
    between = replace(site(), permissions=Permissions(releases=(OLDEST, SINCE_24_11)))
    (unsure,) = tried("--gpus-per-node=4 --gpus-per-task=1 -N2", between).not_understood
    assert unsure == "its GPUs by task and by node (some releases of Slurm count them otherwise)"
    (unsure,) = tried("--gpus=4 -n14 --ntasks-per-node=1", between).not_understood
    assert unsure == "its GPUs by task and by node (some releases of Slurm refuse it)"
    assert tried("--gpus-per-node=4 -N2", between).not_understood == ()


def test_a_wait_for_switches_that_was_said_once_stays():
    script = b"#!/bin/bash\n#SBATCH --switches=1@2:00\n"
    assert read_job(script, {}, "")["switches"] == "1@2:00"
    assert read_job(script, {"SBATCH_REQ_SWITCH": "1"}, "")["switches"] == "1@2:00"
    assert read_job(script, {"SBATCH_REQ_SWITCH": "1"}, "--switches=2")["switches"] == "2@2:00"
    assert read_job(script, {}, "--switches=2@5")["switches"] == "2@5"


def test_names_of_nodes_that_go_on_behind_a_range_are_refused_by_older_releases():
    where = site(name=Labels.of(["gpu1-ib", "gpu2-ib", "gpu3-ib", "r1n1"]))
    older, newer = (replace(where, permissions=Permissions(releases=(one,))) for one in (OLDEST, SINCE_24_11))
    for words in ("-w gpu[1-2]-ib -N2", "-x r[1-1]n1,gpu3-ib", "-w gpu1-ib,gpu[2-3]-ib -N3", "-w gpu[1-2]-ib -w r1n1"):
        with pytest.raises(ConfigError, match="Invalid node name"):
            tried(words, older)
        assert tried(words, newer).not_understood == ()
        assert "some releases of Slurm refuse it" in "".join(tried(words, where).not_understood)
    for words in ("-w gpu1-ib,gpu2-ib -N2", "-x r[1-1]n[1-1]", "-x gpu[1-2]-ib -x r1n1"):
        assert tried(words, older).not_understood == ()


def test_nodes_that_slurm_does_not_show_are_asked_for_and_said_in_the_first_line():
    hidden = replace(site(), partitions=site().partitions.changed(unshown=Labels.of(["c[1-2]"])))
    for words in ("-w c2", "-C cloudy", "--gres=gpu:99", "--mem=900G"):
        assert "nodes that Slurm does not show" in tried(words, hidden).not_understood
        with pytest.raises(ConfigError):
            tried(words)


REPLACED = (
    (b"#!/bin/sh\n#SBATCH --exclusive=topo\n", {"SBATCH_EXCLUSIVE": ""}, ""),
    (b"#!/bin/sh\n#SBATCH --exclusive=TOPO\n", {}, "--oversubscribe"),
    (None, {"SBATCH_EXCLUSIVE": "topo"}, "--exclusive=user"),
    (None, {}, "--exclusive=topo --exclusive"),
    (b"#!/bin/sh\n#SBATCH -N 1,3\n", {}, "-N2"),
    (None, {}, "-N 1-4:2 -N2"),
)
"""Jobs with a value that 22.05 refuses and that a later place replaces."""


@pytest.mark.parametrize(("script", "environment", "words"), REPLACED)
def test_a_value_that_a_release_does_not_know_is_refused_there_even_where_a_later_place_replaces_it(
    script, environment, words
):
    sent = as_text(read_job(script, environment, words))  # as the daemon gets it
    with pytest.raises(ConfigError, match=r"Invalid --exclusive specification|is not a valid node count"):
        tried(sent, replace(site(), permissions=Permissions(releases=(OLDEST,))))
    assert tried(sent, replace(site(), permissions=Permissions(releases=(SINCE_24_11,)))).not_understood in (
        (),
        ("--oversubscribe (some releases of Slurm refuse it beside --exclusive)",),
    )
    assert "some releases of Slurm refuse it" in "".join(tried(sent).not_understood)


def test_sockets_and_threads_that_nodes_may_not_have_are_named_as_not_counted():
    assert tried("--sockets-per-node=2").not_understood == ("--sockets-per-node=2 (which CPUs come with it)",)
    assert tried("--threads-per-core=2").not_understood == ("--threads-per-core=2 (which CPUs come with it)",)
    assert tried("--threads-per-core=1 --sockets-per-node=1").not_understood == ()


def test_a_list_of_numbers_of_nodes_counts_from_the_fewest_to_the_most_where_the_release_takes_it():
    newer = replace(site(), permissions=Permissions(releases=(SINCE_26_05,)))
    for text, fewest, most in (("1,3", 1, 3), ("3,1", 1, 3), ("2-4:2", 2, 2), ("2-6:2", 2, 4), ("1-4:3", 1, 1)):
        answer = tried(f"--nodes={text}", newer)
        assert (answer.job.nodes[0], answer.job.most_nodes[0]) == (fewest, most)
        assert answer.not_understood == (f"--nodes={text} (that it takes no number of nodes between these)",)


@pytest.mark.parametrize(
    ("text", "nodes", "tasks", "gpus"),
    [
        ("", 2, 2, 0),
        ("-n1", 2, 1, 0),
        ("-n3", 2, 3, 0),
        ("-N1", 1, 1, 0),
        ("-N1-3", 2, 2, 0),
        ("-N3", 3, 3, 0),
        ("--gres=gpu:1", 2, 2, 2),
        ("-G 3", 2, 2, 3),
    ],
)
def test_a_job_has_the_least_nodes_of_its_partition_where_it_may_have_as_many(text, nodes, tasks, gpus):
    fewest = site()
    fewest = replace(fewest, partitions=replace(fewest.partitions, least_nodes=np.array([2])))
    asked = job(text, fewest)
    assert (asked.nodes[0], asked.ntasks[0], asked.gpus[0]) == (nodes, tasks, gpus)


def test_gpus_and_tasks_that_do_not_go_round_the_least_nodes_are_refused():
    fewest = site("gpu*,other")
    fewest = replace(fewest, partitions=replace(fewest.partitions, least_nodes=np.array([2, 1])))
    with pytest.raises(ConfigError, match="Failed to validate job spec, --gpus < -N"):
        tried("-G 1", fewest)
    assert tried("-G 1 -p gpu,other", fewest).job.nodes[0] == 1, "of several partitions the least counts"
    assert tried("-n 1", fewest).job.nodes[0] == 2
    with pytest.raises(ConfigError, match="Task count specification invalid"):
        tried("-n 1", replace(fewest, permissions=Permissions(releases=(SINCE_26_05,))))


def test_texts_that_sbatch_takes_for_a_number_are_taken():
    assert tried("-t -5").job.time_limit_s[0] == 86400 * 2982611 + 4 * 3600 + 17 * 60  # as scontrol shows it
    assert tried("--switches=2@soon").job.topology_request[0] == tried("--switches=2@5:00").job.topology_request[0]
    with pytest.raises(ConfigError, match="Invalid --time specification"):
        tried("-t -5:30")


@pytest.mark.parametrize(
    "text", ["--cores-per-socket=x", "--ntasks-per-core=0", "--thread-spec=-1", "--tmp=1.5G", "--time-min=soon"]
)
def test_values_that_sbatch_refuses_are_refused_of_options_that_are_not_counted_too(text):
    with pytest.raises(ConfigError, match="Invalid"):
        tried(text)


@pytest.mark.parametrize(
    "text", ["--gpus=16 --cpus-per-gpu=1", "--gpus=12 --cpus-per-gpu=2", "--gpus=4 --cpus-per-gpu=3"]
)
def test_cpus_by_gpu_of_gpus_that_may_be_spread_need_not_be_on_one_node(text):
    where = site()
    assert never(tried(text, where).job, where.nodes, where.partitions) == {}
    (why,) = never(tried(f"{text} --nodes=1", where).job, where.nodes, where.partitions).values()
    assert "CPU" in why.why or "GPU" in why.why


def test_from_25_11_on_defaults_are_those_of_the_first_partition_with_enough_nodes():
    where = site("short,gpu")
    parts = replace(
        where.partitions,
        max_time_s=np.array([7200.0, 36000.0]),
        default_time_s=np.array([np.nan, 3600.0]),
        default_cpu_memory_mib=np.array([210.0, 310.0]),
        most_nodes=np.array([3, 0]),
    )
    nodes = replace(where.nodes, partitions=Labels.of(["short,gpu", "short,gpu", "gpu", "gpu"]))

    def made(text: str, release: Release) -> tuple[float, float]:
        there = replace(where, partitions=parts, nodes=nodes, permissions=Permissions(releases=(release,)))
        job = tried(text, there).job
        return float(job.time_limit_s[0]), float(job.cpu_memory_mib[0])

    for release in (SINCE_25_11, SINCE_26_05):
        assert made("-N2 -p short,gpu", release) == (7200.0, 210.0)
        assert made("-N3 -p short,gpu", release) == (36000.0, 310.0), "there are two nodes in short"
        assert made("-N1-4 -p short,gpu", release) == (36000.0, 310.0), "four nodes are more than short allows"
        assert made("-w n[1-3] -p gpu,short", release) == (3600.0, 310.0)
        assert made("-N5 -p short,gpu", release) == (7200.0, 210.0), "none has enough"
    assert made("-N3 -p short,gpu", SINCE_24_11) == (7200.0, 210.0)


def limited(**columns: object) -> Site:
    """The site, whose partition has these columns."""
    where = site()
    changed = {name: np.array([value]) for name, value in columns.items()}
    return replace(where, partitions=where.partitions.changed(**changed))


def test_a_job_in_a_partition_of_whole_nodes_has_whole_ones():
    assert job("-n1", limited(whole_nodes=True)).exclusive.tolist() == [True]
    assert job("-n1", limited(whole_nodes=False)).exclusive.tolist() == [False]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("-n8", {"default_cpu_memory_mib": 5000.0, "node_memory_mib": 4000.0}),
        ("-n4 --exclusive", {"default_cpu_memory_mib": 2000.0, "node_memory_mib": 15000.0}),
        ("-n4 --mem-per-cpu=2001", {"whole_nodes": True}),
        ("-n17", {"default_cpu_memory_mib": 2000.0, "cpu_memory_mib": 1000.0}),
    ],
)
def test_memory_by_cpu_is_held_to_what_the_partition_and_whole_nodes_allow(text, columns):
    where = limited(**columns)
    assert never(job(text, where), where.nodes, where.partitions), "Slurm says MaxMemPerLimit or BadConstraints"
    assert not never(job("-n1 --mem=1000", where), where.nodes, where.partitions)


def test_a_job_with_more_nodes_than_tasks_by_its_partition_has_the_cpus_of_a_task_on_each():
    where = limited(least_nodes=2)
    most = int(where.nodes.cpus.max())
    assert not never(job(f"-n1 -c{most}", where), where.nodes, where.partitions)


def test_a_job_that_names_a_node_may_have_others_for_its_gpus_which_is_said():
    assert any("--nodelist=n1" in words for words in tried("--gpus=12 -w n1").not_understood)
    assert tried("--gpus=8 -w n1 -N1").not_understood == ()
    with pytest.raises(ConfigError, match="have not 12 such GPUs"):
        tried("--gpus=12 -w n1 -N1")
    with pytest.raises(ConfigError, match="have not 40 such GPUs"):
        tried("--gpus=40 -w n1")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("-G2 --mem-per-gpu=2000", {"node_memory_mib": 5000.0}),
        ("-G2 --mem-per-gpu=900000", {}),
        ("-n4 --ntasks-per-node=4", {"node_cpus": 2}),
        ("-G6", {"node_cpus": 2}),
        ("-G1 --cpus-per-gpu=2", {"cpu_memory_mib": 1000.0}),
        ("-C [a*1&ib*1]", {"whole_nodes": True}),
        ("-n1 --ntasks-per-node=9", {}),
        ("-n9 --overcommit", {"node_memory_mib": 3000.0}),
        ("--mem=0", {"cpu_memory_mib": 1000.0}),
    ],
)
def test_what_limits_of_a_partition_decide_in_ways_that_are_not_counted_is_said(text, columns):
    assert tried(text, limited(**columns)).not_understood
    assert tried("-G1 -n2 -C a", limited(least_nodes=0)).not_understood == ()
    least_mib = float(site().nodes.memory_mib.min())
    assert tried(f"-G1 --mem-per-gpu={int(least_mib)}").not_understood == (), "one node has memory for all it asks"

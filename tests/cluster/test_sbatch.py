"""The options of sbatch, as far as a plan needs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from slurmsched.cluster.sbatch_probe import probe
from slurmsched.cluster.text.sbatch import KNOWN, SHORT, as_text, not_counted, read_options, read_script
from slurmsched.errors import CommentError, ConfigError

NOW_S = 1_000_000.0


def job(text, partitions=("gpu",), zone=UTC):
    return probe(read_options(text), "alice", NOW_S, zone, partitions)


@pytest.mark.parametrize(
    ("text", "gpus", "nodes"),
    [
        ("-G 4", 4, 1),
        ("-G4", 4, 1),
        ("--gpus=a100:4", 4, 1),
        ("--gpus 4 -N 2", 4, 2),
        ("--gres=gpu:4 -N2", 8, 2),
        ("--gpus-per-node=2 --nodes=3-5", 6, 3),
        ("--gpus-per-task=1 -n 6", 6, 1),
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


def test_the_rest_of_what_matters_is_read_too():
    asked = job("-p gpu -t 2:00:00 -J train_1 -A astro --comment='x; slurmsched:deadline=+6h,ckpt' -G 1")
    assert asked.time_limit_s.tolist() == [7200.0]
    assert asked.deadline_s.tolist() == [NOW_S + 6 * 3600]
    assert (asked.name[0], asked.account[0], asked.user[0], asked.partition[0]) == ("train_1", "astro", "alice", "gpu")
    assert np.isinf(job("-G 1").time_limit_s[0])


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("-t soon", ConfigError, "is no time"),
        ("-N 0", ConfigError, "accepted are a number"),
        ("-G four", ConfigError, "accepted are a number such as 4, and TYPE:4"),
        ("--gpus-per-node=a100", ConfigError, "accepted are a number such as 4, and TYPE:4"),
        ("-G 2,a100:2", ConfigError, "accepted are a number such as 4, and TYPE:4"),
        ("--mem lots", ConfigError, "--mem: 'lots' is no memory"),
        ("-c two", ConfigError, "accepted are a number"),
        ("-Z 1", ConfigError, "-Z in '-Z' is no option of sbatch"),
        ("-J 'half", ConfigError, "cannot be read"),
        ("-p cpu", ConfigError, "one of gpu"),
        ("--comment=slurmsched:deadlin=+6h", CommentError, "did you mean deadline"),
        ("--comment=slurmsched:deadline=1970-01-01T00:00Z", CommentError, "does not fit"),
        ("--comment=slurmsched:deadline=2001-01-01T00:00", CommentError, "has passed"),
    ],
)
def test_what_means_nothing_is_refused_in_words(text, error, words):
    at_s = 1.7e9
    with pytest.raises(error, match=words):
        probe(read_options(text), "alice", at_s, UTC, ("gpu",))


def test_a_local_time_that_happens_twice_is_refused():
    with pytest.raises(CommentError, match="happens twice"):
        job("--comment=slurmsched:deadline=2026-10-25T02:30", zone=ZoneInfo("Europe/Berlin"))


def test_where_there_are_several_partitions_one_must_be_said():
    with pytest.raises(ConfigError, match="say -p and one of gpu, fast"):
        job("-G 1", ("gpu", "fast"))


def test_cpus_memory_features_and_nodes_are_counted_too():
    asked = job("-N 2 --ntasks-per-node=4 -c 8 --mem=64G -C 'ib&a100' -w n[1-2] --exclusive -G 4")
    assert (asked.cpus.tolist(), asked.memory_mib.tolist()) == ([64], [2 * 64 * 1024.0])
    assert (asked.features[0], asked.required_nodes[0], asked.exclusive.tolist()) == ("ib&a100", "n[1-2]", [True])
    assert job("-n 3 --mem-per-cpu=500").memory_mib.tolist() == [1500.0]
    assert job("-G 4 --cpus-per-gpu=6").cpus.tolist() == [24]
    assert job("-G 4 --mem-per-gpu=1G").memory_mib.tolist() == [4096.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-G 4 -o out.txt --mail-type=END -D /tmp --wrap='sleep 1'", ""),
        ("-G 4 -H --reservation=x", "--hold, --reservation: not counted in these times."),
        ("--quantum=3 -G 4", "--quantum: not known here, so not counted."),
        (
            "-L x --quantum 3 -G 4",
            "--licenses: not counted in these times; --quantum: not known here, so not counted.",
        ),
        ("-C 'a100|h100'", ""),
        ("-C '[a100|h100'", "--constraint: not counted in these times."),
        ("-C 'a100&ib'", ""),
    ],
)
def test_what_is_not_counted_is_said(text, said):
    assert not_counted(read_options(text)) == said
    assert job(text).gpus[0] in (0, 4)


SCRIPT = """#!/bin/bash
#SBATCH --job-name=train --gpus 4   # four of them
#SBATCH -p gpu
# a comment
#SBATCH --comment="slurmsched:ckpt; x"
#PBS -l nodes=9

#SBATCH -t 2:00:00

srun train
#SBATCH -G 9
"""


def test_a_script_is_read_up_to_its_first_command():
    assert read_script(SCRIPT) == {
        "job-name": "train", "gpus": "4", "partition": "gpu", "comment": "slurmsched:ckpt; x", "time": "2:00:00"
    }  # fmt: skip
    assert read_script("echo hello\n") == {}


def test_a_job_of_several_components_is_refused():
    with pytest.raises(ConfigError, match="line 3: a job of several components"):
        read_script("#!/bin/sh\n#SBATCH -G 1\n#SBATCH hetjob\n#SBATCH -G 2\n")


def test_options_survive_as_text():
    options = read_script(SCRIPT) | {"exclusive": "", "constraint": "a&b"}
    assert read_options(as_text(options)) == options


def test_every_option_of_the_sbatch_that_is_installed_is_known(tmp_path):
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        pytest.skip("no sbatch here")
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=a\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n")
    listed = subprocess.run(
        [sbatch, "--help"], env=os.environ | {"SLURM_CONF": str(conf)}, capture_output=True, text=True, timeout=60
    ).stdout
    options = re.findall(r"^ +(?:-([A-Za-z])[, ] *)?--([a-z-]+)", listed, re.M)
    assert len(options) > 50
    assert [name for _, name in options if name not in KNOWN] == []
    assert [letter for letter, name in options if letter and SHORT.get(letter) != name] == []

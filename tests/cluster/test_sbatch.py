"""The options of sbatch, as far as a plan needs them."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from slurmsched.cluster.sbatch import probe, read_options
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
        ("--mem 4G -G 1", ConfigError, "as --name=value"),
        ("-x n1", ConfigError, "is not read here"),
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

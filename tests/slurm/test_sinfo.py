"""Nodes and partitions as text."""

from __future__ import annotations

import numpy as np
import pytest
from headers import headed

from slurmsched.slurm.read.records import cut
from slurmsched.slurm.read.sinfo import FIELDS, LOADS, read_nodes, read_partitions

ORDINARY = (
    *("n1", "gpu", "gpu*", "1", "up", "1-00:00:00", "1:00:00", "idle", "8", "2/6/0/8", "16000", "200"),
    *("gpu:4(S:0)", "gpu:1(IDX:0)"),
)


def seen(*changes: dict[str, str], fields: tuple[str, ...] = FIELDS):
    rows = [dict(zip(FIELDS, (*ORDINARY, "(null)"), strict=True)) | change for change in changes]
    records = "".join("<f>".join(row[name] for name in fields) + "<r>\n" for row in rows)
    return cut("sinfo", headed(fields, "<f>", "<r>", records), fields, "NodeList", "<f>", "<r>")


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        *((state, True) for state in ("idle", "mixed", "mixed-", "allocated", "completing", "mixed+planned")),
        *(
            (state, True)
            for state in ("idle+powered_down", "mixed+not_responding+powering_up", "idle+cloud+power_down")
        ),
        *((state, False) for state in ("down", "down*", "drained", "idle+drain", "idle*", "down+powered_down", "fail")),
        *((state, False) for state in ("idle+not_responding", "maint", "reboot", "future", "unknown")),
    ],
)
def test_which_nodes_take_new_jobs(state, usable):
    assert read_nodes(seen({"StateComplete": state})).usable.tolist() == [usable]


def test_a_node_in_two_partitions_is_one_row_and_its_gpus_count_once():
    nodes = read_nodes(seen({}, {"PartitionName": "fast"}))
    assert list(nodes.partitions) == ["gpu,fast"]
    assert (nodes.gpus.tolist(), nodes.gpus_used.tolist(), nodes.cpus_used.tolist()) == ([4], [1], [2])


def test_types_features_and_what_is_missing():
    nodes = read_nodes(seen({"Gres": "gpu:a100:8", "Features": "nvlink"}, {"NodeList": "n2", "Gres": "(null)"}))
    assert list(nodes.gpu_type) == ["a100", ""]
    assert list(nodes.features) == ["nvlink", ""]
    assert nodes.gpus.tolist() == [8, 0]


def test_a_node_with_thousands_of_cpus_is_read_as_sinfo_writes_it():
    assert read_nodes(seen({"CPUs": "2K", "CPUsState": "1024/1024/0/2048"})).cpus.tolist() == [2048]


def test_loads_are_known_where_they_are_read_and_nodes_said_them():
    rows = [("n1", "3.25", "512"), ("n2", "N/A", "N/A"), ("n3", "0.00", "0")]
    changes = [dict(zip(("NodeList", *LOADS), row, strict=True)) for row in rows]
    nodes = read_nodes(seen(*changes, fields=(*FIELDS, *LOADS)))
    assert np.array_equal(nodes.cpu_load, [3.25, np.nan, 0.0], equal_nan=True)
    assert np.array_equal(nodes.free_memory_mib, [512.0, np.nan, 0.0], equal_nan=True)
    assert np.isnan(read_nodes(seen({})).cpu_load).all()


def test_partitions_with_their_tier_and_limit():
    found = read_partitions(
        seen({}, {"NodeList": "n2"}, {"PartitionName": "fast", "PriorityTier": "9", "Time": "infinite"})
    )
    assert list(found.name) == ["gpu", "fast"]
    assert found.tier.tolist() == [1, 9]
    assert found.max_time_s.tolist() == [86400, np.inf]
    assert list(found.nodes) == ["n[1-2]", "n1"]


def test_the_partition_and_the_limit_of_jobs_that_name_none():
    fast = {"PartitionName": "fast", "Partition": "fast", "DefaultTime": "n/a"}
    long = {"PartitionName": "long*", "Partition": "long*", "DefaultTime": "infinite"}
    found = read_partitions(seen({}, fast, long))
    assert found.default.tolist() == [True, False, False]
    assert np.array_equal(found.default_time_s, [3600, np.nan, np.inf], equal_nan=True)


def test_no_nodes_are_empty_tables():
    assert len(read_nodes(seen())) == len(read_partitions(seen())) == 0


def test_a_node_whose_gpus_are_shared_has_none_for_a_job_alone():
    gres = "gpu:4(S:0),slot:i0:2(S:0),slot:i1:2(S:0)"
    nodes = read_nodes(seen({"Gres": gres, "GresUsed": "gpu:0,slot:i0:1(IDX:0),slot:i1:0(IDX:N/A)"}))
    assert (nodes.gpus.tolist(), nodes.gpus_used.tolist()) == ([4], [4])


def test_a_node_with_one_slot_of_each_type_has_its_gpus_for_jobs_alone():
    one = {"Gres": "gpu:4(S:0),slot:i0:1,slot:i1:1", "GresUsed": "gpu:1(IDX:0),slot:i0:0,slot:i1:0"}
    assert read_nodes(seen(one)).gpus_used.tolist() == [1]

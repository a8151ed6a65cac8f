"""A node with several types of GPUs is played forward as a row for each, so that none stands in for another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator.test_predict_completion import told, view

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import ANY_NODES, job_table
from slurmsched.cluster.run_types import run_types
from slurmsched.policies.selection.allowed_nodes import suits
from slurmsched.simulator.cluster_spec import nodes_of, partition_of
from slurmsched.simulator.rows_by_type import one_row_per_type, rows_by_name, rows_of_job


def mixed(used="a100=1+1g.10gb=3"):
    """A node with whole GPUs and slices beside one with whole GPUs alone."""
    types = Labels.of(["a100=2+1g.10gb=7", ""])
    kinds, used = Labels.of(["a100", "a100"]), Labels.of([used, ""])
    nodes = nodes_of(2, 9, gpu_type=kinds, gpu_types=types, gpu_types_used=used, gpus_used=np.array([4, 1]))
    return nodes.changed(gpus=np.array([9, 4]))


def test_each_type_has_its_row_with_what_is_in_use_of_it():
    rows = one_row_per_type(mixed())
    seen = [*zip(rows.name, rows.gpu_type, rows.gpus.tolist(), rows.gpus_used.tolist(), strict=True)]
    assert seen == [("n1", "1g.10gb", 7, 3), ("n1", "a100", 2, 1), ("n2", "a100", 4, 1)]
    assert rows_by_name(rows) == {"n1": [0, 1], "n2": [2]}


def test_where_the_use_by_type_is_not_known_all_that_may_be_in_use_is():
    rows = one_row_per_type(mixed(used=""))
    assert rows.gpus_used.tolist() == [4, 2, 1]


def test_nodes_of_one_type_stay_as_they_are():
    nodes = nodes_of(3, 4)
    assert one_row_per_type(nodes) is nodes


@pytest.mark.parametrize(
    ("gpu_type", "request_", "rows"),
    [
        ("a100", "gres:gpu:a100:1", [1]),
        ("1g.10gb", "", [0]),
        ("", "gres:gpu:1", [0]),
        ("a100", "gres:gpu:a100:1,gres:gpu:1g.10gb:2", [0, 1]),
        ("a100", "gres:gpu:a:b:c", [1]),
    ],
)
def test_a_running_job_is_on_the_rows_of_its_types(gpu_type, request_, rows):
    assert rows_of_job(one_row_per_type(mixed()), [0, 1], gpu_type, request_) == rows


def test_a_job_without_a_type_has_one_row_of_each_node():
    rows = one_row_per_type(mixed())
    assert suits("", "", rows).tolist() == [True, False, True]
    assert suits("a100", "", rows).tolist() == [False, True, True]
    assert suits("v100", "", rows).tolist() == [False, False, False]


def test_a_run_is_of_the_type_of_its_own_gpus_on_a_node_with_several():
    jobs = job_table(3, node_list=["n1", "n1", "n2"], gpu_type=["1g.10gb", "a100", ""])
    assert run_types(jobs, mixed()) == ["1g.10gb", "a100", "a100"]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_job_whose_gpus_slurm_spreads_over_mixed_nodes_has_a_time_however_many_tasks_it_has(data):
    types = Labels.of(["a100=2+v100=2", "", ""])
    nodes = nodes_of(
        3, 4, gpu_type=Labels.of(["a100", "a100", "v100"]), gpu_types=types, cpus=np.array([8, 4, 8]),
        memory_mib=np.full(3, 16000.0), partitions=Labels.of(["gpu"] * 3),
    ).changed(gpus=np.array([4, 2, 1]))  # fmt: skip
    gpus, tasks = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 20))
    seen = view(
        (100.0, gpus), ntasks=np.array([tasks]), cpus=np.array([tasks]), memory_mib=np.array([1000.0 * tasks]),
        per_job=np.array([True]), most_nodes=np.array([ANY_NODES]),
    )  # fmt: skip
    seen = seen.changed(nodes=nodes, partitions=partition_of("gpu", "n1,n2,n3"))
    assert np.isfinite(told(seen).start_s[0])

"""CPUs and memory of a job as Slurm has them, and other ones for the same tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.node_request import NodeRequest, read_request, request_of

requests = st.builds(
    lambda tasks, each, on, memory, per_cpu: NodeRequest(tasks * each, each, each * on, memory, per_cpu),
    *(st.integers(1, 64), st.integers(1, 64), st.just(1), st.integers(1, 10**6), st.booleans()),
)


@given(requests)
def test_a_request_reads_as_it_is_written(request):
    assert read_request(str(request)) == request
    assert request.changeable


@pytest.mark.parametrize("text", ["", "cpus=1", "cpus=6,task=6,node=6,mem=4000M", "cpus=a,task=6,node=6,mem=1Mn"])
def test_another_text_is_no_request(text):
    assert read_request(text) is None


@given(requests, st.integers(1, 8), st.floats(1, 100), st.floats(1, 1e6))
def test_another_size_keeps_tasks_and_is_as_large_as_wanted(request, nodes, cpus, memory_mib):
    other = request.with_size(nodes, cpus, memory_mib)
    assert other.changeable
    assert other.tasks == request.tasks
    assert other.node_cpus(nodes) >= cpus - 1e-6
    assert other.node_memory_mib(nodes) >= memory_mib - 1e-6
    same = request.with_size(nodes, request.node_cpus(nodes), request.node_memory_mib(nodes))
    assert (same.cpus, same.per_task, same.per_node) == (request.cpus, request.per_task, request.per_node)


@pytest.mark.parametrize(
    ("cpus", "per_task", "per_node", "memory", "total", "nodes", "expected"),
    [
        (6, 6, 6, 4000, 4000, 1, "cpus=6,task=6,node=6,mem=4000Mn"),
        (6, 6, 6, 1500, 9000, 1, "cpus=6,task=6,node=6,mem=1500Mc"),
        (12, 6, 6, 4000, 8000, 2, "cpus=12,task=6,node=6,mem=4000Mn"),
        (2, 2, 2, 4608, 4.5 * 1024, 1, "cpus=2,task=2,node=2,mem=4608Mn"),
        (2, 2, 2, 0, 16000, 1, ""),  # all memory of a node
        (6, 6, 6, 2000, 6000, 1, ""),  # memory per GPU
    ],
)
def test_what_squeue_shows(cpus, per_task, per_node, memory, total, nodes, expected):
    assert request_of(cpus, per_task, per_node, memory, total, nodes) == expected


@pytest.mark.parametrize(
    "request_", [NodeRequest(1, 1, 6, 2000, False), NodeRequest(5, 2, 2, 2000, False), NodeRequest(2, 2, 2, 0, False)]
)
def test_a_request_of_another_form_is_left_alone(request_):
    assert not request_.changeable

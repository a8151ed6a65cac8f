"""What a job asks for, in words."""

from __future__ import annotations

import pytest
from decide.views import jobs

from slurmsched.decide.request_words import memory_words, request_words


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"gpus": 1}, "1 GPU"),
        ({"gpus": 4, "gpu_type": "a100"}, "4 GPUs of a100"),
        ({"gpus": 8, "nodes": 2, "cpus": 16, "memory_mib": 4096.0}, "8 GPUs on 2 nodes"),
        ({"gpus": 0, "cpus": 1}, "1 core"),
        ({"gpus": 0, "cpus": 8, "memory_mib": 16384.0}, "8 cores and 16 GiB of memory"),
        ({"gpus": 0, "cpus": 8, "memory_mib": 500.0, "nodes": 2}, "8 cores and 500 MiB of memory on 2 nodes"),
        ({"gpus": 0, "cpus": 8, "exclusive": True, "nodes": 2}, "all of 2 nodes"),
        ({"gpus": 1, "exclusive": True}, "1 GPU on 1 whole node"),
        ({"gpus": 8, "exclusive": True, "nodes": 2}, "8 GPUs on 2 whole nodes"),
    ],
)
def test_a_job_without_gpus_is_told_in_cores_and_memory_and_never_in_gpus(columns, expected):
    table = jobs(1, **{name: [value] for name, value in ({"memory_mib": 0.0} | columns).items()})
    assert request_words(table, 0) == expected


@pytest.mark.parametrize(("mib", "expected"), [(100, "100 MiB"), (1536, "1.5 GiB"), (2 * 1024**2, "2 TiB")])
def test_memory_is_told_in_its_largest_unit(mib, expected):
    assert memory_words(mib) == expected

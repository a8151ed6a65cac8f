"""A request for GPUs that we do not count as Slurm does is said to be one, before any time."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import job_table
from slurmsched.explain.unclear_requests import BEGINS, unclear_requests


@pytest.mark.parametrize(
    ("request_text", "says"),
    [
        ("gres:gpu:1g.10gb:1", ""),
        ("gres:gpu:mi300x:4,gres:npu:2,gres:bandwidth:lustre:1G", ""),
        ("gres/gpu:1g.10gb=1", ""),
        ("gres:gpu:1g.10gb:1,gres:gpu:a100:2", "names several types (1g.10gb, a100)"),
        ("gres:gpu:a:b:c:1", "is not understood"),
        ("gres:npu:a:b:c:1", ""),
        ("", ""),
    ],
)
def test_what_is_not_counted_as_slurm_does_is_said(request_text, says):
    jobs = job_table(2, job_id=np.array([7, 8]), per_node=Labels.of(["", request_text]))
    found = unclear_requests(jobs)
    assert list(found) == ([1] if says else [])
    if says:
        sentence, advice = found[1]
        assert sentence.startswith(BEGINS)
        assert says in sentence
        assert "8" in advice

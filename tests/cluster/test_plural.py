"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from slurmsched.cluster.text.plural import gpus_of_type


@pytest.mark.parametrize(
    "gpu_type", ["1g.10gb", "3g.40gb", "a100_1g.5gb", "1g.10gb+2g.20gb", "1g.5gb+me", "h100-7g.80gb"]
)
def test_types_that_are_named_by_a_mig_profile_are_slices(gpu_type):
    assert [gpus_of_type(number, gpu_type) for number in (1, 2)] == ["1 MIG slice", "2 MIG slices"]


@pytest.mark.parametrize("gpu_type", ["", "a100", "3090", "a100+1g.10gb", "rtx_3g"])
def test_all_others_are_gpus(gpu_type):
    assert [gpus_of_type(number, gpu_type) for number in (1, 2)] == ["1 GPU", "2 GPUs"]

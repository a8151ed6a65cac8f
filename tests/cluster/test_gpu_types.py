"""Types of GPUs by name: MIG profiles are parts of a GPU, all others whole ones unless the site says otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.nodes import by_type
from slurmsched.cluster.text.gpu_types import NVIDIAS, GpuParts
from slurmsched.cluster.text.plural import gpus_of_type
from slurmsched.errors import ConfigError


@pytest.mark.parametrize(
    ("gpu_type", "part"),
    [
        ("1g.10gb", 1 / 7),
        ("1g.5gb+me", 1 / 7),
        ("nvidia_a100-sxm4-80gb_3g.40gb", 3 / 7),
        ("h100-7g.80gb", 1.0),
        ("mig-1g.10gb", 1 / 7),
        ("mig1g.5gb", 1 / 7),
        ("a100_1g5gb", 1 / 7),
        ("1c.3g.20gb", 1 / 7),
        ("nvidia_a30_1g.5gb", 1 / 4),
        ("1g.6gb", 1 / 4),
        ("4g.24gb", 1.0),
        ("4g.20gb", 4 / 7),
        ("nvidia_rtx_pro_6000_blackwell_1g.24gb", 1 / 4),
        ("1g.24gb", 1 / 7),
    ],
)
def test_a_mig_profile_is_its_part_of_the_compute_of_a_card(gpu_type, part):
    assert NVIDIAS.of(gpu_type) == pytest.approx(part)
    assert NVIDIAS.is_slice(gpu_type)


@pytest.mark.parametrize(
    "gpu_type", ["", "a100", "3090", "mi300x", "max1550", "rtx_3g", "1g", "h100_80gb_hbm3", "gh200"]
)
def test_any_other_type_is_of_whole_gpus(gpu_type):
    assert NVIDIAS.of(gpu_type) == 1.0
    assert not NVIDIAS.is_slice(gpu_type)


def test_a_site_states_the_parts_of_its_own_types():
    parts = GpuParts.of_text("small=1/4, 1G.20gb = 0.25")
    assert [parts.of(name) for name in ("small", "1g.20gb", "1g.10gb", "a100")] == [0.25, 0.25, 1 / 7, 1.0]
    assert gpus_of_type(2, "small", parts) == "2 GPU slices"
    assert parts.of_each(Labels.of(["small", "a100+small", ""])).tolist() == [0.25, 0.625, 1.0]


@pytest.mark.parametrize("text", ["small", "small=0", "small=2", "small=1/0", "=1", "small=a", "a=1 b=2", "a=1..2"])
def test_a_part_that_is_none_is_refused_with_what_is_accepted(text):
    with pytest.raises(ConfigError, match=r"accepted are TYPE=PART"):
        GpuParts.of_text(text)


TYPES = st.sampled_from(["a100", "1g.5gb+me", "1g.5gb", "3090", "", "a100_3g.40gb"])


@given(st.dictionaries(TYPES.filter(bool), st.integers(0, 99), max_size=4))
def test_gpus_by_type_come_back_from_their_text(counts):
    assert by_type("+".join(f"{name}={many}" for name, many in counts.items())) == counts

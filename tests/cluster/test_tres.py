from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.text.tres import count, gpus_in, memory_mib, seconds, timelimit

TYPES = st.sampled_from(["", "a100", "h100_80gb", "1g.5gb", "tesla-v100"])


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu", (1, "")),
        ("gpu:4", (4, "")),
        ("gpu:0", (0, "")),
        ("gpu:a100", (1, "a100")),
        ("gpu:a100:2", (2, "a100")),
        ("gres:gpu", (1, "")),
        ("gres:gpu:1", (1, "")),
        ("gres:gpu:a100:8", (8, "a100")),
        ("gres/gpu:1", (1, "")),
        ("gres/gpu=4", (4, "")),
        ("gres/gpu:a100=4", (4, "a100")),
        ("gres/gpu:a100:4", (4, "a100")),
        ("gpu:3090:2", (2, "3090")),
        ("gres/gpu:3090=2,gres/gpu=2", (2, "3090")),
        ("gpu:4090:8(S:0-1)", (8, "4090")),
        ("gpu:4090", (4090, "")),
        ("gpu:2(IDX:0-1)", (2, "")),
        ("gpu:3(IDX:0,2-3)", (3, "")),
        ("gpu:a100:4(S:0-1)", (4, "a100")),
        ("gpu:(null):2(IDX:0-1)", (2, "")),
        ("gpu:tesla:no_consume:2", (2, "tesla")),
        ("gpu:1g.5gb:7", (7, "1g.5gb")),
        ("", (0, "")),
        ("N/A", (0, "")),
        ("(null)", (0, "")),
        ("gpu:a100:2,gpu:v100:1", (3, "a100")),
        ("gpu:2,gpu:v100:1", (3, "v100")),
        ("gpu:4,shard:16,slot:i0:2,slot:i1:2", (4, "")),
        ("gres/shard:4", (0, "")),
        ("gres:mps:50", (0, "")),
        ("gres/gpumem=80G,gres/gpuutil=100", (0, "")),
        ("billing=1,cpu=1,gres/gpu=2,mem=2000M,node=1", (2, "")),
        ("cpu=8,mem=62.50G,energy=77,gres/gpu:a100=4,gres/gpu=4,license/matlab@srv=1", (4, "a100")),
        ("gres/gpu=4,gres/gpu:a100=2,gres/gpu:v100=2", (4, "a100")),
        ("gres/gpu:a100=2,gres/gpu:v100=2", (4, "a100")),
    ],
)
def test_gpus_are_counted_in_the_spelling_of_every_release(text: str, gpus: tuple[int, str]):
    assert gpus_in(text) == gpus


@given(number=st.integers(0, 10_000), kind=TYPES, form=st.sampled_from(["gpu{}:{}", "gres:gpu{}:{}", "gres/gpu{}={}"]))
def test_gpus_written_out_are_read_back(number: int, kind: str, form: str):
    assert gpus_in(form.format(f":{kind}" if kind else "", number)) == (number, kind)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        *(("500M", 500), ("4000M", 4000), ("62.50G", 64000), ("1T", 1048576), ("500Mc", 500), ("4Gn", 4096)),
        *(("0", 0), ("77", 77), ("1024K", 1), ("2P", 2**31)),
    ],
)
def test_memory_is_read_in_every_unit(text: str, mib: float):
    assert memory_mib(text) == mib


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        *(("10", 600), ("1:30", 90), ("60:00", 3600), ("1:02:03", 3723), ("2-3", 183600), ("2-3:04", 183840)),
        *(("2-03:04:05", 183845), ("00:00:00", 0), ("UNLIMITED", math.inf), ("infinite", math.inf)),
    ],
)
def test_time_limits_are_read_in_every_form(text: str, expected_s: float):
    assert seconds(text) == expected_s


@pytest.mark.parametrize("text", ["NOT_SET", "N/A", "INVALID", "", "Partition_Limit", "Unknown"])
def test_an_absent_time_is_nan(text: str):
    assert math.isnan(seconds(text))


@given(st.integers(0, 10**9))
def test_a_time_limit_comes_back_as_it_was(limit_s: int):
    assert seconds(timelimit(limit_s)) == limit_s


@pytest.mark.parametrize("limit_s", [math.inf, math.nan])
def test_no_limit_and_no_value_come_back_too(limit_s: float):
    assert seconds(timelimit(limit_s)) == limit_s or math.isnan(seconds(timelimit(limit_s)))


def test_a_part_of_a_second_makes_a_limit_longer_never_shorter():
    assert timelimit(59.2) == "00:01:00"


def test_a_negative_time_limit_is_refused():
    with pytest.raises(ValueError, match="-1"):
        timelimit(-1)


@pytest.mark.parametrize(
    ("text", "number"), [("4", 4), ("1.5K", 1536), ("2-4", 2), ("1-1", 1), ("4+", 4), ("N/A", 0), ("2M", 2**21)]
)
def test_counts_are_read_with_units_and_ranges(text: str, number: int):
    assert count(text) == number


@pytest.mark.parametrize("reader", [gpus_in, memory_mib, seconds, count])
@pytest.mark.parametrize("text", ["x y", "gpu:a:b:3", "1:2:3:4:5", "--", "5X", "١٢", "1e9", "gpu:\n4,", ",", "-5"])
def test_nonsense_is_refused_by_name(reader, text: str):
    with pytest.raises(ValueError, match="accepted are") as error:
        reader(text)
    assert repr(text) in str(error.value)


@given(st.text(max_size=40))
def test_any_text_has_a_meaning_or_is_refused(text: str):
    for reader in (gpus_in, memory_mib, seconds, count):
        try:
            reader(text)
        except ValueError as error:
            assert "accepted are" in str(error)  # noqa: PT017 - both ways out are right

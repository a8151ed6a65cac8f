"""What is believed of a node's record, and what is not."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_worlds import FIGURES, NOW_S, figure, gpu, record

from slurmsched.daemon.profiles.profile_record import RECORD_B, BadRecord, read_record


def read(**changes):
    return read_record(json.dumps(record(**changes)).encode(), NOW_S)


def test_a_record_becomes_one_row():
    profile = read(gpus=[gpu(), gpu(gpu_util=figure(80.0), memory_mib=figure(1000.0), unstable=True)])
    assert (profile.job_id, profile.node, profile.gpus, profile.measured_s) == (7, "n1", 2, 100.0)
    assert (profile.process_share, profile.unstable) == (0.9, 1.0)
    assert (profile.gpu_util, profile.gpu_util_sd, profile.memory_util) == pytest.approx((0.6, 0.02, 0.2))
    assert (profile.memory_mib, profile.power_w) == (5096.0, 500.0)


def test_zero_no_process_and_not_measured_are_told_apart():
    zero = read(gpus=[gpu(gpu_util=figure(0.0, var=0.0))])
    nobody = read(gpus=[gpu(no_process=100, **dict.fromkeys(FIGURES))])
    unknown = read(gpus=[gpu(gpu_util=None, unstable=None)])
    assert (zero.gpu_util, zero.process_share) == (0.0, 0.9)
    assert (nobody.gpu_util, nobody.process_share, nobody.memory_mib) == (0.0, 0.0, 0.0)
    assert math.isnan(unknown.gpu_util)
    assert (unknown.process_share, math.isnan(unknown.unstable)) == (0.9, True)


def test_a_gpu_that_was_never_read_does_not_dilute_the_others():
    never = {"samples": 0, "no_process": 0, "unstable": None}
    never |= dict.fromkeys(FIGURES)
    profile = read(gpus=[gpu(), gpu(**never)])
    assert (profile.gpus, profile.gpu_util, profile.process_share) == (2, 0.4, 0.9)


def test_gpus_without_a_process_are_told_with_the_moment_of_the_last_one():
    told = read(gpus=[gpu(), gpu()], idle_gpus=1, idle_s=40)
    assert (told.idle_gpus, told.idle_since_s) == (1.0, float(told.end_s - 40))
    none = read(idle_gpus=0, idle_s=0)
    assert (none.idle_gpus, math.isnan(none.idle_since_s)) == (0.0, True)
    assert math.isnan(read().idle_gpus), "an older sampler does not tell"


@pytest.mark.parametrize(
    "wrong", [{"idle_gpus": 2}, {"idle_gpus": -1}, {"idle_gpus": True}, {"idle_s": 101}, {"idle_s": 1.5}]
)
def test_more_idle_gpus_than_a_job_has_and_longer_than_it_ran_are_refused(wrong):
    with pytest.raises(BadRecord, match=next(iter(wrong))):
        read(**({"idle_gpus": 1, "idle_s": 1} | wrong))


FOUR = [[-1, 1, 1, 2], [1, -1, 2, 1], [1, 2, -1, 2], [2, 1, 2, -1]]


def links(counts=FOUR, gpus=(0, 1)):
    return {"counts": [list(row) for row in counts], "gpus": list(gpus)}


def test_the_links_between_the_gpus_of_a_run_stand_beside_the_best_of_its_node():
    profile = read(gpus=[gpu(), gpu()], links=links())
    assert (profile.link_gbps, profile.best_link_gbps) == (25.0, 50.0)
    best = read(gpus=[gpu(), gpu()], links=links(gpus=[0, 3]))
    assert (best.link_gbps, best.best_link_gbps) == (50.0, 50.0)
    older = read(gpus=[gpu(), gpu()])
    assert math.isnan(older.link_gbps)
    assert math.isnan(older.best_link_gbps)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ("many", "no table of whole numbers"),
        (links() | {"gpus": None}, "no table of whole numbers"),
        ({"gpus": [0, 1]}, "no table of whole numbers"),
        (links(counts=[[-1, 1.5], [1.5, -1]]), "no table of whole numbers"),
        (links(gpus=[0, True]), "no table of whole numbers"),
        (links(gpus=[0, 0]), "GPUs [0, 0] of 2"),
        (links(gpus=[0, 4]), "4 rows, at most 32, and GPUs [0, 4] of 2"),
        (links(gpus=[0, 1, 2]), "GPUs [0, 1, 2] of 2"),
        (links(counts=[[-1, 1], [2, -1]]), "GPU 0 has 1 links to 1"),
        (links(counts=[[-1, 99], [99, -1]]), "accepted are 2 numbers"),
        (links(counts=[[-1, 1, 1], [1, -1, 1]]), "accepted are 2 numbers"),
        (links(counts=[[0] * 33] * 33), "33 rows, at most 32"),
    ],
)
def test_impossible_links_are_refused(found, why):
    with pytest.raises(BadRecord) as refused:
        read(gpus=[gpu(), gpu()], links=found)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 2}, "version 1"),
        ({"version": "1"}, "version 1"),
        ({"job_id": 0}, "job_id = 0"),
        ({"job_id": True}, "job_id = True"),
        ({"job_id": 7.5}, "job_id"),
        ({"node": "../n1"}, "name of a node"),
        ({"node": "n1\n"}, "name of a node"),
        ({"start_s": NOW_S + 700, "end_s": NOW_S + 700}, "start_s"),
        ({"start_s": 0}, "start_s"),
        ({"end_s": NOW_S - 201}, "end_s"),
        ({"every_s": 0}, "every_s"),
        ({"gpus": []}, "list of 1 to 64"),
        ({"gpus": [gpu()] * 65}, "list of 1 to 64"),
        ({"gpus": ["GPU-0"]}, "no JSON object"),
        ({"gpus": [gpu(samples=103)]}, "samples = 103"),
        ({"gpus": [gpu(no_process=101)]}, "no_process"),
        ({"gpus": [gpu(unstable="yes")]}, "unstable"),
        ({"gpus": [gpu(gpu_util=figure(101.0))]}, "max = 101"),
        ({"gpus": [gpu(gpu_util=figure(5.0, mean=-1))]}, "mean = -1"),
        ({"gpus": [gpu(gpu_util=figure(40.0, mean=50))]}, "mean = 50"),
        ({"gpus": [gpu(gpu_util=figure(50.0, n=91))]}, "n = 91"),
        ({"gpus": [gpu(gpu_util=figure(50.0, var=1e9))]}, "var"),
        ({"gpus": [gpu(power_w=7)]}, "power_w"),
        ({"gpus": [gpu(memory_mib=figure(1e9))]}, "max = 1000000000"),
    ],
)
def test_what_cannot_be_true_is_refused_with_its_name(changes, why):
    with pytest.raises(BadRecord, match=why):
        read(**changes)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "no JSON"),
        (b"[" * 20_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[1]", "version 1"),
        (b'{"version": NaN}', "NaN is no number"),
        (b" " * (RECORD_B + 1), "at most"),
    ],
)
def test_what_is_no_record_is_refused(payload, why):
    with pytest.raises(BadRecord, match=why):
        read_record(payload, NOW_S)


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})


@given(st.sampled_from(sorted(gpu())), st.sampled_from(sorted(record())), st.sampled_from(sorted(figure(1.0))), VALUES)
def test_whatever_a_field_holds_a_profile_is_sane_or_refused(of_gpu, of_record, of_figure, value):
    for changed in (
        record(**{of_record: value}),
        record(gpus=[gpu(**{of_gpu: value})]),
        record(gpus=[gpu(gpu_util=figure(40.0, **{of_figure: value}))]),
    ):
        try:
            profile = read_record(json.dumps(changed).encode(), NOW_S)
        except BadRecord:
            continue
        shares = (profile.process_share, profile.gpu_util, profile.memory_util)
        assert all(math.isnan(share) or 0 <= share <= 1.0001 for share in shares)
        assert profile.start_s <= profile.end_s
        assert 0 <= profile.measured_s <= 110

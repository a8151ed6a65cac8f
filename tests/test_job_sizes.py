"""The GPUs of a run, and how a step is cut into passes on them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from slurmsched.job import Batch, batch_of, noise_scale, own_environment


def printed(*words: str, **environment: str) -> str:
    """What the helper prints in a job with these variables."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "CUDA_"))}
    command = [sys.executable, "-m", "slurmsched.job", *words]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, check=True).stdout


@given(st.integers(1, 5000), st.integers(1, 512), st.integers(0, 64))
@examples(300)
def test_a_step_has_all_its_samples_and_no_gpu_more_at_once_than_it_can_take(samples, most, count):
    batch = batch_of(samples, most, count)
    passes = max(count, 1) * batch.accumulation
    assert 1 <= batch.micro <= most
    assert samples <= batch.micro * passes < samples + passes, "less than one sample more in each pass"
    if samples % max(count, 1) == 0 and samples // max(count, 1) <= most:
        assert batch == (samples // max(count, 1), 1)


def test_a_step_is_the_same_on_any_number_of_gpus_that_divides_it():
    assert [batch_of(256, 32, count) for count in (1, 2, 4, 8, 16)] == [
        Batch(32, 8),
        Batch(32, 4),
        Batch(32, 2),
        Batch(32, 1),
        Batch(16, 1),
    ]
    assert batch_of(96, 32, 2) == Batch(24, 2)


@given(st.integers(1, 5000), st.integers(1, 512), st.integers(0, 64), st.integers(0, 5000))
@examples(300)
def test_a_step_that_may_grow_has_what_its_gpus_take_at_once_between_both_bounds(samples, most, count, further):
    batch, up_to, gpus = batch_of(samples, most, count, samples + further), samples + further, max(count, 1)
    whole = batch.micro * batch.accumulation * gpus
    assert whole >= samples
    assert batch.micro <= most
    if whole > batch_of(samples, most, count).micro * batch_of(samples, most, count).accumulation * gpus:
        assert whole <= up_to
        assert batch.accumulation == 1
    if samples <= most * gpus <= up_to:
        assert batch == (most, 1)


def test_a_step_grows_with_the_gpus_up_to_what_the_job_says():
    sizes = [batch_of(256, 64, count, 1024) for count in (2, 4, 8, 16, 24, 32)]
    assert sizes == [(64, 2), (64, 1), (64, 1), (64, 1), (42, 1), (32, 1)]
    with pytest.raises(ValueError, match="up_to=255: accepted are 256 samples and more"):
        batch_of(256, 64, 4, 255)


@pytest.mark.parametrize("expected", [8.0, 200.0, 3000.0])
def test_the_noise_scale_is_found_from_the_gradients_of_parts_and_of_whole_steps(expected):
    rng, size, gpus, one = np.random.default_rng(7), 400, 4, 64
    gradient = np.full(size, 1.0)
    deviation = np.sqrt(expected * (gradient @ gradient) / size)
    parts = gradient + rng.normal(0.0, deviation / np.sqrt(one), (1000, gpus, size))
    one_sqr, mean_sqr = (np.square(one).sum(axis=-1).mean() for one in (parts, parts.mean(axis=1)))
    assert noise_scale(one_sqr, mean_sqr, one, gpus * one) == pytest.approx(expected, rel=0.1)


@given(*[st.floats(0.0, allow_infinity=False)] * 2, st.integers(1, 100), st.integers(1, 10_000))
@examples(200)
def test_a_noise_scale_is_above_zero_or_none(one_sqr, mean_sqr, one, more):
    noise = noise_scale(one_sqr, mean_sqr, one, one + more)
    assert noise is None or 0 < noise < np.inf


def test_what_shows_no_noise_or_nothing_else_has_no_noise_scale():
    assert noise_scale(1.0, 1.0, 64, 256) is None
    assert noise_scale(4.0, 1.0, 64, 256) is None, "as far apart as by noise alone"
    assert noise_scale(float("nan"), 1.0, 64, 256) is None
    with pytest.raises(ValueError, match="one=256, whole=256"):
        noise_scale(2.0, 1.0, 256, 256)


@pytest.mark.parametrize(("samples", "most"), [(0, 1), (1, 0), (-4, 4)])
def test_a_step_without_samples_is_refused(samples, most):
    with pytest.raises(ValueError, match="1 and more"):
        batch_of(samples, most, 2)


def test_the_gpus_of_a_run_are_those_that_slurm_gave_it_and_not_those_of_the_first_request():
    assert printed("gpus", SLURM_GPUS="2", SLURM_GPUS_ON_NODE="4") == "4\n"
    assert printed("gpus", SLURM_GPUS_ON_NODE="4", SLURM_JOB_NUM_NODES="2") == "8\n"
    assert printed("gpus", SLURM_JOB_GPUS="0,1,3") == printed("gpus", CUDA_VISIBLE_DEVICES="0,1,2") == "3\n"
    assert printed("gpus") == "0\n"
    assert printed("batch", "--samples", "256", "--most", "32", SLURM_GPUS_ON_NODE="4") == "32 2\n"
    grown = ("batch", "--samples", "256", "--most", "64", "--up-to", "1024")
    assert printed(*grown, SLURM_GPUS_ON_NODE="8") == "64 1\n"


def test_a_command_of_the_helper_does_not_ask_srun_for_the_number_of_the_first_request(tmp_path):
    shown = printed(
        *("run", "--dir", str(tmp_path), "--", "env"),
        SLURM_GPUS="v100:2",
        SLURM_GPUS_ON_NODE="4",
        SLURM_JOB_GPUS="0,1,2,3",
    )
    assert "SLURM_GPUS=" not in shown
    assert "SLURM_GPUS_ON_NODE=4" in shown
    nodes = {"SLURM_NTASKS": "2", "SLURM_NPROCS": "2", "SLURM_TASKS_PER_NODE": "4(x3),1"}
    assert own_environment(nodes) == nodes | {"SLURM_NTASKS": "13", "SLURM_NPROCS": "13"}
    step = nodes | {"SLURM_STEP_NUM_TASKS": "2"}
    assert own_environment(step) == step, "srun set these"
    assert own_environment({"SLURM_TASKS_PER_NODE": "1(x4)"}) == {"SLURM_TASKS_PER_NODE": "1(x4)"}
    kept = printed("run", "--dir", str(tmp_path), "--", "env", SLURM_GPUS="v100:4", SLURM_GPUS_ON_NODE="4")
    assert "SLURM_GPUS=v100:4" in kept
    assert own_environment({"SLURM_GPUS_PER_NODE": "2", "SLURM_GPUS_ON_NODE": "1", "X": "y"}) == {
        "SLURM_GPUS_ON_NODE": "1",
        "X": "y",
    }

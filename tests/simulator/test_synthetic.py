"""Made-up workloads: at the load that was asked for, the same for the same seed, with users worth learning."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmsched.simulator import traces
from slurmsched.simulator.workload.synthetic import ARRIVALS, DAY_S, RUNTIMES, SyntheticSpec, synthetic
from slurmsched.simulator.workload.synthetic_users import SyntheticUsers, semisynthetic
from slurmsched.simulator.workload.workload import Workload, workload

DATA = Path(__file__).parents[1] / "data"
SHAPES = [(arrivals, runtimes) for arrivals in ARRIVALS for runtimes in RUNTIMES]


def load(jobs: Workload, spec: SyntheticSpec) -> float:
    return float(np.sum(jobs.gpus * jobs.runtime_s) / (spec.cluster_gpus * (jobs.submit_s[-1] - spec.start_s)))


def explained(jobs: Workload) -> float:
    """How much of the variance of log runtime the mean of the last two runs of that user and name explains."""
    before: dict[str, list[float]] = {}
    pairs = []
    for user, name, log in zip(jobs.user, jobs.name, np.log(jobs.runtime_s).tolist(), strict=True):
        known = before.setdefault(user + "/" + re.sub(r"\d+", "#", name), [])
        if len(known) > 1:
            pairs.append((sum(known[-2:]) / 2, log))
        known.append(log)
    return float(np.corrcoef(np.array(pairs).T)[0, 1] ** 2)


@pytest.mark.parametrize(("arrivals", "runtimes"), SHAPES)
def test_equal_seeds_make_equal_workloads(arrivals, runtimes):
    spec = SyntheticSpec(jobs=2000, arrivals=arrivals, runtimes=runtimes)
    assert synthetic(spec).equals(synthetic(spec))
    assert synthetic(spec).equals(synthetic(spec, np.random.default_rng(0)))
    assert not synthetic(spec).equals(synthetic(replace(spec, seed=1)))


@pytest.mark.parametrize(("arrivals", "runtimes"), SHAPES)
@pytest.mark.parametrize("wanted", [0.3, 0.95, 2.0])
def test_the_load_is_the_one_asked_for(arrivals, runtimes, wanted):
    spec = SyntheticSpec(jobs=3000, arrivals=arrivals, runtimes=runtimes, load=wanted, cluster_gpus=128, start_s=1e9)
    jobs = synthetic(spec)
    assert load(jobs, spec) == pytest.approx(wanted, rel=1e-3)
    assert np.all(np.diff(jobs.submit_s) >= 0)
    assert jobs.submit_s[0] >= spec.start_s


def test_runtimes_and_gpus_follow_the_spec():
    spec = SyntheticSpec(jobs=20000, median_s=600, spread=1.5, gpu_mix=((1, 3), (8, 1)), longest_s=DAY_S)
    jobs = synthetic(spec)
    assert np.median(jobs.runtime_s) == pytest.approx(600, rel=0.05)
    assert np.std(np.log(jobs.runtime_s)) == pytest.approx(1.5, rel=0.05)
    assert np.mean(jobs.gpus == 8) == pytest.approx(0.25, abs=0.02)
    assert jobs.runtime_s.max() <= DAY_S
    assert np.array_equal(jobs.runtime_s, np.round(jobs.runtime_s))


def test_pareto_runtimes_have_their_median_and_a_heavy_tail():
    jobs = synthetic(SyntheticSpec(jobs=20000, runtimes="pareto", median_s=600, tail=1.2))
    assert np.median(jobs.runtime_s) == pytest.approx(600, rel=0.05)
    assert np.percentile(jobs.runtime_s, 99) / 600 == pytest.approx(50 ** (1 / 1.2), rel=0.2)


def test_afternoons_are_busier_than_nights():
    jobs = synthetic(SyntheticSpec(jobs=20000, arrivals="diurnal", longest_s=3600.0, cluster_gpus=8))
    assert jobs.submit_s[-1] > 20 * DAY_S
    hours = np.bincount((jobs.submit_s % DAY_S // 3600).astype(int), minlength=24)
    assert hours.argmax() in range(13, 18)
    assert hours[14:17].sum() > 4 * hours[2:5].sum()


def test_bursts_are_bursty():
    gaps_s = {
        arrivals: np.diff(synthetic(SyntheticSpec(jobs=5000, arrivals=arrivals)).submit_s)
        for arrivals in ("poisson", "bursty")
    }
    spread = {arrivals: np.std(gap) / np.mean(gap) for arrivals, gap in gaps_s.items()}
    assert spread["poisson"] == pytest.approx(1, abs=0.1)
    assert spread["bursty"] > 2


def test_names_tell_about_runtimes_as_much_as_asked():
    told = {
        share: explained(synthetic(SyntheticSpec(jobs=20000, habits=SyntheticUsers(recurrence=share))))
        for share in (0, 0.6, 1)
    }
    assert told[0] < 0.02
    assert 0.4 < told[0.6] < 0.5
    assert told[1] > 0.85


def test_a_few_users_submit_most_and_each_belongs_to_one_partition():
    jobs = synthetic(SyntheticSpec(jobs=20000, partitions=3, habits=SyntheticUsers(users=90)))
    counts = np.sort(np.bincount(jobs.user.codes))[::-1]
    assert 45 <= len(counts) <= 90
    assert counts[: len(counts) // 10].sum() > 0.3 * len(jobs)
    assert len(set(zip(jobs.user, jobs.partition, strict=True))) == len(counts)


def test_limits_are_generous_and_usual():
    jobs = synthetic(SyntheticSpec(jobs=5000))
    assert np.all(jobs.time_limit_s > jobs.runtime_s)
    assert 4 < np.median(jobs.time_limit_s / jobs.runtime_s) < 40
    assert len(np.unique(jobs.time_limit_s)) < 60
    unlimited = synthetic(SyntheticSpec(jobs=50, habits=SyntheticUsers(limits=False)))
    assert np.all(np.isinf(unlimited.time_limit_s))


def test_semisynthetic_attaches_habits_and_changes_nothing_else():
    real = traces.read(DATA / "philly.csv").workload
    made = semisynthetic(real, SyntheticUsers(users=40), np.random.default_rng(7))
    assert made.equals(semisynthetic(real, SyntheticUsers(users=40), np.random.default_rng(7)))
    for name in ("job_id", "submit_s", "runtime_s", "gpus"):
        assert np.array_equal(getattr(made, name), getattr(real, name))
    assert made.partition.equals(real.partition)
    assert len(set(made.user)) > 10
    assert all(re.fullmatch(r"[a-z]+_\d\d_v\d+", name) for name in made.name)
    empty = workload(0)
    assert semisynthetic(empty, SyntheticUsers(), np.random.default_rng(0)) is empty


@pytest.mark.parametrize("jobs", [1, 2, 3])
@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_a_handful_of_jobs_will_do(jobs, arrivals):
    assert len(synthetic(SyntheticSpec(jobs=jobs, arrivals=arrivals))) == jobs


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"jobs": 0}, "jobs = 0: accepted are 1 and more"),
        ({"load": 0}, "load = 0: accepted are a number above 0"),
        ({"arrivals": "weekly"}, "arrivals = 'weekly': accepted are poisson, diurnal, bursty"),
        ({"runtimes": "flat"}, "accepted are lognormal, pareto"),
        ({"median_s": 1e9}, "accepted are seconds from 1 to longest_s"),
        ({"gpu_mix": ()}, "accepted are pairs of GPUs and weight"),
        ({"gpu_mix": ((0, 1.0),)}, "accepted are pairs of GPUs and weight"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        SyntheticSpec(**wrong)


@pytest.mark.parametrize("wrong", [{"users": 0}, {"recurrence": 1.5}, {"slack": 0.5}, {"skew": -1}])
def test_habits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="accepted are"):
        SyntheticUsers(**wrong)

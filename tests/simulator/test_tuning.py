"""The tuner: the profiling partition it simulates, what it searches, and when it recommends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from simulator.worlds import simulate, trace

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.gpu_usage import Use
from slurmsched.config import Settings
from slurmsched.config.service_settings import DaemonSettings
from slurmsched.config.settings import PolicySettings, PowerSettings, ShareSettings
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.errors import ConfigError
from slurmsched.research.tuning.knobs import Knobs, KnobSpace
from slurmsched.research.tuning.search import DAY_S, gain, tuned
from slurmsched.research.tuning.trial import TuningSite, completion_s, speed_beside, with_use
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.setup import Setup
from slurmsched.simulator.trace_forecasts import learnt
from slurmsched.simulator.workload.workload import Workload, workload

NOW = Knobs(200.0, 8, 0, 0, "fifo")


ACTING = Settings(
    daemon=DaemonSettings(every_s=120.0),
    power=PowerSettings(order=True, requeue=True),
    share=ShareSettings(memory_mib=20_000.0),
)


def month(days: int = 15, seed: int = 0) -> Workload:
    """Each midnight ten jobs of seven hours on a GPU, and every sixth hour two of a minute, which find all GPUs taken.

    All of them save their work.
    """
    midnights, hours = np.repeat(np.arange(days) * DAY_S, 10), np.repeat(np.arange(days * 4) * 21600.0, 2) + 60
    submit_s = np.concatenate([midnights, hours])
    order = np.argsort(submit_s, kind="stable")
    long = order < len(midnights)
    scatter = np.random.default_rng(seed).uniform(0.8, 1.2, len(order))
    return workload(
        len(order),
        job_id=np.arange(1, len(order) + 1),
        submit_s=submit_s[order],
        runtime_s=np.where(long, 25000.0, 60.0) * scatter,
        gpus=np.ones(len(order), np.int64),
        name=Labels(long.astype(np.int64), ("short", "long")),
        ckpt=np.ones(len(order), np.bool_),
    )


def site_of(jobs: Workload, nodes: int, gpus: int, share_nodes: int = 0, settings: Settings = ACTING) -> TuningSite:
    return TuningSite(jobs, learnt(jobs), ClusterSpec.of(nodes, gpus), settings, policy_of, share_nodes)


def test_a_trial_is_the_replay_of_the_sites_settings_by_the_daemons_cycles():
    jobs = month(2)
    site = site_of(jobs, 2, 2)
    policy = policy_of(replace(ACTING, policy=PolicySettings(ordering="sjf")))
    replay = simulate(jobs, site.fleet, Setup.of_site(policy, 120.0, "", forecast="history"), learnt=site.forecast)
    assert replay.decisions.decided_by == "decide"
    assert np.array_equal(completion_s(site, replace(NOW, ordering="sjf")), replay.end_s - jobs.submit_s)


def test_values_that_are_tried_are_applied_to_the_settings_with_the_powers_they_need():
    settings = Knobs(100.0, 2, 1, 1, "sjf").applied(Settings())
    assert (settings.profile.t_s, settings.profile.n_max, settings.share.capacity) == (100.0, 2, 1)
    assert settings.policy.ordering == "sjf"
    power = settings.power
    assert power.order
    assert power.profile
    assert power.partition
    assert power.share
    assert not power.requeue, "whether running jobs may be requeued is up to the site"
    assert policy_of(settings).rules.profiling.t_s == 100.0
    pcs = replace(Settings(), policy=PolicySettings(preset="pcs"))
    assert replace(NOW, ordering="wfq").applied(pcs).policy.preset == "pcs"


def test_a_job_leaves_the_profiling_partition_after_its_time_when_others_wait_for_it():
    jobs = trace((0, 2000, 1), (10, 2000, 1), (20, 60, 1), ckpt=[True] * 3)
    knobs = Knobs(100.0, 1, 1, 0, "fifo")
    plain, profiled_jobs = (completion_s(site_of(jobs, 2, 1), each) for each in (NOW, knobs))
    assert plain[2] > 2000
    assert profiled_jobs[2] < 600, "one of the long jobs began anew"
    stays = replace(ACTING, power=PowerSettings(order=True))
    assert completion_s(site_of(jobs, 2, 1, settings=stays), knobs)[2] > 1900, "nobody may be requeued"


def test_jobs_of_a_measured_kind_share_on_the_nodes_for_it_at_the_speed_of_their_pair():
    use = {"gpu_util": [0.2] * 4, "memory_util": [0.1] * 4, "gpu_memory_mib": [1000.0] * 4}
    names = {"name": Labels(np.zeros(4, np.int64), ("train",)), "user": ["alice"] * 4}
    jobs = trace((0, 600, 1), (3000, 50_000, 1), (3100, 50_000, 1), (3200, 50_000, 1), **use, **names)
    site = site_of(jobs, 2, 1, share_nodes=1)
    alone, shared = completion_s(site, NOW), completion_s(site, replace(NOW, capacity=2))
    assert alone[3] > 90_000, "without sharing nobody takes the nodes for it"
    assert shared[2:] == pytest.approx([50_000, 50_000], rel=0.02), "light ones keep their speed"
    assert not replace(site, share_nodes=0).sharing
    assert not replace(site, settings=replace(ACTING, share=ShareSettings())).sharing


def test_two_that_fill_a_gpu_take_turns():
    assert speed_beside(np.array([0.0, 0.5, 1.0, 2.0])).tolist() == [1, 1, 1, 0.5]


def test_what_was_measured_of_a_job_is_that_of_its_last_run():
    jobs = trace((1000, 10, 1), (2000, 10, 1))
    use = [
        Use(start_s, start_s + 10, util, 0.1, 500.0, False) for start_s, util in ((10, 0.9), (1500, 0.3), (1200, 0.5))
    ]
    found = with_use(jobs, [(1, one) for one in use] + [(7, use[0])])
    assert found.gpu_util[0] == 0.3, "not that of another job of this id long ago"
    assert np.isnan(found.gpu_util[1])


def test_the_space_holds_only_what_can_be_simulated():
    space = KnobSpace.of(NOW, nodes=20, gpus=4, profiling=True, sharing=False)
    assert space.profile_nodes == (0, 1, 2, 4)
    assert space.profile_gpus == (1, 2, 4, 8), "the current width stays"
    assert space.capacities == (0,)
    drawn = space.drawn(500, 0, NOW)
    assert drawn[0] == NOW
    assert len(set(drawn)) == len(drawn) == 1 + 3 * 5 * 4, "without a partition its limits make no difference"
    assert space.drawn(9, 3, NOW) == space.drawn(9, 3, NOW) != space.drawn(9, 4, NOW)


def test_the_widest_job_still_finds_its_gpus():
    space = KnobSpace.of(NOW, nodes=20, gpus=4, profiling=True, sharing=False, widest=73)
    assert space.profile_nodes == (0, 1), "nineteen nodes are for the widest job"


def test_the_parameters_of_an_ordering_are_searched_too():
    line = "wfq thresholds=100,inf weights=0.5,0.5"
    space = KnobSpace.of(replace(NOW, ordering=line), nodes=4, gpus=8, profiling=False, sharing=False)
    assert space.orderings[0] == line
    assert any("thresholds=200,inf" in other for other in space.orderings)


def test_what_helps_before_and_in_the_last_week_is_recommended():
    jobs = month()
    site = site_of(jobs, 5, 1, settings=replace(ACTING, daemon=DaemonSettings(every_s=600.0)))
    space = KnobSpace((0, 1), (1,), (0,), ("fifo",))
    steps: list[tuple[int, int]] = []
    verdict = tuned(site, NOW, space, evaluations=2, progress=lambda *step: steps.append(step))
    assert verdict.best.profile_nodes == 1
    assert verdict.recommended
    assert 0 < verdict.held_out.low <= verdict.held_out.share <= verdict.held_out.high
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


@pytest.mark.soak
def test_what_helps_only_before_the_last_week_is_not_recommended():
    jobs = month()
    last = jobs.submit_s >= jobs.submit_s.max() - 7 * DAY_S
    # Short jobs are what profiling helps; in the last week there are none.
    jobs = replace(jobs, runtime_s=np.where(last, 25000.0 / 2, jobs.runtime_s))
    verdict = tuned(site_of(jobs, 5, 1), NOW, KnobSpace((0, 1), (1,), (0,), ("fifo",)), evaluations=3)
    assert verdict.best.profile_nodes == 1
    assert verdict.searched.share > 0 >= verdict.held_out.low
    assert not verdict.recommended


def test_a_gain_that_days_do_not_agree_on_is_noise():
    day = np.repeat(np.arange(7), 10)
    now_s = np.full(70, 100.0)
    steady, lucky = gain(now_s, now_s * 0.9, day), gain(now_s, np.where(day == 3, 20.0, 103.0), day)
    assert steady.low == pytest.approx(0.1)
    assert lucky.share > 0 > lucky.low


def test_too_short_a_history_is_refused():
    with pytest.raises(ConfigError, match="as many before"):
        tuned(site_of(month(5), 4, 1), NOW, KnobSpace(), evaluations=2)

"""The policy that the settings stand for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurmsched.config import Settings
from slurmsched.config.settings import (
    DeadlineSettings,
    MigrateSettings,
    MlfsSettings,
    PolicySettings,
    PowerSettings,
    ShareSettings,
)
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.decide.rules import AdmissionRules, LeaseRules, MigrationRules
from slurmsched.errors import ConfigError
from slurmsched.policies.contract import ADMISSIONS
from slurmsched.powers.share import terms as sharing_rules


def policy(**values: str):
    powers = PowerSettings(order=True, profile=True)
    return policy_of(Settings(policy=PolicySettings(**values), power=powers, deadline=DeadlineSettings(enabled=True)))


def test_a_preset_brings_its_ordering():
    assert policy(preset="pcs").ordering.name == "wfq"
    assert policy(preset="lucid", ordering="lucid").ordering.name == "lucid"


@pytest.mark.parametrize(
    ("ordering", "across", "effective"),
    [
        ("mlfs-h", "account", "account"),
        ("mlfs-h form=rank", "all", "all"),
        ("mlfs-h across=account", "all", "account"),
        ("mlfs-h across=all", "account", "all"),
    ],
)
def test_the_admin_says_among_which_jobs_reports_count_and_a_parameter_of_the_ordering_is_nearer(
    ordering, across, effective
):
    settings = Settings(policy=PolicySettings(ordering=ordering), mlfs=MlfsSettings(across=across))
    assert policy_of(settings).ordering.function.across == effective
    assert policy_of(replace(settings, policy=PolicySettings(ordering="sjf"))).ordering.name == "sjf"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"selection": "backfill"},
            "policy.selection = 'backfill': accepted on a cluster is slurm",
        ),
        ({"placement": "consolidate"}, "Slurm chooses the nodes itself: SelectTypeParameters"),
        ({"admission": "load:1.2"}, "'load:1.2' holds jobs back: it needs power.hold = true"),
        ({"admission": "few"}, "policy.admission = 'few' is not known; there are: accept-all, load"),
        ({"admission": "load:0"}, "accepted is load:X with X above 0"),
        ({"preset": "srtf"}, "preempts running jobs, and on Slurm none is without consent: policy.ordering = 'srtf'"),
        ({"preset": "srtf"}, "policy.preemption = 'lease 20m' asks running ones with ckpt to stop"),
        ({"preemption": "lease 20m"}, "'lease 20m' stops jobs: it needs power.requeue = true"),
        ({"preemption": "lease soon"}, "accepted is lease TIME, a whole number with s, m, h or d such as lease 20m"),
        ({"preemption": "lease 0m"}, "accepted is lease TIME"),
        ({"preset": "pcs", "ordering": "sjf"}, "has the ordering wfq, and policy.ordering = 'sjf'"),
        ({"sharing": "mine"}, "policy.sharing = 'mine' is not known; there are: indolent, none"),
        ({"sharing": "indolent 3"}, "sharing 'indolent' takes no parameters"),
        ({"preset": "mine"}, "preset 'mine' is not known; there are: 3sigma, afs-l"),
        ({"preemption": "mine"}, "policy.preemption = 'mine' is not known; there are: lease, least-loss, never"),
        ({"profiling": "mine"}, "policy.profiling = 'mine' is not known; there are: new-jobs"),
    ],
)
def test_what_slurm_does_itself_is_refused_with_what_to_use_instead(values, words):
    with pytest.raises(ConfigError, match=words):
        policy(**values)


def test_links_between_the_gpus_of_sharing_nodes_are_read_as_gres_conf_has_them():
    rules = sharing_rules(Settings(share=ShareSettings(links=("-1,2", "2,-1"))))
    assert rules.links == ((12.0, 50.0), (50.0, 12.0))
    assert sharing_rules(Settings()).links == ()
    with pytest.raises(ConfigError, match=r"share.links: '-1,x' for GPU 0: accepted are 2 numbers of links"):
        sharing_rules(Settings(share=ShareSettings(links=("-1,x", "2,-1"))))


def test_a_bound_on_the_load_holds_jobs_for_two_cycles_and_accept_all_none():
    held = PowerSettings(order=True, hold=True)
    rules = policy_of(Settings(policy=PolicySettings(admission="load:1.2"), power=held)).rules
    assert rules.admission == AdmissionRules("load:1.2", hold_s=30.0)
    section = PolicySettings(admission="load:1.2", interactive_gpu_hours=0.5)
    assert policy_of(Settings(policy=section, power=held)).rules.admission.interactive_gpu_hours == 0.5
    assert policy_of(Settings(power=held)).rules.admission is None


def test_a_lease_has_its_time_and_the_stops_of_the_deadline_section_without_promises_too():
    powers = PowerSettings(order=True, requeue=True)
    section = DeadlineSettings(stop_s=30.0, asks_a_day=9, lead_s=20.0, restart_s=62.0)
    times = {"lease 20m": "20m", "lease time=90s": "90s", "lease 45": "45"}
    for line, lease_s in (("lease 20m", 1200.0), ("lease time=90s", 90.0), ("lease 45", 45.0)):
        settings = Settings(policy=PolicySettings(preset="tiresias", preemption=line), power=powers, deadline=section)
        policy = policy_of(settings)
        assert policy.ordering.name == "tiresias"
        assert policy.rules.lease == LeaseRules(
            f"lease time={times[line]}",
            lease_s,
            20.0,
            restart_s=62.0,
            restart_doubling_s=30.0,
            stop_s=30.0,
            stop_signal="URG",
            asks_a_day=9,
        )
        assert policy.rules.deadlines is None


def test_migration_takes_its_stops_from_deadlines_and_needs_the_power_to_requeue():
    section = DeadlineSettings(stop_s=30.0, asks_a_day=9, restart_s=62.0)
    migrate = MigrateSettings(overload=0.8, for_s=300.0, every_s=7200.0, patience_s=900.0)
    powers = PowerSettings(migrate=True, requeue=True)
    rules = policy_of(Settings(power=powers, migrate=migrate, deadline=section)).rules
    assert rules.migration == MigrationRules(
        0.8, 300.0, 7200.0, 900.0, restart_s=62.0, restart_doubling_s=30.0, stop_s=30.0, stop_signal="URG", asks_a_day=9
    )
    assert rules.asks_a_day == 9
    assert policy_of(Settings(migrate=migrate)).rules.migration is None
    with pytest.raises(ConfigError, match="it needs power"):
        policy_of(Settings(power=PowerSettings(migrate=True)))


def test_nobody_yields_to_the_order_by_default_and_never_says_so_to_promises_too():
    powers = PowerSettings(order=True, requeue=True)
    assert policy_of(Settings(power=powers)).rules.lease is None
    never = PolicySettings(preemption="never")
    assert policy_of(Settings(power=powers, policy=never)).rules.lease is None
    yields = DeadlineSettings(enabled=True, yields=True)
    with pytest.raises(ConfigError, match="then no job yields to promises"):
        policy_of(Settings(power=powers, policy=never, deadline=yields))


def test_an_admission_that_refuses_jobs_is_told_what_to_use_instead():
    part = replace(ADMISSIONS["accept-all"], name="turn-away", function=lambda view: None, powers=frozenset({"refuse"}))
    ADMISSIONS.add(part)
    words = r"needs to refuse jobs.* MaxSubmitJobs and GrpTRES .* load:X lets them wait"
    try:
        with pytest.raises(ConfigError, match=words):
            policy(admission="turn-away")
    finally:
        del ADMISSIONS._parts["turn-away"]


def test_jobs_share_by_the_indolent_rule_where_the_power_is_on_unless_the_policy_says_none():
    section = ShareSettings(memory_mib=1000.0)

    def makes_pairs(*, share: bool, **policy: str) -> bool:
        settings = Settings(policy=PolicySettings(**policy), power=PowerSettings(share=share), share=section)
        return policy_of(settings).rules.sharing.makes_pairs

    assert makes_pairs(share=True)
    assert makes_pairs(share=True, sharing="indolent")
    assert not makes_pairs(share=True, sharing="none")
    assert not makes_pairs(share=False, sharing="indolent")

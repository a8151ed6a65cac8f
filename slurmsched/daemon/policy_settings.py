"""The settings as a policy and its rules."""

from __future__ import annotations

import re

from ..config import Settings
from ..decide.policy import Policy
from ..decide.rules import DeadlineRules, ProfilingRules, Rules, SharingRules, read_steps
from ..errors import ConfigError
from ..policies.contract import find_ordering
from ..policies.sharing import OFF
from ..slurm.checkup import powers

DAY_S = 86400.0
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def policy_of(settings: Settings, line: str | None = None) -> Policy:
    """What decides, by the settings, and the ordering of *line* in place of theirs; ConfigError if it means nothing."""
    order = settings.order
    rules = Rules(
        powers=frozenset(powers(settings)),
        scope=order.scope,  # type: ignore[arg-type]  # the loader lets only scopes through
        max_points=order.max_points,
        window=order.window,
        only_partitions=frozenset(order.partitions),
        starvation_s=settings.policy.starvation_s,
        deadlines=_deadline_rules(settings) if settings.deadline.enabled else None,
        profiling=profiling_rules(settings) if settings.power.profile else None,
        sharing=sharing_rules(settings),
    )
    return Policy(find_ordering(line or settings.policy.ordering), rules)


def _deadline_rules(settings: Settings) -> DeadlineRules:
    said = settings.deadline
    return DeadlineRules(
        margin=said.margin,
        reserve=said.reserve,
        lead_s=said.lead_s,
        hold_s=2 * settings.daemon.every_s,
        hold_most_s=said.hold_most_s,
        user_gpu_hours=said.user_gpu_hours,
        account_gpu_hours=said.account_gpu_hours,
        window_s=said.quota_days * DAY_S,
        user_gpus=said.user_gpus,
        interval_s=said.interval_s,
        user_share=said.user_share,
        exempt=tuple(sorted(said.exempt)),
        soft_steps=read_steps(said.soft_steps),
        yields=said.yields,
        lease_s=said.lease_s,
        stop_s=said.stop_s,
        stop_signal=said.stop_signal,
        asks_a_day=said.asks_a_day,
    )


def profiling_rules(settings: Settings) -> ProfilingRules:
    """What ``[profile]`` says of it; ConfigError where the partitions make no sense."""
    said = settings.profile
    for key, name in (("partition", said.partition), ("home", said.home or "none")):
        if not _NAME.fullmatch(name):
            raise ConfigError(f"profile.{key} = {name!r}: with power.profile it is the name of one partition")
    if said.partition == said.home:
        raise ConfigError(f"profile.home = {said.home!r}: it lends nodes to profile.partition, so it is another one")
    names = ("partition", "n_max", "n_least", "t_s", "t_least_s", "wait_s", "home", "nodes_most")
    return ProfilingRules(**{name: getattr(said, name) for name in names})


def sharing_rules(settings: Settings) -> SharingRules:
    """The rules of ``[share]``, under which nobody sets out to share without power.share; ConfigError where they clash.

    Jobs on their way when the power is switched off need them, to arrive or to go back.
    """
    said, on = settings.share, settings.power.share
    if not _NAME.fullmatch(said.partition):
        raise ConfigError(f"share.partition = {said.partition!r}: it is the name of one partition")
    if on and settings.power.profile and said.partition in (settings.profile.partition, settings.profile.home):
        raise ConfigError(
            f"share.partition = {said.partition!r}: no job may have whole GPUs there, so it is neither"
            " profile.partition nor profile.home"
        )
    # Slurm shows what was asked of it in the next cycle, and one cycle may be lost.
    wait_s = 2 * settings.daemon.every_s
    return SharingRules(
        partition=said.partition,
        capacity=said.capacity if on else OFF,
        memory_mib=said.memory_mib,
        other_users=said.other_users,
        wait_s=wait_s,
        patience_s=max(SharingRules.patience_s, 5 * wait_s),
        evict=said.evict,
    )

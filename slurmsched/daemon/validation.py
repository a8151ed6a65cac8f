"""Validation of settings by the parts that use them, for ``config check``, a start and a reload."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ..config import Settings
from ..config.files import Problems
from ..config.suggestion import suggestion
from ..errors import ConfigError


def problems_of(settings: Settings) -> list[str]:
    """Return every reason why no daemon can start with *settings*."""
    problems = []
    for test in _tests(settings):
        try:
            test()
        except ConfigError as error:
            problems.append(str(error))
    return problems


def demand_valid(settings: Settings) -> None:
    """Raise ConfigError with all problems of *settings* at once."""
    if problems := problems_of(settings):
        raise Problems(problems)


def unknown_partitions(settings: Settings, partitions: Iterable[str]) -> list[str]:
    """Return a sentence for each name in *settings* that is not one of the cluster's *partitions*.

    Such a name does not prevent a start: partitions come and go with slurm.conf.
    """
    existing = list(partitions)
    return [
        f"{setting} names {name}, which is no partition of this cluster{suggestion(name, existing)}"
        for setting, name in named_partitions(settings)
        if name not in existing
    ]


def named_partitions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the partitions that *settings* name for enabled features, each with the name of its setting."""
    for name in settings.order.partitions:
        yield "order.partitions", name
    if settings.power.share:
        yield "share.partition", settings.share.partition
    if settings.power.profile:
        yield "profile.partition", settings.profile.partition
        if settings.profile.home:
            yield "profile.home", settings.profile.home


def _tests(settings: Settings) -> tuple[Callable[[], object], ...]:
    from ..db.database import Database, database_url
    from ..decide.rules import read_steps
    from ..powers import POWERS
    from .api import http_metrics
    from .api.named_users import named_users
    from .api.remote_access import remote_access
    from .notices.channels import demand_valid_notices
    from .policy_settings import (
        guest_lines,
        ordering_of,
        shadow_of,
    )
    from .profiles import profile_receiver
    from .profiles.prometheus_service import demand_valid_prometheus

    url = database_url(settings.database.url, settings.daemon.state_dir)
    return (
        lambda: demand_valid_notices(settings.notices),
        lambda: demand_valid_prometheus(settings.profile),
        lambda: ordering_of(settings),
        lambda: shadow_of(settings),
        lambda: http_metrics.metrics_access(settings.metrics),
        lambda: profile_receiver.parse_listen(settings.profile.listen),
        lambda: remote_access(settings.remote),
        lambda: named_users(settings.web, os.geteuid()),
        lambda: read_steps(settings.deadline.soft_steps),
        *(partial(power.terms, settings) for power in POWERS),
        lambda: guest_lines(settings),
        lambda: Database(url, timeout_s=settings.database.timeout_s).close(),
    )

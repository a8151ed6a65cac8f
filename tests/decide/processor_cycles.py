"""Cycles whose plans must be the same on every processor: those on record, and drawn ones full of ties.

``python -m decide.processor_cycles N`` prints the plan of each as JSON, with N drawn views for each ordering and each
preset.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
from decide.test_recorded import RECORDS, read
from decide.views import ALL_POWERS, NOW_S, jobs, nodes, running_jobs, view

from slurmsched.cluster.columns import Labels
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.state import View
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import (
    Composition,
    DeadlineRules,
    LeaseRules,
    MigrationRules,
    ResizingRules,
    RightsizingRules,
    Rules,
    SharingRules,
    SteeringRules,
)
from slurmsched.policies.contract import ORDERINGS, find_ordering
from slurmsched.policies.presets import PRESETS
from slurmsched.policies.resizing import SIZE_DIVISIONS
from slurmsched.powers import decide
from slurmsched.research import parts  # noqa: F401  # registers them
from slurmsched.simulator.cycle_driver import composed

Cycle = tuple[str, View, Policy]

COMMENTS = (
    *("", "", "slurmsched:ckpt", "slurmsched:gpus=1-4,ckpt", "slurmsched:gpus=2-4,ckpt", "slurmsched:gpus=1-8,ckpt"),
    "slurmsched:gpus=1-4,batch=64-256,ckpt",
    *("slurmsched:types=a100+v100", "slurmsched:urgency=3", "slurmsched:urgency=8,ckpt"),
)

SECONDS = (60.0, 600.0, 700.0, 3600.0, 4000.0, 7200.0, math.nan)
"""Runtimes by forecast: few, so that gains, losses and ends are often equal."""

TENTHS = np.arange(11, 20)
"""Tenths of the speed of half of the GPUs that a job has on all."""


def lively_view(random: np.random.Generator) -> View:
    """Draw a full cluster of two types of GPUs, with jobs of all sorts that are alike in much."""
    count, going = int(random.integers(4, 14)), int(random.integers(2, 7))

    def each(many: int, *values: Any) -> list[Any]:
        return [values[at] for at in random.integers(0, len(values), many)]

    def columns(many: int) -> dict[str, Any]:
        return {
            "gpus": each(many, 1, 1, 2, 2, 4),
            "comment": each(many, *COMMENTS),
            "user": each(many, "alice", "alice", "bob"),
            "account": each(many, "astro", "bio"),
            "name": each(many, "train", "train", "eval"),
            "cpus": each(many, 1, 2, 4),
            "time_limit_s": each(many, 86_400.0, 7200.0),
            "first_submit_s": [NOW_S - ago_s for ago_s in each(many, 5000.0, 5000.0, 90_000.0)],
            "size_speeds": each(many, "", "", "2=1 4=1.9", "1=1 2=1.7 4=2.9", "1=1 8=7"),
            "sample_speeds": each(many, "", "2=1 4=1.5"),
            "type_speeds": each(many, "", "a100=1 v100=0.5", "a100=1 v100=0.7"),
            "noise": each(many, np.nan, 64.0, 1e4),
            "own_gpus": each(many, 0, 0, 2),
            "ran_s": each(many, 0.0, 0.0, 600.0, 3600.0),
            "share_score": each(many, 0, 1, 2),
            "gpu_util": each(many, 0.3, 0.3, 0.7, np.nan),
            "gpu_memory_mib": each(many, 1000.0, 9000.0),
            "measured": each(many, True, True, False),
        }

    due_s = [NOW_S + in_s for in_s in each(count, math.inf, math.inf, 4000.0, 7200.0, 20_000.0)]
    pending = jobs(count, restarts=each(count, 0, 0, 1), deadline_s=due_s, **columns(count))
    running = running_jobs(
        going,
        node_list=each(going, "n1", "n2", "n3", "n4"),
        started_s=[NOW_S - ago_s for ago_s in each(going, 700.0, 1300.0, 1300.0, 90_000.0)],
        **columns(going),
    )
    used = [min(4, int(running.gpus[[host == name for host in running.node_list]].sum())) for name in NODES]
    room = replace(
        nodes((4, 4, 4, 4), used),
        gpu_type=Labels.of(["a100", "a100", "v100", "v100"]),
        cpu_load=np.array(each(4, np.nan, 2.0, 7.9, 12.0)),
        free_memory_mib=np.array(each(4, np.nan, 15_000.0, 500.0)),
    )
    seen = view(pending, each(count, *SECONDS), running=running, room=room)
    forecast = replace(seen.forecast_running, runtime_s=np.array(each(going, *SECONDS)) + 1300.0)
    forecast = replace(forecast, low_s=forecast.runtime_s / 2, high_s=forecast.runtime_s * 3)
    return replace(seen, forecast_running=forecast)


NODES = ("n1", "n2", "n3", "n4")


def tied(left_s: float, doubling: float) -> tuple[View, Rules]:
    """Return a running job that loses as much with half of its GPUs as the waiting one gains."""
    columns = {"gpus": [4], "comment": ["slurmsched:gpus=2-4,ckpt"], "started_s": [NOW_S - 1000.0]}
    seen = view(jobs(1, gpus=[2]), running=running_jobs(1, **columns), room=nodes((4,), (4,)))
    seen = replace(seen, forecast_running=replace(seen.forecast_running, runtime_s=np.array([1000.0 + left_s])))
    cost_s = round(left_s * (2.0 - doubling), 3)
    sizes = ResizingRules(least_s=600.0, restart_s=cost_s, stop_s=60.0, doubling=doubling)
    return seen, Rules(powers=frozenset({"resize", "requeue"}), resizing=sizes)


def all_powers(division: str) -> Rules:
    """Return rules with every power on, and *division* of GPUs among jobs of several sizes."""
    return Rules(
        powers=ALL_POWERS,
        scope="queue",
        deadlines=DeadlineRules(yields=True, user_gpu_hours=40.0, user_share=0.5),
        sharing=SharingRules("", memory_mib=20_000.0, wait_s=0.0, curve=((0.0, 1.0), (1.0, 0.8), (2.0, 0.5))),
        lease=LeaseRules("lease 10m", 600.0),
        steering=SteeringRules(),
        migration=MigrationRules(),
        rightsizing=RightsizingRules(accounts=("astro",)),
        resizing=ResizingRules(division=division),
        stopping="owner-rule",
    )


def cycles(views: int) -> Iterator[Cycle]:
    """Yield all cycles with their names and policies, with so many drawn *views* for each ordering and preset."""
    for record in RECORDS:
        found = read(record)
        yield f"recorded {record['now_s']:.0f}", found.view, Policy.from_json(found.settings_json)
    names = [name for name, ordering in ORDERINGS.items() if not ordering.needs]
    divisions = list(SIZE_DIVISIONS)
    for number, name in enumerate(names):
        random = np.random.default_rng(number)
        for at in range(views):
            division = divisions[(number + at) % len(divisions)]
            policy = Policy(find_ordering(name), all_powers(division))
            yield f"{name} with {division} {at}", lively_view(random), policy
    for doubling in TENTHS / 10.0:
        for left_s in SECONDS[1:-1]:
            seen, rules = tied(left_s, float(doubling))
            yield f"tie of {left_s:g} s, {doubling:g}-fold", seen, Policy(find_ordering("fifo"), rules)
    for number, (name, preset) in enumerate(PRESETS.items()):
        random = np.random.default_rng(1000 + number)
        policy = composed(find_ordering(preset.ordering), Composition(preset.selection, preset.placement))
        for at in range(views):
            yield f"preset {name} {at}", lively_view(random), policy


def told(plan: Plan) -> list[str]:
    """Return a plan as texts, exact to the last bit."""
    placing = [f"{one.name}: {getattr(plan.jobs, one.name).tolist()}" for one in fields(plan.jobs)]
    promises = [f"promises.{one.name}: {list(getattr(plan.promises, one.name))}" for one in fields(plan.promises)]
    return [*placing, *map(str, plan.actions), *map(str, plan.refusals), *promises]


def plans(views: int) -> dict[str, list[str]]:
    """Return the plan of each cycle."""
    return {name: told(decide(seen, policy.ordering, policy.rules)) for name, seen, policy in cycles(views)}


if __name__ == "__main__":
    json.dump(plans(int(sys.argv[1])), sys.stdout)

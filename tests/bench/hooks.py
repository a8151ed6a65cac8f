"""``python -m tests.bench.hooks``: what parts of a policy cost a decision about 10,000 pending jobs, and ``auto``."""

from __future__ import annotations

import gc
from dataclasses import replace
from time import process_time

import numpy as np

from slurmsched.cluster.actions import Hold
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.state import View
from slurmsched.decide.rules import AdmissionRules, LeaseRules, Rules
from slurmsched.decide.synthesis import SynthesisRules
from slurmsched.foresee.composition_outlooks import composition_outlooks
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.simulator.cycle_driver import whole_queue

from .predictions import view
from .synthetic import after

PENDING, NODES = 10_000, 1_000
CYCLE_S = 0.40  #: a steady cycle of 10,000 pending jobs on a real Slurm (docs/performance.md)
MOST = 0.05  #: of the cycle
RUNS = 25
NINE = "auto orderings=fifo,srtf,srsf"  #: their orders differ here, unlike those of fifo and las
SLURM = {"SelectTypeParameters": "CR_CORE_MEMORY"}
PLAIN = Rules(powers=frozenset({"order"}), scope="queue")
PARTS = {
    "ordering alone": PLAIN,
    "admission load:1.2": replace(PLAIN, powers=PLAIN.powers | {"hold"}, admission=AdmissionRules("load:1.2")),
    "preemption lease 20m": replace(PLAIN, powers=PLAIN.powers | {"requeue"}, lease=LeaseRules("lease 20m", 1200.0)),
    "stopping owner-rule": replace(PLAIN, powers=PLAIN.powers | {"stop"}, stopping="owner-rule"),
}
ALL = replace(
    PLAIN,
    powers=PLAIN.powers | {"hold", "requeue", "stop"},
    admission=AdmissionRules("load:1.2"),
    lease=LeaseRules("lease 20m", 1200.0),
    stopping="owner-rule",
)


def bench_parts() -> None:
    """Print the processor time of a steady decision under each part."""
    ordering, cold = find_ordering("las"), view(PENDING, NODES, 4)
    print(f"decide() about {PENDING:,} pending jobs on {NODES:,} nodes, median of {RUNS}, processor time")
    plain_s = 0.0
    for name, rules in {**PARTS, "all of these": ALL}.items():
        took_s = _median_s(_steady(cold, decide(cold, ordering, rules)), rules)
        plain_s = plain_s or took_s
        more = f"{1e3 * (took_s - plain_s):+6.1f} ms, {100 * (took_s - plain_s) / CYCLE_S:+5.1f} % of a cycle"
        print(f"  {name:<22}{1e3 * took_s:7.1f} ms  {more}  target: {MOST:.0%}", flush=True)


def _steady(cold: View, plan: Plan) -> View:
    """Return the queue once Slurm shows the points and the holds, each of these after some part of its time."""
    state = after(cold, plan)
    until_s = {wish.job_id: wish.until_s for wish in plan.actions if isinstance(wish, Hold)}
    random = np.random.default_rng(0)
    ends_s = np.array([until_s.get(job, np.nan) for job in state.pending.job_id.tolist()])
    begin_s = cold.now_s + (ends_s - cold.now_s) * random.random(len(ends_s))
    held = np.isfinite(ends_s)
    eligible_s = np.where(held, begin_s, state.pending.eligible_s)
    return replace(state, pending=replace(state.pending, held_by_us=held, eligible_s=eligible_s))


def _median_s(state: View, rules: Rules) -> float:
    ordering, took_s = find_ordering("las"), []
    for _ in range(RUNS):
        gc.collect()
        began_s = process_time()
        decide(state, ordering, rules)
        took_s.append(process_time() - began_s)
    return sorted(took_s)[RUNS // 2]


def bench_auto() -> None:
    """Print the processor time of a forecast of nine compositions on a cluster, after compilation."""
    policy, rules = whole_queue(find_ordering("fifo")), SynthesisRules.of(NINE)
    print("forecast of nine compositions that all differ, and of the arrivals of a day, processor time (target: 5 s)")
    for pending, nodes, partitions in ((200, 20, 1), (PENDING, NODES, 1), (PENDING, NODES, 4), (PENDING, 200, 4)):
        began_s = process_time()
        seen = view(pending, nodes, partitions)
        composition_outlooks(seen, policy, rules.candidates, SLURM, outcomes_of(()), rules.arrivals_s)
        if pending == PENDING:
            shape = f"{pending:,} pending, {nodes:,} nodes, {partitions} partitions"
            print(f"  {shape}: {process_time() - began_s:.2f} s", flush=True)


def main() -> None:
    """Print both."""
    bench_parts()
    bench_auto()


if __name__ == "__main__":
    main()

"""Each part of a policy, and the function that decides it in the daemon and in simulations.

``python -m tests.decisions`` prints the table, which stands in docs/design.md. Where the functions of a row are one
object, what a simulation measures is what the daemon runs. The other rows are still written several times, and say so:
``FORMS`` names what else in the tree decides by the same rule, loops of studies and of explanations included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from slurmsched.config import Settings
from slurmsched.config.settings import DeadlineSettings, PolicySettings, PowerSettings
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.decide import run_set
from slurmsched.decide.deadlines.promises import promise
from slurmsched.decide.ordering import greedy_fit
from slurmsched.decide.rules import Rules
from slurmsched.policies.admission import find_admission, load_of
from slurmsched.policies.contract import (
    ADMISSIONS,
    ORDERINGS,
    PLACEMENTS,
    PREEMPTIONS,
    PROFILINGS,
    SCALINGS,
    SELECTIONS,
    SHARINGS,
    STOPPINGS,
)
from slurmsched.policies.selection.fragmentation import gradient
from slurmsched.policies.selection.loops import start_beside_reservations, start_in_turn
from slurmsched.policies.selection.preemption import run_best
from slurmsched.powers.profile import profiling_rules
from slurmsched.powers.share import packing
from slurmsched.research import parts  # noqa: F401  # registers them
from slurmsched.research.elastic.divisions import DIVISIONS
from slurmsched.research.elastic.experiment import shares_of
from slurmsched.research.tasks.gangs import fits_in_turn
from slurmsched.simulator.cycle_driver import composed, whole_queue
from slurmsched.simulator.machine import event_loop, starters
from slurmsched.simulator.pair_rules import pair_rules
from slurmsched.simulator.setup import RESERVING, Setup
from slurmsched.simulator.slurmctld.slurmctld import backfill_loop, main_loop, step_s

Function = Callable[..., Any]


@dataclass(frozen=True)
class Decision:
    """A part of a policy, and the function that decides it: None where nobody does."""

    hook: str
    part: str
    daemon: Function | None  #: in the daemon's cycle; None where Slurm itself decides
    ideal: Function | None  #: on a cluster that carries plans out as they are
    slurm: Function | None  #: beside the model of slurmctld
    fast: Function | None  #: in the compiled core; of a selection the loop that it calls

    @property
    def forms(self) -> list[Function]:
        """The different functions that decide it; objects made of the same parameters are one."""
        found: list[Function] = []
        others = FORMS.get((self.hook, self.part), ())
        for function in (self.daemon, self.ideal, self.slurm, self.fast, *others):
            if function is not None and all(function != one for one in found):
                found.append(function)
        return found


IN_TURN, BESIDE_RESERVATIONS = (fits_in_turn, main_loop), (backfill_loop,)
FORMS: dict[tuple[str, str], tuple[Function, ...]] = {
    ("selection", "strict"): IN_TURN,
    ("selection", "backfill"): (*IN_TURN, greedy_fit.fill),
    ("selection", "easy"): BESIDE_RESERVATIONS,
    ("selection", "conservative"): BESIDE_RESERVATIONS,
    **dict.fromkeys((("ordering", name) for name in ("tiresias", "tiresias-promoting")), (starters._level, step_s)),
}
"""What decides by the same rule outside the columns of the table, by hook and part."""


def decisions() -> Iterator[Decision]:
    """Yield a row for each part."""
    for name in ORDERINGS:
        setup = Setup.of(name, "backfill")
        yield Decision(
            "ordering",
            name,
            policy_of(Settings(policy=PolicySettings(ordering=name))).ordering.function,
            composed(setup.ordering, setup.composition).ordering.function,
            whole_queue(setup.ordering).ordering.function,
            setup.ordering.function,
        )
    for name in ADMISSIONS:
        line = {"load": "load:1.2"}.get(name, name)
        fast = find_admission(line).function if name == "accept-all" else event_loop._let_in
        rules = policy_of(Settings(policy=PolicySettings(admission=line), power=PowerSettings(hold=True))).rules
        if name == "unchanged":  # of decisions from which plug-ins are left out
            yield Decision("admission", name, _admits(rules), None, _admits(rules), None)
            continue
        setup = Setup.of("fifo", admission=load_of(line))
        ideal = composed(setup.ordering, setup.composition, admission=setup.admits).rules
        slurm = whole_queue(setup.ordering, setup.admits).rules
        daemons, directs, models = (_admits(one) for one in (rules, ideal, slurm))
        yield Decision("admission", name, daemons, directs, models, fast)
    loops = {"strict": start_in_turn, "backfill": start_in_turn, "preemptive": run_best}
    loops |= dict.fromkeys(RESERVING, start_beside_reservations)
    for name in SELECTIONS:
        ideal = SELECTIONS.find(Setup.of("fifo", name).composition.selection).function
        yield Decision("selection", name, None, loops.get(name, ideal), None, loops.get(name))
    for name, placement in PLACEMENTS.items():
        if placement.by_jobs:
            yield Decision("placement", name, None, gradient, None, None)
            continue
        yield Decision("placement", name, None, placement.function, None, placement.function)
    for name in SHARINGS:
        policy = policy_of(Settings(policy=PolicySettings(sharing=name)))
        assert policy.rules.sharing is not None
        pairing = SHARINGS.find(policy.rules.sharing.rule).function
        shares = pair_rules(name)
        ideal = None if shares is None else SHARINGS.find(shares.rule).function
        yield Decision("sharing", name, pairing, ideal, pairing, None)
    yield Decision("admission", "promises", promise, promise, promise, None)
    for name in PREEMPTIONS:
        powers, deadlines = PowerSettings(order=True, requeue=True), DeadlineSettings(enabled=True)
        policy = policy_of(Settings(policy=PolicySettings(preemption=name), power=powers, deadline=deadlines))
        rules = policy.rules
        chosen = PREEMPTIONS.find(rules.deadlines.preemption if rules.deadlines else "").function
        yield Decision("preemption", name, chosen, None, chosen, None)
    yield Decision("sharing", "pairs", packing.paired, run_set.paired, packing.paired, None)
    for name in PROFILINGS:
        rules = profiling_rules(Settings(policy=PolicySettings(profiling=name)))
        part = PROFILINGS.find(rules.part)
        setup = Setup.of("lucid")
        shown = composed(setup.ordering, setup.composition, None, rules).rules.profiling
        ideal = PROFILINGS.find(shown.part if shown is not None else "")
        yield Decision("profiling", name, part.function, ideal.function, part.function, None)
        yield Decision("profiling", f"{name}: nodes", part.lend, ideal.lend, part.lend, None)
    for name in STOPPINGS:
        rules = policy_of(Settings(policy=PolicySettings(stopping=name), power=PowerSettings(stop=True))).rules
        part = STOPPINGS.find(rules.stopping).function
        yield Decision("stopping", name, part, None, part, None)
    for name in DIVISIONS:
        yield Decision("division", name, None, None, None, shares_of(name))
    for name, scaling in SCALINGS.items():
        yield Decision("scaling", name, None, scaling.function, None, None)


def _admits(rules: Rules) -> Function:
    return find_admission(rules.admission.part if rules.admission is not None else "accept-all").function


def table() -> str:
    """Return the rows as a table of Markdown."""
    heads = ("hook", "part", "the daemon", "plans as they are", "beside slurmctld", "compiled core", "forms")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for one in decisions():
        functions = (one.daemon, one.ideal, one.slurm, one.fast)
        first = next(function for function in functions if function is not None)
        place = functions.index(first)
        cells = [_name(f) if at == place or f != first else "the same" for at, f in enumerate(functions)]
        more = [_name(form) for form in one.forms if form not in functions]
        count = ": and ".join([str(len(one.forms)), *([", ".join(more)] if more else [])])
        lines.append(f"| {' | '.join([one.hook, one.part, *cells])} | {count} |")
    return "\n".join(lines)


def _name(function: Function | None) -> str:
    if function is None:
        return "–"
    named = function if hasattr(function, "__qualname__") else type(function)
    module = named.__module__.removeprefix("slurmsched.")
    return f"`{module}.{named.__qualname__}`"


if __name__ == "__main__":
    print(table())

"""Run this with pytest where slurmsched and this package are installed."""

from dataclasses import replace

from slurmsched import find_ordering
from slurmsched.cluster.actions import Hold
from slurmsched.cluster.forecast import no_forecast
from slurmsched.cluster.state import View
from slurmsched.decide.rules import Rules
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm

RULES = Rules(powers=frozenset({"hold"}), guests=("siesta",))


def wishes(slurm, rules=RULES):
    """What is written in one cycle, for jobs that we delayed as soon as they have a begin time."""
    state = slurm.observe()
    pending = state.pending.changed(held_by_us=state.pending.eligible_s > slurm.now_s)
    unknown = (no_forecast(len(jobs)) for jobs in (pending, state.running))
    view = View(slurm.now_s, pending, state.running, state.nodes, state.partitions, state.qos, *unknown)
    return list(decide(view, find_ordering("fifo"), rules).actions)


def test_a_job_has_one_nap_which_other_cycles_leave_alone():
    slurm = FakeSlurm(now_s=1_000_000.0)
    sleepy, _ = (slurm.submit(60.0, name=name, gpus=1) for name in ("nap-one", "two"))
    assert wishes(slurm) == [Hold(sleepy, 1_003_600.0)]
    slurm.act([Hold(sleepy, 1_003_600.0)])
    assert wishes(slurm) == []


def test_without_the_power_to_hold_nobody_naps():
    slurm = FakeSlurm(now_s=1_000_000.0)
    slurm.submit(60.0, name="nap-one", gpus=1)
    assert wishes(slurm, replace(RULES, powers=frozenset())) == []

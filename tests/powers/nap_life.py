"""The life of a nap, in a copy of the product that has this power: what the referee lets through, and its way back."""

from __future__ import annotations

from dataclasses import replace

from slurmsched.cluster.actions import Nap, Release
from slurmsched.cluster.actions.base import OwnIntents
from slurmsched.cluster.actions.own_columns import undone
from slurmsched.cluster.filling import with_columns
from slurmsched.cluster.forecast import no_forecast
from slurmsched.cluster.state import ClusterState, View
from slurmsched.config import Settings
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.db.tracking.intents import Intents
from slurmsched.decide.policy import Policy
from slurmsched.powers import decide, words
from slurmsched.slurm.adapters.fake import FakeSlurm
from slurmsched.slurm.write.verbs import lines

NOW_S = 1_000_000.0


def settings(*, nap: bool) -> Settings:
    plain = Settings()
    return replace(plain, power=replace(plain.power, nap=nap), nap=replace(plain.nap, length_s=600.0))


def seen(state: ClusterState) -> View:
    unknown = (no_forecast(len(jobs)) for jobs in (state.pending, state.running))
    return View(NOW_S, state.pending, state.running, state.nodes, state.partitions, state.qos, *unknown)


def main() -> None:
    slurm, intents = FakeSlurm(now_s=NOW_S), Intents()
    sleepy, awake = (slurm.submit(100.0, name=name, gpus=1) for name in ("nap-one", "two"))
    policy, off = policy_of(settings(nap=True)), policy_of(settings(nap=False))
    assert Policy.from_json(policy.to_json()).rules == policy.rules

    def plan(wanted: Policy = policy) -> list[object]:
        view = seen(with_columns(state := slurm.observe(), [intents.columns(state, NOW_S)]))
        return list(decide(view, wanted.ordering, wanted.rules).actions)

    assert plan(off) == []
    nap = Nap(sleepy, NOW_S + 600.0)
    assert plan() == [nap]
    assert lines(nap) == (f"update jobid={sleepy} starttime=uts{int(NOW_S + 600.0)}",)
    intents.intend(1, [nap], NOW_S)
    (answer,) = slurm.act([nap])
    intents.answered(1, [(nap, answer.refused)], NOW_S)
    intents.observe(slurm.observe(), (), NOW_S)
    (intent,) = intents
    assert (intent.refused, intent.seen_s, intent.closed_s) == (None, NOW_S, None)
    assert plan() == []
    view = seen(with_columns(state := slurm.observe(), [intents.columns(state, NOW_S)]))
    placed = decide(view, policy.ordering, policy.rules)
    assert list(words(view, placed, policy.rules, sleepy)) == [
        "Its name begins with nap-, so it has a nap before it starts."
    ]
    assert list(words(view, placed, policy.rules, awake)) == []
    assert undone(OwnIntents.among(intents), view.pending) == [Release(sleepy)]
    print("a nap was had, told and ended")


if __name__ == "__main__":
    main()

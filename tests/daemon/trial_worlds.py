"""Sites on which trials of a policy run, and the effect of the policy as replays of the whole time know it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from slurmsched.cluster.actions import Rank
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.forecast import no_forecast
from slurmsched.cluster.records.trial import OfBlock, Trial, TrialSums
from slurmsched.cluster.state import View
from slurmsched.daemon.trial.waiting_jobs import waited
from slurmsched.decide.rules import TrialRules
from slurmsched.report.trial_effects import TrialFacts, trial_facts
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import workload

HOUR_S, STEP_S = 3600.0, 600.0
NODES, GPUS = 2, 8
HOLDOUT_NOBODY = TrialRules()


def short_first(runtime_s: float) -> int:
    """More points for shorter jobs."""
    return int(1e8 / max(runtime_s, 1.0))


class TrialSite:
    """A busy site; *policy* gives points by the runtime of a job where it is in force."""

    def __init__(self, seed: int, policy: Callable[[float], int] = short_first, *, days: float, load: float = 0.8):
        random = np.random.default_rng((seed, 1))
        gpus, runtime_s, work = [], [], 0.0
        while work < load * days * 24 * HOUR_S * NODES * GPUS:
            gpus.append(int(random.choice([1, 2, 4], p=(0.6, 0.25, 0.15))))
            runtime_s.append(float(np.clip(random.lognormal(np.log(900.0), 0.8), 60, 0.8 * HOUR_S)))
            work += gpus[-1] * runtime_s[-1]
        count = len(gpus)
        self.runtime_s, self.policy = np.array(runtime_s), policy
        self.jobs = workload(
            count, job_id=np.arange(1, count + 1), submit_s=np.sort(random.uniform(0, days * 24 * HOUR_S, count)),
            gpus=np.array(gpus), runtime_s=self.runtime_s, time_limit_s=2 * self.runtime_s,
            account=Labels.of(f"a{one}" for one in random.integers(0, 3, count).tolist()),
            user=Labels.of(f"u{row % 7}" for row in range(count)),
        )  # fmt: skip

    def counted(self, trial: Trial, acts: Callable[[float], bool]) -> dict[OfBlock, TrialSums]:
        """What is counted in the blocks of *trial* where the policy is in force whenever *acts* says so."""
        cluster = SimulatedCluster(self.jobs, ClusterSpec.of(NODES, GPUS))
        sums: dict[OfBlock, TrialSums] = defaultdict(TrialSums)
        for now_s in np.arange(STEP_S, trial.until_s + STEP_S, STEP_S).tolist():
            cluster.advance(now_s)
            state = cluster.observe()
            pending, running = state.pending, state.running
            block = trial.numbered(min(int(now_s // trial.block_s), trial.blocks - 1))
            if now_s - STEP_S >= block.measured_from_s:
                tables = pending, running, state.nodes, state.partitions, state.qos
                view = View(now_s, *tables, no_forecast(len(pending)), no_forecast(len(running)))
                sums[OfBlock(block.number, "")] = sums[OfBlock(block.number, "")].plus(TrialSums(counted_s=STEP_S))
                for account, more in waited(view, STEP_S, HOLDOUT_NOBODY).items():
                    of = OfBlock(block.number, account)
                    sums[of] = sums[of].plus(more)
            on = acts(now_s)
            points = [self.policy(self.runtime_s[job - 1]) if on else 0 for job in pending.job_id.tolist()]
            rows = zip(pending.job_id.tolist(), points, pending.site_points.tolist(), strict=True)
            cluster.act([Rank(job, wanted) for job, wanted, there in rows if wanted != there])
        return sums

    def effect_s(self, trial: Trial) -> float:
        """The mean wait of all jobs with the policy less that without it, in all measured parts, by two replays."""
        on, off = (self.counted(trial, lambda _, is_on=is_on: is_on) for is_on in (True, False))
        waited_s, came = (sum(getattr(one, name) for one in on.values()) for name in ("waited_s", "came"))
        return (waited_s - sum(one.waited_s for one in off.values())) / came

    def found(self, trial: Trial) -> TrialFacts:
        """What the trial finds."""

        def acts(now_s: float) -> bool:
            block = trial.block(now_s)
            return block is not None and block.acts

        return trial_facts(trial, self.counted(trial, acts), trial.until_s)


def trial_of(seed: int, *, days: float, block_s: float = 4 * HOUR_S, **known: float) -> Trial:
    """A trial of so many days, without a bound."""
    blocks = 2 * round(days * 24 * HOUR_S / block_s / 2)
    return Trial(0.0, "root", seed, block_s, HOUR_S, blocks, **{"harm_s": 0.0} | known)  # type: ignore[arg-type]

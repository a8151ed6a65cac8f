"""The keys of a simulated policy: what ``[policy]`` of a file and ``--set KEY=VALUE`` of simulate say about it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class PolicyKey:
    """A part of a Setup that a text can name, under the name of its field."""

    name: str
    kind: type  #: str, bool, int or float
    help: str
    least: float = 0.0  #: of a number
    below: float = math.inf  #: of a number

    def refusal(self, value: object) -> str:
        """Return what is accepted in place of a number; empty where *value* is accepted, or no number."""
        if isinstance(value, bool | str) or not isinstance(value, int | float) or self.least <= value < self.below:
            return ""
        bound = f", below {self.below:g}" if self.below < math.inf else ""
        return f"accepted are finite numbers from {self.least:g} on{bound}"


POLICY_KEYS = {
    key.name: key
    for key in (
        PolicyKey(
            "selection",
            str,
            "strict: nothing passes a job that does not fit; backfill: whatever fits; easy, conservative: what delays "
            "no reservation; preemptive: the best jobs run; also leases, yarn-cs, 3sigma. By default what belongs to "
            "the ordering",
        ),
        PolicyKey("placement", str, "pool, first-free, consolidate (by default), links and others"),
        PolicyKey(
            "slowdowns",
            str,
            "what tiresias-plus knows of jobs that spreading over nodes slows down: measured, from their runs so far "
            "(by default), or exact",
        ),
        PolicyKey("sharing", str, "none, indolent and others: who shares GPUs with whom, where the cluster allows it"),
        PolicyKey("wide_hosts", bool, "a job may share some of the GPUs of one that has more (true by default)"),
        PolicyKey("admission", str, "accept-all, or load:X: GPUs requested by admitted jobs over all"),
        PolicyKey("depth", int, "pending jobs that a reserving selection considers", least=1),
        PolicyKey("restart_s", float, "seconds that a preemption costs"),
        PolicyKey("restart_doubling_s", float, "additional seconds per doubling of a job's GPUs"),
        PolicyKey("beat_s", float, "seconds between decisions; 0: at each event"),
        PolicyKey("profile_nodes", int, "of the last nodes, those on which jobs are measured before they run"),
        PolicyKey("profile_gpus", int, "the most GPUs of a job that is measured there", least=1),
        PolicyKey("profile_s", float, "seconds after which a job that saves its work makes room there"),
        PolicyKey("writes_per_s", float, "with executor slurm, the updates that slurmctld gets a second, sustained"),
        PolicyKey("writes_burst", int, "with executor slurm, the updates in one cycle at most"),
        PolicyKey(
            "load_control",
            str,
            "with executor tasks, when training ends early: none (by default), opt (more hardly helps), acc (the "
            "required accuracy), mlfs (both, the latter while the cluster is overloaded)",
        ),
        PolicyKey("averaging", str, "with executor tasks, how replicas average: server (by default) or ring"),
        PolicyKey(
            "migrate",
            bool,
            "with executor tasks, tasks leave overloaded servers; with slurm, jobs leave nodes with a load",
        ),
        PolicyKey(
            "steer",
            bool,
            "with executor slurm and throughputs, jobs are sent to the type of GPU on which they end soonest",
        ),
        PolicyKey(
            "resize", bool, "with executor slurm, elastic jobs get the number of GPUs with which all jobs end soonest"
        ),
        PolicyKey("resize_nodes", bool, "as resize, and jobs on several nodes get more or fewer of them too"),
        PolicyKey("division", str, "with resize, who gets GPUs that are free: optimus (by default), pollux or sia"),
        PolicyKey(
            "rightsize",
            bool,
            "with executor slurm, waiting lean jobs get the CPUs and memory that belong to their GPUs",
        ),
        PolicyKey(
            "interference",
            float,
            "the part of its speed that a training job on several nodes loses where it shares one with another such "
            "job",
            below=1.0,
        ),
    )
}
"""The keys by name, beside ``ordering``, ``name``, ``executor`` and ``forecast``, which have options of their own."""

OWN_OPTIONS = ("ordering", "name", "executor", "forecast")
"""Keys of ``[policy]`` that options of ``simulate`` say."""

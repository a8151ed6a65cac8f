"""How long variants of a new job take, asked as ``eta --compare`` asks: ``python -m tests.bench.variants``.

A queue of 10,000 jobs before 1,000 nodes, through the socket, the decision and the process that plays it forward.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from slurmsched.cli.daemon.build import PREDICTION_WORKER
from slurmsched.clock import SystemClock
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.records.prediction_records import NO_RECORDS
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_protocol import SOCKET, query
from slurmsched.daemon.api.query_server import QueryServer
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.daemon.predictions.hypothetical_job import try_out
from slurmsched.daemon.predictions.play_forward import PlayForward, with_new_job
from slurmsched.daemon.predictions.prediction_process import PredictionWorker
from slurmsched.daemon.predictions.prediction_service import PredictionService
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.explain.eta import LivePredictions
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm

from .predictions import CONFIG, view

PENDING, NODES, RUNS = 10_000, 1_000, 3
VARIANTS = tuple(f"-p gpu0 --gpus={gpus} --time={hours}:00:00" for gpus in (1, 2, 4, 8) for hours in (1, 8))
NOTHING_RECORDED = SimpleNamespace(load=lambda since_s: NO_RECORDS, save=lambda records: None)


def main() -> None:
    """Ask for one variant, and for eight, one after the other."""
    seen, policy = view(PENDING, NODES), Policy(find_ordering("sjf"), Rules(powers=frozenset({"order"})))
    plan = decide(seen, policy.ordering, policy.rules)
    report = SimpleNamespace(view=seen, plan=plan, mode="act", now_s=seen.now_s, number=1, ended=outcomes_of(()))
    player, model = PredictionWorker(PREDICTION_WORKER), RuntimeModel.fit(outcomes_of(()))
    forward = PlayForward(lambda: policy, lambda: CONFIG, player)
    made = PredictionService(forward, NOTHING_RECORDED, SystemClock(), 60.0, (0.85, 0.95))
    permissions = FakeSlurm(now_s=seen.now_s).facts().permissions

    def eta_check(looked, _, options, user):
        def play(job, forecast):
            return with_new_job(made, looked, job, forecast, policy)

        return try_out(looked, permissions, model, play, options, user)

    def nothing(*_):
        return ()

    known = LivePredictions(forward.predict(seen, plan, "act"))
    sources = replace(Sources(dict, *(nothing,) * 4), predictions=lambda: known, eta_check=eta_check)
    handlers = QueryHandlers(sources, trusted=(0, os.geteuid()))
    handlers.observe(report)
    with tempfile.TemporaryDirectory() as directory:
        server = QueryServer(directory, handlers, answer_s=60.0, turn_s=60.0, patience_s=90.0)
        server.start()
        try:
            timed(Path(directory) / SOCKET)
        finally:
            server.close()
            player.close()


def timed(path: Path) -> None:
    """Print the median times, the first answers left out: they wait for the compiler."""
    ask(path, VARIANTS[:1])
    print(f"variants of a new job, {PENDING:,} pending, {NODES:,} nodes, median of {RUNS}")
    for variants, target in ((VARIANTS[:1], "2 s"), (VARIANTS, "8 s")):
        wall_s, cpu_s = np.median([ask(path, variants) for _ in range(RUNS)], axis=0)
        print(f"  {len(variants)}: {wall_s:.2f} s, CPU {cpu_s:.2f} s  target: {target}")


def ask(path: Path, variants: tuple[str, ...]) -> tuple[float, float]:
    """Return the seconds until the last answer, by the clock and of the CPU, here and in the process that plays."""
    began_s, used_s = time.perf_counter(), cpu_s()
    for options in variants:
        answer = query(path, {"ask": "eta_check", "options": options}, timeout_s=120.0)
        assert answer["eta"][0]["finish_s"], answer
    return time.perf_counter() - began_s, cpu_s() - used_s


def cpu_s() -> float:
    """Return the seconds of the CPU of this process and its children."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ticks = sum(int(part) for pid in children for part in Path(f"/proc/{pid}/stat").read_text().split()[13:15])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

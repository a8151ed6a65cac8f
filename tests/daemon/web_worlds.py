"""What pages show to users in tests: a full node, hostile texts, private jobs."""

from __future__ import annotations

import pwd
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from daemon.daemon_worlds import report
from report.site_month import NOW_S, site_month

from slurmsched.cli.daemon.web import forms
from slurmsched.clock import ManualClock
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.records.order_effects import OrderEffect, OrderEffects, UserLoss
from slurmsched.cluster.reservations import ReservationTable
from slurmsched.cluster.state import View
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.daemon.api.record_summaries import FigureQueries
from slurmsched.daemon.order_effects_service import PlayedOrders
from slurmsched.db.store import Store
from slurmsched.db.tracking.story import StoryEvent
from slurmsched.decide.rules import Rules
from slurmsched.explain import explain
from slurmsched.explain.eta import LivePredictions, etas
from slurmsched.explain.why import why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.models.registry import ArtifactRegistry
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import workload
from slurmsched.web.api import application
from slurmsched.web.identity import Who

HOUR_S = 3600.0
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m{{7*7}}"
OWNERS = ("daemon", "daemon", "nobody", "daemon")


def observed(owners=OWNERS, nodes=1):
    """Full nodes: job 1 runs, those beyond *nodes* wait; texts of users are hostile."""
    many = len(owners)
    jobs = workload(
        many, job_id=1 + np.arange(many), submit_s=np.linspace(0.0, 180.0, many), runtime_s=np.full(many, 4 * HOUR_S),
        gpus=np.full(many, 8), time_limit_s=np.full(many, 5 * HOUR_S), account=Labels.of(["lab"] * many),
        user=Labels.of(owners),
    )  # fmt: skip
    cluster = SimulatedCluster(jobs, ClusterSpec.of(nodes, 8))
    cluster.advance(HOUR_S)
    state = cluster.observe()

    def known(table):
        span_s = np.full(len(table), 4 * HOUR_S)
        return Forecast(span_s, span_s / 2, span_s * 2, Labels.of([f"runs of {HOSTILE}"] * len(table)))

    window = table_of(
        ReservationTable, 1, {},
        {"name": [HOSTILE], "start_s": [HOUR_S * 8], "end_s": [HOUR_S * 10], "nodes": ["n1"], "flags": ["MAINT"]},
    )  # fmt: skip
    tables = state.pending, state.running, state.nodes, state.partitions, state.qos
    view = View(HOUR_S, *tables, known(state.pending), known(state.running))
    return replace(
        view, reservations=window, pending=view.pending.changed(name=Labels.of([HOSTILE] * len(view.pending)))
    )


PLAYED = PlayedOrders(
    OrderEffects(
        HOUR_S, 3, 3, 5,
        (
            OrderEffect("as now", 9000.0, 8000.0, 40_000.0, 0, 0, ()),
            OrderEffect("sjf", 3000.0, 2000.0, 41_000.0, 2, 1, (UserLoss(HOSTILE, 1, 5000.0),)),
            OrderEffect("wfq", 9500.0, 9000.0, 42_000.0, 0, 2, (UserLoss("nobody", 1, 600.0),)),
        ),
    )
)  # fmt: skip
"""Orders as the daemon's process plays them: one is better for most, and worse for somebody."""


def handlers(seen, **sources):
    plan = decide(seen, find_ordering("fifo"), Rules(powers=frozenset({"order"})))
    table = predict_completion(
        replace(seen, reservations=seen.reservations.take(np.zeros(0, np.int64))),
        plan.jobs.rank,
        plan.jobs.standing,
        {},
    )
    story = StoryEvent(HOUR_S, "deadline", {"what": "refused", "reason": HOSTILE}, 2)
    tried = etas(table, seen.now_s, [0])[0]
    known = {
        "status": lambda: {"mode": "act"},
        "why": lambda view, plan, job_id, beside: why(view, plan, Rules(), job_id, beside),
        "explain": lambda view, plan, job_id, beside: explain.explain(view, plan, Rules(), job_id, beside),
        "queue": explain.queue,
        "story": lambda job_id, since_s: [story],
        "predictions": lambda: LivePredictions(table),
        "eta_check": lambda view, plan, options, user: replace(tried, notes=(f"of {options}",)),
        "private": lambda: True,
        "orders": lambda view, mode: PLAYED,
        "figures": lambda *asked: figures().answer(*asked),
        "report": lambda span_s, of: figures().report(span_s, of),
    }
    made = QueryHandlers(Sources(**(known | sources)), trusted=(0,))
    made.observe(report(view=seen, plan=plan, now_s=seen.now_s, mode="act"))
    return made


@cache
def figures():
    """The figures of a month of a site on record; the user daemon is in an account with a hostile name."""
    store = Store(f"sqlite:///{tempfile.mkdtemp()}/month.db")
    store.upgrade()
    month = site_month(500, 3)
    first, account = month.runs.user.names[0], month.runs.account[int(np.flatnonzero(month.runs.user.codes == 0)[0])]
    runs = replace(
        month.runs,
        user=month.runs.user.renamed("daemon" if name == first else name for name in month.runs.user.names),
        account=month.runs.account.renamed(HOSTILE if name == account else name for name in month.runs.account.names),
    )
    replace(month, runs=runs).save(store, "lab")
    return FigureQueries(lambda: store, lambda: "lab", ArtifactRegistry(Path(tempfile.mkdtemp())), ManualClock(NOW_S))


def client_of(made, user="daemon"):
    """What shows pages to a user."""

    def asks(request, name):
        return made.answer(request, pwd.getpwnam(name).pw_uid, local=False)

    who: Who = lambda request: user  # noqa: E731
    return application(asks, forms(), who)

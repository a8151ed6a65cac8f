"""What policies see of gangs of tasks: the tables of a real cluster, cheap enough for a decision each minute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...cluster.columns import IntArray
from ...cluster.forecast import Forecast
from ...cluster.jobs import JobTable
from ...cluster.records.progress import ProgressTable
from ...cluster.state import View
from .servers import GangWork, Servers

_NOBODY: IntArray = np.zeros(0, dtype=np.int64)


class GangView:
    """The view of all jobs of a workload, of which each decision gets those that wait and run."""

    def __init__(self, view: View, table: JobTable, forecast: Forecast, servers: Servers, work: GangWork) -> None:
        self._forecast, self._servers = forecast, servers
        self._used = np.zeros((2, len(servers.gpus)), dtype=np.int64)  # GPUs and CPUs in use
        # Tables make their columns read-only, not what these are views of: the two tables follow the state.
        self._table = replace(table, ran_s=work.ran_s.view())
        gpus, cpus = self._used
        nodes = replace(view.nodes, cpus=np.rint(servers.cpus).astype(np.int64), gpus_used=gpus, cpus_used=cpus)
        nobody, nothing = table.take(_NOBODY), forecast.take(_NOBODY)
        self._last = replace(
            view, nodes=nodes, pending=nobody, running=nobody, forecast=nothing, forecast_running=nothing
        )
        self._waiting, self._running = _NOBODY, _NOBODY  # the rows of that view

    def of(self, now_s: float, waiting: IntArray, running: IntArray, progress: ProgressTable) -> View:
        """Return the view of the jobs in these rows."""
        servers = self._servers
        np.subtract(servers.gpus, servers.free, out=self._used[0])
        self._used[1] = np.rint(servers.busy_cpus)
        last = self._last
        changes: dict[str, Any] = {"now_s": now_s, "progress": progress}
        # Most jobs wait and run on from one round to the next.
        if not np.array_equal(waiting, self._waiting):
            changes |= {"pending": self._table.take(waiting), "forecast": self._forecast.take(waiting)}
        elif not np.array_equal(ran_s := self._table.ran_s[waiting], last.pending.ran_s):
            changes["pending"] = last.pending.changed(ran_s=ran_s)
        if not np.array_equal(running, self._running):
            changes |= {"running": self._table.take(running), "forecast_running": self._forecast.take(running)}
        elif len(running):
            changes["running"] = last.running.changed(ran_s=self._table.ran_s[running])
        self._waiting, self._running = waiting, running
        self._last = replace(last, **changes)
        return self._last

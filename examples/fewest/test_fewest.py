"""Run this with pytest where slurmsched and this package are installed."""

from dataclasses import replace

import numpy as np

from slurmsched import find_ordering
from slurmsched.cluster.columns import table_of
from slurmsched.cluster.forecast import no_forecast
from slurmsched.cluster.jobs import job_table
from slurmsched.cluster.nodes import NodeTable, PartitionTable, QosTable
from slurmsched.cluster.state import View


def view(users, runtimes_s):
    """Pending jobs of these users, on a cluster of no nodes."""
    forecast = replace(no_forecast(len(users)), runtime_s=np.array(runtimes_s))
    nodes, partitions, qos = (table_of(kind, 0, {}, {}) for kind in (NodeTable, PartitionTable, QosTable))
    pending, running = job_table(len(users), user=users), job_table(0)
    return View(0.0, pending, running, nodes, partitions, qos, forecast, no_forecast(0))


def order(users, runtimes_s):
    return np.argsort(find_ordering("fewest")(view(users, runtimes_s)), kind="stable").tolist()


def test_the_user_with_the_fewest_jobs_comes_first():
    assert order(["ann", "ann", "ben"], [60.0, 30.0, 900.0]) == [2, 1, 0]


def test_a_job_without_a_forecast_comes_last_among_its_users():
    assert order(["ann", "ann"], [np.nan, 900.0]) == [1, 0]

"""The same week in both databases gives the same forecasts."""

from __future__ import annotations

import numpy as np
from db_worlds import jobs, outcomes

from slurmsched.db.store import Store
from slurmsched.models.runtime.baseline import RuntimeModel


def a_week(count=3000):
    dice = np.random.default_rng(7)
    runtime_s = dice.lognormal(6, 1.5, count)
    ended_s = np.sort(dice.uniform(0, 604_800, count)).round()
    return outcomes(
        count, ended_s=ended_s, started_s=ended_s - runtime_s, runtime_s=runtime_s, gpus=2 ** dice.integers(0, 4, count)
    )


def test_a_week_of_history_gives_the_same_forecasts_in_both_databases(server, tmp_path):
    stores = [Store(url) for url in (f"sqlite:///{tmp_path}/a.db", server.new_database())]
    week, queue = a_week(), jobs(200, gpus=np.arange(200) % 9)
    histories = []
    for store in stores:
        store.upgrade()
        store.add_outcomes("c", week)
        histories.append(store.history("c"))
        store.close()
    assert histories[0].equals(histories[1])
    assert histories[0].equals(week)
    models = [RuntimeModel.fit(history, until_s=604_800.0) for history in histories]
    assert models[0].digest == models[1].digest
    assert models[0].forecast(queue).equals(models[1].forecast(queue))

"""Records of cycles in layers: each comes back bit for bit, whatever came before it and is gone since."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from db_worlds import decision, jobs, same_decision

from slurmsched.cluster.topology import FLAT
from slurmsched.db.database import insert_or
from slurmsched.db.store import Store
from slurmsched.db.tables import cycle_blobs
from slurmsched.db.tracking import decisions
from slurmsched.db.tracking.decision_layers import LAYERS, BlobLayers
from slurmsched.errors import SchemaMismatch
from slurmsched.slurm.read.topology import read_topology

GOLDEN = Path(__file__).parents[1] / "golden"


def cycles(count, jobs_there=100, seed=0):
    """Records of which each differs a little from the one before."""
    random = np.random.default_rng(seed)
    record = decision(1, 1000.0, jobs_there)
    for number in range(1, count + 1):
        view, plan = record.view, record.plan
        stays = np.sort(random.permutation(len(view.pending))[: -int(random.integers(1, 4))])
        new = jobs(len(view.pending) - len(stays), first=10_000 * number)
        pending = view.pending.take(stays).joined(new)
        points = np.where(
            random.random(len(pending)) < 0.02, random.integers(0, 500, len(pending)), pending.site_points
        )
        ranks = (
            random.permutation(len(pending)) if number % 20 == 0 else np.append(plan.jobs.rank[stays], [-1] * len(new))
        )
        forecast = replace(view.forecast, runtime_s=view.forecast.runtime_s * (1 + 1e-4 * random.standard_normal()))
        record = replace(
            record,
            number=number,
            now_s=1000.0 + 15 * number,
            view=replace(
                view, now_s=1000.0 + 15 * number, pending=replace(pending, site_points=points), forecast=forecast
            ),
            plan=replace(plan, jobs=replace(plan.jobs, rank=ranks.astype(np.int64))),
        )
        yield record


@cache
def kept_cycles(count):
    """The records of so many cycles, made once for both kinds of database."""
    return list(cycles(count))


@pytest.mark.parametrize("count", [25, pytest.param(60, marks=pytest.mark.soak)])
def test_every_record_of_a_long_run_comes_back_bit_for_bit(store, count):
    kept = kept_cycles(count)
    for record in kept:
        store.save_decision("c", record)
    for record in kept:
        assert same_decision(record, store.decision(record.number, "c"))


def test_a_record_gives_the_topology_of_its_cycle_back_and_a_flat_one_after_it(store):
    texts = [path.read_text() for path in sorted(GOLDEN.glob("*/topology-*.txt"))]
    assert len(texts) >= 4
    kept = list(cycles(len(texts) + 1))
    for record, topology in zip(kept, [*map(read_topology, texts), FLAT], strict=True):
        store.save_decision("c", replace(record, view=replace(record.view, topology=topology)))
    found = [store.decision(record.number, "c").view.topology for record in kept]
    assert found == [*map(read_topology, texts), FLAT]


def test_two_daemons_that_use_the_same_numbers_leave_whole_records(store, url):
    other = Store(url, timeout_s=5.0)
    for mine, theirs in zip(cycles(6), cycles(6, seed=1), strict=True):
        store.save_decision("c", mine)
        other.save_decision("c", theirs)
        assert same_decision(theirs, store.decision(mine.number, "c"))
    other.close()


def test_what_an_old_cycle_shares_with_a_new_one_outlives_it(store):
    kept = kept_cycles(25)
    for record in kept:
        store.save_decision("c", record)
    store.prune(kept[-1].now_s, keep_decisions_s=60.0, keep_outcomes_s=1e9)
    numbers = store.decision_numbers("c")
    assert numbers == [21, 22, 23, 24, 25]
    for number in numbers:
        assert same_decision(kept[number - 1], store.decision(number, "c"))


def test_a_record_is_read_from_three_blobs_at_most_and_a_layer_that_grew_old_is_laid_anew():
    layers, middle = BlobLayers(decisions.TABLES), set()
    for record in cycles(80, 300):
        blobs = layers.blobs(decisions.layers_of(record))
        assert list(blobs) == list(LAYERS[: len(blobs)])
        middle.add(blobs.get(LAYERS[1]))
    assert 2 < len(middle) < 40


def test_layers_that_were_laid_once_are_read_as_ever():
    stored = json.loads(Path(__file__).parents[1].joinpath("golden", "layers.json").read_text())
    for record, blobs in zip(cycles(len(stored), 40), stored, strict=True):
        parts = {name: base64.b64decode(blob) for name, blob in blobs.items()}
        rest = {name: getattr(record, name) for name in ("number", "mode", "models_digest", "sentence", "now_s")}
        assert same_decision(record, decisions.restored(parts, **rest))


def test_forecasts_that_move_by_seconds_and_jobs_that_change_places_take_a_few_bytes_each():
    random, record = np.random.default_rng(0), next(cycles(1, 3000))
    count = len(record.view.pending)
    runtime_s = np.rint(random.lognormal(8.0, 1.0, count))
    points = random.integers(0, 5000, count)
    ranks = random.permutation(count)
    layers, sizes_b = BlobLayers(decisions.TABLES), []
    for _ in range(4):
        runtime_s = np.where(random.random(count) < 0.3, runtime_s + random.integers(-5, 6, count), runtime_s)
        order = np.argsort(ranks, kind="stable").tolist()
        for job in random.choice(count, 20, replace=False).tolist():
            order.remove(job)
            order.insert(int(random.integers(count)), job)
        ranks = np.argsort(order).astype(np.int64)
        points = np.where(random.random(count) < 0.1, random.integers(0, 5000, count), points)
        view = replace(
            record.view,
            forecast=replace(record.view.forecast, runtime_s=runtime_s),
            pending=replace(record.view.pending, site_points=points),
        )
        plan = replace(record.plan, jobs=replace(record.plan.jobs, rank=ranks, points=points))
        now = replace(record, view=view, plan=plan)
        blobs = layers.blobs(decisions.layers_of(now))
        sizes_b.append(len(blobs[list(blobs)[-1]]))
        rest = {name: getattr(now, name) for name in ("number", "mode", "models_digest", "sentence", "now_s")}
        assert same_decision(now, decisions.restored(blobs, **rest))
    changed = 0.3 * count + 20 + 0.1 * count
    assert max(sizes_b[1:3]) < 3.5 * changed, sizes_b


def test_a_record_without_one_of_its_layers_says_so(store):
    for record in cycles(3):
        store.save_decision("c", record)
    with store.database.transaction("breaking", write=True) as connection:
        rows = [{"cluster": "c", "number": 3, "part": part, "digest": "gone"} for part in LAYERS]
        insert_or(connection, cycle_blobs, rows, replace=("digest",))
    with pytest.raises(SchemaMismatch, match="cycle 3"):
        store.decision(3, "c")

"""What Lucid's throughput and sharing models reach on public data, beside simple and black-box baselines.

``python -m tests.bench.lucid_models [throughput] [sharing] [serving]``; all three without a name. Throughput trains on
Venus until the end of August and is tested on September; sharing is always tested on what was held out of training.
"""

from __future__ import annotations

import csv
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slurmsched.cluster.columns import BoolArray, FloatArray, IntArray, Labels
from slurmsched.models.arrivals import SERIES, Arrivals, features, rolling_median
from slurmsched.models.ebm.additive import Additive, Boosting
from slurmsched.models.sharing.sharing_model import GpuUse, PairCurve, SharingModel, score_of_speed
from slurmsched.models.throughput import ThroughputModel

from .machine import machine

DATA = Path(__file__).parents[2] / "../shared/data"
CHANCE = 0.85  # of a pair to keep its speed, from which it is packed


def rows_of(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


def venus() -> Arrivals:
    rows = rows_of("helios_venus_throughput.csv")
    start_s = [datetime.fromisoformat(row["time"]).replace(tzinfo=UTC).timestamp() for row in rows]
    jobs, gpus = (np.array([float(row[key]) for row in rows]) for key in ("submit_gpu_job", "submit_gpu_num"))
    return Arrivals(np.array(start_s), jobs, gpus)


def at(month: int, day: int = 1) -> float:
    return datetime(2020, month, day, tzinfo=UTC).timestamp()


def throughput() -> None:
    print("throughput, Venus: mean absolute error per ten minutes, nothing younger than six steps\n")
    print(f"{'tested on':26}{'series':8}{'median':>8}{'LightGBM L1':>13}{'GA2M':>8}")
    history = venus()
    for month in (8, 9):
        known = history.take(history.start_s < at(month))
        began = time.perf_counter()
        model = ThroughputModel.fit(known, seed=1)
        took_s = time.perf_counter() - began
        tested = (history.start_s >= at(month)) & (history.start_s < at(month + 1))
        spans = {f"2020-{month:02d}": tested}
        if month == 9:
            spans["2020-09 without the 28th"] = tested & (history.start_s < at(9, 28))
        for series in SERIES:
            values = getattr(history, series)
            told = (
                rolling_median(history, series),
                boosted(history, values, at(month)),
                model.predict(history, series),
            )
            for span, rows in spans.items():
                median, tree, ours = (np.abs(forecast - values)[rows].mean() for forecast in told)
                print(f"{span:26}{series:8}{median:8.3f}{tree:13.3f}{ours:8.3f}")
        print(f"  trained on {len(known):,} steps in {took_s:.0f} s; served: {served(model)}\n")


def served(model: ThroughputModel) -> str:
    return ", ".join(f"{name} by {'the GA2M' if kept else 'the median'}" for name, kept in model.models.items())


def boosted(history: Arrivals, values: FloatArray, until_s: float) -> FloatArray:
    """LightGBM with an absolute objective on the same features."""
    import lightgbm

    columns = np.column_stack([*features(history).values()])
    rows = (history.start_s < until_s) & ~np.isnan(columns).any(axis=1)
    settings = {
        "objective": "l1",
        "learning_rate": 0.03,
        "feature_fraction": 0.5,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
        "num_threads": 1,
        "seed": 1,
        "verbose": -1,
    }
    model = lightgbm.train(settings, lightgbm.Dataset(columns[rows], values[rows]), 300)
    told: FloatArray = model.predict(columns)
    return told


class Measured(NamedTuple):
    """Lucid's measurements: configurations alone, and pairs of them with the speed of each beside the other."""

    use: GpuUse
    label: IntArray
    model: IntArray  # which network each configuration trains
    first: IntArray
    second: IntArray
    speeds: FloatArray  # (pairs, 2)

    @property
    def sums(self) -> FloatArray:
        return self.use.gpu_util[self.first] + self.use.gpu_util[self.second]

    def pair_speed_of_each(self) -> FloatArray:
        """Mean speed of the pairs of each configuration; NaN for one without."""
        mean = self.speeds.mean(axis=1)
        both = np.concatenate((self.first, self.second))
        pairs = np.bincount(both, minlength=len(self.use))
        total = np.bincount(both, np.concatenate((mean, mean)), minlength=len(self.use))
        return np.divide(total, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


def measured() -> Measured:
    alone, pairs = rows_of("lucid_single_data.csv"), rows_of("lucid_colocate_info.csv")
    keys = ("model", "dataset", "batchsize", "amp")
    place = {tuple(row[key] for key in keys): number for number, row in enumerate(alone)}
    first, second = (np.array([place[tuple(row[f"{key}{side}"] for key in keys)] for row in pairs]) for side in (1, 2))
    util, memory_util, mib, amp = (
        np.array([float(row[key]) for row in alone]) for key in ("gpu_util", "gmem_util", "gmem", "amp")
    )
    return Measured(
        GpuUse(util / 100.0, memory_util / 100.0, mib, amp),
        np.array([int(row["label"]) for row in alone]),
        Labels.of(row["model"] for row in alone).codes,
        first,
        second,
        np.array([[float(row["speed1"]), float(row["speed2"])] for row in pairs]),
    )


def trained(data: Measured, label: IntArray, rows: BoolArray, pairs: BoolArray) -> SharingModel:
    return SharingModel.fit(data.use.take(rows), label[rows], data.sums[pairs], data.speeds[pairs], seed=1)


def sharing() -> None:
    data = measured()
    recomputed = score_of_speed(data.pair_speed_of_each())
    print("sharing: share of configurations whose score is told right when held out\n")
    print(f"{'label':12}{'200 splits 75/25':>18}{'least split':>13}{'leave one model out':>21}")
    for name, label in (("published", data.label), ("recomputed", recomputed)):
        splits = [right(data, label, held) for held in stratified(label, 200)]
        out = np.concatenate([told(data, label, data.model == model) for model in np.unique(data.model)])
        print(f"{name:12}{np.mean(splits):18.3f}{np.min(splits):13.3f}{out.mean():21.3f}")
    agreed = (recomputed == data.label).mean()
    print(f"  the two labels agree on {agreed:.3f}; the most frequent published one is {largest(data.label):.3f}\n")
    packing(data)
    print("\nthe tree of all configurations:\n" + trained(data, data.label, *everything(data)).text() + "\n")


def largest(label: IntArray) -> float:
    return float(np.bincount(label).max() / len(label))


def everything(data: Measured) -> tuple[BoolArray, BoolArray]:
    return np.ones(len(data.use), dtype=np.bool_), np.ones(len(data.first), dtype=np.bool_)


def told(data: Measured, label: IntArray, held: BoolArray) -> BoolArray:
    _, pairs = everything(data)
    model = trained(data, label, ~held, pairs)
    return model.score(data.use.take(held)) == label[held]


def right(data: Measured, label: IntArray, held: BoolArray) -> float:
    return float(told(data, label, held).mean())


def stratified(label: IntArray, splits: int) -> list[BoolArray]:
    """Rows held out: a quarter of each label, drawn anew for each split."""
    rng = np.random.default_rng(0)
    chosen = []
    for _ in range(splits):
        held = np.zeros(len(label), dtype=np.bool_)
        for value in np.unique(label):
            rows = np.flatnonzero(label == value)
            held[rng.permutation(rows)[: round(len(rows) / 4)]] = True
        chosen.append(held)
    return chosen


def packing(data: Measured) -> None:
    """Pairs packed by rules that saw neither of the two networks in training."""
    scores = np.full(len(data.first), -1)
    sums = {share: np.zeros(len(data.first), dtype=np.bool_) for share in (0.80, CHANCE, 0.90)}
    limits = []
    networks = data.model[data.first], data.model[data.second]
    good = data.speeds.mean(axis=1) >= 0.85
    for pair in {tuple(sorted(pair)) for pair in zip(*(side.tolist() for side in networks), strict=True)}:
        seen = ~np.isin(networks[0], pair) & ~np.isin(networks[1], pair)
        tested = np.isin(networks[0], pair) & np.isin(networks[1], pair)
        tested &= (networks[0] == networks[1]) == (pair[0] == pair[1])
        model = trained(data, data.label, ~np.isin(data.model, pair), seen)
        score = model.score(data.use)
        scores[tested] = (score[data.first] + score[data.second])[tested]
        for share, packed in sums.items():
            packed[tested] = data.sums[tested] <= model.pairs.limit(share)
        limits.append(model.pairs.limit(CHANCE))
    chosen = sums[CHANCE]
    rules = {
        "published labels sum to <= 2 (nothing held out)": data.label[data.first] + data.label[data.second] <= 2,
        "scores sum to <= 2": scores <= 2,
        **{f"chance by GPU utilisation sum >= {share:.2f}": packed for share, packed in sums.items()},
        f"chance >= {CHANCE:.2f}, not two Jumbos": chosen & (scores <= 3),
        f"chance >= {CHANCE:.2f}, scores sum to <= 2": chosen & (scores <= 2),
    }
    print(f"packing {len(good):,} measured pairs, both networks held out: precision / recall\n")
    print(f"{'rule':50}{'mean speed >= .85':>20}{'both >= .85':>16}")
    both = data.speeds.min(axis=1) >= 0.85
    for name, packed in rules.items():
        print(f"{name:50}{figures(packed, good):>20}{figures(packed, both):>16}")
    whole = PairCurve.fit(data.sums, good).limit(CHANCE)
    print(f"  limits of the sum: {min(limits):.3f} to {max(limits):.3f} when held out, {whole:.3f} from all pairs")


def figures(packed: BoolArray, good: BoolArray) -> str:
    kept = (packed & good).sum()
    return f"{kept / packed.sum():.3f} / {kept / good.sum():.3f}"


def serving() -> None:
    """How long tables of 20 terms over ten features take."""
    rng = np.random.default_rng(0)

    def world(rows: int) -> dict[str, FloatArray | Labels]:
        numbers = {f"number {place}": rng.gamma(2.0, 5.0, rows) for place in range(7)}
        texts = {f"text {size}": Labels(rng.integers(0, size, rows), names(size)) for size in (10, 300, 2000)}
        return {**numbers, **texts}

    columns = world(20_000)
    target = columns["number 0"] * np.log1p(columns["number 1"])
    model = Additive.fit(columns, target, interactions=10, boosting=Boosting(outer_bags=1, max_rounds=100), seed=1)
    print(f"serving a GA2M of {len(model.terms)} terms: milliseconds, median of 15\n")
    for rows in (2_048, 100_000):
        ahead = world(rows)
        model.predict(ahead)
        times = []
        for _ in range(15):
            began = time.perf_counter()
            model.predict(ahead)
            times.append(1e3 * (time.perf_counter() - began))
        print(f"{rows:8,} rows{np.median(times):8.2f}")
    print()


def names(count: int) -> tuple[str, ...]:
    return tuple(f"name {number}" for number in range(count))


if __name__ == "__main__":
    parts = {"throughput": throughput, "sharing": sharing, "serving": serving}
    print(machine())
    for part in sys.argv[1:] or parts:
        parts[part]()

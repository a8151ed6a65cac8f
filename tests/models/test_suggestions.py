"""What jobs should ask for: suggested limits on a later week, CPUs and memory, and what is not known."""

from __future__ import annotations

import numpy as np
import pytest

from slurmsched.cluster.columns import table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable
from slurmsched.cluster.records.usage import KeptUsage
from slurmsched.models.requests.suggestions import LAST, LEAST_USE, Suggester

HOUR_S, WEEK_S = 3600.0, 7 * 86_400.0


def runs(rows, **columns):
    """Runs as (job, user, name, gpus, submitted, runtime, state)."""
    job, user, name, gpus, submit_s, runtime_s, state = zip(*rows, strict=True) if rows else ((),) * 7
    submit_s, runtime_s = np.array(submit_s, float), np.array(runtime_s, float)
    times = {"first_submit_s": submit_s, "started_s": submit_s + 60, "ended_s": submit_s + 60 + runtime_s}
    known = {"job_id": job, "user": user, "name": name, "gpus": gpus, "runtime_s": runtime_s, "state": state} | times
    table = table_of(OutcomeTable, len(rows), {}, {key: list(value) for key, value in known.items()} | columns)
    return table.take(np.argsort(table.ended_s, kind="stable"))


def site(seed, users=25, weeks=6):
    """Users whose kinds of jobs come, drift and go, of every spread; some runs end at their limit."""
    random = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        for kind in range(int(random.integers(1, 6))):
            median_s, spread = float(random.lognormal(np.log(HOUR_S), 1.3)), float(random.uniform(0.1, 1.2))
            begins_s = float(random.uniform(0, weeks * WEEK_S * 0.9)) if random.random() < 0.4 else 0.0
            many, drift = int(random.integers(3, 120)), float(random.normal(0, 0.15))
            gpus = int(random.choice([1, 2, 4, 8]))
            limit_s = median_s * float(random.choice([3.0, 8.0, 50.0]))
            for submit_s in random.uniform(begins_s, weeks * WEEK_S, many):
                length_s = random.lognormal(np.log(median_s) + drift * submit_s / WEEK_S / weeks, spread)
                state = JobState.TIMEOUT if length_s > limit_s else JobState.COMPLETED
                rows.append(
                    (0, f"u{user}", f"k{kind}_{submit_s:.0f}", gpus, submit_s, min(length_s, limit_s), int(state))
                )
    return runs([(number, *row[1:]) for number, row in enumerate(rows, 1)])


@pytest.mark.parametrize("later_sites", [8, pytest.param(16, marks=pytest.mark.soak)])
def test_suggested_limits_cover_95_percent_of_the_runs_of_the_next_week(later_sites):
    covered, asked = 0, 0
    for seed in (*range(4), *range(100, 100 + later_sites)):  # these were drawn after the model was made: 0.944
        table = site(seed)
        week_s = 5 * WEEK_S
        suggester = Suggester(table.take(table.ended_s < week_s), table_of(KeptUsage, 0, {}, {}))
        later = table.take(table.first_submit_s >= week_s)
        for row in range(len(later)):
            told = suggester.suggest(later.user[row], later.name[row], int(later.gpus[row]))
            covered += bool(later.runtime_s[row] <= told["limit_s"])
            asked += 1
    assert asked >= 1000
    assert 0.93 <= covered / asked <= 0.97


def test_what_is_behind_a_limit_is_told_with_what_the_limit_that_was_asked_for_covers():
    rows = [(job, "zoe", f"train_{job}", 2, job * 1000.0, 600.0 + job, int(JobState.COMPLETED)) for job in range(150)]
    rows[-1] = (*rows[-1][:6], int(JobState.TIMEOUT))
    told = Suggester(runs(rows), table_of(KeptUsage, 0, {}, {})).suggest("zoe", "train_9", 2, 700.0)
    assert (told["limit_by"], told["limit_runs"], told["at_limit"]) == ("runs of zoe/train_# with 2 GPUs", LAST, 1)
    assert told["asked_covers"] == pytest.approx(0.51)
    assert told["limit_s"] % 60 == 0
    assert 740 <= told["limit_s"] <= 840


def test_where_too_few_runs_are_known_nothing_is_suggested():
    told = Suggester(runs([]), table_of(KeptUsage, 0, {}, {})).suggest("zoe", "train", 1)
    assert (told["limit_s"], told["cpus"], told["memory_mib"], told["asked_covers"]) == (None, None, None, None)
    few = [(job, "zoe", "train", 1, job * 1000.0, 600.0, int(JobState.COMPLETED)) for job in range(30)]
    assert Suggester(runs(few), table_of(KeptUsage, 0, {}, {})).suggest("zoe", "train", 1)["limit_s"] is None


def test_cpus_and_memory_are_those_of_the_runs_that_were_measured():
    table = runs([(job, "zoe", "train", 1, job * 1000.0, 600.0, int(JobState.COMPLETED)) for job in range(1, 101)])
    measured = {"nodes": np.ones(100, dtype=int), "cpus": np.linspace(1, 8, 100)}
    measured |= {"memory_mib": np.linspace(1000, 9000, 100), "held_memory_mib": np.full(100, 1e5)}
    use = table_of(KeptUsage, 100, {}, {"job_id": table.job_id, "ended_s": table.ended_s, **measured})
    told = Suggester(table, use).suggest("zoe", "train", 1)
    assert (told["cpus"], told["memory_mib"], told["use_runs"]) == (8, 8704, 100)
    few = Suggester(table, use.take(np.arange(LEAST_USE - 1))).suggest("zoe", "train", 1)
    assert (few["cpus"], few["memory_mib"], few["use_runs"]) == (None, None, 0)
    assert Suggester(table, use).suggest("bob", "train", 1)["cpus"] is None, "what others use is not told"

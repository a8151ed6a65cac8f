"""Explanations of sizes for ``why`` and ``explain``: the number of GPUs that a job gets, and why."""

from __future__ import annotations

from collections.abc import Iterator

from ...cluster.actions import Resize
from ...cluster.jobs import JobTable
from ...cluster.plan import Plan
from ...cluster.speed_texts import read_sizes
from ...cluster.state import View
from ...cluster.text.plural import count
from ...decide.phrasing import spell
from ...decide.remaining_work import growing_batch
from ...decide.rules import ResizingRules, Rules
from ...policies.resizing import sample_worth
from .sizing import resizable

SAMPLES = "The samples that jobs of its kind go through in a second by GPUs are in the proportion"


def resizing_words(view: View, plan: Plan, rules: Rules, job_id: int) -> Iterator[str]:
    """Yield sentences about the number of GPUs of a job that can run on several."""
    for jobs, words in ((view.pending, _pending), (view.running, _running)):
        row = jobs.row_of(job_id)
        if row is not None:
            yield from words(view, plan, row, rules)
            yield from _noise(jobs, row, rules)
            return


def _pending(view: View, plan: Plan, row: int, rules: Rules) -> Iterator[str]:
    jobs = view.pending
    job, own = int(jobs.job_id[row]), int(jobs.own_gpus[row])
    for action in plan.actions:
        if isinstance(action, Resize) and action.job_id == job:
            given, present = count(action.gpus, "GPU"), str(action.before)
            if action.each:
                given += f" on {count(action.nodes[1], 'node')}"
                present += f" on {action.nodes[0]}"
            if action.gives_back:
                yield f"It asks for {given} again, as its owner did."
            else:
                yield f"We let it ask for {given} in place of {present}: {_why(rules)}.{_speed(jobs, row)}"
            return
    if own:
        yield f"By us it asks for {count(int(jobs.gpus[row]), 'GPU')}, its owner asked for {own}.{_speed(jobs, row)}"
    elif rules.resizing is not None and jobs.most_gpus[row] > jobs.least_gpus[row] and not _may(view, row, rules):
        yield f"It keeps its number of GPUs: {_why_not(jobs, row, rules.resizing.nodes)}."
    if rules.resizing is not None and jobs.resized_s[row] > 0:
        rest_s = float(jobs.resized_s[row]) + rules.resizing.least_s - view.now_s
        if rest_s > 0:
            yield f"It gets more GPUs in {spell(rest_s)} at the earliest."


def _running(view: View, plan: Plan, row: int, rules: Rules) -> Iterator[str]:
    jobs = view.running
    if own := int(jobs.own_gpus[row]):
        yield f"By us it runs on {count(int(jobs.gpus[row]), 'GPU')}, its owner asked for {own}.{_speed(jobs, row)}"


def _may(view: View, row: int, rules: Rules) -> bool:
    return bool(resizable(view.pending, view, rules)[row])


def _why_not(jobs: JobTable, row: int, by_nodes: bool) -> str:
    """Return the reason why a job with several sizes keeps its own one."""
    least, most = int(jobs.least_gpus[row]), int(jobs.most_gpus[row])
    if not jobs.ckpt[row]:
        return "it does not say ckpt"
    if not jobs.requeueable[row]:
        return "it was submitted with --no-requeue"
    if not least <= jobs.gpus[row] <= most:
        return f"it asks for {jobs.gpus[row]}, and says gpus={least}-{most}"
    if jobs.nodes[row] > 1 and not by_nodes:
        return "it has several nodes, and resize.nodes is off"
    if jobs.nodes[row] > 1 and jobs.gpus[row] % jobs.nodes[row]:
        return "its nodes have different numbers of GPUs"
    if jobs.node_range[row]:
        return f"Slurm gives it {jobs.node_range[row]} nodes, with as many GPUs on each (say --nodes=N)"
    if jobs.array_job_id[row] or jobs.het_job_id[row]:
        return "it has several parts"
    if jobs.per_task[row] or jobs.per_gpu[row]:
        return "it asks for GPUs per task, or for CPUs or memory per GPU"
    return "more depends on it, such as a promise, a list of nodes, a reservation or shared GPUs"


def _why(rules: Rules) -> str:
    """Return what a number of GPUs is best for, by the rule that divides them."""
    if rules.resizing is None or rules.resizing.division == ResizingRules.division:
        return "so jobs end soonest"
    return f"so it ends sooner, or shares what is free by the mean of speed-ups ({rules.resizing.division})"


def _noise(jobs: JobTable, row: int, rules: Rules) -> Iterator[str]:
    """Yield a sentence about what more samples in a step bring a job, where that decides about its GPUs."""
    batch, most = growing_batch(jobs, row), int(jobs.most_gpus[row])
    if rules.resizing is None or batch is None or most <= batch[2]:
        return
    noise, (first, largest), own = batch
    samples = max(min(first * most // own, largest), first)
    worth = samples / first * float(sample_worth(*batch, most)[most])
    yield (
        f"It reports a gradient noise scale of {noise:.3g} samples: on {count(most, 'GPU')} a step of {samples:,} is"
        f" worth {worth:.2f} of those of {first:,} on {own}.{_speed_words(SAMPLES, jobs.sample_speeds[row])}"
    )


def _speed(jobs: JobTable, row: int) -> str:
    """Return a sentence about the known speeds of a job, empty where there are none."""
    return _speed_words("The speed of jobs of its kind by GPUs is", jobs.size_speeds[row])


def _speed_words(what: str, speeds: str) -> str:
    known = ", ".join(f"{speed:.2g} on {gpus}" for gpus, speed in read_sizes(speeds).items())
    return f" {what} {known}." if known else ""

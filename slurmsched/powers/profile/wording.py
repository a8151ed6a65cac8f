"""Explanations of the profiling partition for ``why``: waiting for it, running there, leaving it."""

from __future__ import annotations

from collections.abc import Iterator

from ...cluster.reasons import reason_of
from ...cluster.state import View
from ...cluster.text.plural import gpus_of_type
from ...decide.phrasing import spell
from ...decide.profiling import Home, home_of, limits_s, overtime, why_home
from ...decide.rules import ProfilingRules

_WHY = {
    Home.NOPROFILE: "its owner said slurmsched:noprofile",
    Home.RAN: "it has run already",
    Home.MEASURED: "runs of its kind have been measured",
    Home.LARGE: "it asks for more GPUs than are measured first now",
    Home.UNFIT: "the profiling partition does not take it ({reason})",
    Home.WAITED: "it has waited longer than profile.wait_s",
}


def profiling_words(view: View, rules: ProfilingRules | None, job_id: int) -> Iterator[str]:
    """Yield sentences about the role of the profiling partition for the job."""
    if rules is not None:
        yield from _waiting(view, rules, job_id)
        yield from _running(view, rules, job_id)


def _waiting(view: View, rules: ProfilingRules, job_id: int) -> tuple[str, ...]:
    jobs, row = view.pending, view.pending.row_of(job_id)
    home = "" if row is None else home_of(jobs.partition[row], rules.partition)
    if row is None or not home:
        return ()
    reason = Home(int(why_home(view, rules)[row]))
    if reason is not Home.STAYS:
        why = _WHY[reason].format(reason=reason_of(jobs.reason[row]).word)
        return (f"It need not be measured first: {why}; so it should ask for {home} alone.",)
    return (
        f"No similar job has been measured yet, so it may also start in {rules.partition} if it has room there first. "
        f"There the jobs with the fewest GPUs start first. After {spell(rules.wait_s)} it waits for {home} alone.",
    )


def _running(view: View, rules: ProfilingRules, job_id: int) -> tuple[str, ...]:
    jobs, row = view.running, view.running.row_of(job_id)
    if row is None or jobs.partition[row] != rules.partition:
        return ()
    limit = spell(limits_s(jobs, rules)[row])
    measured = f"It runs in the profiling partition {rules.partition}, where new jobs are measured for {limit}"
    if row not in overtime(view, rules):
        return (f"{measured}.",)
    wide = gpus_of_type(int(jobs.gpus[row]), jobs.gpu_type[row])
    if jobs.ckpt[row] and jobs.restarts[row] == 0:
        return (f"{measured}; that is over, and it said ckpt: it is requeued when others wait for its {wide}.",)
    return (f"{measured}; that is over, and it goes on in place to its end.",)

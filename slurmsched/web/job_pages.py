"""What the pages about jobs show, made of the daemon's answers. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..cluster.text.plural import count
from ..explain.story_words import sentence
from ..pages.formats import UNKNOWN, amount, duration, moment, percent
from ..pages.lease_chart import plan_of
from ..pages.timeline import Course, Window, timeline
from .cluster_pages import ROWS, as_of, page_links, paged

Answer = Mapping[str, Any]

SLURMS = "Slurm's own estimate"
PAGE = 100  #: jobs on a page


def my_jobs(eta: Answer, mine: Answer, windows: Answer, page: int) -> dict[str, Any]:
    """Return what the page *My jobs* shows: a row and a bar for each job, and what keeps nodes away."""
    now_s = float(eta["as_of_s"])
    why = {one["job_id"]: one["reason"] for one in mine["mine"]}
    predicted = {one["job_id"] for one in eta["eta"]}
    rest = [] if predicted else [_unpredicted(one["job_id"]) for one in mine["mine"]]
    jobs = [*eta["eta"], *rest]
    spans = _windows(windows["windows"], now_s)
    courses = [_course(str(one["job_id"]), one, now_s) for one in jobs]
    waits, total = mine["pending"], max(eta["jobs"], mine["pending"])
    return {
        "user": mine["user"],
        "lead": _lead(waits, max(total - waits, 0), known=bool(predicted)),
        "chart": timeline(courses, spans, "When my jobs start and are done", other=SLURMS) if predicted else None,
        "columns": (
            *("job", "partition", "GPUs", "starts, median", "80 % interval"),
            *(SLURMS, "done, median", "why"),
        ),
        "rows": [list(_row(one, why, now_s).values()) for one in jobs],
        "pages": page_links(page, total, PAGE, lambda number: f"/?page={number}"),
        "windows": [_window_words(one) for one in windows["windows"]],
        "coverage": eta["coverage_words"],
        "as_of": as_of(eta),
    }


def _lead(waits: int, run: int, *, known: bool) -> str:
    """Say how many wait and run; of jobs that run, predictions alone are *known*."""
    counted = ((waits, "wait"), (run, "run"))
    waiting, running = (f"{amount(many)} {verb}{'s' if many == 1 else ''}" for many, verb in counted)
    return f"{waiting}, {running}. Times are predictions." if known else f"{waiting}."


def tried(texts: Sequence[str], answers: Sequence[Answer]) -> dict[str, Any]:
    """Return what the page *Try a job* shows: the variants side by side."""
    first = answers[0]
    now_s = float(first["as_of_s"])
    found = [answer["eta"][0] for answer in answers]
    names = [text[:40] for text in texts]
    courses = [_course(name, one, now_s) for name, one in zip(names, found, strict=True)]
    return {
        "chart": timeline(courses, (), "When each variant starts and is done", other=SLURMS),
        "columns": ("variant", "starts, median", "80 % interval", "done, median", "done by, nine times in ten"),
        "rows": [
            [text, _at(one["start_s"], now_s), _between(one, now_s), _at(one["finish_s"], now_s),
             _at(one["finish_by_s"], now_s)]
            for text, one in zip(texts, found, strict=True)
        ],
        "notes": [
            f"{name}: {note}"
            for name, one in zip(names, found, strict=True)
            for note in (*(f"not understood: {part}" for part in one["not_understood"]), *one["notes"])
        ],
        "texts": list(texts),
        "coverage": first["coverage_words"],
        "as_of": as_of(first),
    }  # fmt: skip


def job(
    job_id: int,
    why: Answer,
    explained: Answer,
    story: Answer,
    eta: Answer,
    promise: Answer,
    gpus: Answer,
    plan: Answer | None,
    page: int = 0,
) -> Answer:
    """Return what the page of a job shows; *plan* is that around its promise, None without one.

    *page* is that of the story: 0 for the latest events.
    """
    told, terms = why["why"], explained["explain"]
    now_s = float(why["as_of_s"])
    known = next(iter(eta["eta"]), None)
    page = page or max(math.ceil(len(story["story"]) / ROWS), 1)
    events, pages = paged(story["story"], page, lambda number: f"/jobs/{job_id}?page={number}")
    chart = None
    if known and known["finish_s"] is not None:
        chart = timeline([_course(str(job_id), known, now_s)], (), "When it starts and is done", other=SLURMS)
    return {
        "job_id": job_id,
        "sentences": [text for text in (told["reason"], told["time"], told["advice"]) if text],
        "chart": chart,
        "times": _times(known, now_s) if known else [],
        "details": list(told["details"]),
        "promise": list(promise["deadline"]["sentences"]) if promise["deadline"]["answer"] != "unasked" else [],
        "plan": None if plan is None else plan_of(plan["chart"], now_s),
        "gpus": list(_gpus(gpus["gpus"], now_s)),
        "terms": [[one["text"], amount(one["value"])] for one in terms["terms"] if one["value"]],
        "forecast": _forecast(terms),
        "story": [(moment(event["at_s"]), sentence(event)) for event in events],
        "pages": pages,
        "passed": story.get("passed", ""),
        "as_of": as_of(why),
    }


def _gpus(found: Answer, now_s: float) -> Iterator[tuple[str, str]]:
    """Yield what a job does with its GPUs, as names with values."""
    if not found["known"] or not found["gpus"]:
        return
    if found["runs"]:
        yield "runs on", f"{found['nodes']}, {count(found['gpus'], 'GPU')}"
    if found["use"] is None:
        yield "use", "not measured, nor any earlier run of its kind"
    else:
        steady = ", unsteady" if found["unsteady"] else ""
        yield "use of its GPUs, mean", f"{percent(found['use'])}{steady}"
        yield "use of their memory's bandwidth", percent(found["memory_use"])
        if found["memory_mib"] is not None:
            yield "memory of a GPU, most", f"{amount(found['memory_mib'] / 1024)} GiB"
    if found["idle_gpus"]:
        since = duration(now_s - found["idle_since_s"])
        yield "without a process", f"{count(found['idle_gpus'], 'GPU')} for {since}"
    for one in found["partners"]:
        who = f"job {one['job_id']} of {one['user']}" if one["job_id"] else "a job of somebody else"
        yield "shares GPUs with", f"{who} ({count(one['gpus'], 'GPU')})"


def _unpredicted(job_id: int) -> Answer:
    times = ("start_s", "start_from_s", "start_by_s", "slurm_start_s", "finish_s", "finish_by_s")
    return {"job_id": job_id, "partition": "", "gpus": 0, "tasks": 1, "kind": "unknown", "notes": ()} | dict.fromkeys(
        times
    )


def _forecast(terms: Answer) -> str:
    if terms["forecast_s"] is None:
        return ""
    low, high = duration(terms["low_s"]), duration(terms["high_s"])
    source = f" ({terms['source']})" if terms["source"] else ""
    return f"{duration(terms['forecast_s'])}, 80 % between {low} and {high}{source}."


def _times(one: Answer, now_s: float) -> list[tuple[str, str | int]]:
    row = _row(one, {}, now_s)
    named = (("starts, median", "start"), ("80 % interval", "between"), (SLURMS, "slurms"), ("done, median", "done"))
    return [(words, row[name]) for words, name in named if row[name]]


def _row(one: Answer, why: Mapping[int, str], now_s: float) -> dict[str, str | int]:
    runs = one["kind"] == "running"
    reason = "It runs." if runs else why.get(one["job_id"], " ".join(one["notes"]))
    return {
        "job_id": one["job_id"],
        "partition": one["partition"],
        "gpus": amount(one["gpus"] * max(one["tasks"], 1)) if one["gpus"] else UNKNOWN,
        "start": "runs" if runs else _at(one["start_s"], now_s),
        "between": "" if runs else _between(one, now_s),
        "slurms": "" if runs else _at(one["slurm_start_s"], now_s),
        "done": _at(one["finish_s"], now_s),
        "why": reason,
    }


def _course(name: str, one: Answer, now_s: float) -> Course:
    runs = one["kind"] == "running"
    start = {
        key: math.nan if runs else _ahead(one[name], now_s)
        for key, name in (
            *((name, name) for name in ("start_from_s", "start_s", "start_by_s")),
            ("other_s", "slurm_start_s"),
        )
    }
    done_s, done_by_s = (_ahead(one[key], now_s) for key in ("finish_s", "finish_by_s"))
    return Course(name, done_s=done_s, done_by_s=done_by_s, **start)


def _ahead(at_s: float | None, now_s: float) -> float:
    return math.nan if at_s is None else max(at_s - now_s, 0.0)


def _at(at_s: float | None, now_s: float) -> str:
    if at_s is None:
        return UNKNOWN
    return "now" if at_s <= now_s else f"in {duration(at_s - now_s)}"


def _between(one: Answer, now_s: float) -> str:
    if one["start_from_s"] is None or one["start_by_s"] is None:
        return UNKNOWN
    return f"{_at(one['start_from_s'], now_s)} to {duration(_ahead(one['start_by_s'], now_s))}"


def _windows(windows: Sequence[Answer], now_s: float) -> list[Window]:
    return [Window(one["name"], one["start_s"] - now_s, one["end_s"] - now_s) for one in windows]


def _window_words(one: Answer) -> str:
    what = "maintenance" if one["maintenance"] else "reservation"
    return f"{one['name']} ({what}) on {one['nodes']}: {moment(one['start_s'])} to {moment(one['end_s'])}"

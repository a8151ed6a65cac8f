"""Pages for people: made on the server, without a script, for the user of the request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from flask import Flask, Response, request

from ..daemon.api.query_arguments import NAME_MOST
from ..pages.environment import policy_of_page, render
from ..pages.formats import legible
from . import cluster_pages, job_pages, policy_pages, record_pages
from .asking import Ask, Turns, asked
from .identity import Who
from .problems import Problem

PLACES = (
    ("/", "My jobs"),
    ("/queue", "Queue"),
    ("/gpus", "GPUs"),
    ("/accuracy", "Accuracy"),
    ("/report", "Report"),
    ("/policies", "Policies"),
)
VARIANTS_MOST, OPTIONS_MOST = 8, 2000

Answers = Callable[..., Mapping[str, Any]]
"""Asks the daemon a question in the name of the user: its name, and its parameters as keywords."""


class Page(NamedTuple):
    """A page to render: its template, its place in the menu, and what the template takes."""

    template: str
    place: str
    values: Mapping[str, Any]


def add_pages(app: Flask, ask: Ask, who: Who, turns: Turns) -> None:
    """Let *app* show pages, made of what *ask* answers to the user that *who* finds, when it is the user's turn."""

    def response(made: Callable[..., Page], path: Mapping[str, Any]) -> Response:
        asker = who(request)
        with turns.of(asker):
            return _response(made(lambda name, **given: legible(asked(ask, {"ask": name, **given}, asker)), **path))

    def shown(made: Callable[..., Page]) -> Callable[..., Response]:
        return lambda **path: response(made, path)

    for address, made in _PAGES.items():
        app.add_url_rule(address, f"page {address}", shown(made), methods=["GET"])


def problem_page(problem: Problem) -> Response:
    """Return a problem as a page."""
    shown = _response(Page("problem.html", "", {"title": problem.status.phrase, "detail": problem.detail}))
    shown.status_code = int(problem.status)
    shown.headers.update(problem.headers)
    return shown


def _my_jobs(answer: Answers) -> Page:
    page, rows = _number("page", 1), job_pages.PAGE
    mine, windows = answer("mine", limit=rows), answer("windows")
    eta = _predicted(answer, mine, limit=rows, skip=rows * (page - 1))
    return Page("my-jobs.html", "My jobs", job_pages.my_jobs(eta, mine, windows, page))


def _try_a_job(answer: Answers) -> Page:
    texts = [text for text in request.args.getlist("options") if text.strip()]
    if not 0 < len(texts) <= VARIANTS_MOST or max(map(len, texts)) > OPTIONS_MOST:
        raise Problem(HTTPStatus.BAD_REQUEST, f"give the options of 1 to {VARIANTS_MOST} variants of a job")
    found = [answer("eta_check", options=text) for text in texts]
    return Page("try.html", "Try a job", job_pages.tried(texts, found))


def _job(answer: Answers, job_id: int) -> Page:
    if not 0 < job_id < 2**32:
        raise Problem(HTTPStatus.NOT_FOUND, "there is no job of that number")
    why, explained, story, promise, gpus = (
        answer(name, job_id=job_id) for name in ("why", "explain", "story", "deadline", "gpus")
    )
    page = _number("page", 0, least=0)
    eta = _predicted(answer, why, job_ids=[job_id])
    plan = answer("chart", job_id=job_id) if promise["deadline"]["answer"] != "unasked" else None
    return Page("job.html", "Job", job_pages.job(job_id, why, explained, story, eta, promise, gpus, plan, page))


def _queue(answer: Answers) -> Page:
    page, rows, only = _number("page", 1), cluster_pages.ROWS, _partition()
    by = request.args.get("by", cluster_pages.BY[0])
    if by not in cluster_pages.BY:
        raise Problem(HTTPStatus.BAD_REQUEST, f"by: accepted are {', '.join(cluster_pages.BY)}")
    schedule, windows, mine = answer("schedule"), answer("windows"), answer("mine", limit=1)
    eta = _predicted(answer, schedule, all=True, limit=rows, skip=rows * (page - 1), **only)
    chosen = only.get("only_partition", "")
    return Page("queue.html", "Queue", cluster_pages.queue(schedule, eta, windows, mine["user"], page, by, chosen))


def _gpus(answer: Answers) -> Page:
    page, rows, only = _number("page", 1), cluster_pages.ROWS, _partition()
    nodes = answer("nodes", limit=rows, skip=rows * (page - 1), **only)
    return Page("gpus.html", "GPUs", cluster_pages.gpus(nodes, page, only.get("only_partition", "")))


def _accuracy(answer: Answers) -> Page:
    shown = record_pages.accuracy(answer("accuracy", days=float(_number("days", 30))), _number("page", 1))
    return Page("accuracy.html", "Accuracy", shown)


def _report(answer: Answers) -> Page:
    found = answer("report", span_s=_number("days", 7) * record_pages.DAY_S)
    return Page("week.html", "Report", record_pages.report(found, _number("page", 1)))


def _policies(answer: Answers) -> Page:
    weight = _number("weight", 70, least=0)
    if weight > 100:
        raise Problem(HTTPStatus.BAD_REQUEST, "weight: accepted are 0 to 100")
    compared, impact = answer("orders"), answer("advice")
    return Page("policies.html", "Policies", policy_pages.policies(compared, impact, weight, _number("page", 1)))


_PAGES: Mapping[str, Callable[..., Page]] = {
    "/": _my_jobs,
    "/try": _try_a_job,
    "/jobs/<int:job_id>": _job,
    "/queue": _queue,
    "/gpus": _gpus,
    "/accuracy": _accuracy,
    "/report": _report,
    "/policies": _policies,
}


def _predicted(answer: Answers, beside: Mapping[str, Any], **given: Any) -> Mapping[str, Any]:
    """Return the predictions of jobs; none, with the reason, where nothing is predicted."""
    try:
        return answer("eta", **given)
    except Problem as problem:
        if problem.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE):
            raise
        nothing = {"eta": [], "jobs": 0, "coverage_words": problem.detail}
        return {**nothing, "as_of_s": beside["as_of_s"], "cycle": beside["cycle"]}


def _response(page: Page) -> Response:
    body = render(
        page.template, form_action="'self'", places=PLACES, place=page.place, **({"user": ""} | dict(page.values))
    )
    shown = Response(body, mimetype="text/html")
    shown.headers["Content-Security-Policy"] = policy_of_page()
    return shown


def _partition() -> dict[str, str]:
    """Return the partition that is chosen, as questions take it."""
    name = request.args.get("only_partition", "")
    if len(name) > NAME_MOST:
        raise Problem(HTTPStatus.BAD_REQUEST, f"only_partition: accepted is a name of at most {NAME_MOST} characters")
    return {"only_partition": name} if name else {}


def _number(name: str, usual: int, least: int = 1) -> int:
    text = request.args.get(name, str(usual))
    if text.isascii() and text.isdecimal() and least <= int(text[:9]) < 10**6:
        return int(text[:9])
    raise Problem(HTTPStatus.BAD_REQUEST, f"{name}: accepted is a whole number from {least}, not {text!r:.40}")

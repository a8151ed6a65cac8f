"""Pages for people: made on the server, without a script, for the user of the request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, request

from ..pages.environment import policy_of_page, render
from ..pages.formats import legible
from . import job_pages
from .asking import Ask, asked
from .identity import Who
from .problems import Problem

PLACES = (("/", "My jobs"),)
VARIANTS_MOST, OPTIONS_MOST = 8, 2000


def add_pages(app: Flask, ask: Ask, who: Who) -> None:
    """Let *app* show pages, made of what *ask* answers to the user that *who* finds."""

    def of_user() -> Callable[..., Mapping[str, Any]]:
        asker = who(request)
        return lambda name, **given: legible(asked(ask, {"ask": name, **given}, asker))

    @app.get("/")
    def my_jobs() -> Response:
        answer, page = of_user(), _number(request.args.get("page", "1"))
        mine, windows = answer("mine", limit=job_pages.PAGE), answer("windows")
        eta = _predicted(answer, mine, limit=job_pages.PAGE, skip=job_pages.PAGE * (page - 1))
        return _page("my-jobs.html", "My jobs", **job_pages.my_jobs(eta, mine, windows, page))

    @app.get("/try")
    def try_a_job() -> Response:
        answer = of_user()
        texts = [text for text in request.args.getlist("options") if text.strip()]
        if not 0 < len(texts) <= VARIANTS_MOST or max(map(len, texts)) > OPTIONS_MOST:
            raise Problem(HTTPStatus.BAD_REQUEST, f"give the options of 1 to {VARIANTS_MOST} variants of a job")
        answers = [answer("eta_check", options=text) for text in texts]
        return _page("try.html", "Try a job", user="", **job_pages.tried(texts, answers))

    @app.get("/jobs/<int:job_id>")
    def job(job_id: int) -> Response:
        answer = of_user()
        if not 0 < job_id < 2**32:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no job of that number")
        why, explained, story, promise = (
            answer(name, job_id=job_id) for name in ("why", "explain", "story", "deadline")
        )
        eta = _predicted(answer, why, job_ids=[job_id])
        return _page("job.html", "Job", user="", **job_pages.job(job_id, why, explained, story, eta, promise))


def _predicted(answer: Callable[..., Mapping[str, Any]], beside: Mapping[str, Any], **given: Any) -> Mapping[str, Any]:
    """Return the predictions of jobs; none, with the reason, where nothing is predicted."""
    try:
        return answer("eta", **given)
    except Problem as problem:
        if problem.status is not HTTPStatus.FORBIDDEN:
            raise
        nothing = {"eta": [], "jobs": 0, "coverage_words": problem.detail}
        return {**nothing, "as_of_s": beside["as_of_s"], "cycle": beside["cycle"]}


def problem_page(problem: Problem) -> Response:
    """Return a problem as a page."""
    shown = _page("problem.html", "", user="", title=problem.status.phrase, detail=problem.detail)
    shown.status_code = int(problem.status)
    shown.headers.update(problem.headers)
    return shown


def _page(template: str, place: str, **values: Any) -> Response:
    body = render(template, form_action="'self'", places=PLACES, place=place, **values)
    shown = Response(body, mimetype="text/html")
    shown.headers["Content-Security-Policy"] = policy_of_page()
    return shown


def _number(text: str) -> int:
    if text.isascii() and text.isdecimal() and 0 < int(text[:9]) < 10**6:
        return int(text[:9])
    raise Problem(HTTPStatus.BAD_REQUEST, f"page: accepted is a whole number from 1, not {text!r:.40}")

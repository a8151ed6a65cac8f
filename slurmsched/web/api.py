"""The API as a WSGI application: each question of users at an address of its own, for the user of the token."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from .. import __version__
from ..clock import Clock, SystemClock
from ..daemon.api.query_arguments import AnswerRefused
from ..daemon.api.questions.contract import Question
from ..daemon.api.questions.table import QUESTIONS
from .asking import Ask, Turns, Watched, asked
from .identity import Who, by_token
from .openapi import ROOT, by_post, document
from .pages import add_pages, problem_page
from .problems import Problem

logger = logging.getLogger(__name__)

BODY_B = 16 * 1024

ASKED: Mapping[str, Question] = {
    name: question for name, question in QUESTIONS.items() if question.remote and question.read_only
}
"""The questions of users that change nothing: no other one is asked over HTTP."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def application(ask: Ask, forms: Mapping[str, Any], who: Who = by_token, clock: Clock | None = None) -> Flask:
    """Return the application that answers by *ask*; *forms* are the JSON Schemas of the answers by question.

    *who* says who asks, with what *ask* takes for it.
    """
    ask, turns = Watched(ask, (clock or SystemClock()).now), Turns()
    app = Flask("slurmsched", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = BODY_B
    described = json.dumps(document(ASKED, forms, __version__, tokens=who is by_token))

    @app.get(f"{ROOT}/openapi.json")
    def describe() -> Response:
        return Response(described, mimetype="application/json")

    def answer(name: str) -> Response:
        asker, given = who(request), _given(ASKED[name])
        with turns.of(asker):
            found = asked(ask, {"ask": name, **given}, asker)
        return Response(json.dumps(found, allow_nan=False), mimetype="application/json")

    for name, question in ASKED.items():
        method = "POST" if by_post(question) else "GET"
        app.add_url_rule(
            f"{ROOT}/{name}",
            name,
            answer,
            defaults={"name": name},
            methods=[method],
            provide_automatic_options=False,
        )
    add_pages(app, ask, who, turns)
    app.register_error_handler(Problem, _shown)
    app.register_error_handler(HTTPException, _of_framework)
    app.register_error_handler(Exception, _bug)

    @app.after_request
    def protect(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)  # a page has a policy of its own
        return response

    return app


def _shown(problem: Problem) -> Response:
    """Return a problem as what was asked for: problem details, or a page."""
    return problem.response() if _of_api() else problem_page(problem)


def _of_api() -> bool:
    return request.path.startswith("/api")


def _given(question: Question) -> dict[str, Any]:
    """Return the parameters of the request as *question* takes them; Problem 400 for others."""
    known = {one.name: one for one in question.parameters}
    if by_post(question):
        body = request.get_json(silent=True)
        if request.args or not isinstance(body, dict):
            raise Problem(HTTPStatus.BAD_REQUEST, "the body must be one JSON object with the parameters")
        given = body
    else:
        given = {}
        for name, texts in request.args.lists():
            if len(texts) > 1:
                raise Problem(HTTPStatus.BAD_REQUEST, f"{name!r} is given {len(texts)} times; accepted: once")
            given[name] = known[name].of_text(texts[0]) if name in known else texts[0]
    if unknown := sorted(set(given) - set(known)):
        accepted = ", ".join(known) or "none"
        raise Problem(
            HTTPStatus.BAD_REQUEST, f"{unknown[0][:100]!r} is no parameter of {question.name}; accepted: {accepted}"
        )
    try:
        question.given(given)
    except AnswerRefused as error:
        raise Problem(HTTPStatus.BAD_REQUEST, str(error)) from error
    return given


def _of_framework(error: HTTPException) -> Response:
    """Return what Flask refuses, such as an unknown address, as problem details."""
    status = HTTPStatus(error.code or 500)
    headers = {name: value for name, value in error.get_headers() if name == "Allow"}
    missing = f"there is no such question; {ROOT}/openapi.json lists them" if _of_api() else "there is no such page"
    words = missing if status is HTTPStatus.NOT_FOUND else ""
    return _shown(Problem(status, words or status.description or status.phrase, headers))


def _bug(error: Exception) -> Response:
    logger.error("a bug in answering over HTTP", exc_info=error)
    return _shown(Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "a bug in slurmsched web; its log has details"))

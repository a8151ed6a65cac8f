"""The API as a WSGI application: each question of users at an address of its own, for the user of the token."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from .. import __version__
from ..daemon.api.query_arguments import AnswerRefused
from ..daemon.api.query_protocol import DaemonUnreachable
from ..daemon.api.questions.contract import Question
from ..daemon.api.questions.table import QUESTIONS
from .identity import token_of
from .openapi import ROOT, by_post, document
from .problems import Problem

logger = logging.getLogger(__name__)

BODY_B = 16 * 1024
AGAIN_S = 10

ASKED: Mapping[str, Question] = {
    name: question for name, question in QUESTIONS.items() if question.remote and question.read_only
}
"""The questions of users that change nothing: no other one is asked over HTTP."""

Ask = Callable[[Mapping[str, Any], str], Mapping[str, Any]]
"""Asks the daemon a question with a token; AnswerRefused, or DaemonUnreachable."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def application(ask: Ask, forms: Mapping[str, Any]) -> Flask:
    """Return the application that answers by *ask*; *forms* are the JSON Schemas of the answers by question."""
    app = Flask("slurmsched", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = BODY_B
    described = json.dumps(document(ASKED, forms, __version__))

    @app.get(f"{ROOT}/openapi.json")
    def describe() -> Response:
        return Response(described, mimetype="application/json")

    def answer(name: str) -> Response:
        token, given = token_of(dict(request.headers)), _given(ASKED[name])
        try:
            found = ask({"ask": name, **given}, token)
        except DaemonUnreachable as error:
            again = {"Retry-After": str(AGAIN_S)}
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), again) from error
        except AnswerRefused as error:
            raise Problem(HTTPStatus.FORBIDDEN, str(error)) from error
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
    app.register_error_handler(Problem, Problem.response)
    app.register_error_handler(HTTPException, _of_framework)
    app.register_error_handler(Exception, _bug)

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(_HEADERS)
        return response

    return app


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
    words = f"there is no such question; {ROOT}/openapi.json lists them" if status is HTTPStatus.NOT_FOUND else ""
    return Problem(status, words or status.description or status.phrase, headers).response()


def _bug(error: Exception) -> Response:
    logger.error("a bug in answering over HTTP", exc_info=error)
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "a bug in slurmsched web; its log has details").response()

"""The OpenAPI description of the API, made of the table of questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from ..daemon.api.questions.contract import Question
from .identity import TOKEN, USER
from .problems import MIMETYPE

ROOT = "/api/v1"
OPTIONS = "options"
"""The parameter with the options of a job that does not exist yet: it comes in the body of a POST."""

_PROBLEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}
_REFUSALS = {
    HTTPStatus.BAD_REQUEST: "A parameter is unknown, missing, or not accepted",
    HTTPStatus.UNAUTHORIZED: "There is no token, or one that is not the user's",
    HTTPStatus.FORBIDDEN: "The daemon refuses, and says why",
    HTTPStatus.TOO_MANY_REQUESTS: "Other requests of the user are still being worked on",
    HTTPStatus.SERVICE_UNAVAILABLE: "The daemon does not answer, or not yet",
}


def by_post(question: Question) -> bool:
    """Report whether a question is asked by POST: about a job that is described in the body."""
    return any(one.name == OPTIONS for one in question.parameters)


def document(
    questions: Mapping[str, Question], forms: Mapping[str, Any], version: str, *, tokens: bool = True
) -> dict[str, Any]:
    """Return the OpenAPI document (3.1) of *questions*, whose answers have *forms*, JSON Schemas by name.

    Without *tokens* the socket says who asks.
    """
    by_token = {
        "securitySchemes": {
            "token": {"type": "apiKey", "in": "header", "name": TOKEN},
            "user": {"type": "apiKey", "in": "header", "name": USER},
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "slurmsched",
            "version": version,
            "summary": "When jobs start and end, why they wait, and what is promised to them",
        },
        "servers": [{"url": ROOT}],
        **({"security": [{"token": []}, {"token": [], "user": []}]} if tokens else {}),
        "paths": {f"/{name}": _path(one, forms[name]) for name, one in questions.items()},
        "components": {**(by_token if tokens else {}), "schemas": {"Problem": _PROBLEM}},
    }


def _path(question: Question, form: Any) -> dict[str, Any]:
    parameters = list(_parameters(question))
    asked: dict[str, Any] = {
        "operationId": question.name,
        "summary": question.about[:1].upper() + question.about[1:],
        "responses": {"200": _answer(form)}
        | {str(int(status)): _refusal(words) for status, words in _REFUSALS.items()},
    }
    if by_post(question):
        body = {
            "type": "object",
            "properties": {one["name"]: one["schema"] for one in parameters},
            "required": [one["name"] for one in parameters if one["required"]],
            "additionalProperties": False,
        }
        asked["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        return {"post": asked}
    return {"get": asked | ({"parameters": parameters} if parameters else {})}


def _parameters(question: Question) -> Iterator[dict[str, Any]]:
    for one in question.parameters:
        found = {"name": one.name, "in": "query", "required": one.required, "schema": dict(one.schema)}
        if one.schema["type"] == "array":
            found |= {"style": "form", "explode": False}
        yield found | {"description": f"{one.accepts[:1].upper()}{one.accepts[1:]}"}


def _answer(form: Any) -> dict[str, Any]:
    head = {"schema": {"type": "string"}, "ask": {"type": "string"}}
    whole = {"allOf": [{"type": "object", "properties": head, "required": list(head)}, form]}
    return {"description": "The answer", "content": {"application/json": {"schema": whole}}}


def _refusal(words: str) -> dict[str, Any]:
    return {"description": words, "content": {MIMETYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}

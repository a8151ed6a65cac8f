"""Errors over HTTP as problem details (RFC 9457)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus

from flask import Response

MIMETYPE = "application/problem+json"


@dataclass(eq=False)
class Problem(Exception):
    """An error with the status and the sentence that the client gets."""

    status: HTTPStatus
    detail: str
    headers: dict[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        """Return it as problem details."""
        body = {"type": "about:blank", "title": self.status.phrase, "status": int(self.status), "detail": self.detail}
        return Response(json.dumps(body), int(self.status), self.headers, mimetype=MIMETYPE)

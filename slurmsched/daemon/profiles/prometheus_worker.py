"""A process that asks Prometheus about runs: ``python -m slurmsched.daemon.profiles.prometheus_worker FD``.

What a server sends is read here, within bounds of time and size, and never in the daemon. A request is a Question, an
answer is (error, records).
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from ...child_process import serve
from .profile_record import Record
from .prometheus_queries import EXPORTERS, Labels, Wanted, query_of, records_of

ANSWER_B, ANSWERS_B = 4 << 20, 16 << 20  #: of one answer, and of all to one request
CALL_S = 5.0  #: without any byte
ALL_S = 40.0  #: for all runs of one request


@dataclass(frozen=True)
class Question:
    """Runs to ask a Prometheus about, and how it is reached."""

    url: str
    exporter: str
    labels: Labels
    every_s: float
    runs: Sequence[Wanted]
    token: str = field(default="", repr=False)
    ca: str = ""
    certificate: str = ""
    key: str = ""


def answer(question: Question) -> tuple[str, list[Record]]:
    """Return the records of the runs that Prometheus knows; with an error those before it."""
    found: list[Record] = []
    until_s, connection, left_b = time.monotonic() + ALL_S, None, ANSWERS_B
    exporter = EXPORTERS[question.exporter]
    try:
        connection = _connection(question)
        for run in question.runs:
            if time.monotonic() > until_s:
                return f"it takes longer than {ALL_S:g} s", found
            query = query_of(run, exporter, question.labels)
            text = _asked(connection, question, query, run.end_s)
            left_b -= len(text)
            if left_b < 0:
                return f"answers of more than {ANSWERS_B} bytes", found
            found += records_of(run, json.loads(text), exporter, question.labels, question.every_s)
    except (OSError, http.client.HTTPException, ValueError, TypeError, RecursionError) as error:
        return f"{type(error).__name__}: {str(error)[:200]}", found
    finally:
        if connection is not None:
            connection.close()
    return "", found


def _connection(question: Question) -> http.client.HTTPConnection:
    parts = urlsplit(question.url)
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=CALL_S)
    context = ssl.create_default_context(cafile=question.ca or None)
    if question.certificate:
        context.load_cert_chain(question.certificate, question.key or None)
    return http.client.HTTPSConnection(parts.hostname or "", parts.port or 443, timeout=CALL_S, context=context)


def _asked(connection: http.client.HTTPConnection, question: Question, query: str, at_s: int) -> bytes:
    """Return the answer to a PromQL *query* at a time; redirects are not followed."""
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if question.token:
        headers["Authorization"] = f"Bearer {question.token}"
    path = urlsplit(question.url).path.rstrip("/") + "/api/v1/query"
    body = f"query={quote(query, safe='')}&time={at_s}&timeout={CALL_S:g}s"
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    text = response.read(ANSWER_B + 1)
    if len(text) > ANSWER_B:
        raise ValueError(f"an answer of more than {ANSWER_B} bytes")
    if response.status != 200:
        raise ValueError(f"status {response.status}")
    return text


if __name__ == "__main__":
    serve(answer)

"""Requests that are drawn by the OpenAPI document of an application."""

from __future__ import annotations

import traceback

import schemathesis
from flask import Flask
from hypothesis import HealthCheck, given, settings


def drawn_requests(web: Flask, examples: int, **headers: str) -> dict[str, str]:
    """What is wrong with an answer, for each operation that has a wrong one."""
    found = {}
    for operation in schemathesis.openapi.from_wsgi("/api/v1/openapi.json", web).get_all_operations():
        asked = operation.ok()

        @given(case=asked.as_strategy())
        @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        def holds(case):
            case.call_and_validate(headers=headers)

        try:
            holds()
        except (Exception, BaseExceptionGroup) as error:  # all of them are listed
            found[asked.label] = "".join(traceback.format_exception(error))[-1500:]
    return found

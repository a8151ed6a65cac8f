"""The demo of pages: all of them over a modelled site, and drawn requests by the OpenAPI document find nothing."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("flask")
pytest.importorskip("numba")
pytest.importorskip("schemathesis")

from drawn_requests import drawn_requests

from slurmsched.cli.daemon.web import forms
from slurmsched.cli.daemon.web_demo import EVERY_S, SPEED, demo_daemon, this_user
from slurmsched.web.api import application

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def daemon():
    with demo_daemon() as made:
        yield made


@pytest.fixture(scope="module")
def web(daemon):
    return application(daemon.ask, forms(), lambda request: this_user())


def test_every_page_has_its_charts_and_time_passes(daemon, web):
    client = web.test_client()
    charts = {"/": 1, "/queue": 1, "/queue?by=type": 1, "/gpus": 1, "/accuracy": 2, "/report": 3}
    for page, many in charts.items():
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert answer.text.count("<svg") >= many, page
    text = client.get("/").text
    jobs = re.findall(r'href="(/jobs/\d+)"', text)
    assert jobs
    assert client.get(jobs[0]).status_code == 200
    daemon.step(daemon.now_s + EVERY_S * SPEED)
    assert re.search(r"cycle \d+", client.get("/").text)[0] != re.search(r"cycle \d+", text)[0]


def test_every_answer_is_one_that_the_document_describes(web):
    assert drawn_requests(web, examples=40) == {}

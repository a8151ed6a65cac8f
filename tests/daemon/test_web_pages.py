"""Pages for people: each user's own jobs, hostile texts as texts, no script, no request, no complaint of a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from daemon_worlds import report

from slurmsched.cli.daemon.web import forms
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.reservations import ReservationTable
from slurmsched.cluster.state import View
from slurmsched.daemon.api.query_arguments import AnswerRefused
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_protocol import DaemonUnreachable
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.db.tracking.story import StoryEvent
from slurmsched.decide.rules import Rules
from slurmsched.explain import explain
from slurmsched.explain.eta import LivePredictions, etas
from slurmsched.explain.why import why
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.workload.workload import workload

pytest.importorskip("flask")
pytest.importorskip("waitress")

from slurmsched.web.api import application
from slurmsched.web.identity import Who

HOUR_S = 3600.0
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m{{7*7}}"
OWNERS = ("daemon", "daemon", "nobody", "daemon")


def observed(owners=OWNERS):
    """A full node: job 1 runs, the others wait; texts of users are hostile."""
    many = len(owners)
    jobs = workload(
        many, job_id=1 + np.arange(many), submit_s=np.linspace(0.0, 180.0, many), runtime_s=np.full(many, 4 * HOUR_S),
        gpus=np.full(many, 8), time_limit_s=np.full(many, 5 * HOUR_S), account=Labels.of(["lab"] * many),
        user=Labels.of(owners),
    )  # fmt: skip
    cluster = SimulatedCluster(jobs, ClusterSpec.of(1, 8))
    cluster.advance(HOUR_S)
    state = cluster.observe()

    def known(table):
        span_s = np.full(len(table), 4 * HOUR_S)
        return Forecast(span_s, span_s / 2, span_s * 2, Labels.of([f"runs of {HOSTILE}"] * len(table)))

    window = table_of(
        ReservationTable, 1, {},
        {"name": [HOSTILE], "start_s": [HOUR_S * 8], "end_s": [HOUR_S * 10], "nodes": ["n1"], "flags": ["MAINT"]},
    )  # fmt: skip
    tables = state.pending, state.running, state.nodes, state.partitions, state.qos
    view = View(HOUR_S, *tables, known(state.pending), known(state.running))
    return replace(
        view, reservations=window, pending=view.pending.changed(name=Labels.of([HOSTILE] * len(view.pending)))
    )


def handlers(seen, **sources):
    plan = decide(seen, find_ordering("fifo"), Rules(powers=frozenset({"order"})))
    table = predict_completion(
        replace(seen, reservations=seen.reservations.take(np.zeros(0, np.int64))),
        plan.jobs.rank,
        plan.jobs.standing,
        {},
    )
    story = StoryEvent(HOUR_S, "deadline", {"what": "refused", "reason": HOSTILE}, 2)
    tried = etas(table, seen.now_s, [0])[0]
    known = {
        "status": lambda: {"mode": "act"},
        "why": lambda view, plan, job_id, beside: why(view, plan, Rules(), job_id, beside),
        "explain": lambda view, plan, job_id, beside: explain.explain(view, plan, Rules(), job_id, beside),
        "queue": explain.queue,
        "story": lambda job_id, since_s: [story],
        "predictions": lambda: LivePredictions(table),
        "eta_check": lambda view, plan, options, user: replace(tried, notes=(f"of {options}",)),
        "private": lambda: True,
    }
    made = QueryHandlers(Sources(**(known | sources)), trusted=(0,))
    made.observe(report(view=seen, plan=plan, now_s=seen.now_s, mode="act"))
    return made


def client_of(made, user="daemon"):
    """What shows pages to a user."""
    import pwd

    def asks(request, name):
        return made.answer(request, pwd.getpwnam(name).pw_uid, local=False)

    who: Who = lambda request: user  # noqa: E731
    return application(asks, forms(), who)


@pytest.fixture(scope="module")
def made():
    return handlers(observed())


@pytest.fixture
def client(made):
    return client_of(made).test_client()


PAGES = ("/", "/jobs/2", "/try?options=--gpus%3D2", "/nothing", "/?page=0")


def test_my_jobs_shows_mine_with_intervals_reasons_and_windows(client):
    text = client.get("/").text
    assert re.findall(r'href="/jobs/(\d+)"', text) == ["1", "2", "4"], "not the one of nobody"
    assert "starts between in" in text, "the interval of a bar"
    assert text.count('<th scope="row">') == 3
    assert "It runs." in text
    assert "(maintenance) on n1" in text
    assert "2 wait, 1 run." in text


def test_a_job_has_its_reason_terms_story_and_times(client):
    text = client.get("/jobs/2").text
    for words in ("<h1>Job 2</h1>", "Its priority", "Its story", "its deadline was not promised", "Its forecast"):
        assert words in text


def test_somebody_elses_job_is_refused_on_a_page_in_the_daemons_words(client, made):
    refused = client.get("/jobs/3")
    assert (refused.status_code, refused.mimetype) == (403, "text/html")
    assert "is not yours or does not exist" in refused.text
    unknown = client.get("/jobs/77")
    assert refused.text.replace("job 3", "") == unknown.text.replace("job 77", ""), "nothing tells which ids are in use"
    assert client_of(made, "nobody").test_client().get("/jobs/3").status_code == 200


def test_variants_stand_side_by_side_and_wrong_ones_are_said(client):
    text = client.get("/try", query_string={"options": ["--gpus=2", HOSTILE]}).text
    assert text.count('<tr><th scope="row">') == 2
    for wrong in ({}, {"options": ["x"] * 9}, {"options": "x" * 3000}, {"options": "  "}):
        refused = client.get("/try", query_string=wrong)
        assert (refused.status_code, "1 to 8 variants" in refused.text) == (400, True)


@pytest.mark.parametrize("address", PAGES)
def test_texts_of_users_never_become_markup_and_a_page_loads_and_runs_nothing(client, address):
    answer = client.get(address)
    text = answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    for markup in ("<script", "<img", "onerror=alert(2)>", "\x1b", "javascript:"):
        assert markup not in text.replace("onerror=alert(2)&gt;", ""), markup
    Strict().feed(text)
    assert answer.headers["Cache-Control"] == "no-store"


class Strict(HTMLParser):
    """Fails on anything that loads, runs or styles by itself."""

    def handle_starttag(self, tag, attrs):
        assert tag not in {"script", "img", "iframe", "object", "embed", "link", "video", "audio"}
        for name, value in attrs:
            assert not name.startswith("on")
            assert name != "style"
            if name in ("href", "src", "action"):
                assert (value or "").startswith("/"), value


def test_the_daemon_away_is_said_on_the_page():
    def away(request, user):
        raise DaemonUnreachable("no daemon listens on here")

    answer = application(away, forms(), lambda request: "daemon").test_client().get("/")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
    assert "no daemon listens on here" in answer.text


def test_without_predictions_my_jobs_still_says_why_they_wait():
    def none(*_):
        raise AnswerRefused("predictions are off (predict.enabled)")

    seen = handlers(observed(), predictions=lambda: LivePredictions(trouble="predictions are off (predict.enabled)"))
    text = client_of(seen).test_client().get("/").text
    assert "predictions are off" in text
    assert re.findall(r'href="/jobs/(\d+)"', text) == ["2", "4"]


def test_a_page_of_a_user_with_very_many_jobs_is_paged_and_small():
    seen = handlers(observed(("daemon",) * 1500))
    client = client_of(seen).test_client()
    first = client.get("/")
    assert len(first.data) < 1_000_000
    assert first.text.count('<th scope="row">') == 100
    assert "next page (2 of 15)" in first.text
    assert client.get("/?page=15").text.count('<th scope="row">') == 100


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def served(made):
    from waitress import create_server

    server = create_server(client_of(made), host="127.0.0.1", port=0, threads=4)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    return f"http://127.0.0.1:{server.effective_port}"  # it ends with the process: no thread can stop it


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
@pytest.mark.parametrize("address", ["/", "/jobs/2", "/try?options=--gpus%3D2"])
def test_a_page_opens_in_a_browser_without_a_complaint(served, tmp_path, address):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
               "--enable-logging=stderr", "--v=0", "--window-size=360,800", "--dump-dom", served + address]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert "Content Security Policy" not in shown.stderr
    assert "CONSOLE" not in shown.stderr
    assert "<svg" in shown.stdout
    assert "<script" not in shown.stdout

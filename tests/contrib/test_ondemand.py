"""Open OnDemand: the app as a WSGI program in front of a real socket, and the widget where Ruby is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("flask")
pytest.importorskip("waitress")

from daemon.web_worlds import handlers, observed
from werkzeug.test import Client

from slurmsched.cli.daemon.web import forms
from slurmsched.daemon.api.questions.table import QUESTIONS
from slurmsched.explain.eta import Eta
from slurmsched.web.api import application
from slurmsched.web.identity import by_socket
from slurmsched.web.unix_door import UnixDoor

CONTRIB = Path(__file__).parents[2] / "contrib"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """The app of OnDemand, as Passenger imports it, in front of the socket of users."""
    path = tmp_path_factory.mktemp("run") / "users.sock"
    made = handlers(observed())

    def ask(request, name):
        return made.answer(request, pwd.getpwnam(name).pw_uid, local=False)

    server = UnixDoor.open(str(path), application(ask, forms(), by_socket), lambda peer: True, 0o666)
    threading.Thread(target=server.run, daemon=True).start()
    spec = importlib.util.spec_from_file_location("passenger_wsgi", CONTRIB / "ondemand/slurmsched/passenger_wsgi.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SOCKET = str(path)
    return module


def test_the_app_shows_the_users_own_pages_with_links_below_its_address(app):
    client = Client(app.application)
    answer = client.get("/queue", base_url="http://portal/pun/sys/slurmsched")
    assert answer.status_code == 200
    assert 'href="/pun/sys/slurmsched/gpus"' in answer.text
    assert 'href="/gpus"' not in answer.text
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert client.get("/jobs/77", base_url="http://portal/pun/sys/slurmsched").status_code in (200, 403)
    assert client.post("/queue").status_code == 405


SERVE = """
import sys
from wsgiref.simple_server import make_server
from wsgiref.validate import validator
sys.path.insert(0, sys.argv[1])
from passenger_wsgi import application
with make_server("127.0.0.1", 0, validator(application)) as server:
    print(server.server_port, flush=True)
    server.serve_forever()
"""


@pytest.fixture(scope="module")
def reachable():
    """A directory that every user may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="ondemand-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
@pytest.mark.parametrize(("user", "jobs"), [("daemon", ["1", "2", "4"]), ("nobody", ["3"])])
def test_a_server_that_runs_the_app_as_a_user_shows_the_jobs_of_that_user_and_no_others(reachable, user, jobs):
    path = reachable / f"{user}.sock"
    made = handlers(observed())

    def ask(request, name):
        return made.answer(request, pwd.getpwnam(name).pw_uid, local=False)

    server = UnixDoor.open(str(path), application(ask, forms(), by_socket), lambda peer: True, 0o666)
    threading.Thread(target=server.run, daemon=True).start()
    shutil.copy(CONTRIB / "ondemand/slurmsched/passenger_wsgi.py", reachable)
    as_user = ["setpriv", f"--reuid={user}", "--clear-groups", "/usr/bin/python3", "-c", SERVE, str(reachable)]
    environment = {"PATH": "/usr/bin:/bin", "SLURMSCHED_WEB_SOCKET": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(as_user, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as passenger:
        try:
            port = int(passenger.stdout.readline())
            with urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                assert re.findall(r'href="/jobs/(\d+)"', answer.read().decode()) == jobs
            with pytest.raises(HTTPError) as refused:
                urlopen(f"http://127.0.0.1:{port}/jobs/{3 if user == 'daemon' else 1}", timeout=60)
            assert refused.value.code == 403
            refused.value.close()
        finally:
            passenger.terminate()


def test_without_slurmsched_web_the_app_says_so(app, tmp_path):
    before, app.SOCKET = app.SOCKET, str(tmp_path / "none.sock")
    try:
        answer = Client(app.application).get("/")
        assert (answer.status_code, "does not answer on" in answer.text) == (503, True)
    finally:
        app.SOCKET = before


@pytest.mark.skipif(shutil.which("erb") is None, reason="apt-get install ruby")
@pytest.mark.parametrize("answers", [True, False])
def test_the_widget_lists_next_starts_as_texts(tmp_path, answers):
    found = {"eta": [{"job_id": "<script>", "kind": "predicted", "start_s": 1e9, "start_by_s": None}]}
    program = tmp_path / "slurmsched"
    program.write_text(f"#!/bin/sh\ncat <<'X'\n{json.dumps(found)}\nX\nexit {0 if answers else 1}\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["erb", str(CONTRIB / "ondemand/widgets/_next_starts.html.erb")],
        env={"SLURMSCHED": str(program), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ("&lt;script&gt;" in done.stdout, "does not answer" in done.stdout) == (answers, not answers)
    assert "<script>" not in done.stdout


def test_the_panel_of_grafana_asks_what_is_there_and_shows_columns_of_it():
    (panel,) = json.loads((CONTRIB / "grafana/starts.json").read_text())["panels"]
    (target,) = panel["targets"]
    path, _, query = target["url"].partition("?")
    known = {one.name for one in QUESTIONS[path.rpartition("/")[2]].parameters}
    assert {part.partition("=")[0] for part in query.split("&")} <= known
    assert {one["selector"] for one in target["columns"]} <= set(Eta.__dataclass_fields__)

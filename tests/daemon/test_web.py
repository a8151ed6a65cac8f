"""Questions over HTTP: the user of the token sees what he may see, and nobody else's, and errors say what was wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import jsonschema
import pytest
from certificates import Authority
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from munge_worlds import munged
from remote_worlds import Door, private_handlers
from test_slurm_token import OTHER, SECRET, token

from slurmsched.cli import main
from slurmsched.cli.daemon.web import _address, _ask, forms
from slurmsched.config import RemoteSettings
from slurmsched.daemon.api.query_arguments import NotYet
from slurmsched.daemon.api.query_protocol import DaemonUnreachable
from slurmsched.errors import ConfigError

pytest.importorskip("flask")
pytest.importorskip("waitress")

from slurmsched.web.api import ASKED, application
from slurmsched.web.openapi import by_post, document

FORMS = forms()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Authority.of(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def door(site, tmp_path_factory):
    """A daemon's door that takes Slurm's tokens, with one private job each of nobody, daemon and root."""
    key = tmp_path_factory.mktemp("keys") / "jwt_hs256.key"
    key.write_bytes(SECRET)
    key.chmod(0o600)
    certificate, private = site.issue("localhost", "127.0.0.1")
    settings = RemoteSettings("127.0.0.1:0", certificate, private, munge=False, token_key=str(key))
    with closing(Door(settings, private_handlers()).open()) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(door, site):
    """What speaks HTTP to the application, which asks through that door."""
    daemon = door.daemon(site.file)
    return application(lambda request, of: _ask(daemon, request, of), FORMS).test_client()


def of(user="daemon", secret=SECRET, **more):
    return {"X-SLURM-USER-TOKEN": token(secret, sun=user)} | more


def test_the_user_of_the_token_sees_his_own_jobs_alone(client):
    mine = client.get("/api/v1/queue", headers=of("daemon"))
    assert (mine.status_code, [row["job_id"] for row in mine.json["queue"]]) == (200, [8])
    assert client.get("/api/v1/why?job_id=8", headers=of("daemon")).json["why"]["job_id"] == 8
    other = client.get("/api/v1/why?job_id=7", headers=of("daemon"))
    assert (other.status_code, other.json["title"]) == (403, "Forbidden")
    assert "is not yours or does not exist" in other.json["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-SLURM-USER-NAME": "daemon"},
        {"X-SLURM-USER-TOKEN": "x y"},
        {"X-SLURM-USER-TOKEN": "a" * 5000},
        of("daemon", **{"X-SLURM-USER-NAME": "nobody"}),
        {"X-SLURM-USER-TOKEN": "a.b.c", "X-SLURM-USER-NAME": "daemon"},
    ],
)
def test_without_a_token_or_with_another_user_than_named_nobody_is_asked(headers):
    def never(request, of):
        raise AssertionError("the daemon was asked")

    refused = application(never, FORMS).test_client().get("/api/v1/queue", headers=headers)
    assert (refused.status_code, refused.mimetype) == (401, "application/problem+json")
    assert refused.headers["WWW-Authenticate"].startswith("SlurmToken")


@pytest.mark.parametrize("forged", [of(secret=OTHER), of("no-such-user"), {"X-SLURM-USER-TOKEN": "a.b.c"}])
def test_a_token_that_the_daemon_does_not_take_is_refused_in_its_words(client, forged):
    refused = client.get("/api/v1/queue", headers=forged)
    assert refused.status_code == 403
    assert refused.json["detail"]


def test_a_daemon_that_takes_no_tokens_is_asked_in_nobodys_name(site):
    certificate, private = site.issue("localhost", "127.0.0.1")
    with munged() as munge:
        opened = Door(RemoteSettings("127.0.0.1:0", certificate, private), private_handlers(), munge.unmunge)
        with closing(opened.open()):
            daemon = replace(opened.daemon(site.file), munge_socket=str(munge.socket))
            asking = application(lambda request, of: _ask(daemon, request, of), FORMS).test_client()
            refused = asking.get("/api/v1/queue", headers=of())
    assert refused.status_code == 403, "the munge credential of this process would be another user's"
    assert "takes no tokens of Slurm" in refused.json["detail"]


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/api/v1/why", 400, '"job_id" must be the number of a job'),
        ("/api/v1/why?job_id=x", 400, '"job_id" must be the number of a job'),
        ("/api/v1/why?job_id=8&job_id=9", 400, "'job_id' is given 2 times; accepted: once"),
        ("/api/v1/why?job_id=8&as=root", 400, "'as' is no parameter of why; accepted: job_id"),
        ("/api/v1/nothing", 404, "there is no such question; /api/v1/openapi.json lists them"),
        ("/api/v1/../queue", 404, "there is no such question"),
        ("/api", 404, "there is no such question"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(client, address, status, said):
    refused = client.get(address, headers=of())
    assert (refused.status_code, refused.mimetype) == (status, "application/problem+json")
    assert said in refused.json["detail"]
    assert refused.json["status"] == status


def test_nothing_but_reading_is_possible(client):
    for method in ("post", "put", "delete", "patch", "options"):
        assert getattr(client, method)("/api/v1/queue", headers=of()).status_code == 405
    assert all(question.read_only and question.remote for question in ASKED.values())


def test_a_new_job_is_asked_about_by_post(client):
    posts = [name for name, question in ASKED.items() if by_post(question)]
    assert posts
    for name in posts:
        assert client.get(f"/api/v1/{name}", headers=of()).status_code == 405
        refused = client.post(f"/api/v1/{name}", headers=of(), data=b"[1]", content_type="application/json")
        assert "one JSON object" in refused.json["detail"]
        large = client.post(f"/api/v1/{name}", headers=of(), json={"options": "x" * 20_000})
        assert large.status_code in (400, 413)
        answer = client.post(f"/api/v1/{name}", headers=of(), json={"options": "--gpus=1"})
        assert answer.status_code == (503 if name == "eta_check" else 403), "nothing is predicted yet, nor planned here"


def test_a_daemon_that_is_away_is_said_to_be(site):
    def away(request, of):
        raise DaemonUnreachable("no daemon listens on here:1")

    answer = application(away, FORMS).test_client().get("/api/v1/queue", headers=of())
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
    assert answer.json["detail"].startswith("no daemon listens on here:1 (away since ")


def test_a_daemon_that_has_just_started_or_is_busy_is_to_be_asked_again(site):
    def starting(request, of):
        raise NotYet("the daemon is still starting")

    client = application(starting, FORMS).test_client()
    answer = client.get("/api/v1/queue", headers=of())
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
    assert answer.json["detail"] == "the daemon is still starting"
    assert client.get("/queue", headers=of()).status_code == 503


def test_a_bug_shows_nothing_of_itself():
    def broken(request, of):
        raise ZeroDivisionError("a secret")

    answer = application(broken, FORMS).test_client().get("/api/v1/queue", headers=of())
    assert answer.status_code == 500
    assert b"secret" not in answer.data


def test_every_answer_forbids_browsers_to_keep_frame_or_guess_it(client):
    for address in ("/api/v1/queue", "/api/v1/openapi.json", "/nothing"):
        headers = client.get(address, headers=of()).headers
        assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "Access-Control-Allow-Origin" not in headers


def test_answers_have_the_form_that_the_description_says(client):
    described = client.get("/api/v1/openapi.json").json
    assert described == json.loads(json.dumps(document(ASKED, FORMS, described["info"]["version"])))
    assert set(described["paths"]) == {f"/{name}" for name in ASKED}
    for name, words in (("queue", ""), ("why", "?job_id=8"), ("explain", "?job_id=8"), ("mine", ""), ("status", "")):
        if name not in ASKED:
            continue
        answer = client.get(f"/api/v1/{name}{words}", headers=of())
        form = described["paths"][f"/{name}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer.status_code == 200, answer.json
        if name != "status":  # this one is made up
            jsonschema.validate(answer.json, form)


@given(st.sampled_from(sorted(ASKED)), st.dictionaries(st.text(max_size=8), st.text(max_size=12), max_size=3))
def test_whatever_is_asked_the_answer_is_json_and_no_bug(name, given_values):
    with application(
        lambda request, of: {"schema": "slurmsched/1", "ask": request["ask"]}, FORMS
    ).test_client() as some:
        method = some.post if by_post(ASKED[name]) else some.get
        more = {"json": given_values} if by_post(ASKED[name]) else {"query_string": given_values}
        answer = method(f"/api/v1/{name}", headers={"X-SLURM-USER-TOKEN": "a.b.c"}, **more)
    assert answer.status_code in (200, 400)
    assert answer.json


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:9820", "10.1.2.3:9820", "[::]:9820", "localhost:9820", "127.0.0.1", "127.0.0.1:x"]
)
def test_it_listens_on_this_host_alone(listen):
    with pytest.raises(ConfigError, match="an address of this host alone with a port, such as 127"):
        _address(listen)


def test_the_program_answers_over_a_connection(door, site, tmp_path):
    file = tmp_path / "slurmsched.toml"
    server = f"127.0.0.1:{door.server.address[1]}"
    file.write_text(f"[client]\nserver = '{server}'\nca = '{site.file}'\n[web]\nlisten = '127.0.0.1:0'\n")
    words = [sys.executable, "-u", "-m", "slurmsched", "--config", str(file), "web"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | {"SLURM_JWT": "x.y.z"}) as program:
        try:
            assert program.stdout is not None
            found = re.match(r"slurmsched web listens on (http://127\.0\.0\.1:\d+)/api", program.stdout.readline())
            assert found is not None
            with urlopen(Request(f"{found[1]}/api/v1/queue", headers=of("nobody")), timeout=60) as answer:
                assert [row["job_id"] for row in json.load(answer)["queue"]] == [7]
                assert "Server" not in answer.headers
            with pytest.raises(HTTPError) as refused:
                urlopen(f"{found[1]}/api/v1/queue", timeout=60)
            assert refused.value.code == 401
            refused.value.close()
            with pytest.raises(HTTPError) as large:
                urlopen(Request(f"{found[1]}/api/v1/queue", headers={"X-A": "x" * 20_000}), timeout=60)
            assert large.value.code == 431
            large.value.close()
        finally:
            program.terminate()


def test_without_the_daemons_door_it_says_what_is_missing(tmp_path):
    file = tmp_path / "slurmsched.toml"
    for text, said in (("", "client.server"), ("[client]\nserver = '127.0.0.1:9'\n", "client.ca")):
        file.write_text(text)
        done = CliRunner().invoke(main, ["--config", str(file), "web"])
        assert (done.exit_code, said in done.stderr) == (1, True), done.stderr

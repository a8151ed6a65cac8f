from __future__ import annotations

import http.client
import shutil
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from certificates import Authority
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from slurmsched.config import MetricsSettings
from slurmsched.daemon.api.http_metrics import Address, MetricsServer, metrics_access, parse_listen
from slurmsched.errors import ConfigError


class Patient:
    """A daemon whose health a test decides."""

    def __init__(self):
        self.problem = self.degraded = ""


@pytest.fixture
def patient():
    return Patient()


@pytest.fixture
def serve(patient):
    registry = CollectorRegistry()
    Gauge("slurmsched_pending_jobs", "Pending jobs.", registry=registry).set(3)
    counts: Counter[str] = Counter()
    with ExitStack() as stack:

        def count(result):
            counts[result] += 1

        def opened(listen="127.0.0.1:0", **tls):
            def read():
                return metrics_access(MetricsSettings(listen, **tls))

            endpoint = MetricsServer(read, registry, lambda: patient.problem, lambda: patient.degraded, count)
            endpoint.counts = counts
            stack.callback(endpoint.close)
            endpoint.start()
            return endpoint

        yield opened
    assert "metrics" not in [thread.name for thread in threading.enumerate()]


def get(endpoint, path, method="GET", **headers):
    connection = http.client.HTTPConnection(endpoint.address.host, endpoint.address.port, timeout=60.0)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


def test_metrics_are_openmetrics(serve):
    status, kind, body = get(serve(), "/metrics")
    assert (status, kind.partition(";")[0]) == (200, "application/openmetrics-text")
    families = {family.name: family for family in text_string_to_metric_families(body)}
    assert families["slurmsched_pending_jobs"].samples[0].value == 3


def test_who_asks_for_plain_text_gets_it(serve):
    _, kind, body = get(serve(), "/metrics?x=1", Accept="text/plain")
    assert kind.startswith("text/plain")
    assert "slurmsched_pending_jobs 3.0" in body


def test_health_follows_the_daemon(serve, patient):
    endpoint = serve()
    assert get(endpoint, "/healthz")[::2] == (200, "ok\n")
    patient.problem = "squeue did not answer"
    assert get(endpoint, "/healthz")[::2] == (503, "squeue did not answer\n")
    patient.problem = ""
    assert get(endpoint, "/healthz")[0] == 200


def test_health_tells_of_predictions_that_fail_while_the_cycles_go_on(serve, patient):
    endpoint = serve()
    patient.degraded = "no new predictions: the process that plays forward has died"
    assert get(endpoint, "/healthz")[::2] == (200, f"ok; {patient.degraded}\n")


def test_curl_and_its_like_understand_a_503(serve, patient):
    patient.problem = "no cycle yet"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{serve().address}/healthz", timeout=60.0)
    with refused.value as response:
        assert response.read() == b"no cycle yet\n"


def test_other_paths_and_methods_are_refused(serve):
    endpoint = serve()
    assert get(endpoint, "/")[0] == 404
    assert get(endpoint, "/metrics", "POST")[0] == 405
    assert get(endpoint, "/metrics", "HEAD")[2] == ""


def test_it_serves_on_a_unix_socket(serve, tmp_path):
    path = tmp_path / "metrics.sock"
    endpoint = serve(f"unix:{path}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(60.0)
        stream.connect(str(path))
        stream.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert stream.makefile().readline() == "HTTP/1.1 200 OK\n"
    endpoint.close()
    assert not path.exists()


def test_ipv6_loopback_serves_where_the_machine_has_it(serve):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        pytest.skip(f"no IPv6 loopback here: {error}")
    assert get(serve("[::1]:0"), "/healthz")[0] == 200


@pytest.mark.parametrize("said", [b"\r\n\r\n", b"garbage\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET  HTTP/9\r\n\r\n"])
def test_garbage_gets_an_answer_and_harms_nobody(serve, said):
    endpoint = serve()
    with socket.create_connection((endpoint.address.host, endpoint.address.port), timeout=60.0) as stream:
        stream.sendall(said)
        assert stream.recv(4096).startswith(b"HTTP/1.1 40")
    assert get(endpoint, "/healthz")[0] == 200


def test_an_endless_head_is_cut_off(serve):
    endpoint = serve()
    with (
        socket.create_connection((endpoint.address.host, endpoint.address.port), timeout=60.0) as stream,
        pytest.raises(OSError),  # noqa: PT011 - broken pipe or reset, as the kernel likes
    ):
        stream.sendall((b"X-Long: " + b"x" * 65536 + b"\r\n") * 200)
    assert get(endpoint, "/healthz")[0] == 200


def test_an_address_in_use_is_an_error_of_the_settings(serve):
    endpoint = serve()
    with pytest.raises(ConfigError, match=r"metrics\.listen: opening 127\.0\.0\.1 port \d+: Address already in use"):
        serve(str(endpoint.address))


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", None),
        ("127.0.0.1:9817", Address("127.0.0.1", 9817)),
        ("127.8.9.1:0", Address("127.8.9.1", 0)),
        ("localhost:9817", Address("127.0.0.1", 9817)),
        ("[::1]:9817", Address("::1", 9817)),
        ("unix:/run/slurmsched/metrics.sock", Address(path="/run/slurmsched/metrics.sock")),
    ],
)
def test_addresses_of_this_machine_are_accepted(text, means):
    assert parse_listen(text) == means
    assert means is None or parse_listen(str(means)) == means


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0:9817", "[::]:9817", ":9817", "192.168.1.1:9817", "example.org:9817", "127.0.0.1", "127.0.0.1:", "9817",
     "127.0.0.1:99999", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:٣", "unix:relative", "unix:", "[::ffff:8.8.8.8]:1"],
)  # fmt: skip
def test_every_other_address_is_refused_with_what_is_accepted(text):
    with pytest.raises(ConfigError, match=r"metrics\.listen = .*accepted: 127\.0\.0\.1:PORT"):
        parse_listen(text)


@pytest.fixture
def site(tmp_path):
    return Authority.of(tmp_path / "site")


def tls_of(site, **changed):
    certificate, key = site.issue("127.0.0.1")
    tls = {"certificate": certificate, "key": key, "client_ca": site.file, "scrapers": ("prometheus.example.org",)}
    return tls | changed


def scrape(endpoint, site, identity=None, path="/metrics"):
    """GET from another host's point of view: only the site's authority is trusted."""
    context = ssl.create_default_context(cafile=site.file)
    if identity:
        context.load_cert_chain(*identity)
    connection = http.client.HTTPSConnection("127.0.0.1", endpoint.address.port, timeout=60.0, context=context)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_a_prometheus_elsewhere_reads_through_tls_with_a_listed_certificate(serve, site):
    endpoint = serve(**tls_of(site))
    status, body = scrape(endpoint, site, site.issue("prometheus.example.org"))
    assert status == 200
    assert "slurmsched_pending_jobs 3.0" in body
    assert scrape(endpoint, site, site.issue("portal.example.org"))[0] == 403
    assert endpoint.counts == {"answered": 1, "certificate": 1}


def test_nobody_reads_without_a_valid_certificate_of_that_authority_and_the_log_has_why_once(
    serve, site, tmp_path, caplog
):
    endpoint = serve(**tls_of(site))
    foreign = Authority.of(tmp_path / "foreign")
    for identity in (
        None,
        foreign.issue("prometheus.example.org"),
        site.issue("prometheus.example.org", expired=True),
    ):
        with pytest.raises(OSError):  # noqa: PT011 - an alert of TLS, or a reset, as the kernel likes
            scrape(endpoint, site, identity)
    with pytest.raises((OSError, http.client.HTTPException)):
        get(endpoint, "/metrics")
    assert scrape(endpoint, site, site.issue("prometheus.example.org"))[0] == 200
    until_s = time.monotonic() + 60.0
    while endpoint.counts != {"answered": 1, "tls": 4} and time.monotonic() < until_s:
        time.sleep(0.01)
    assert endpoint.counts == {"answered": 1, "tls": 4}
    assert [record.getMessage()[:40] for record in caplog.records if record.levelname == "WARNING"] == [
        "metrics: no TLS connection with 127.0.0."
    ]


def test_a_reload_takes_new_certificates(serve, site, tmp_path):
    later, tls = Authority.of(tmp_path / "later"), tls_of(site)
    endpoint = serve(**tls)
    for new, old in zip(
        (*later.issue("127.0.0.1"), later.file), (tls["certificate"], tls["key"], site.file), strict=True
    ):
        shutil.copy(new, old)
    endpoint.renew()
    assert scrape(endpoint, later, later.issue("prometheus.example.org"))[0] == 200


def test_with_tls_the_endpoint_may_listen_where_others_can_reach_it(site):
    access = metrics_access(MetricsSettings(**tls_of(site, listen="0.0.0.0:9817")))
    assert str(access.address) == "0.0.0.0:9817"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"certificate": ""}, r"metrics\.key: needs TLS"),
        ({"certificate": "", "key": "", "client_ca": ""}, r"metrics\.scrapers: needs TLS"),
        ({"scrapers": ()}, r"metrics\.certificate is set, but no client is allowed: set metrics\.client_ca"),
        ({"client_ca": ""}, r"metrics\.certificate is set, but no client is allowed: set metrics\.client_ca"),
        ({"client_ca": "/nowhere.pem"}, r"metrics\.client_ca: /nowhere\.pem: No such file"),
        ({"key": "/nowhere.pem"}, r"metrics\.key: /nowhere\.pem: No such file"),
        ({"listen": "unix:/run/m.sock"}, r"metrics\.certificate: a unix socket has no TLS"),
    ],
)
def test_tls_that_would_not_be_safe_is_refused(site, changed, problem):
    with pytest.raises(ConfigError, match=problem):
        metrics_access(MetricsSettings(**tls_of(site, **changed)))


def test_a_key_that_every_user_can_read_is_refused(site):
    tls = tls_of(site)
    Path(tls["key"]).chmod(0o644)
    with pytest.raises(ConfigError, match=r"metrics\.key: .* is open to other users"):
        metrics_access(MetricsSettings(**tls))

"""Profiles from Prometheus: a real one that scrapes a made-up exporter, and servers that are slow, wrong or hostile."""

from __future__ import annotations

import json
import math
import re
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from certificates import Authority

from slurmsched.config.settings import ProfileSettings
from slurmsched.daemon.profiles import prometheus_worker
from slurmsched.daemon.profiles.profile_record import profile_of
from slurmsched.daemon.profiles.prometheus_queries import EXPORTERS, Labels, Wanted, query_of, records_of
from slurmsched.daemon.profiles.prometheus_service import demand_valid_prometheus
from slurmsched.daemon.profiles.prometheus_worker import Question, answer
from slurmsched.errors import ConfigError
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.read.gpu_allocations import read_allocations

NEEDED = pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")
DCGM = EXPORTERS["dcgm"]
BUSY = {0: 80.0, 1: 40.0, 2: 0.0}
"""Utilisation by the number of the GPU, in %."""


def exposition() -> str:
    """Three GPUs of a node as three exporters show them, two of which a job has."""
    lines = []
    for number, util in BUSY.items():
        dcgm = f'gpu="{number}",UUID="GPU-{number}",device="nvidia{number}",Hostname="n1.example.org"'
        lines += [
            f"DCGM_FI_DEV_GPU_UTIL{{{dcgm}}} {util}",
            f"DCGM_FI_DEV_MEM_COPY_UTIL{{{dcgm}}} {util / 4}",
            f"DCGM_FI_DEV_FB_USED{{{dcgm}}} {1000 * (number + 1)}",
            f"DCGM_FI_DEV_POWER_USAGE{{{dcgm}}} {100 + number}",
        ]
        smi = f'uuid="{number}abc"'
        lines += [
            f"nvidia_smi_utilization_gpu_ratio{{{smi}}} {util / 100}",
            f"nvidia_smi_utilization_memory_ratio{{{smi}}} {util / 400}",
            f"nvidia_smi_memory_used_bytes{{{smi}}} {1000 * (number + 1) * 2**20}",
            f"nvidia_smi_power_draw_watts{{{smi}}} {100 + number}",
            f"nvidia_smi_index{{{smi}}} {number}",
        ]
        princeton = f'minor_number="{number}",name="H200",uuid="GPU-{number}",ordinal="{number}"'
        lines += [
            f"nvidia_gpu_duty_cycle{{{princeton}}} {util}",
            f"nvidia_gpu_memory_used_bytes{{{princeton}}} {1000 * (number + 1) * 2**20}",
            f"nvidia_gpu_power_usage_milliwatts{{{princeton}}} {1000 * (100 + number)}",
            f"nvidia_gpu_jobId{{{princeton}}} 7",
        ]
    return "\n".join([*lines, ""])


class Exporter(BaseHTTPRequestHandler):
    """What a node answers to a scrape; each second one fails."""

    scrapes = 0

    def do_GET(self) -> None:
        Exporter.scrapes += 1
        body = exposition().encode()
        self.send_response(200 if Exporter.scrapes % 3 else 503)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body if Exporter.scrapes % 3 else b"")

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """The port of a server on the loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """The address of a real Prometheus that has scraped the exporter for some seconds, and since when."""
    home = tmp_path_factory.mktemp("prometheus")
    with served(Exporter) as port:
        labels = {"instance": "n1:9400", "cluster": "site"}
        job = {"job_name": "gpus", "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": labels}]}
        (home / "p.yml").write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
        words = [f"--config.file={home / 'p.yml'}", f"--storage.tsdb.path={home / 'data'}"]
        with (home / "log").open("w") as out:
            words = [shutil.which("prometheus") or "", *words, "--web.listen-address=127.0.0.1:0"]
            running = subprocess.Popen(words, stdout=out, stderr=out)
        try:
            found = wait_until(
                lambda: re.search(r'msg="Listening on" address=(\S+)', (home / "log").read_text()), 120.0, "Prometheus"
            )
            began_s = time.time()
            wait_until(lambda: Exporter.scrapes >= 12, 120.0, "scrapes")
            yield f"http://{found[1]}", began_s
        finally:
            running.terminate()
            running.wait()


def asked(url: str, began_s: float, gpus: dict, exporter: str = "dcgm", labels: Labels | None = None, **more) -> list:
    """The profiles that a Prometheus gives of a run of job 7."""
    number = sum(map(len, gpus.values()))
    run = Wanted(7, 1, int(began_s) - 60, int(time.time()), gpus, number)
    error, records = answer(Question(url, exporter, labels or Labels(), 1.0, [run], **more))
    assert error == ""
    return [profile_of(record, time.time()) for record in records]


@NEEDED
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_real_prometheus_gives_what_an_exporter_showed_of_a_jobs_gpus(prometheus, exporter):
    (profile,) = asked(*prometheus, {"n1": (0, 1)}, exporter)
    assert (profile.job_id, profile.restart, profile.node, profile.gpus) == (7, 1, "n1", 2)
    assert profile.gpu_util == pytest.approx(0.6)
    assert profile.memory_mib == pytest.approx(3000.0)
    assert profile.power_w == pytest.approx(201.0)
    if EXPORTERS[exporter].memory_util:
        assert profile.memory_util == pytest.approx(0.15)
    else:
        assert math.isnan(profile.memory_util), "what an exporter does not show is not measured"


@NEEDED
def test_scrapes_that_failed_are_not_idle_time(prometheus):
    (profile,) = asked(*prometheus, {"n1": (0,)})
    assert profile.gpu_util == pytest.approx(0.8)
    assert profile.gpu_util_sd == pytest.approx(0.0)
    assert 0.0 < profile.measured_s < 60.0, "a third of the scrapes failed, and before the first there was nothing"


@NEEDED
@pytest.mark.parametrize(
    ("gpus", "labels"),
    [
        ({"n1": (0, 5)}, Labels()),
        ({"n2": (0,)}, Labels()),
        ({"n": (0,)}, Labels()),
        ({"n1": (0,)}, Labels("Hostname2")),
        ({"n1": (0,)}, Labels("instance", "hpc_job")),
        ({"n1": ()}, Labels("instance", "cluster")),
    ],
)
def test_without_a_certain_match_there_is_no_profile(prometheus, gpus, labels):
    assert asked(*prometheus, gpus, labels=labels) == []


@NEEDED
def test_the_label_of_the_node_is_a_setting_and_may_have_a_domain(prometheus):
    (profile,) = asked(*prometheus, {"n1": (2,)}, labels=Labels("Hostname"))
    assert profile.gpu_util == 0.0, "a GPU that stood idle was measured"


@NEEDED
def test_an_hour_of_a_busy_cluster_costs_little_of_our_time(prometheus):
    url, began_s = prometheus
    run = Wanted(7, 0, int(began_s) - 60, int(time.time()), {"n1": (0, 1, 2)}, 3)
    before = resource.getrusage(resource.RUSAGE_SELF)
    number = 100
    for _ in range(2):
        error, records = answer(Question(url, "dcgm", Labels(), 1.0, [run] * number))
        assert (error, len(records)) == ("", number)
    after = resource.getrusage(resource.RUSAGE_SELF)
    took_s = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / (2 * number)
    # 1,000 jobs that end are asked about three times, and 500 that run once in the hour.
    assert took_s * 3500 < 72.0, f"{1000 * took_s:.1f} ms of processor time for each run"


class Hostile(BaseHTTPRequestHandler):
    """A server that answers as its test wishes."""

    body, status, authorization = b"", 200, ""

    def do_POST(self) -> None:
        Hostile.authorization = self.headers.get("Authorization", "")
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def rows(*values: object) -> bytes:
    """An answer with these series."""
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": values}}).encode()


def one(figure: str, value: object, number: object = "0") -> dict:
    return {"metric": {"instance": "n1", "gpu": number, "slurmsched_figure": figure}, "value": [1.0, value]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[" * 100_000,
        b'{"status":"success","data":[]}',
        b'{"status":"error"}',
        rows(1),
        rows({"metric": [], "value": [1, "1"]}),
        rows({"metric": {"a": 1}, "value": [1, "1"]}),
        rows(one("util_mean", "word")),
        rows(one("util_mean", ["1"])),
        rows(one("util_mean", "1e400"), one("util_n", "NaN")),
        rows(one("util_mean", "50", "9" * 9000), one("util_n", "50", "9" * 9000)),
        b"x" * (prometheus_worker.ANSWER_B + 10),
    ],
)
def test_whatever_a_server_sends_is_no_profile_and_no_crash(body):
    Hostile.body, Hostile.status = body, 200
    run = Wanted(7, 0, 0, 1000, {"n1": (0,)}, 1)
    with served(Hostile) as port:
        _, records = answer(Question(f"http://127.0.0.1:{port}", "dcgm", Labels(), 30.0, [run]))
    assert records == []


@pytest.mark.parametrize("status", [301, 401, 503])
def test_a_server_that_refuses_or_sends_elsewhere_is_asked_no_more(status):
    Hostile.body, Hostile.status = rows(), status
    run = Wanted(7, 0, 0, 1000, {"n1": (0,)}, 1)
    with served(Hostile) as port:
        error, _ = answer(Question(f"http://127.0.0.1:{port}", "dcgm", Labels(), 30.0, [run] * 50, token="secret"))
    assert f"status {status}" in error
    assert "secret" not in error
    assert Hostile.authorization == "Bearer secret"


def test_a_server_that_is_not_there_or_says_nothing_costs_seconds():
    run = Wanted(7, 0, 0, 1000, {"n1": (0,)}, 1)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began_s = time.monotonic()
        error, _ = answer(Question(address, "dcgm", Labels(), 30.0, [run] * 50))
    assert "imeout" in error or "timed out" in error
    assert time.monotonic() - began_s < prometheus_worker.ALL_S
    assert "refused" in answer(Question(address, "dcgm", Labels(), 30.0, [run]))[0]


def test_a_certificate_of_ours_opens_a_server_that_asks_for_one_and_no_other_authority_is_believed(tmp_path):
    import ssl

    site = Authority.of(tmp_path / "site")
    certificate, key = site.issue("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(site.file)
    context.verify_mode = ssl.CERT_REQUIRED
    Hostile.body, Hostile.status = rows(), 200
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    mine, mine_key = site.issue("daemon.example.org")
    run = Wanted(7, 0, 0, 1000, {"n1": (0,)}, 1)
    ask = Question(f"https://127.0.0.1:{server.server_address[1]}", "dcgm", Labels(), 30.0, [run], ca=site.file)
    try:
        assert answer(replace(ask, certificate=str(mine), key=str(mine_key))) == ("", [])
        assert answer(ask)[0] != ""
        assert "CERTIFICATE_VERIFY_FAILED" in answer(replace(ask, ca=""))[0]
    finally:
        server.shutdown()
        server.server_close()


def test_series_of_a_gpu_whose_labels_changed_are_taken_together_and_slices_are_not_the_gpu():
    run = Wanted(7, 0, 0, 1000, {"n1": (0,)}, 1)
    figures = [("util_mean", "20"), ("util_n", "10"), ("util_max", "30"), ("memory_mib", "500")]
    early = [one(name, value) for name, value in figures]
    late = [one(name, value) for name, value in [("util_mean", "80"), ("util_n", "30"), ("util_max", "90")]]
    for row in late:
        row["metric"]["hpc_job"] = "7"
    (record,) = records_of(run, json.loads(rows(*early, *late)), DCGM, Labels(), 30.0)
    assert record["gpus"][0]["gpu_util"] == {"n": 40, "mean": 65.0, "var": 0.0, "max": 90.0}
    assert record["gpus"][0]["memory_mib"]["max"] == 500.0
    assert record["gpus"][0]["power_w"] is None
    for row in early:
        row["metric"]["GPU_I_ID"] = "1"
    assert records_of(run, json.loads(rows(*early)), DCGM, Labels(), 30.0) == []


def test_more_samples_than_scrapes_are_refused():
    run = Wanted(7, 0, 0, 1000, {"n1": (0,)}, 1)
    figures = [("util_mean", "20"), ("util_n", "1000")]
    (record,) = records_of(run, json.loads(rows(*(one(*each) for each in figures))), DCGM, Labels(), 30.0)
    with pytest.raises(Exception, match="samples"):
        profile_of(record, 2000.0)


@pytest.mark.parametrize("node", ["n1`}) or vector(1", "", "n1|n2"])
def test_no_name_of_a_node_gets_into_the_query(node):
    with pytest.raises(ValueError, match="without a name"):
        query_of(Wanted(7, 0, 0, 1000, {node: (0,)}, 1), DCGM, Labels())


ALLOCATED = (
    "JobId={0} JobName={1} UserId=alice(1000) NumNodes=1 JOB_GRES=gpu:2 "
    " Nodes=n1 CPU_IDs=0-3 Mem=100 GRES=gpu:a100:2(IDX:{2}) MinCPUsNode=1 Comment=x\n"
)


ON_N1 = {7: ("n1",), 8: ("n1",)}


def test_the_gpus_of_jobs_are_read_by_node_and_number():
    text = ALLOCATED.format(7, "train", "0-1") + ALLOCATED.format(8, "other", "2,5")
    assert read_allocations(text, ON_N1) == {7: {"n1": (0, 1)}, 8: {"n1": (2, 5)}}
    assert read_allocations(text, {7: ("n1",)}) == {7: {"n1": (0, 1)}}
    assert read_allocations(text, {7: ("n2",)}) == {}
    wide = (
        "JobId=9 JobName=w Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0) Nodes=n3 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)"
    )
    assert read_allocations(wide, {9: ("n1", "n2", "n3")}) == {9: {"n1": (0,), "n2": (0,), "n3": (0, 1)}}


@pytest.mark.parametrize(
    "name",
    [
        "x Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)",
        "x Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:0-63)",
        "x Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:2,5)",
        "x\nJobId=8 JobName=y Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)",
    ],
)
def test_who_forges_gpus_in_a_name_has_no_profile(name):
    text = ALLOCATED.format(7, name, "0-1") + ALLOCATED.format(8, "other", "2,5")
    told = read_allocations(text, ON_N1)
    assert 7 not in told
    assert told.get(8) == (None if "JobId=8" in name else {"n1": (2, 5)}), "another's GPUs are never told otherwise"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"prometheus_url": "ftp://x"}, "accepted: http:// or https://"),
        ({"prometheus_url": "https://me:secret@x"}, "without a name"),
        ({"prometheus_url": "http://x", "prometheus_token_file": "/t"}, "write https://"),
        ({"prometheus_url": "http://x", "prometheus_node_label": "a=b"}, "prometheus_node_label"),
        ({"prometheus_url": "http://x", "prometheus_job_label": "a b"}, "prometheus_job_label"),
    ],
)
def test_settings_that_cannot_work_are_named_with_what_to_write(more, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        demand_valid_prometheus(ProfileSettings(**more))


def test_settings_that_can_work_are_taken():
    demand_valid_prometheus(ProfileSettings())
    demand_valid_prometheus(ProfileSettings(prometheus_url="http://127.0.0.1:9090", prometheus_token_file="/t"))
    demand_valid_prometheus(ProfileSettings(prometheus_url="https://p:9090/base", prometheus_certificate="/c"))

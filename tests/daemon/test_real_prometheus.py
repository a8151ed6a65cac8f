"""A real Prometheus: it scrapes a busy cluster's daemon through TLS, and every panel of the dashboard has data."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest
from certificates import Authority

from slurmsched.config import MetricsSettings
from slurmsched.daemon.api.http_metrics import MetricsServer, metrics_access
from slurmsched.daemon.loop import BeatResult
from slurmsched.daemon.metrics import Metrics
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import Rules
from slurmsched.errors import LabError
from slurmsched.explain.eta import Coverage
from slurmsched.lab.waiting import wait_until
from slurmsched.policies.contract import find_ordering
from slurmsched.simulator.case import Case
from slurmsched.simulator.cluster_spec import ClusterSpec
from slurmsched.simulator.cycle_driver import CycleDriver
from slurmsched.simulator.fixed_forecast import FixedForecast
from slurmsched.simulator.run import Setup, forecast_of
from slurmsched.simulator.simulated_cluster import SimulatedCluster
from slurmsched.simulator.slurmctld.slurmconf import SlurmConf
from slurmsched.simulator.slurmctld.state import SlurmctldConfig
from slurmsched.simulator.traces.source import Source

BOARD = json.loads((Path(__file__).parents[2] / "contrib" / "grafana" / "slurmsched.json").read_text())
FILL = {"$__rate_interval": "30s", "$instance": ".*"}
PROMETHEUS = shutil.which("prometheus")
AT_ONCE = 5

pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed")


def busy_reports():
    """The reports of cycles in which jobs come, wait, start and end."""
    jobs = Case(Source.of("synthetic:100:1.3", 8)).trace().workload
    cluster = SimulatedCluster(jobs, ClusterSpec.of(2, 4), SlurmConf(SlurmctldConfig()))
    forecast = FixedForecast(jobs.job_id, forecast_of(jobs, Setup.of("sjf"), None))
    rules = Rules(powers=frozenset({"order"}), scope="queue")
    reports = []
    CycleDriver(cluster, Policy(find_ordering("sjf"), rules), forecast, every_s=600.0, watch=reports.append).run()
    return reports


@pytest.fixture
def metrics():
    made = Metrics(lambda: "sjf", lambda: time.time() - 3600.0)
    made.state(mode="act", paused=False, leader=True, database=True, bug=False)
    made.predictions(Coverage(30.0, 100, 0.9, 100, 0.9), alarm=False)
    return made


@pytest.fixture
def target(metrics, tmp_path):
    """The address of the daemon's endpoint, and what Prometheus needs to trust it and be trusted."""
    site = Authority.of(tmp_path / "site")
    certificate, key = site.issue("127.0.0.1")
    names = ("prometheus.example.org",)
    settings = MetricsSettings("127.0.0.1:0", certificate=certificate, key=key, client_ca=site.file, scrapers=names)
    endpoint = MetricsServer(lambda: metrics_access(settings), metrics.registry, lambda: "", lambda: "")
    with closing(endpoint):
        endpoint.start()
        certificate, key = site.issue("prometheus.example.org")
        tls = {"ca_file": str(site.file), "cert_file": str(certificate), "key_file": str(key)}
        yield {
            "job_name": "slurmsched",
            "scheme": "https",
            "tls_config": tls,
            "static_configs": [{"targets": [f"127.0.0.1:{endpoint.address.port}"]}],
        }


@pytest.fixture
def prometheus(target, tmp_path):
    """The address of a Prometheus that scrapes the target each second."""
    config, log = tmp_path / "prometheus.yml", tmp_path / "prometheus.log"
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [target]}))  # JSON is YAML
    files = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    with log.open("w") as out:
        running = subprocess.Popen([PROMETHEUS, *files, "--web.listen-address=127.0.0.1:0"], stdout=out, stderr=out)
    try:
        at = wait_until(
            lambda: re.search(r'msg="Listening on" address=(\S+)', log.read_text()), 120.0, "Prometheus to listen"
        )
        yield f"http://{at[1]}"
    finally:
        running.terminate()
        running.wait()


def test_every_panel_of_the_dashboard_shows_a_busy_cluster(metrics, prometheus):
    waiting = {}
    for panel in BOARD["panels"]:
        for number, drawn in enumerate(panel["targets"]):
            text = drawn["expr"]
            for name, value in FILL.items():
                text = text.replace(name, value)
            waiting[panel["title"], number] = text
    reports = cycle(busy_reports())

    def missing():
        for report in islice(reports, AT_ONCE):
            metrics.turn(BeatResult(time.time(), 0.05, report))
        metrics.slurm_call("squeue", "ok", 0.02)
        metrics.prediction_errors("finish", np.array([120.0]))
        for place, text in list(waiting.items()):
            query = urllib.parse.urlencode({"query": text})
            with urllib.request.urlopen(f"{prometheus}/api/v1/query?{query}", timeout=60.0) as answer:
                found = json.load(answer)["data"]["result"]
            if any(series["value"][1] != "NaN" for series in found):
                del waiting[place]
        return waiting

    try:
        wait_until(lambda: not missing(), 120.0, "all panels to have data", every_s=0.3)
    except LabError:
        pytest.fail(f"no data for {sorted(waiting)}")

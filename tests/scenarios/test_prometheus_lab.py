"""Profiles of jobs on a real Slurm from a real Prometheus, whose exporter shows made-up GPUs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from lab_site import Site

from slurmsched.cluster.records.profiles import PROMETHEUS
from slurmsched.lab.waiting import wait_until

PROGRAM = shutil.which("prometheus")
UNNAMED = "n4"  #: the node that no label names
UTIL = {"n1": (91.0, 92.0, 93.0, 94.0), "n2": (21.0, 22.0, 23.0, 24.0), "n3": (51.0, 52.0, 53.0, 54.0)}
"""Utilisation of the GPUs of each node in %, by number."""
ONE_FAILS_IN = 3  #: scrapes of a node

pytestmark = [pytest.mark.lab, pytest.mark.skipif(PROGRAM is None, reason="Prometheus is not installed")]


def dcgm(node: str) -> str:
    """The GPUs of a node in the words of dcgm-exporter, whose label for the host one node leaves empty."""
    host = "" if node == UNNAMED else f"{node}.example.org"
    lines = []
    for number, util in enumerate(UTIL.get(node, (77.0,) * 4)):
        labels = f'gpu="{number}",UUID="GPU-{node}-{number}",device="nvidia{number}",Hostname="{host}"'
        lines += [
            f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {util}",
            f"DCGM_FI_DEV_MEM_COPY_UTIL{{{labels}}} {util / 2}",
            f"DCGM_FI_DEV_FB_USED{{{labels}}} {1000 + number}",
            f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 300",
        ]
    return "\n".join([*lines, ""])


def nvidia_smi(node: str) -> str:
    """The same in the words of nvidia_gpu_exporter, which tells GPUs apart by UUID alone."""
    lines = []
    for number, util in enumerate(UTIL.get(node, (77.0,) * 4)):
        labels = f'uuid="{node}abc{number}"'
        lines += [
            f"nvidia_smi_utilization_gpu_ratio{{{labels}}} {util / 100}",
            f"nvidia_smi_utilization_memory_ratio{{{labels}}} {util / 200}",
            f"nvidia_smi_memory_used_bytes{{{labels}}} {(2000 + number) * 2**20}",
            f"nvidia_smi_power_draw_watts{{{labels}}} 300",
            f"nvidia_smi_index{{{labels}}} {number}",
        ]
    return "\n".join([*lines, ""])


class Exporters(BaseHTTPRequestHandler):
    """The exporters of all nodes, each below the path of its node; one scrape in three fails."""

    scrapes: ClassVar[dict[str, int]] = {}

    def do_GET(self) -> None:
        exporter, node = self.path.strip("/").split("/")
        count = self.scrapes[self.path] = self.scrapes.get(self.path, 0) + 1
        failed = count % ONE_FAILS_IN == 0
        body = b"" if failed else (dcgm if exporter == "dcgm" else nvidia_smi)(node).encode()
        self.send_response(503 if failed else 200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def scrape(exporter: str, node: str, port: int) -> dict[str, object]:
    """One scrape configuration; the node without a name has a label that is none of the cluster's either."""
    instance = "10.0.0.4:9835" if node == UNNAMED else f"{node}:9835"
    target = {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": instance}}
    return {"job_name": f"{exporter}-{node}", "metrics_path": f"/{exporter}/{node}", "static_configs": [target]}


@contextmanager
def running(config: dict[str, object], home: Path) -> Iterator[str]:
    """The address of a Prometheus."""
    (home / "prometheus.yml").write_text(json.dumps(config))
    words = [f"--config.file={home / 'prometheus.yml'}", f"--storage.tsdb.path={home / 'data'}"]
    with (home / "log").open("w") as log:
        words = [PROGRAM or "", *words, "--web.listen-address=127.0.0.1:0"]
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        listens = re.compile(r'msg="Listening on" address=(\S+)')
        found = wait_until(lambda: listens.search((home / "log").read_text()), 120.0, "Prometheus to listen")
        yield f"http://{found[1]}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes both exporters of each node once a second."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporters)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    nodes = [*UTIL, UNNAMED]
    scrapes = [scrape(exporter, node, port) for exporter in ("dcgm", "smi") for node in nodes]
    timing = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    with running({"global": timing, "scrape_configs": scrapes}, tmp_path) as url:
        yield url
    server.shutdown()
    server.server_close()


def numbers(site: Site, job: int) -> tuple[str, list[int]]:
    """The node of a job and the numbers of its GPUs, as Slurm allocated them."""
    told = site.lab.ask(["scontrol", "show", "job", "--details", str(job)])
    found = re.search(r" Nodes=(\S+) CPU_IDs=\S+ Mem=\S+ GRES=gpu:[0-9]+\(IDX:([0-9,-]+)\)", told)
    assert found, told
    first, _, last = found[2].partition("-")
    return found[1], [int(text) for text in found[2].split(",")] if not last else [*range(int(first), int(last) + 1)]


def submit(site: Site, node: str, gpus: int, work: str) -> int:
    options = (f"--gres=gpu:{gpus}", f"-w{node}", "-n1", "-t60", "-o/dev/null")
    return site.lab.submit(*options, f"--wrap={work}", user="alice")


def settings(url: str, exporter: str, label: str) -> str:
    return (
        f"prometheus_url = '{url}'\nprometheus_exporter = '{exporter}'\n"
        f"prometheus_node_label = '{label}'\nprometheus_every_s = 1"
    )


def profiles(site: Site, job: int) -> list[tuple[str, float, float, str, int]]:
    """Node, utilisation, memory, source and end of the profiles of a job."""
    return site.sql("SELECT node, gpu_util, memory_mib, source, end_s FROM profiles WHERE job_id = ?", job)


def own_util(node: str, gpus: list[int]) -> object:
    return pytest.approx(sum(UTIL[node][number] for number in gpus) / len(gpus) / 100, abs=0.001)


def test_jobs_have_profiles_of_their_own_gpus_and_none_where_no_label_names_the_node(
    new_site: Callable[..., Site], prometheus: str
) -> None:
    site = new_site(user=None, profile=settings(prometheus, "dcgm", "Hostname"))
    end = site.directory / "end"
    waits = f"until [ -e {end} ]; do sleep 0.2; done"
    beside, long = submit(site, "n1", 1, "sleep 600"), submit(site, "n1", 2, "sleep 600")
    short, lost = submit(site, "n2", 2, waits), submit(site, UNNAMED, 2, waits)
    jobs = (beside, long, short, lost)
    try:
        site.until(lambda: [site.states()[job] for job in jobs] == ["RUNNING"] * 4, "all jobs to run")
        gpus = {job: numbers(site, job) for job in (beside, long, short)}
        assert {node for node, _ in gpus.values()} == {"n1", "n2"}
        with site.daemon():
            for job, (at, mine) in gpus.items():
                site.until(lambda job=job: profiles(site, job), f"a profile of the running job {job}")
                ((node, util, memory_mib, source, _),) = profiles(site, job)
                assert (node, source) == (at, PROMETHEUS)
                assert util == own_util(at, mine), "a missed scrape is not 0 %"
                assert memory_mib == sum(1000 + number for number in mine)
            early_s = profiles(site, short)[0][-1]
            site.more_cycles(4)  # it was looked at once more while it ran
            end.touch()
            site.until(lambda: profiles(site, short)[0][-1] > early_s, "the profile of the ended job")
            ((_, util, _, source, _),) = profiles(site, short)
            assert (util, source) == (own_util(*gpus[short]), PROMETHEUS)
            assert profiles(site, lost) == []
        site.write(profile=settings(prometheus, "nvidia_gpu_exporter", "instance"))
        with site.daemon():
            site.until(lambda: profiles(site, long)[0][2] > 2000 * 2, "a profile by the other exporter's metrics", 30.0)
            ((node, util, memory_mib, _, _),) = profiles(site, long)
            assert (node, util) == ("n1", own_util(*gpus[long]))
            assert memory_mib == sum(2000 + number for number in gpus[long][1])
            assert profiles(site, lost) == []
    finally:
        for job in jobs:
            site.lab.run(["scancel", str(job)])

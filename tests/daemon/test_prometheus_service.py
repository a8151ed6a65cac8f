"""Which runs Prometheus is asked about and when, beside the cycles, through a process of its own."""

from __future__ import annotations

import json
import math
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from slurmsched.clock import ManualClock
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.cluster.records.profiles import PROMETHEUS, SAMPLER, NodeProfile
from slurmsched.config.settings import ProfileSettings
from slurmsched.daemon.profiles.prometheus_service import EARLY_SCRAPES, LATE_SCRAPES, PrometheusProfiles
from slurmsched.db.store import Store
from slurmsched.lab.waiting import wait_until

NOW_S = 1_800_000_000.0
AGAIN_S = 5.0
SCRAPES_S = 10.0
EARLY_S, LATE_S = EARLY_SCRAPES * SCRAPES_S, LATE_SCRAPES * SCRAPES_S
WORKER = "slurmsched.daemon.profiles.prometheus_worker"


class Server(BaseHTTPRequestHandler):
    """A Prometheus in which each GPU of n1 is busy for 70 %."""

    status = 200

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        figures = {"util_mean": "70", "util_max": "80", "util_n": "5", "memory_mib": "500"}
        rows = [
            {"metric": {"instance": "n1:9400", "gpu": str(gpu), "slurmsched_figure": name}, "value": [1, value]}
            for gpu in range(4)
            for name, value in figures.items()
        ]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    Server.status = 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class Site:
    """A daemon's part that asks, with the jobs that run now, and what it kept."""

    def __init__(self, url: str) -> None:
        self.asked: list[object] = []
        self.running, self.seen_s = {}, {}  #: jobs of the last cycle, and when each was last there
        self.clock, self.kept, self.allocated = ManualClock(NOW_S), [], {7: "0-1", 8: "2"}
        settings = ProfileSettings(prometheus_url=url, prometheus_every_s=SCRAPES_S)
        self.part = PrometheusProfiles(lambda: settings, self._query, self.kept.append, WORKER, self.clock)

    def _query(self, words) -> str:
        self.asked.append(words)
        return "".join(
            f"JobId={job} JobName=x Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:{gpus})\n"
            for job, gpus in self.allocated.items()
        )

    def cycle(self, running: dict[int, int], later_s: float = 61.0) -> None:
        """Observe jobs with so many GPUs each, all of them begun at NOW_S."""
        self.clock.now_s += later_s
        self.running = running
        self.seen_s |= dict.fromkeys(running, int(self.clock.now_s))
        count = len(running)
        jobs = job_table(
            count, job_id=list(running), gpus=list(running.values()), nodes=[1] * count, started_s=[NOW_S] * count,
            node_list=["n1"] * count, state=[JobState.RUNNING] * count, name=["x"] * count, user=["alice"] * count,
        )  # fmt: skip
        self.part.observe(SimpleNamespace(view=SimpleNamespace(running=jobs), now_s=self.clock.now()))

    def until(self, holds, what: str) -> None:
        """Wait for something; a pass may have begun between two cycles, and then it takes one more."""
        again_s = time.monotonic() + AGAIN_S

        def held() -> bool:
            nonlocal again_s
            if not holds() and time.monotonic() > again_s:
                again_s = time.monotonic() + AGAIN_S
                self.cycle(self.running)
            return holds()

        wait_until(held, 60.0, what)


@pytest.fixture
def site(url):
    made = Site(url)
    made.part.start()
    with closing(made.part):
        yield made


def test_a_run_is_asked_about_early_and_once_more_after_its_end(site):
    site.cycle({7: 2})
    site.cycle({7: 2}, EARLY_S)
    site.until(lambda: site.kept, "an early profile")
    early = site.kept[0]
    assert (early.job_id, early.node, early.gpus, early.source) == (7, "n1", 2, PROMETHEUS)
    assert early.gpu_util == pytest.approx(0.7)
    assert math.isnan(early.process_share), "no exporter says whether a process used a GPU"
    site.cycle({})
    site.cycle({}, LATE_S)
    site.until(lambda: len(site.kept) > 1, "the profile after its end")
    assert early.end_s <= site.kept[-1].end_s <= site.seen_s[7], "what came after the last look is not of the job"


def test_a_run_that_is_over_before_its_first_turn_has_a_profile_after_its_end(site):
    site.cycle({7: 2})
    site.until(lambda: site.asked, "its GPUs to be read while it runs")
    site.allocated = {}
    site.cycle({})
    site.cycle({}, LATE_S)
    site.until(lambda: site.kept, "its profile")
    assert site.kept[0].end_s == site.seen_s[7]


def test_a_job_whose_gpus_slurm_does_not_tell_for_certain_has_no_profile(site):
    site.allocated = {7: "0", 8: "0"}
    site.cycle({7: 1, 8: 1})
    site.cycle({7: 1, 8: 1}, EARLY_S)
    site.cycle({7: 1}, 400.0)
    site.allocated = {7: "0"}
    site.cycle({7: 1}, 2000.0)
    site.until(lambda: site.kept, "the profile of the one that is certain later")
    assert {one.job_id for one in site.kept} == {7}


def test_a_server_that_fails_is_named_by_status_and_asked_again_later(site):
    Server.status = 503
    site.cycle({7: 2})
    site.cycle({7: 2}, EARLY_S)
    site.until(lambda: "status 503" in site.part.degraded, "the trouble to be told")
    Server.status = 200
    site.cycle({7: 2}, 400.0)
    site.until(lambda: site.kept, "a profile")
    site.until(lambda: site.part.degraded == "", "the trouble to be over")


def test_without_an_address_nothing_is_asked():
    part = PrometheusProfiles(ProfileSettings, lambda words: "", lambda profile: None, WORKER, ManualClock(NOW_S))
    part.start()
    with closing(part):
        part.observe(SimpleNamespace(view=None, now_s=NOW_S))
        assert part.degraded == ""


def profile(source: str, start_s: int, end_s: int, util: float) -> NodeProfile:
    return NodeProfile(7, 0, "n1", start_s, end_s, 1, 50.0, 1.0, util, 0.0, 0.1, 500.0, 90.0, 0.0, source=source)


@pytest.mark.parametrize("sampler_first", [True, False])
def test_what_a_sampler_measured_counts_and_not_what_prometheus_knows_of_the_same_time(tmp_path, sampler_first):
    store = Store(f"sqlite:///{tmp_path / 'x.db'}")
    store.upgrade()
    both = [profile(SAMPLER, 1003, 1100, 0.5), profile(PROMETHEUS, 1000, 1090, 0.9)]
    for one in both if sampler_first else reversed(both):
        store.add_profiles("c", [one])
    assert store.profiles("c").gpu_util.tolist() == [0.5]
    store.add_profiles("c", [profile(PROMETHEUS, 5000, 5090, 0.9)])
    assert sorted(store.profiles("c").gpu_util.tolist()) == [0.5, 0.9], "another run has a profile of its own"

"""Profiles from Prometheus for an hour of a busy cluster: our processor time, by parts.

    python -m tests.bench.prometheus_hour

500 jobs run at any time, and 1,000 end in the hour; each has the four GPUs of a node for half an hour. The server
answers with canned figures and is a process of its own: its time is not ours. Commands of Slurm are not counted
either, but reading what they say is.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from types import SimpleNamespace

from slurmsched.clock import ManualClock
from slurmsched.cluster.jobs import JobState, job_table
from slurmsched.config.settings import ProfileSettings
from slurmsched.daemon.profiles.prometheus_service import EVERY_MOST_S, PrometheusProfiles

START_S, HOUR_S, LIFE_S, RUNNING, GPUS = 1_800_000_000.0, 3600.0, 1800.0, 500, 4
SERVER = """
import json, re, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
FIGURES = {"util_mean": "70", "util_max": "80", "util_var": "9", "util_n": "6", "memory_mib": "500", "power_w": "300",
           "memory_util": "20", "blocks": "1"}
class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        text = urllib.parse.unquote_plus(self.rfile.read(int(self.headers["Content-Length"])).decode())
        node = re.search(r"=~`[(]([^)]*)[)]", text)[1]
        rows = [{"metric": {"instance": node, "gpu": str(gpu), "slurmsched_figure": name}, "value": [1, value]}
                for gpu in range(4) for name, value in FIGURES.items()]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def running_at(now_s: float) -> tuple[list[int], list[float]]:
    """The ids and starts of the jobs that run; one starts, and one ends, every few seconds."""
    step_s = LIFE_S / RUNNING
    last = int((now_s - START_S + LIFE_S) // step_s)
    ids = list(range(max(last - RUNNING + 1, 1), last + 1))
    return ids, [START_S - LIFE_S + job * step_s for job in ids]


def used_s() -> float:
    """Processor time of this process and of the children that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def main() -> None:
    """Play the hour, and print what it took."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    clock, kept, ended = ManualClock(START_S), [], 0
    settings = ProfileSettings(prometheus_url=url, prometheus_every_s=30.0)
    jobs: list[int] = []

    def query(words: object) -> str:
        return "".join(
            f"JobId={job} JobName=x Nodes=n{job % RUNNING} CPU_IDs=0 Mem=0 GRES=gpu:{GPUS}(IDX:0-3)\n" for job in jobs
        )

    worker = "slurmsched.daemon.profiles.prometheus_worker"
    part = PrometheusProfiles(lambda: settings, query, kept.append, worker, clock)
    before_s, before = used_s(), set()
    while clock.now_s < START_S + HOUR_S:
        clock.now_s += EVERY_MOST_S
        jobs, starts_s = running_at(clock.now_s)
        count, ended, before = len(jobs), ended + len(before - set(jobs)), set(jobs)
        table = job_table(
            count,
            job_id=jobs,
            gpus=[GPUS] * count,
            nodes=[1] * count,
            started_s=starts_s,
            node_list=[f"n{job % RUNNING}" for job in jobs],
            state=[JobState.RUNNING] * count,
            name=["x"] * count,
            user=["alice"] * count,
        )
        part._report = SimpleNamespace(view=SimpleNamespace(running=table), now_s=clock.now())  # type: ignore[assignment]
        part._work()  # without its thread: one pass after the other
    part._abandon()
    print(f"{len(kept)} profiles of {len({one.job_id for one in kept})} jobs, {ended} of which ended in the hour")
    print(f"{used_s() - before_s:.1f} s of processor time")
    server.kill()
    server.wait()


if __name__ == "__main__":
    main()

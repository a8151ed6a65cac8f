"""How long 100 users of another host wait when all ask at once: ``python -m tests.bench.remote_queries``.

A door for other hosts in one network namespace, with 10,000 private pending jobs behind it, and a process of each user
in another one. Each asks ``eta``, ``why``, ``queue`` and ``status``; all begin each of them together. The server
decides once a second meanwhile. Needs root, munge, ip (iproute2) and trustme.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pwd
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import trustme

from slurmsched.cluster.records.predictions import prediction_table
from slurmsched.config import RemoteSettings
from slurmsched.cycle import CycleReport
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_protocol import DaemonUnreachable
from slurmsched.daemon.api.query_server import QueryWorkers
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.daemon.api.remote_access import remote_access
from slurmsched.daemon.api.remote_client import RemoteDaemon, query_remote
from slurmsched.daemon.api.remote_server import RemoteServer
from slurmsched.decide.rules import Rules
from slurmsched.errors import SlurmschedError
from slurmsched.explain import explain
from slurmsched.explain.eta import LivePredictions
from slurmsched.explain.why import why
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide

from .namespaces import cable
from .synthetic import view

HERE, THERE = "192.0.2.1", "192.0.2.2"
PORT, USERS, PENDING, FIRST_UID = 9819, 100, 10_000, 50_000
ASKS = ("eta", "why", "queue", "status")
ROUNDS = 3


def main() -> None:
    """Make the namespaces, a munged and certificates; start the server, then the users."""
    with cable(HERE, THERE) as (host, login), tempfile.TemporaryDirectory(prefix="remote-", dir="/tmp") as directory:
        home = Path(directory)
        home.chmod(0o755)
        _certificates(home)
        munged = _munged(home)
        us = [sys.executable, "-m", "tests.bench.remote_queries"]
        server = subprocess.Popen(
            ["ip", "netns", "exec", host, *us, "serve", directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdout.readline()
            subprocess.run(["ip", "netns", "exec", login, *us, "ask", directory], check=True)
        finally:
            server.stdin.close()
            print(server.stdout.read().strip())
            server.wait()
            munged.terminate()
            munged.wait()


def serve(home: Path) -> None:
    """Answer until the input ends; decide all the while."""
    # This process's own /etc/passwd: `ip netns exec` gave it mounts of its own.
    jobs = view(PENDING)
    names = sorted(set(jobs.pending.user))[:USERS]
    lines = [f"{name}:x:{FIRST_UID + at}:65534::/nonexistent:/usr/sbin/nologin" for at, name in enumerate(names)]
    (home / "passwd").write_text("\n".join([*Path("/etc/passwd").read_text().splitlines(), *lines, ""]))
    subprocess.run(["mount", "--bind", str(home / "passwd"), "/etc/passwd"], check=True)
    policy, rules = find_ordering("sjf"), Rules(powers=frozenset({"order"}), scope="queue")
    plan = decide(jobs, policy, rules)
    own = {name: int(jobs.pending.job_id[at]) for at, name in reversed(list(enumerate(jobs.pending.user)))}
    (home / "users.json").write_text(json.dumps([(FIRST_UID + at, own[name]) for at, name in enumerate(names)]))
    server, workers = _server(home, jobs, plan)
    cycles: dict[str, list[tuple[float, float]]] = {"before": [], "beside": []}
    for _ in range(10):
        time.sleep(1.0)
        cycles["before"].append(_timed(lambda: decide(jobs, policy, rules)))
    print("ready", flush=True)
    used_s = _processor_s()
    while not select.select([sys.stdin], [], [], 1.0)[0]:  # until the input ends
        visits = server.visits.total()
        took = _timed(lambda: decide(jobs, policy, rules))
        if visits or server.visits.total():
            cycles["beside"].append(took)
    used_s = _processor_s() - used_s
    server.close()
    workers.close()
    answers = USERS * (ROUNDS * len(ASKS) + 1)
    print(f"  {used_s / answers * 1e3:.1f} ms of the server's processor time an answer, with unmunge and cycles")
    for name, times in cycles.items():
        if times:
            wall_s, own_s = (statistics.median(one) for one in zip(*times, strict=True))
            own = f"{own_s * 1e3:.0f} ms of its thread's processor time"
            print(f"  decide() {name} answers: median {wall_s * 1e3:.0f} ms, {own}, of {len(times)}")


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the time that *work* takes on the clock, and of its thread on a processor."""
    begun_s, used_s = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - begun_s, time.thread_time() - used_s


def _processor_s() -> float:
    return sum(os.times()[:4])


def _server(home: Path, jobs: Any, plan: Any) -> tuple[RemoteServer, QueryWorkers]:
    now_s, length = jobs.now_s, len(jobs.pending)
    start_s = now_s + np.arange(length, dtype=np.float64)
    table = prediction_table(
        length,
        job_id=jobs.pending.job_id,
        user=list(jobs.pending.user),
        first_submit_s=jobs.pending.first_submit_s,
        made_s=np.full(length, now_s),
        start_s=start_s,
        finish_s=start_s + 3600.0,
    )
    predictions = LivePredictions(table)
    sources = Sources(
        lambda: {"mode": "act"},
        *(
            lambda view, plan, job_id, beside: why(view, plan, Rules(), job_id, beside),
            lambda view, plan, job_id, beside: explain.explain(view, plan, Rules(), job_id, beside),
            explain.queue,
            lambda job_id, since_s: [],
        ),
        predictions=lambda: predictions,
        private=lambda: True,
    )
    handlers = QueryHandlers(sources, trusted=())
    counts: tuple[Any, ...] = (length, 0, length, 0, {}, 0, 0, 0.0, 500, (), "", "")
    ended: Any = None
    handlers.observe(CycleReport(1, now_s, "act", "", {}, *counts, jobs, plan, ended))
    settings = RemoteSettings(f"{HERE}:{PORT}", str(home / "server.crt"), str(home / "server.key"))
    unmunge = ["unmunge", f"--socket={home}/munge.socket"]
    workers = QueryWorkers(handlers, turn_s=2.5)
    server = RemoteServer(lambda: remote_access(settings, unmunge), workers)
    server.start()
    return server, workers


def ask(home: Path) -> None:
    """Let every user ask at once, and print how long they waited."""
    users = json.loads((home / "users.json").read_text())
    barrier, answers = multiprocessing.Barrier(len(users)), multiprocessing.SimpleQueue()
    processes = [multiprocessing.Process(target=_ask, args=(home, *user, barrier, answers)) for user in users]
    for process in processes:
        process.start()
    rows = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    print(f"{len(users)} users of another host ask at once, {PENDING:,} pending, {ROUNDS} times; seconds")
    for at, about in enumerate(ASKS):
        took_s = [row[round_ * len(ASKS) + at] for row in rows for round_ in range(ROUNDS)]
        answered = [one for one in took_s if one is not None]
        median_s, most_s = np.quantile(answered, [0.5, 0.99]) if answered else (np.nan, np.nan)
        print(f"  {about:<7} p50 {median_s:.2f}  p99 {most_s:.2f}  refused {len(took_s) - len(answered)}")


def _ask(home: Path, uid: int, job_id: int, barrier: Any, answers: Any) -> None:
    "".encode("idna")  # now: the interpreter's own files may be closed to the user
    os.setgroups([])
    os.setgid(pwd.getpwnam("nobody").pw_gid)
    os.setuid(uid)
    daemon = RemoteDaemon(f"{HERE}:{PORT}", ca=str(home / "ca.pem"), munge_socket=str(home / "munge.socket"))
    took_s: list[float | None] = []
    for about in ("status", *ASKS * ROUNDS):
        barrier.wait(60.0)
        begun_s = time.perf_counter()
        try:
            query_remote(daemon, {"ask": about, **({"job_id": job_id} if about == "why" else {})})
            took_s.append(time.perf_counter() - begun_s)
        except (SlurmschedError, DaemonUnreachable) as error:
            print(f"  {about}: {error}", file=sys.stderr)
            took_s.append(None)
    answers.put(took_s[1:])  # the first question also starts the processes, all on one machine here


def _certificates(home: Path) -> None:
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    leaf = authority.issue_cert(HERE, key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(home / "ca.pem")
    leaf.cert_chain_pems[0].write_to_path(home / "server.crt")
    (home / "server.key").touch(0o600)
    leaf.private_key_pem.write_to_path(home / "server.key")
    (home / "server.key").chmod(0o600)


def _munged(home: Path) -> subprocess.Popen[bytes]:
    secrets = home / "secrets"
    secrets.mkdir(mode=0o700)
    (secrets / "key").touch(0o600)
    (secrets / "key").write_bytes(os.urandom(128))
    argv = ["munged", "--foreground", "--force", f"--socket={home}/munge.socket", f"--key-file={secrets}/key"]
    argv += [f"--seed-file={secrets}/seed", f"--pid-file={secrets}/pid", f"--log-file={secrets}/log"]
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    munged = subprocess.Popen(argv, env=os.environ | {"PATH": path})
    while not (home / "munge.socket").exists() and munged.poll() is None:
        time.sleep(0.01)
    return munged


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](Path(sys.argv[2])) if len(sys.argv) > 1 else main()

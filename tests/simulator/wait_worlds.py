"""Small logs with waits: of a made-up cluster that serves its queue in order, in the shapes of public files too."""

from __future__ import annotations

import heapq
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from slurmsched.research.queue_time.wait_log import WaitLog, wait_log

DAY_S = 86400.0
MADE_S = 1_500_000_000.0


def served_in_order(jobs: int = 400, gpus: int = 8, seed: int = 0, load: float = 1.1) -> WaitLog:
    """A log of *gpus* GPUs, without backfill: five users whose every run takes about as long as their last one."""
    random = np.random.default_rng(seed)
    user = random.integers(0, 5, jobs)
    size = random.choice((1, 2, 4), jobs)
    runtime_s = np.round(600.0 * 2.0**user * random.uniform(0.9, 1.1, jobs))
    mean_s = float((runtime_s * size).mean()) / gpus / load
    submit_s = MADE_S + np.round(np.cumsum(random.exponential(mean_s, jobs)))
    start_s = starts_in_order(submit_s, runtime_s, size, gpus)
    return wait_log(
        jobs,
        submit_s=submit_s,
        start_s=start_s,
        end_s=start_s + runtime_s,
        gpus=size,
        user=[f"user{one}" for one in user.tolist()],
        account=[f"group{one % 2}" for one in user.tolist()],
        name=[f"train_{one}" for one in user.tolist()],
        partition=["gpu"] * jobs,
        time_limit_s=np.full(jobs, DAY_S),
    )


def starts_in_order(submit_s: Any, runtime_s: Any, size: Any, gpus: int) -> Any:
    """When each job starts, if each one waits for those before it and for its GPUs."""
    free, running, now_s, starts_s = gpus, [], -np.inf, []
    for at_s, needs_s, many in zip(submit_s.tolist(), runtime_s.tolist(), size.tolist(), strict=True):
        now_s = max(now_s, at_s)
        while running and (running[0][0] <= now_s or free < many):
            end_s, its = heapq.heappop(running)
            free, now_s = free + its, max(now_s, end_s)
        free -= many
        starts_s.append(now_s)
        heapq.heappush(running, (now_s + needs_s, many))
    return np.array(starts_s)


def text_of(at_s: float) -> str:
    """A moment as the public logs write it; empty where it is unknown."""
    return "" if np.isnan(at_s) else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def write_own(log: WaitLog, path: Path, **more: Any) -> Path:
    """Write *log* in the benchmark's own format, with the columns *more*."""
    columns = {
        **{name: getattr(log, name).tolist() for name in ("submit_s", "start_s", "end_s", "gpus", "time_limit_s")},
        **{name: list(getattr(log, name)) for name in ("user", "account", "partition", "name")},
        **more,
    }
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *rows]) + "\n")
    return path


def write_philly(log: WaitLog, path: Path, *, without_attempts: int = 0) -> Path:
    """Write *log* as Philly's ``cluster_job_log``: a second attempt at each tenth job, some jobs without any."""
    jobs = []
    for row in range(len(log)):
        gpus = [{"ip": "m1", "gpus": [f"gpu{one}" for one in range(int(log.gpus[row]))]}]
        halfway_s = (log.start_s[row] + log.end_s[row]) // 2
        spans = [(log.start_s[row], log.end_s[row])]
        if row % 10 == 0:
            spans = [(log.start_s[row], halfway_s), (halfway_s + 7, log.end_s[row])]
        attempts = [{"start_time": text_of(a_s), "end_time": text_of(b_s), "detail": gpus} for a_s, b_s in spans]
        jobs.append(
            {
                "status": "Pass",
                "vc": log.partition[row],
                "jobid": f"application_1_{row}",
                "attempts": attempts,
                "submitted_time": text_of(log.submit_s[row]),
                "user": log.user[row],
            }
        )
    for _ in range(without_attempts):
        jobs.append({**jobs[0], "status": "Killed", "attempts": []})
    path.write_text(json.dumps(jobs, indent=4))
    return path


def write_helios(log: WaitLog, path: Path) -> Path:
    """Write *log* as a ``cluster_log.csv`` of Helios."""
    lines = ["job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"]
    for row in range(len(log)):
        times = [text_of(getattr(log, name)[row]) for name in ("submit_s", "start_s", "end_s")]
        ran, queued = log.end_s[row] - log.start_s[row], log.start_s[row] - log.submit_s[row]
        who = f"{1000 + row},{log.user[row]},{log.partition[row]},{log.gpus[row]},{4 * log.gpus[row]},1,COMPLETED"
        lines.append(",".join([who, *times, f"{ran:.0f}", f"{queued:.0f}"]))
    path.write_text("\n".join(lines) + "\n")
    return path


SNAPSHOT = (
    *("job_unique_id", "cluster_id", "submit_time", "partition_id_x", "account_id", "req_cpus", "req_mem_total"),
    *("req_tres", "state", "eligible_time", "start_time", "end_time", "time_limit_sec", "poll_time", "poll_wait_sec"),
    *("partition_id_y", "priority_y"),
)


def snapshot_line(number: int, log: WaitLog, row: int, poll_s: float, eligible_s: float, priority: float) -> str:
    """A row of a snapshot of Mila's at *poll_s*; its first column has no name."""
    gpus = f"gres/gpu={log.gpus[row]}," if log.gpus[row] else ""
    cells = {
        "job_unique_id": 500 + row,
        "submit_time": text_of(log.submit_s[row]),
        "account_id": log.user[row],
        "req_cpus": 2,
        "req_tres": f'"billing=2,cpu=2,{gpus}mem=4000M,node=1"',
        "state": "COMPLETED",
        "eligible_time": text_of(eligible_s),
        "start_time": text_of(log.start_s[row]),
        "end_time": text_of(log.end_s[row]),
        "time_limit_sec": 3600,
        "poll_time": text_of(poll_s),
        "poll_wait_sec": int(log.start_s[row] - poll_s),
        "partition_id_x": 17,
        "partition_id_y": 17,
        "priority_y": priority,
        "cluster_id": 3,
        "req_mem_total": 4000,
    }
    return ",".join([str(number), *(str(cells[name]) for name in SNAPSHOT)])


def write_snapshots(log: WaitLog, directory: Path, moments_s: list[float]) -> Path:
    """Write what waited of *log* at each of *moments_s*, a file for each; all may run, the newest first."""
    directory.mkdir()
    for poll_s in moments_s:
        rows = np.flatnonzero((log.submit_s <= poll_s) & (log.start_s > poll_s)).tolist()
        lines = [
            snapshot_line(number, log, row, poll_s, log.submit_s[row], row / 1e6) for number, row in enumerate(rows)
        ]
        head = ",".join(["", *SNAPSHOT])
        (directory / f"jobs_{poll_s:.0f}.csv").write_text("\n".join([head, *lines]) + "\n")
    return directory

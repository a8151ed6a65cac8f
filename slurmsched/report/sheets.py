"""The tables of a report, as texts for a page and a terminal; they take the answer in its JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..cluster.text.plural import count
from ..pages.formats import amount, duration, moment, percent, share_of
from .sheet import Answer, Sheet
from .trial_sheets import trial_sheets

KINDS = {"account": "account", "user": "user", "partition": "partition", "gpu_type": "type of GPU"}
_TIMES = ("meant for 10 %", "for 50 %", "for 90 %")


def sheets(answer: Answer) -> Iterator[Sheet]:
    """Yield the tables of a report that have rows, in order."""
    made = (
        _gpu_hours(answer),
        *(_group(answer, kind) for kind in KINDS),
        _idle(answer),
        *_idle_harm(answer),
        _stranded(answer),
        _requests(answer),
        _sooner(answer),
        _nodes(answer),
        _waits(answer),
        *accuracy_sheets(answer),
        *map(_replayed, answer["order"]),
        *map(_order, answer["order"]),
        *trial_sheets(answer["trials"]),
        _writes(answer),
        _load(answer),
    )
    return (sheet for sheet in made if sheet.rows)


def accuracy_sheets(answer: Answer) -> list[Sheet]:
    """Return the tables of an answer about accuracy that have rows."""
    made = (_groups_accuracy(answer), _reliability(answer), _predicted_waits(answer))
    return [sheet for sheet in made if sheet.rows]


def title(answer: Answer) -> str:
    """Return the heading of a report: its span, its cluster, its jobs."""
    days = (answer["until_s"] - answer["since_s"]) / 86_400.0
    span = f"{amount(days)} days" if days > 2 else f"{amount(24 * days)} hours"
    whose = _whose(answer)
    return f"{span} on {answer['cluster']}" + (f": {whose}" if whose else "")


def headline(answer: Answer) -> str:
    """Return in a sentence what a report is on."""
    span = f"{moment(answer['since_s'])} to {moment(answer['until_s'])}"
    jobs = f"{count(answer['jobs'], 'job')} of {count(answer['users'], 'user')}"
    running = f", {answer['running']} of them still running" if answer["running"] else ""
    return f"Cluster {answer['cluster']}, {_whose(answer) or 'all jobs'}, {span}: {jobs}{running}."


def missing(answer: Answer) -> list[str]:
    """Return what the report lacks, and what to switch on for it, in sentences."""
    return [f"not measured: {one['what']}; switch on {one['switch_on']}" for one in answer["not_measured"]]


def harmed(order: Answer) -> list[str]:
    """Return the accounts that the order harms for sure, in words."""
    return _named(order["accounts"])


def _named(accounts: Sequence[Answer]) -> list[str]:
    return [
        f"{one['account']} by {duration(one['change_s'])} ({duration(one['low_s'])} to {duration(one['high_s'])})"
        for one in accounts
        if one["low_s"] is not None and one["low_s"] > 0
    ]


def order_words(order: Answer) -> str:
    """Return in sentences what the order did, or would do, and whom it harms."""
    return " ".join(filter(None, (_replayed_words(order), _ahead_words(order))))


def _replayed_words(order: Answer) -> str:
    """Return by how much waits changed, and whose became longer; empty where nothing was replayed."""
    every, *accounts = order["replayed"] or [None]
    if every is None or every["change_s"] is None:
        return ""
    does = "wait" if order["mode"] == "act" else "would wait"
    word = "longer" if every["change_s"] > 0 else "shorter"
    head = (
        f"By replay jobs {does} {duration(abs(every['change_s']))} {word} on average in our order than in Slurm's own."
    )
    longer = "; ".join(_named(accounts))
    return f"{head} Longer, for sure: {longer}." if longer else head


def _ahead_words(order: Answer) -> str:
    does = "moved" if order["mode"] == "act" else "would have moved"
    head = f"In {amount(order['hours'])} hours of mode {order['mode']} our order {does} the work ahead of pending jobs."
    names = harmed(order)
    if names:
        return f"{head} More work ahead, for sure: {'; '.join(names)}."
    if any(one["low_s"] is None for one in order["accounts"]):
        return f"{head} Whom it harms is not sure yet: an interval needs 12 hours."
    return f"{head} No account had more work ahead for sure."


def _whose(answer: Answer) -> str:
    of = answer["of"]
    names = [f"{name} {of[name]}" for name in ("user", "account", "partition") if of[name]]
    return ", ".join([*names, *([f"job {of['job_id']}"] if of["job_id"] else [])])


def _gpu_hours(answer: Answer) -> Sheet:
    total, machine = answer["total"], answer["machine"]
    held = total["held"]
    rows = [
        ["asked for, by time limits of runs that ended", amount(answer["asked"]), ""],
        ["held by jobs", amount(held), share_of(held, held)],
    ]
    if total["measured"]:
        rows += [
            [f"measured ({source['source']})", amount(source["measured"]), share_of(source["measured"], held)]
            for source in answer["sources"]
        ]
        rows += [
            ["used, weighted by utilisation", amount(total["used"]), share_of(total["used"], held)],
            ["idle: no process on the GPU", amount(total["no_process"]), share_of(total["no_process"], held)],
            ["idle: mean utilisation below 5 %", amount(total["below"]), share_of(total["below"], held)],
            ["not measured", amount(total["unmeasured"]), share_of(total["unmeasured"], held)],
        ]
    if machine:
        rows += [
            [
                f"GPUs of usable nodes, in {amount(machine['counted_hours'])} counted hours",
                amount(machine["capacity"]),
                "",
            ],
            ["free", amount(machine["free"]), share_of(machine["free"], machine["capacity"])],
            *(
                [name, amount(machine[key]), share_of(machine[key], machine["capacity"])]
                for name, key in (
                    ("free while jobs waited for GPUs", "free_while_waiting"),
                    ("stranded: no CPUs beside them", "stranded_cpus"),
                    ("stranded: no memory beside them", "stranded_memory"),
                )
            ),
        ]
    return Sheet(
        "gpu-hours",
        "GPU-hours",
        "Shares are of the hours that jobs held; those of the cluster's GPUs are of the usable ones.",
        ("what", "GPU-hours", "share"),
        rows,
    )


def _group(answer: Answer, kind: str) -> Sheet:
    rows = [
        [
            one["name"] or "(none)",
            amount(one["runs"]),
            amount(one["held"]),
            share_of(one["measured"], one["held"]),
            share_of(one["used"], one["measured"]),
            share_of(one["no_process"] + one["below"], one["measured"]),
            amount(one["no_process"] + one["below"]) if one["measured"] else "–",
        ]
        for one in answer["groups"]
        if one["kind"] == kind
    ]
    if kind == "gpu_type" and all(row[0] == "(none)" for row in rows):
        rows = []
    columns = (KINDS[kind], "runs", "GPU-hours held", "measured", "used of it", "idle of it", "idle GPU-hours")
    return Sheet(f"by-{kind}", f"GPU-hours by {KINDS[kind]}", "", columns, rows)


def _idle(answer: Answer) -> Sheet:
    rows = [
        [
            f"{one['job_id']}, {one['user']}" + (f" ({one['account']})" if one["account"] else ""),
            amount(one["gpus"]),
            amount(one["no_process"]),
            amount(one["below"]),
            "yes" if one["running"] else "",
        ]
        for one in answer["idle_runs"]
    ]
    note = "The runs with the most GPU-hours without a process on the GPU, from half an hour on. Nothing is cancelled."
    columns = ("job, user", "GPUs", "hours without a process", "hours below 5 %", "still runs")
    return Sheet("idle", "Who held idle GPUs", note, columns, rows)


def _idle_harm(answer: Answer) -> Iterator[Sheet]:
    harm = answer["idle_harm"]
    if not harm:
        return
    rows = [[f"{one['account'] or '(none)'} / {one['user']}", amount(one["held"])] for one in harm["holders"]]
    note = f"{amount(harm['held'])} GPU-hours from half an hour after the last process on."
    yield Sheet("idle-holders", "Who held GPUs that ran nothing", note, ("account / user", "GPU-hours"), rows)
    rows = [
        [
            f"{one['account'] or '(none)'} / {one['user']}",
            amount(one["jobs"]),
            amount(one["waited"]),
            amount(one["waited_gpus"]),
        ]
        for one in harm["waiters"]
    ]
    note = (
        f"{count(harm['jobs'], 'job')} waited {amount(harm['waited'])} hours longer than with these GPUs free: the "
        "queue, played forward without their holders."
    )
    columns = ("account / user", "jobs", "hours waited", "times their GPUs")
    yield Sheet("idle-waiters", "Who waited for them", note, columns, rows)


def _stranded(answer: Answer) -> Sheet:
    rows = [
        [f"{one['account'] or '(none)'} / {one['user']}", amount(one["cpus"]), amount(one["memory"])]
        for one in (answer["machine"] or {"stranded_by": ()})["stranded_by"]
    ]
    note = "GPU-hours out of reach because these jobs had more of a node than the part that belongs to their GPUs."
    return Sheet("stranded", "Who stranded GPUs", note, ("account / user", "for CPUs", "for memory"), rows)


def _requests(answer: Answer) -> Sheet:
    rows = [
        [
            one["size"] or "all",
            amount(one["runs"]),
            amount(one["asked"]),
            amount(one["held"]),
            *(percent(one[f"used_{part}"]) for part in ("p10", "p50", "p90")),
            amount(one["timeouts"]),
        ]
        for one in answer["requests"]
    ]
    note = "Of runs that ended by themselves or at their limit. The middle columns are shares of the limit."
    columns = ("size", "runs", "GPU-hours asked", "held", "one in ten lasted up to", "half", "nine in ten", "timeouts")
    return Sheet("limits", "Time limits: asked and used", note, columns, rows)


def _sooner(answer: Answer) -> Sheet:
    rows = [
        [
            f"{one['name'] or '(none)'} ({one['user']}), {one['partition']}",
            amount(one["starts"]),
            _request(one["gpus"], one["limit_s"]),
            _request(one["gpus_needed"], one["limit_needed_s"]),
            duration(one["wait_s"]),
            duration(one["others_wait_s"]),
            amount(one["saved"]),
        ]
        for one in answer["sooner"]
    ]
    note = (
        "Kinds of jobs that asked for more than such runs need (a limit that covers 95 %, GPUs with a process), beside "
        "jobs of anybody that asked for no more than that at the same time in the same partition."
    )
    columns = ("jobs", "starts", "asked", "needed", "median wait", "wait of such others", "hours longer in all")
    return Sheet("sooner", "Requests that smaller or shorter would have started sooner", note, columns, rows)


def _request(gpus: int, limit_s: float | None) -> str:
    limit = "no limit" if limit_s is None else duration(limit_s)
    return f"{count(gpus, 'GPU')}, {limit}" if gpus else limit


def _nodes(answer: Answer) -> Sheet:
    cpus, memory = answer["cpus"], answer["node_memory"]
    rows = [["CPU-hours held", amount(cpus["held"]), ""]]
    rows += [["of them beside GPUs", amount(cpus["beside_gpus"]), share_of(cpus["beside_gpus"], cpus["held"])]]
    if cpus["measured"]:
        rows += [["CPU-hours of measured runs", amount(cpus["measured"]), ""]]
        rows += [["kept busy", amount(cpus["used"]), share_of(cpus["used"], cpus["measured"])]]
    if memory:
        rows += [["GiB-hours of memory of measured runs", amount(memory["held"]), ""]]
        rows += [["used, by the most of each run", amount(memory["used"]), share_of(memory["used"], memory["held"])]]
        rows += [["half of the runs used at most", "", percent(memory["share_p50"])]]
        rows += [["nine in ten", "", percent(memory["share_p90"])]]
    note = "Measured runs are whole ones that ended in the span; the shares below are of the memory that a run held."
    return Sheet("nodes", "CPUs and memory", note if memory else "", ("what", "hours", "share"), rows)


def _waits(answer: Answer) -> Sheet:
    rows = [
        [
            "all" if one["by"] == "all" else one["name"] or "(none)",
            amount(one["starts"]),
            *(duration(one[name]) for name in ("p50_s", "p90_s", "most_s")),
            amount(one["slurm_jobs"]),
            *(duration(one[name]) for name in ("slurm_p50_s", "real_p50_s", "slurm_off_s", "ours_off_s")),
        ]
        for one in answer["waits"]
    ]
    note = (
        "From eligible to first start. The last five columns are of jobs that Slurm gave a start beforehand: its "
        "median wait and the real one, and how far its first estimate and ours were off (median)."
    )
    columns = ("jobs", "starts", "median wait", "nine in ten", "longest")
    told = ("told by Slurm", "Slurm's wait", "real wait", "Slurm off", "slurmsched off")
    return Sheet("waits", "Waits", note, (*columns, *told), rows)


def _groups_accuracy(answer: Answer) -> Sheet:
    names = {"all": "all", "promise": "deadline", "hold": "held by us", "window": "reservation"}
    rows = [
        [
            " ".join(filter(None, (names.get(one["by"], one["by"]), one["name"]))),
            amount(one["starts"]),
            *(percent(one[f"start_{part}"]) for part in ("low", "median", "high")),
            amount(one["finishes"]),
            *(percent(one[f"finish_{part}"]) for part in ("low", "median", "high")),
            amount(one["slurm_jobs"]),
            percent(one["slurm_by"]),
            percent(one["ours_by"]),
        ]
        for one in answer["reliability_by"]
    ]
    note = (
        "Shares of starts and finishes that came by the times meant for 10, 50 and 90 % in the first prediction. The "
        "last columns are of starts that Slurm estimated too: the share that came by its estimate, and by our median."
    )
    columns = ("first predictions", "starts", *_TIMES, "finishes", *_TIMES)
    return Sheet("accuracy", "Accuracy of our times", note, (*columns, "told by Slurm", "by its time", "by ours"), rows)


def _reliability(answer: Answer) -> Sheet:
    rows = [
        [percent(one["nominal"]), *(percent(one[name]) for name in ("started", "finished"))]
        for one in answer["reliability"]
    ]
    note = "10, 50 and 90 % are stored of each prediction, the tenths between them interpolated."
    return Sheet("reliability", "Reliability", note, ("by the time meant for", "starts came", "finishes came"), rows)


def _predicted_waits(answer: Answer) -> Sheet:
    rows = [
        [
            f"{one['source']}, tenth {one['decile']}",
            amount(one["jobs"]),
            *(duration(one[name]) for name in ("predicted_s", "real_p10_s", "real_p50_s", "real_p90_s")),
        ]
        for one in answer["predicted_waits"]
    ]
    note = "Jobs in ten groups by the wait that was predicted, and their real waits from then on."
    columns = ("predicted by", "jobs", "predicted (median)", "real: one in ten", "half", "nine in ten")
    return Sheet("predicted-waits", "Predicted and real waits", note, columns, rows)


def _order(order: Answer) -> Sheet:
    rows = [
        [
            one["account"],
            amount(one["jobs"]),
            duration(one["change_s"]),
            f"{duration(one['low_s'])} to {duration(one['high_s'])}" if one["low_s"] is not None else "–",
            percent(one["sooner"]),
            percent(one["later"]),
        ]
        for one in order["accounts"]
    ]
    note = (
        "The work ahead of a job by forecasts, spread over all GPUs, in our order less that in Slurm's own: negative "
        "is sooner. It compares orders and is no wait. Intervals: 90 % of redraws of blocks of six hours."
    )
    columns = ("account", "pending jobs", "change, mean", "interval", "sooner", "later")
    return Sheet(f"order-{order['mode']}", f"The order in mode {order['mode']}", note, columns, rows)


def _replayed(order: Answer) -> Sheet:
    rows = [
        [
            one["account"] or "all",
            amount(one["jobs"]),
            duration(one["change_s"]),
            f"{duration(one['low_s'])} to {duration(one['high_s'])}" if one["low_s"] is not None else "–",
            amount(one["longer"]),
            amount(one["shorter"]),
        ]
        for one in order["replayed"]
    ]
    note = (
        "The mean wait of jobs in our order less that in Slurm's own, the queue played forward in the order that is "
        "not in force: negative is shorter. Intervals: 90 % of redraws of blocks of six hours."
    )
    columns = ("account", "jobs that started", "change, mean", "interval", "hours longer", "hours shorter")
    return Sheet(f"replayed-{order['mode']}", f"Waits by the order in mode {order['mode']}", note, columns, rows)


def _writes(answer: Answer) -> Sheet:
    ledger = answer["ledger"]
    if not ledger:
        return Sheet("writes", "", "", (), ())
    rows = [[f"write: {kind}", amount(many)] for kind, many in ledger["writes"].items()]
    rows += [["write, refused by Slurm", amount(ledger["refused"])]]
    rows += [[f"command: {name}", amount(many)] for name, many in ledger["calls"].items()]
    note = f"In {amount(ledger['counted_hours'])} hours in which a daemon counted."
    return Sheet("writes", "What we asked of Slurm", note, ("what", "times"), rows)


def _load(answer: Answer) -> Sheet:
    ledger = answer["ledger"]
    rows = [
        [
            one["mode"],
            amount(one["hours"]),
            amount(one["rpcs_per_min"]),
            amount(one["ours_per_min"]),
            "–" if one["rpc_mean_s"] is None else f"{1000 * one['rpc_mean_s']:.2f} ms",
        ]
        for one in (ledger or {"load": ()})["load"]
    ]
    note = (
        "RPCs of everybody by sdiag, the commands that we ran, and the mean time slurmctld took for an RPC: modes "
        "observe and advise, which write nothing, stand for before."
    )
    columns = ("mode", "hours", "RPCs a minute", "our commands a minute", "mean RPC")
    return Sheet("load", "Load of slurmctld before and after", note, columns, rows)

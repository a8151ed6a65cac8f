"""What the pages *Queue* and *GPUs* show, made of the daemon's answers. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from ..cluster.text.plural import count
from ..pages.formats import UNKNOWN, amount, duration, moment
from ..pages.gantt import Block, Group, gantt
from ..pages.gpu_grid import Cell, NodeRow, gpu_grid, halves, use_words
from ..pages.timeline import Window

Answer = Mapping[str, Any]

ROWS = 200  #: jobs or nodes on a page
BY = ("partition", "type")
ANY, EVERY = "any type", "all GPUs"
_KINDS = (("used", "runs, to the median"), ("waits", "waits, as predicted"), ("mine", "yours"))


def queue(schedule: Answer, eta: Answer, windows: Answer, user: str, page: int, by: str, partition: str) -> Answer:
    """Return what the page *Queue* shows: GPUs over time, and a row for each job of the page."""
    drawn, now_s = schedule["schedule"], float(schedule["as_of_s"])
    spans = [one for one in drawn["spans"] if partition in ("", one["partition"])]
    groups = _groups(drawn, spans, by, partition)
    shaded = [Window(one["name"], one["start_s"] - now_s, one["end_s"] - now_s) for one in windows["windows"]]
    blocks = [_block(one, by, user, now_s) for one in spans]
    address = _addresses("/queue", by=by, only_partition=partition)
    more = f"The largest and the next ones are drawn, {amount(drawn['more'])} others are not. " if drawn["more"] else ""
    return {
        "lead": f"{amount(drawn['running'])} jobs run on GPUs, {amount(drawn['pending'])} wait with a predicted start. "
        f"{more}Times are predictions.",
        "chart": gantt(blocks, groups, shaded, f"GPUs over time by {by}", _KINDS) if groups else None,
        "trouble": schedule["no_starts"],
        "choices": [
            ("GPUs by", [(_addresses("/queue", by=one, only_partition=partition)(1), one, one == by) for one in BY]),
            ("Partition", list(_partitions(drawn, by, partition))),
        ],
        "columns": ("job", "user", "partition", "GPUs", "starts, median", "80 % interval", "done, median",
                    "done by, nine in ten"),
        "rows": [_row(one, now_s) for one in eta["eta"]],
        "pages": page_links(page, eta["jobs"], ROWS, address),
        "coverage": eta["coverage_words"],
        "as_of": as_of(schedule),
    }  # fmt: skip


def gpus(nodes: Answer, page: int, partition: str) -> Answer:
    """Return what the page *GPUs* shows: each GPU of each node of the page."""
    now_s, shown = float(nodes["as_of_s"]), nodes["nodes"]
    most = max((one["memory_mib"] or 0.0 for node in shown for one in node["jobs"]), default=0.0)
    total, used = (sum(one[name] for one in shown if one["usable"]) for name in ("gpus", "gpus_used"))
    idle = {one["job_id"]: one["idle_gpus"] for node in shown for one in node["jobs"] if one["idle_gpus"]}
    names = dict.fromkeys(name for node in shown for name in node["partitions"].split(",") if name)
    chosen = [("/gpus", "all", not partition)]
    chosen += [(_addresses("/gpus", only_partition=name)(1), name, name == partition) for name in names]
    return {
        "lead": f"{amount(used)} of {amount(total)} GPUs of these nodes are allocated, and "
        f"{amount(sum(idle.values()))} of them have had no process for half an hour or more.",
        "chart": gpu_grid([_node(one, most, now_s) for one in shown], "GPUs by node") if shown else None,
        "choices": [("Partition", chosen)],
        "columns": ("node", "partitions", "type", "GPUs in use", "state", "window", "jobs"),
        "rows": [_node_row(one, now_s) for one in shown],
        "pages": page_links(page, nodes["total"], ROWS, _addresses("/gpus", only_partition=partition)),
        "most": f"{amount(most / 1024)} GiB" if most else "",
        "as_of": as_of(nodes),
    }


def page_links(page: int, total: int, rows: int, address: Any) -> list[tuple[str, str]]:
    """Return the links to the pages before and after; *address* makes one of a number."""
    last = max(math.ceil(total / rows), 1)
    found = [(page - 1, "previous page")] if page > 1 else []
    found += [(page + 1, "next page")] if page < last else []
    return [(address(number), f"{name} ({number} of {last})") for number, name in found]


def paged(rows: Sequence[Any], page: int, address: Any) -> tuple[list[Any], list[tuple[str, str]]]:
    """Return the rows of a page of a table that is here as a whole, and the links to the pages beside it."""
    return rows_of(rows, page), page_links(page, len(rows), ROWS, address)


def rows_of(rows: Sequence[Any], page: int) -> list[Any]:
    """Return the rows of a page."""
    return list(rows[ROWS * (page - 1) : ROWS * page])


def as_of(answer: Answer) -> str:
    """Return when an answer is from, in words."""
    return f"As of {moment(answer['as_of_s'])}, cycle {answer['cycle']}."


def _addresses(path: str, **given: str) -> Any:
    """Return a function from the number of a page to its address."""
    kept = {name: value for name, value in given.items() if value and (name, value) != ("by", BY[0])}

    def address(page: int) -> str:
        query = urlencode(kept | ({"page": str(page)} if page > 1 else {}))
        return f"{path}?{query}" if query else path

    return address


def _partitions(drawn: Answer, by: str, partition: str) -> Iterator[tuple[str, str, bool]]:
    for name in ("", *(one["name"] for one in drawn["partitions"] if one["name"])):
        yield _addresses("/queue", by=by, only_partition=name)(1), name or "all", name == partition


def _groups(drawn: Answer, spans: Sequence[Answer], by: str, partition: str) -> list[Group]:
    if by == "partition":
        return [
            Group(one["name"] or EVERY, one["gpus"]) for one in drawn["partitions"] if partition in ("", one["name"])
        ]
    there = {one["gpu_type"] for one in spans}
    found = [Group(one["name"] or ANY, one["gpus"]) for one in drawn["types"] if not partition or one["name"] in there]
    if "" in there and all(one.name != ANY for one in found):
        found.append(Group(ANY, max(sum(one.gpus for one in found), 1)))
    return found


def _block(one: Answer, by: str, user: str, now_s: float) -> Block:
    runs = one["kind"] == "running"
    kind = "mine" if user and one["user"] == user else "used" if runs else "waits"
    name = f"job {one['job_id']} of {one['user']}" if one["job_id"] else "a job of somebody else"
    until_s, by_s = (math.nan if one[key] is None else one[key] - now_s for key in ("until_s", "by_s"))
    from_s = 0.0 if runs or one["from_s"] is None else max(one["from_s"] - now_s, 0.0)
    group = (one["partition"] or EVERY) if by == "partition" else (one["gpu_type"] or ANY)
    return Block(name, group, one["gpus"], kind, from_s, until_s, by_s)


def _row(one: Answer, now_s: float) -> list[Any]:
    runs = one["kind"] == "running"
    between = UNKNOWN
    if one["start_from_s"] is not None and one["start_by_s"] is not None:
        between = f"{_at(one['start_from_s'], now_s)} to {_at(one['start_by_s'], now_s)}"
    many = one["gpus"] * max(one["tasks"], 1)
    return [
        one["job_id"],
        one["user"],
        one["partition"],
        amount(many),
        "runs" if runs else _at(one["start_s"], now_s),
        "" if runs else between,
        _at(one["finish_s"], now_s),
        _at(one["finish_by_s"], now_s),
    ]


def _at(at_s: float | None, now_s: float) -> str:
    if at_s is None:
        return UNKNOWN
    return "now" if at_s <= now_s else f"in {duration(at_s - now_s)}"


def _node(node: Answer, most_mib: float, now_s: float) -> NodeRow:
    whole = [one for one in node["jobs"] if not one["shares"]]
    cells = [cell for one in whole for cell in _cells(one, most_mib, now_s)]
    cells += halves([cell for one in node["jobs"] if one["shares"] for cell in _cells(one, most_mib, now_s)])
    held = sum(cell.half != 2 for cell in cells)
    away = not node["usable"] or node["power"] != "up"
    rest = "free" if not away else "away"
    unseen = max(node["gpus_used"] - held, 0) if node["usable"] else 0
    cells += [Cell("unmeasured", f"{node['name']}: held by a job that is not shown")] * unseen
    cells += [Cell(rest, f"{node['name']}: {rest if rest == 'free' else _state(node)}")] * (
        node["gpus"] - held - unseen
    )
    window = "in a window" if _in_window(node, now_s) else "window ahead" if node["window"] else ""
    return NodeRow(node["name"], _state(node) if away else window, cells)


def _cells(one: Answer, most_mib: float, now_s: float) -> list[Cell]:
    use, memory = (math.nan if one[name] is None else one[name] for name in ("use", "memory_mib"))
    idle_s = math.nan if one["idle_since_s"] is None else now_s - one["idle_since_s"]
    told = f"{_who(one)}: {use_words(use, memory, idle_s)}"
    kind = "idle" if one["idle_gpus"] else "used"
    return [Cell(kind, told, use, memory / most_mib if most_mib else math.nan)] * one["gpus"]


def _who(one: Answer) -> str:
    return f"job {one['job_id']} of {one['user']}" if one["job_id"] else "a job of somebody else"


def _state(node: Answer) -> str:
    return str(node["power"]) if node["power"] != "up" else str(node["state"]).lower().replace("+", ", ")


def _in_window(node: Answer, now_s: float) -> bool:
    return bool(node["window"]) and node["window_from_s"] <= now_s


def _node_row(node: Answer, now_s: float) -> list[Any]:
    window = ""
    if node["window"]:
        window = f"{node['window']}: {moment(node['window_from_s'])} to {moment(node['window_until_s'])}"
    state = _state(node) + (f": {node['reason']}" if node["reason"] and not node["usable"] else "")
    return [
        node["name"],
        node["partitions"],
        node["gpu_type"] or UNKNOWN,
        f"{amount(node['gpus_used'])} of {amount(node['gpus'])}",
        state,
        window,
        "; ".join(_job_words(one, now_s) for one in node["jobs"]),
    ]


def _job_words(one: Answer, now_s: float) -> str:
    use, memory = (math.nan if one[name] is None else one[name] for name in ("use", "memory_mib"))
    idle_s = math.nan if one["idle_since_s"] is None else now_s - one["idle_since_s"]
    shares = " (shared)" if one["shares"] else ""
    return f"{_who(one)}, {count(one['gpus'], 'GPU')}{shares}: {use_words(use, memory, idle_s)}"

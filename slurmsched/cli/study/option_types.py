"""Types of options of ``simulate`` and its relatives: spans of time, jobs, shares, pools of GPUs."""

from __future__ import annotations

import re

import click

_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([mhdw])")
_WORKERS = re.compile(r"(?P<dask>dask)(?::(?P<of>[1-9][0-9]{0,5}))?|(?P<all>all)|(?P<n>[1-9][0-9]{0,5})")
_UNITS_S = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


class SpanType(click.ParamType):  # type: ignore[type-arg]  # click has none before 8.4
    """A span of time in seconds: 90m, 12h, 30d, 4w."""

    name = "span"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert to seconds; a usage error names the accepted forms."""
        if isinstance(value, float):
            return value
        match = _SPAN.fullmatch(value)
        if not match:
            self.fail(f"{value!r} is no span of time: accepted are 90m, 12h, 30d, 4w", param, ctx)
        return float(match[1]) * _UNITS_S[match[2]]


class HistoryType(click.ParamType):  # type: ignore[type-arg]  # click has none before 8.4
    """A span of a database, of one of its clusters: 30d, 30d@alpha."""

    name = "SPAN[@CLUSTER]"

    def convert(
        self, value: str | tuple[float, str | None], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, str | None]:
        """Convert to seconds and the cluster; a usage error names the accepted forms."""
        if isinstance(value, tuple):
            return value
        span, _, cluster = value.partition("@")
        return SpanType().convert(span, param, ctx), cluster or None


class NodesType(click.ParamType):  # type: ignore[type-arg]  # click has none before 8.4
    """A number of nodes, with the GPUs of each: 16, 16x4."""

    name = "N[xGPUS]"

    def convert(
        self, value: str | tuple[int, int | None], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int | None]:
        """Convert to both numbers; a usage error names the accepted forms."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"([0-9]{1,6})(?:x([0-9]{1,2}))?", value)
        nodes, gpus = (int(match[1]), int(match[2] or 8)) if match else (0, 0)
        if match is None or not (1 <= nodes <= 100_000 and 1 <= gpus <= 64):
            self.fail(f"{value!r}: accepted are 1 to 100000 nodes, of 1 to 64 GPUs: 16, 16x4", param, ctx)
        return nodes, gpus if match[2] else None


class WorkersType(click.ParamType):  # type: ignore[type-arg]  # click has none before 8.4
    """Processes that make runs: a number, all, dask, dask:N, or the address of a Dask cluster."""

    name = "N|all|dask|ADDRESS"

    def convert(
        self,
        value: str | tuple[str | None, int | None, str | None],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str | None, int | None, str | None]:
        """Convert to the kind of workers, their number and the address; a usage error names the accepted forms."""
        if isinstance(value, tuple):
            return value
        if re.fullmatch(r"(tcp|tls|ws|wss|ucx)://\S+", value):
            return "dask", None, value
        match = re.fullmatch(
            r"(?:(?P<dask>dask)(?::(?P<of>[1-9][0-9]{0,5}))?|(?P<all>all)|(?P<n>[1-9][0-9]{0,5}))", value
        )
        if match is None:
            self.fail(f"{value!r}: accepted are a number, all, dask, dask:N and tcp://host:8786", param, ctx)
        if match["dask"]:
            return "dask", int(match["of"]) if match["of"] else None, None
        return ("loky", None, None) if match["all"] else (None, int(match["n"]), None)


class RowsType(click.ParamType):  # type: ignore[type-arg]  # click has none before 8.4
    """Jobs ``A:B`` of a trace, in order of submission; either may be left out."""

    name = "A:B"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return *value* unchanged; a usage error names the accepted forms."""
        if not re.fullmatch(r"\d*:\d*", value.strip()):
            self.fail(f"{value!r} chooses no jobs: accepted are a:b, a: and :b, counted from 0, b left out", param, ctx)
        return value


class MappingType(click.ParamType):  # type: ignore[type-arg]  # click has none before 8.4
    """``all``, or ``NAME=NAME``: a partition of the trace, and the list that its jobs may run in."""

    name = "mapping"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return the two names, both empty for ``all``; a usage error names the accepted forms."""
        if isinstance(value, tuple):
            return value
        left, equals, right = value.partition("=")
        if value != "all" and not (left and equals and right):
            self.fail(f"{value!r} maps nothing: accepted are all and NAME=NAME", param, ctx)
        return ("", "") if value == "all" else (left, right)


class ShareType(click.ParamType):  # type: ignore[type-arg]  # click has none before 8.4
    """``all``, ``none``, or a share of the jobs from 0 to 1."""

    name = "share"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share; a usage error names the accepted forms."""
        if isinstance(value, float):
            return value
        try:
            share = {"all": 1.0, "none": 0.0}.get(value)
            share = float(value) if share is None else share
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(
                f"{value!r} is no share of the jobs: accepted are all, none, and a number from 0 to 1", param, ctx
            )
        return share


class PoolsType(click.ParamType):  # type: ignore[type-arg]  # click has none before 8.4
    """Types of GPUs with their number, or nodes times the GPUs of each: v100=12,k80=4; v100=8x4,t4=8x4."""

    name = "TYPE=N[xGPUS],..."

    def convert(
        self, value: str | tuple[dict[str, int], int | None], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[dict[str, int], int | None]:
        """Convert to numbers by type, and the GPUs of each node; a usage error names the accepted forms."""
        if isinstance(value, tuple):
            return value
        pools: dict[str, int] = {}
        each: set[int | None] = set()
        for word in value.split(","):
            match = re.fullmatch(r"([A-Za-z0-9_.-]+)=([1-9][0-9]{0,6})(?:x([1-9][0-9]?))?", word)
            if match is None or match[1] in pools:
                self.fail(f"{value!r} names no GPUs: accepted is each type once, as v100=12,k80=4", param, ctx)
            each.add(int(match[3]) if match[3] else None)
            pools[match[1]] = int(match[2]) * int(match[3] or 1)
        if len(each) > 1:
            self.fail(f"{value!r}: accepted is one number of GPUs a node, as v100=8x4,t4=16x4", param, ctx)
        return pools, each.pop()

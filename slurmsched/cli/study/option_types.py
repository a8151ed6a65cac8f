"""Types of options of ``simulate`` and its relatives: spans of time, jobs, shares, pools of GPUs."""

from __future__ import annotations

import re

import click

_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([mhdw])")
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
    """Types of GPUs with their number: v100=12,k80=4."""

    name = "TYPE=N,..."

    def convert(
        self, value: str | dict[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, int]:
        """Convert to numbers by type; a usage error names the accepted forms."""
        if isinstance(value, dict):
            return value
        pools: dict[str, int] = {}
        for word in value.split(","):
            match = re.fullmatch(r"([A-Za-z0-9_.-]+)=([1-9][0-9]{0,6})", word)
            if match is None or match[1] in pools:
                self.fail(f"{value!r} names no GPUs: accepted is each type once, as v100=12,k80=4", param, ctx)
            pools[match[1]] = int(match[2])
        return pools

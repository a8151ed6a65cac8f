"""The keys of ``slurmsched simulate``: what policy and trace files say, and ``--set KEY=VALUE`` over them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ...errors import ConfigError
from ...simulator.policy_keys import POLICY_KEYS, PolicyKey
from .option_types import MappingType, RowsType, ShareType

FILE = click.Path(exists=True, dir_okay=False)
FOLDER = click.Path(exists=True, file_okay=False)


@dataclass(frozen=True)
class Key:
    """A key of a policy or of a trace file."""

    name: str
    type: click.ParamType  # type: ignore[type-arg]  # click has none before 8.4
    help: str
    option: str = ""  #: what the option was called, where not as the key; "-" for one that never was
    field: str = ""  #: of ``SimulateOptions``, where not as the key
    several: bool = False  #: a list; repeatable with ``--set``

    @property
    def was(self) -> str:
        """The option that it was; empty for none."""
        return "" if self.option == "-" else self.option or f"--{self.name.replace('_', '-')}"

    @property
    def into(self) -> str:
        """Its field of ``SimulateOptions``."""
        return self.field or self.name

    def read(self, text: str) -> Any:
        """Convert *text*; click.BadParameter says what is accepted."""
        return self.type.convert(text, None, None)


def _type(key: PolicyKey) -> click.ParamType:  # type: ignore[type-arg]
    """Return the type of click that reads a key of a policy."""
    if key.kind is int:
        return click.IntRange(int(key.least))
    if key.kind is float:
        bounded = key.below < math.inf
        return click.FloatRange(key.least, key.below if bounded else None, max_open=bounded)
    return click.BOOL if key.kind is bool else click.STRING


_WERE = {"restart_s": "--restart-cost", "restart_doubling_s": "--restart-doubling", "beat_s": "--beat"}
_NEVER_OPTIONS = {"wide_hosts", "profile_nodes", "profile_gpus", "profile_s", "writes_per_s", "writes_burst"}

POLICY = tuple(
    Key(key.name, _type(key), key.help, option="-" if key.name in _NEVER_OPTIONS else _WERE.get(key.name, ""))
    for key in POLICY_KEYS.values()
)
"""Keys of ``[policy]`` in a policy file, beside those that have an option."""

TRACE = (
    Key("format", click.STRING, "the format, where the first lines of the file do not show it", field="form"),
    Key("cpu_jobs", click.BOOL, "keep jobs without GPUs"),
    Key("habits", click.BOOL, "attach made-up users, names and time limits to the jobs of the file"),
    Key(
        "map_partitions",
        MappingType(),
        "a partition of the trace and the one of the cluster, as vc3=train, or all: each job may run in any",
        field="mapping",
        several=True,
    ),
    Key("strict", click.BOOL, "fail on jobs that could never run, rather than leave them out"),
    Key("elastic", ShareType(), "the jobs that can run on half to twice their GPUs: all, none, or a fraction of them"),
    Key(
        "lean",
        ShareType(),
        "the jobs that need no more CPUs and memory than belong to their GPUs: all, none, or a fraction of them",
    ),
    Key("stops", FILE, "a file with the part of its work after which each job converges, and stops"),
    Key("train", RowsType(), "the jobs A:B that forecasts learn from; by default all before those replayed"),
    Key("measure", RowsType(), "only these jobs A:B count in the figures about jobs"),
    Key("until_measured", click.BOOL, "stop once the jobs of measure have ended"),
    Key("applications", FOLDER, "a directory of measured applications: the jobs train, by a scaling"),
    Key("throughputs", FILE, "speeds of models by type of GPU: the jobs train, by a scaling"),
    Key("profiles", FILE, "speeds of models by CPUs and memory: the jobs train, by a scaling"),
)
"""Keys of ``[trace]`` in a trace file, beside ``file``."""

KEYS = {key.name: key for key in (*POLICY, *TRACE)}


def _key_words(key: Key, section: str) -> str:
    value = "true" if key.type is click.BOOL else "VALUE"
    return f"--set {key.name}={value}, or {key.name} in the [{section}] of a file"


GONE = {
    "--policy-file": "--policy FILE.toml",
    "--gpus-per-node": "--nodes 16x4, or --gpus t4=8x4,v100=8x4",
    "--cluster-name": "--from-db 30d@NAME",
    "--scale-load": "--load X",
    "--backend": "--workers N, --workers all, or --workers dask",
    "--scheduler": "--workers tcp://host:8786",
    **{key.was: _key_words(key, "policy") for key in POLICY if key.was},
    **{key.was: _key_words(key, "trace") for key in TRACE},
}
"""What to write in place of options that are none any more."""


def gone(*options: str) -> dict[str, str]:
    """Return what to write in place of *options*, for a command that lost only these."""
    return {option: GONE[option] for option in options}


class KeyedCommand(click.Command):
    """A command whose former options are refused with what to write instead."""

    def __init__(self, *args: Any, gone: Mapping[str, str] = GONE, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gone = gone

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args*; a usage error names the key or option that a former option became."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if instead := self._gone.get(error.option_name):
                raise click.UsageError(f"{error.option_name} is no option any more: say {instead}.", ctx) from error
            raise


def set_values(texts: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts of a policy and the fields of the trace that ``--set KEY=VALUE`` fills.

    A usage error names an unknown key, or what is accepted.
    """
    parts: dict[str, Any] = {}
    fields: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in KEYS or not equals:
            raise click.UsageError(f"--set {text}: accepted is KEY=VALUE with one of {', '.join(sorted(KEYS))}.")
        key = KEYS[name]
        try:
            read = key.read(value)
        except click.BadParameter as error:
            raise click.UsageError(f"--set {text}: {error.message}") from error
        found = parts if name in POLICY_KEYS else fields
        found[key.into] = (*found.get(key.into, ()), read) if key.several else read
    return parts, fields


def trace_values(path: str, contents: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields that the ``[trace]`` of a file fills, paths from its folder on; ConfigError for a wrong one."""
    known = {key.name: key for key in TRACE}
    found: dict[str, Any] = {}
    for name, value in contents.items():
        if name == "file":
            continue
        if name not in known:
            raise ConfigError(f"{path}: [trace]: {name!r} is no key; accepted are file, {', '.join(known)}")
        key = known[name]
        try:
            found[key.into] = tuple(_read(path, key, value)) if key.several else next(_read(path, key, value))
        except click.BadParameter as error:
            raise ConfigError(f"{path}: [trace]: {name} = {value!r}: {error.message}") from error
    return found


def _read(path: str, key: Key, value: object) -> Iterator[Any]:
    for one in value if key.several and isinstance(value, list) else [value]:
        text = str(one).lower() if isinstance(one, bool) else str(one)
        yield key.read(str(Path(path).parent / text) if isinstance(key.type, click.Path) else text)

"""``slurmsched node-check``."""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from ...app import App
from ...output import json_option
from ..check import report


@click.command("node-check")
@click.option("--pairs", is_flag=True, help="Also run pairs of small GPU jobs under MPS, and compare with the model.")
@click.option("--anyway", is_flag=True, help="Use a GPU even if another process runs on it, which disturbs that one.")
@click.option("--user", metavar="NAME", help="Whose GPU jobs are tried, if root calls; nobody by default.")
@click.option(
    "--seconds", type=click.FloatRange(0.1, 60.0), default=2.0, show_default=True, help="Length of each measurement."
)
@click.option(
    "--gres-conf",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The gres.conf to compare NVLinks with.  [default: that of SLURM_CONF, /etc/slurm or /run/slurm/conf]",
)
@json_option
@click.pass_obj
def node_check(
    app: App, pairs: bool, anyway: bool, user: str | None, seconds: float, gres_conf: Path | None, as_json: bool
) -> None:
    """Try on this GPU node what the programs of the prolog need and do there.

    Run it on a drained node, best as root. It starts the sampler and MPS with the settings of node.conf, in a private
    directory that it removes, and small GPU jobs on the first idle GPU. It leaves GPUs alone on which a process runs.
    It compares gres.conf with the NVLinks between GPUs and the cores beside them, and prints the lines.
    Exit status 1 if anything is wrong.
    """
    from .links import find_gres_conf
    from .programs import GpuNode, private_directory
    from .trial import NodeTrial

    owner = _user(user)
    with _ended_by_signals(), private_directory() as home:
        node = GpuNode(home, owner, app.environ.get("SLURMSCHED_NODE_CONF"))
        conf = gres_conf or find_gres_conf(app.environ)
        trial = NodeTrial(node, app.clock, seconds=seconds, pairs=pairs, anyway=anyway, gres_conf=conf)
        try:
            findings = list(trial.findings())
        finally:
            node.end_leftovers()
    report(findings, {"measured": trial.measured}, as_json=as_json, bad="wrong", remedies=("remedy", "possible"))


def _user(name: str | None) -> pwd.struct_passwd:
    if os.geteuid() and name is not None:
        raise click.UsageError("Only root can try GPU jobs of another user.")
    try:
        return pwd.getpwuid(os.geteuid()) if os.geteuid() else pwd.getpwnam(name or "nobody")
    except KeyError as error:
        raise click.UsageError(f"There is no user {name or os.geteuid()}.") from error


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let signals end this process as an error does, so that everything it started is ended too."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # a second one would interrupt the removal
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

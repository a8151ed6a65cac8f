"""``slurmsched lab``: a private real Slurm on loopback."""

from __future__ import annotations

import os
from pathlib import Path

import click

from slurmsched.cli.output import TextTable, emit, json_option
from slurmsched.cluster.text.plural import count
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec

USER_DIR = ".local/state"


def default_directory() -> Path:
    """Return the default directory of a lab."""
    if os.geteuid() == 0:
        return Path("/var/tmp/slurmsched-lab")  # noqa: S108  refused below unless it is ours and empty
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / USER_DIR) / "slurmsched-lab"


@click.group()
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="The lab's directory; `down` removes it.  [default: slurmsched-lab in /var/tmp; ~/.local/state without root]",
)
@click.pass_context
def lab(context: click.Context, directory: Path | None) -> None:
    """Run a private real Slurm on loopback, beside any Slurm of this host."""
    context.obj = directory or default_directory()


@lab.command()
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(1, 2000), help="Number of nodes.")
@click.option("--gpus", default=4, show_default=True, type=click.IntRange(0, 64), help="Fake GPUs per node.")
@click.option("--cpus", default=8, show_default=True, type=click.IntRange(1), help="CPUs per node.")
@click.option("--memory-mib", default=16_000, show_default=True, type=click.IntRange(1), help="Memory per node.")
@click.option(
    "--accounting/--no-accounting",
    default=None,
    help="slurmdbd and MariaDB, with accounts, QOS and an operator.  [default: on for root, else off]",
)
@click.option(
    "--slurm-root",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Run the Slurm in this root tree (from debootstrap, for example); the tree is not changed.",
)
@click.option("--conf", "extra_conf", multiple=True, metavar="LINE", help="A line of slurm.conf; repeatable.")
@click.option(
    "--job-submit-lua", type=click.Path(exists=True, dir_okay=False, resolve_path=True), help="Install this script."
)
@click.pass_obj
def up(
    directory: Path,
    nodes: int,
    gpus: int,
    cpus: int,
    memory_mib: int,
    accounting: bool | None,
    slurm_root: str | None,
    extra_conf: tuple[str, ...],
    job_submit_lua: str | None,
) -> None:
    """Start a lab and explain how to use it."""
    spec = LabSpec(
        nodes=nodes,
        gpus=gpus,
        cpus=cpus,
        memory_mib=memory_mib,
        accounting=os.geteuid() == 0 if accounting is None else accounting,
        slurm_root=slurm_root,
        extra_conf=extra_conf,
        job_submit_lua=job_submit_lua,
    )
    built = Lab(directory, spec)
    built.up()
    click.echo(f"A Slurm with {count(nodes, 'node')} of {count(gpus, 'GPU')} each is up in {built.directory}")
    this_one = f"slurmsched lab --dir {built.directory}"
    click.echo(f"export SLURM_CONF={built.layout.slurm_conf}" if slurm_root is None else f"{this_one} shell")
    for name, unix_name in built.manifest.users.items():
        click.echo(f"# {name} is the unix user {unix_name}: {this_one} shell --user {name}")
    click.echo(f"# to remove it: {this_one} down")


@lab.command()
@json_option
@click.pass_obj
def status(directory: Path, as_json: bool) -> None:
    """Show which daemons run and the states of the nodes; exit 1 unless all are healthy."""
    state = Lab(directory).status()
    sentence = f"{state.cluster} in {state.directory}: slurmctld {'answers' if state.answers else 'does not answer'}"
    daemons = TextTable(("daemon", "pid", "state"), [(each.name, each.pid, each.state) for each in state.processes])
    nodes = TextTable(("node", "state"), [(each.name, each.state) for each in state.nodes])
    emit(state.to_json(), sentence, daemons, nodes, as_json=as_json)
    if not state.healthy:
        raise click.exceptions.Exit(1)


@lab.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--user", help="Run as this lab user: alice, bob, carol, dave or operator.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def shell(directory: Path, user: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND, else a shell, in which Slurm's commands act on the lab."""
    there = Lab(directory)
    argv = there.command(command or (os.environ.get("SHELL", "/bin/sh"),), user)
    environment = there.env(user)
    if user is not None:
        os.chdir(there.layout.work)
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606  argv as given, no shell in between
    except OSError as error:
        raise LabError(f"cannot run {' '.join(argv)}: {error.strerror}") from error


@lab.command()
@click.pass_obj
def restart(directory: Path) -> None:
    """Restart slurmctld, for example after a change of slurm.conf; running jobs continue."""
    there = Lab(directory)
    there.restart_controller()
    there.wait_for_nodes()
    click.echo(f"slurmctld of {there.cluster} answers again")


@lab.command()
@click.pass_obj
def down(directory: Path) -> None:
    """Stop everything in the lab and remove all its files, also after a crash."""
    Lab(directory).down()
    click.echo(f"Nothing is left of {directory}")

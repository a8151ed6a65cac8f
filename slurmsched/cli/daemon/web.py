"""``slurmsched web``."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from ...config import WebSettings
from ...errors import ConfigError, MissingExtra
from ..app import App

if TYPE_CHECKING:
    from ...daemon.api.remote_client import RemoteDaemon


@click.command()
@click.option("--demo", is_flag=True, help="Show all pages over a modelled site: no Slurm, no settings.")
@click.option("--port", type=click.IntRange(0, 65535), default=9820, show_default=True, help="The port of --demo.")
@click.pass_obj
def web(app: App, demo: bool, port: int) -> None:
    """Answer the questions of users over HTTP, for portals, scripts and people.

    Each request brings a token of Slurm (scontrol token) in the header X-SLURM-USER-TOKEN, as for slurmrestd. It is
    passed on to the daemon, which checks it: this process may see nothing by itself. It listens on web.listen, an
    address of this host alone; a proxy in front of it does TLS. /api/v1/openapi.json describes what can be asked.

    On web.proxy_socket a proxy names the user in X-Remote-User, and on web.socket the kernel does. Both ask the daemon
    of this host, which takes named users from web.user alone.
    """
    if find_spec("flask") is None or find_spec("waitress") is None:
        raise MissingExtra("slurmsched web needs Flask and waitress", "web")
    if demo:
        return _demo(port)
    settings = app.readable_settings().web
    from ...web.patience import answering_threads

    threads = answering_threads()
    servers = [*_with_tokens(app, settings, threads), *_with_names(app, settings, threads)]
    if not servers:
        raise ConfigError("slurmsched web has nothing to listen on: set web.listen, web.proxy_socket or web.socket")
    for server in servers[1:]:
        Thread(target=server.run, daemon=True).start()
    servers[0].run()
    return None


def _demo(port: int) -> None:
    """Serve the pages over a modelled site, to this user, until interrupted."""
    from ...web.api import application
    from ...web.patience import TcpDoor
    from ..progress import bar
    from .web_demo import demo_daemon, keep_time, this_user

    with ExitStack() as stack:
        with bar("playing the first days of a modelled site") as told:
            daemon = stack.enter_context(demo_daemon(lambda share: told(round(100 * share), 100)))
        server = TcpDoor.open("127.0.0.1", port, application(daemon.ask, forms(), lambda request: this_user()))
        stop = Event()
        stack.callback(stop.set)
        Thread(target=keep_time, args=(daemon, stop), daemon=True).start()
        click.echo(f"SIMULATED: no Slurm runs, and time is virtual. Open http://127.0.0.1:{server.effective_port}/")
        server.run()


def _with_tokens(app: App, settings: WebSettings, threads: Any) -> Iterator[Any]:
    """Yield the server for users with tokens, unless it is off."""
    from ...web.api import application
    from ...web.patience import TcpDoor

    if not settings.listen:
        return
    host, port = _address(settings.listen)
    daemon = _daemon(app)
    pages = application(lambda request, token: _ask(daemon, request, token), forms())
    server = TcpDoor.open(host, port, pages, threads)
    click.echo(
        f"slurmsched web listens on http://{host}:{server.effective_port}/api/v1/openapi.json, asking {daemon.server}"
    )
    yield server


def _with_names(app: App, settings: WebSettings, threads: Any) -> Iterator[Any]:
    """Yield the servers on unix sockets, for a proxy and for local users."""
    from ...daemon.api.query_protocol import SOCKET, query
    from ...web.api import application
    from ...web.identity import by_proxy, by_socket
    from ...web.unix_door import UnixDoor, uid_of_proxy

    socket = app.run_dir() / SOCKET

    def ask(request: Mapping[str, Any], user: str) -> dict[str, Any]:
        return query(socket, {**request, "as": user})

    if settings.proxy_socket:
        uid = uid_of_proxy(settings.proxy_user)
        named = application(ask, forms(), by_proxy)
        yield UnixDoor.open(settings.proxy_socket, named, lambda peer: peer == uid, 0o666, threads)
        click.echo(f"slurmsched web listens on {settings.proxy_socket} for {settings.proxy_user}, asking {socket}")
    if settings.socket:
        local = application(ask, forms(), by_socket)
        yield UnixDoor.open(settings.socket, local, lambda peer: True, 0o666, threads)
        click.echo(f"slurmsched web listens on {settings.socket} for users of this host, asking {socket}")


def _address(text: str) -> tuple[str, int]:
    """Return the host and the port of ``web.listen``; ConfigError unless it is an address of this host alone."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        inside = ipaddress.ip_address(host).is_loopback
    except ValueError:
        inside = False
    if not inside or not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ConfigError(
            f"web.listen = {text!r}: accepted is an address of this host alone with a port, such as 127.0.0.1:9820; "
            "a proxy in front of it does TLS"
        )
    return host, int(port)


def _daemon(app: App) -> RemoteDaemon:
    """Return the daemon's door for other hosts; ConfigError where none is named, or one without TLS."""
    daemon = app.remote_daemon()
    if not daemon.server:
        raise ConfigError(
            "slurmsched web asks the daemon with the users' tokens: set client.server to its remote.listen"
        )
    if not daemon.encrypted:
        raise ConfigError(
            "client.ca: needed, since tokens go through TLS alone; it is the authority of remote.certificate"
        )
    return daemon


def _ask(daemon: RemoteDaemon, request: Mapping[str, Any], token: str) -> dict[str, Any]:
    from ...daemon.api.remote_client import query_remote

    return query_remote(replace(daemon, token=token, token_alone=True), request)


def forms() -> dict[str, Any]:
    """Return the JSON Schema of the answer to each question that is asked over HTTP."""
    from ...web.api import ASKED
    from ..json_schema import schema_of

    return {name: schema_of(question.form) for name, question in ASKED.items()}

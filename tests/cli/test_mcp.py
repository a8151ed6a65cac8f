"""The tools for assistants, asked by the official client over standard input and output."""

from __future__ import annotations

import json
import os
import sys

import pytest

pytest.importorskip("mcp")

import anyio
from daemon.web_worlds import handlers, observed
from mcp import ClientSession, StdioServerParameters, stdio_client

from slurmsched.daemon.api.query_server import QueryServer


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """The settings of a user of a host where a daemon answers; this process is its user."""
    run = tmp_path_factory.mktemp("run")
    server = QueryServer(run, handlers(observed()))
    server.start()
    file = run / "slurmsched.toml"
    file.write_text(f'[daemon]\nrun_dir = "{run}"\nstate_dir = "{run}"\n', "utf-8")
    yield file
    server.close()


@pytest.fixture(scope="module")
def talked(settings):
    """What both tests ask in one session with the command: each takes a second to start."""

    async def during(session):
        return await read(session), await wrong(session)

    async def whole():
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "slurmsched", "--config", str(settings), "mcp"], env=dict(os.environ)
        )
        async with stdio_client(command) as streams, ClientSession(*streams) as session:
            await session.initialize()
            return await during(session)

    return anyio.run(whole)


async def read(session):
    tools = (await session.list_tools()).tools
    why = await session.call_tool("why", {"job_id": 2})
    tried = await session.call_tool("what_if", {"options": "--gpus=2"})
    return tools, why, tried


async def wrong(session):
    calls = (("why", {"job_id": -1}), ("why", {"job": 2}), ("scancel", {}), ("report", {"span_s": 1}))
    return [(await session.call_tool(name, given)).content[0].text for name, given in calls]


def test_an_assistant_asks_with_tools_that_only_read_and_gets_the_answers_of_commands(talked):
    (tools, why, tried), _ = talked
    assert {one.name for one in tools} == {
        *("eta", "why", "why_mine", "explain", "what_if", "deadline_check", "report")
    }
    assert all(one.annotations.read_only_hint for one in tools)
    assert not why.is_error
    assert json.loads(why.content[0].text)["why"]["job_id"] == 2
    assert json.loads(tried.content[0].text)["eta"][0]["notes"] == ["of --gpus=2"]


def test_what_is_refused_is_an_error_in_words(talked):
    _, refused = talked
    for text, words in zip(refused, ("job_id", "job", "scancel", "span_s"), strict=True):
        assert words in text

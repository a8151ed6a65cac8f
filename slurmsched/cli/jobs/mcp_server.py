"""``slurmsched mcp``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from ... import __version__
from ...errors import MissingExtra, SlurmschedError
from ..app import App

if TYPE_CHECKING:
    from mcp.server import Server

    from ...daemon.api.questions.contract import Question
    from ..query import QueryClient

TOOLS: Mapping[str, str] = {
    "eta": "eta",
    "why": "why",
    "why_mine": "mine",
    "explain": "explain",
    "what_if": "eta_check",
    "deadline_check": "check",
    "report": "report",
}
"""The tools, each with the question that it asks."""


@click.command()
@click.pass_obj
def mcp(app: App) -> None:
    """Answer an assistant's questions about your jobs.

    By the Model Context Protocol over standard input and output: the assistant starts this command itself. It asks the
    daemon as you, as the other commands do, and sees no more than they show you. Its tools only read: eta, why,
    why_mine, explain, what_if (a job that does not exist yet), deadline_check and report.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("slurmsched mcp needs the package mcp", "mcp")
    import anyio

    anyio.run(_serve, app.answers())


async def _serve(answers: QueryClient) -> None:
    from mcp import stdio_server

    server = server_of(answers)
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


def server_of(answers: QueryClient) -> Server[Any]:
    """Return the server whose tools ask *answers*."""
    import anyio
    from mcp import types
    from mcp.server import Server

    from ...daemon.api.questions.table import QUESTIONS

    tools = [
        types.Tool(
            name=name,
            description=QUESTIONS[asked].about[:1].upper() + QUESTIONS[asked].about[1:],
            input_schema=_schema(QUESTIONS[asked]),
            annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )
        for name, asked in TOOLS.items()
    ]

    async def listed(context: Any, request: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def called(context: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        text, failed = await anyio.to_thread.run_sync(_answer, answers, request.name, request.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    return Server("slurmsched", version=__version__, on_list_tools=listed, on_call_tool=called)


def _answer(answers: QueryClient, name: str, given: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the answer as JSON, or why there is none, and whether that is so."""
    from ...daemon.api.questions.table import QUESTIONS

    if name not in TOOLS:
        return f"there is no tool {name!r:.80}; there are {', '.join(TOOLS)}", True
    known = {one.name for one in QUESTIONS[TOOLS[name]].parameters}
    if unknown := sorted(set(given) - known):
        return f"{unknown[0]!r:.80} is no parameter of {name}; accepted: {', '.join(sorted(known)) or 'none'}", True
    try:
        return json.dumps(answers.query(TOOLS[name], **given)), False
    except SlurmschedError as error:
        return str(error), True


def _schema(question: Question) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {one.name: {**one.schema, "description": one.accepts} for one in question.parameters},
        "required": [one.name for one in question.parameters if one.required],
        "additionalProperties": False,
    }

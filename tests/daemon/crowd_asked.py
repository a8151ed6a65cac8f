"""The life of a made-up question, asked on a copy of the product into which it was patched."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from daemon_worlds import seen

from slurmsched.cli import main
from slurmsched.cli.query import Records
from slurmsched.config import Settings
from slurmsched.daemon.api.query_arguments import AnswerRefused
from slurmsched.daemon.api.query_handlers import QueryHandlers
from slurmsched.daemon.api.query_server import QueryServer
from slurmsched.daemon.api.questions.contract import Sources
from slurmsched.daemon.policy_settings import policy_of
from slurmsched.db.tracking.decisions import DecisionRecord

directory = Path(sys.argv[1])
config = directory / "slurmsched.toml"
config.write_text(f"[daemon]\nrun_dir = '{directory}'\nstate_dir = '{directory}'\n")


def called(*words: str) -> str:
    """Return what a command prints."""
    result = CliRunner().invoke(main, ["--config", str(config), *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


nothing = [lambda *_: None for _ in range(4)]
handlers = QueryHandlers(Sources(dict, *nothing), trusted=(os.getuid(),))
report = seen()
handlers.observe(report)
server = QueryServer(directory, handlers)
server.start()
live = json.loads(called("ask", "crowd", "least=2"))
server.close()
assert live["crowd"] == {report.view.pending.partition[0]: 2}
with pytest.raises(AnswerRefused, match='"least" must be a whole number, 1 to 1000'):
    handlers.answer({"ask": "crowd", "least": 0}, 0)
record = DecisionRecord(1, 1000.0, "observe", report.view, report.plan, policy_of(Settings()).to_json(), "", "")
recorded = Records(lambda: record, *nothing[:2]).answer({"ask": "crowd", "least": 3})
assert recorded["crowd"] == {}
schema = json.loads(called("schema", "ask", "crowd"))
for answer in (live, {"source": "record", **recorded}):
    jsonschema.validate(answer, schema)
assert not jsonschema.Draft202012Validator(schema).is_valid({**live, "crowd": 1})
assert "the pending jobs of partitions" in called("ask")
print("a crowd was counted live, on record, by command and by its schema")

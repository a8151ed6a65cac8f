"""The alerts for Prometheus and the dashboard for Grafana: they parse, and use metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = ROOT / "contrib" / "prometheus" / "slurmsched.rules.yml"
BOARD = json.loads((ROOT / "contrib" / "grafana" / "slurmsched.json").read_text())
COMMANDS = (ROOT / "docs" / "reference" / "commands.md").read_text()
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
EXPRESSIONS = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
PROMTOOL = shutil.which("promtool")
with_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool of Prometheus is not installed")


def promtool(*arguments):
    return subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)


def metrics_in(text):
    """Names of metrics; those of a histogram's series without what is added to them."""
    names = re.findall(r"\bslurmsched_\w+", text)
    return {re.sub(r"(_seconds|_ratio)_(bucket|sum|count)$", r"\1", name) for name in names}


@pytest.mark.parametrize("text", [RULES.read_text(), *EXPRESSIONS], ids=lambda text: text.split("(")[0][:30])
def test_what_is_watched_exists(text):
    there = set(re.findall(r"^## (\S+)$", PAGE, re.MULTILINE))
    assert metrics_in(text)
    assert metrics_in(text) <= there


def test_the_page_lists_every_alert():
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert alerts == re.findall(r"^\| (Slurmsched\w+) \|", PAGE, re.MULTILINE)


def test_the_commands_to_try_exist():
    tried = re.findall(r"`slurmsched ([a-z -]*[a-z])", RULES.read_text())
    assert tried
    assert {f"## slurmsched {words}" for words in tried} <= set(COMMANDS.splitlines())


@with_promtool
def test_alerts_come_when_they_should_and_not_before():
    shown = promtool("test", "rules", str(ROOT / "tests" / "data" / "slurmsched_alerts_test.yml"))
    assert shown.returncode == 0, shown.stdout + shown.stderr


@with_promtool
def test_every_expression_of_the_dashboard_parses(tmp_path):
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "5m")}
        for number, text in enumerate(EXPRESSIONS)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML
    shown = promtool("check", "rules", str(path))
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert f"{len(EXPRESSIONS)} rules found" in shown.stdout


def test_panels_do_not_cover_each_other():
    def covered(panel):
        at = panel["gridPos"]
        return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}

    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert not any(covered(one) & covered(other) for one, other in combinations(panels, 2))
    assert all(x < 24 for panel in panels for x, _ in covered(panel))

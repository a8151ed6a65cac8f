"""``slurmsched pareto`` as people call it, and its page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from json_forms import answer_of

from slurmsched.cli import main
from slurmsched.cli.app import App

pytest.importorskip("pymoo")

SMALL = ("--trace", "synthetic:200", "--gpus", "32", "--jobs", "40", "--samples", "1", "--evaluations", "20")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def called(*words: str) -> Result:
    return CliRunner().invoke(main, ("pareto", *words), obj=App(None), catch_exceptions=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[dict, str]:
    """What it prints as JSON, and the page."""
    pytest.importorskip("plotly")
    path = tmp_path_factory.mktemp("pareto") / "front.html"
    result = called(*SMALL, "--json", "--html", str(path))
    assert result.exit_code == 0, result.output
    return answer_of(["pareto"], result.output), path.read_text()


def test_json_holds_each_point_with_its_setting(made):
    facts, _ = made
    assert facts["simulations"] == 20
    assert [point["name"] for point in facts["extremes"]] == ["FIFO", "shortest first", "fair share"]
    for point in facts["points"]:
        assert set(point["held_out"]) == set(point["searched"]) == {"jct:avg", "error:avg"}
        assert point["setting"].startswith("slurmsched policy set wfq thresholds=")


def test_the_page_needs_nothing_from_anywhere_and_names_every_point(made):
    facts, page = made
    assert "src=" not in page.replace("plotly", "").split("<script>")[0]
    assert "default-src 'none'; script-src 'sha256-" in page
    rows = re.findall(r"<tr data-point=\d+>", page)
    assert len(rows) == len(facts["points"]) + len(facts["extremes"])


@pytest.mark.soak
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_click_in_a_browser_gives_the_setting(made, tmp_path):
    facts, page = made
    clicks = """
        const said = () => document.getElementById("line").textContent;
        document.querySelector('tr[data-point="0"]').click();
        const first = said();
        document.getElementById("front").emit("plotly_click", { points: [{ customdata: 1 }] });
        document.body.insertAdjacentText("beforeend", `@@${first}@@${said()}@@`);
    """
    open_page = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", page)
    path = tmp_path / "clicked.html"
    path.write_text(open_page.replace("</body>", f"<script>{clicks}</script></body>"))
    assert CHROMIUM is not None
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    seen = subprocess.run([*words, path.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout
    said = seen.split("@@")[-3:-1]
    assert said == [point["setting"] for point in facts["points"][:2]]
    assert seen.count('class="point plotly-customdata"') == len(facts["points"]) + 3


def test_people_get_a_table_and_the_settings():
    result = called(
        *SMALL, "--objective", "jct:p90", "--objective", "unfairness:avg", "--delta", "0.2", "--population", "10"
    )
    assert result.exit_code == 0, result.output
    assert "JCT:P90 HELD OUT" in result.output
    assert "delta=0.2" in result.output
    assert "fair share" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpus", "8"), "Say --trace TRACE or --from-db SPAN"),
        ((*SMALL, "--from-db", "30d"), "one of them"),
        ((*SMALL, "--scheduler", "tcp://here:1"), "no option any more: say --workers tcp://host:8786"),
        (("--trace", "synthetic:50"), "Missing option '--gpus'"),
    ],
)
def test_wrong_usage_is_told(words, said):
    result = called(*words)
    assert result.exit_code == 2
    assert said in result.output


def test_an_objective_that_is_none_is_an_error_that_names_what_there_is():
    result = called(*SMALL, "--objective", "speed:avg", "--objective", "jct:avg")
    assert result.exit_code == 1
    assert "accepted are jct, error, unfairness" in result.output


def test_a_page_that_cannot_be_written_is_told(tmp_path):
    pytest.importorskip("plotly")
    result = called(*SMALL, "--html", str(Path(tmp_path, "nowhere", "front.html")))
    assert result.exit_code == 1
    assert "writing the page" in result.output

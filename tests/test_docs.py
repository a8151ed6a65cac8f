"""The pages in docs/ say what the code says."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import click
import pytest

from slurmsched.cli import main
from slurmsched.cli.reference import commands_page, reasons_page, settings_page, simulate_keys_page
from slurmsched.cluster.columns import Labels
from slurmsched.cluster.jobs import comment_columns
from slurmsched.cluster.text.comment import CommentOptions
from slurmsched.config.catalogue import every_setting

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
TEXTS = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("examples/**/*.md"))]
TEXTS += sorted(file for file in (ROOT / "contrib").rglob("*") if file.is_file() and "__pycache__" not in file.parts)
SUBJECTS = ("ordering", "deadlines", "sharing", "profiling", "predictions", "explanation")
TOPS = [ROOT, ROOT / "slurmsched", *(file.parent for file in (ROOT / "slurmsched").glob("*/__init__.py"))]
"""Names of files are relative to one of these."""
SUFFIXES = {"conf", "service", "lua", "toml", "db", "sock"}
"""Of files called slurmsched."""


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("commands", commands_page),
        ("settings", settings_page),
        ("reasons", reasons_page),
        ("simulate-keys", simulate_keys_page),
    ],
)
def test_the_page_is_the_one_the_code_writes(name, page):
    assert (REFERENCE / f"{name}.md").read_text() == page(), (
        f"run: python -m slurmsched.cli.reference {name} > docs/reference/{name}.md"
    )


def test_every_setting_has_its_heading_with_help_and_default():
    sections = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", (REFERENCE / "settings.md").read_text(), re.M | re.S))
    assert set(sections) == {setting.name for setting in every_setting()}
    for setting in every_setting():
        assert setting.help[1:] in sections[setting.name]
        assert "Default: `" in sections[setting.name]


def test_every_command_has_its_heading():
    headings = re.findall(r"^## slurmsched (\S+)$", (REFERENCE / "commands.md").read_text(), re.M)
    assert [*headings] == main.list_commands(click.Context(main))


def tokens(section: str) -> set[str]:
    """The fields of Wishes whose tokens a part of the page lists."""
    part = (DOCS / "writing-jobs.md").read_text().partition(f"## {section}")[2].partition("\n## ")[0]
    keys = re.findall(r"^\| `([a-zA-Z]+)", part, re.MULTILINE)
    spelt = {"PERCENT": "steps", "coldstart": "coldstart_s", "pace": "pace_s", "mem": "mem_mib"}
    return {spelt.get(key, key) for key in keys}


def test_each_token_of_a_user_has_an_effect_and_the_page_of_tokens_says_which():
    column = re.compile(r"(?:jobs|pending|running)\.([a-z_]+)")
    parts = (DOCS.parent / "slurmsched" / part for part in ("policies", "decide", "daemon", "models"))
    files = [file for part in parts for file in part.rglob("*.py")]
    used = {name for file in files for name in column.findall(file.read_text())}
    says = {"deadline_s": "deadline", "cpus_least": "cpus", "mem_least_mib": "mem_mib"}
    says |= {"least_gpus": "gpus", "batch_least": "batch"}
    used = {says.get(name, name) for name in used & {"deadline_s", *comment_columns(Labels.of([""]))}}
    fields = set(CommentOptions.__slots__) - {"share"}  # no user's to say
    assert tokens("In effect now") == fields == fields & used


def test_extras_are_installed_from_a_checkout_or_a_wheel_since_no_index_has_us():
    root = DOCS.parent
    setup = configparser.ConfigParser()
    setup.read(root / "setup.cfg")
    places = ("*.md", "docs/**/*.md", "contrib/**/*", "systemd/*", "slurmsched/**/*.py")
    files = [
        file for place in places for file in root.glob(place) if file.is_file() and "__pycache__" not in file.parts
    ]
    assert [str(file) for file in files if "slurmsched[" in file.read_text()] == []
    named = {
        extra
        for file in files
        for found in re.findall(r"'\.\[([a-z,]+)\]", file.read_text())
        for extra in found.split(",")
    }
    assert named - set(setup["options.extras_require"]) == set()


def links(page: Path) -> list[Path]:
    """The files of the repository that a page links to, in the order of the page."""
    found = re.findall(r"\]\(((?!\w+:)[^)#\s]+)[^)]*\)", page.read_text())
    return [(page.parent / name).resolve() for name in found]


def test_the_index_links_every_page_and_the_readme_links_the_index():
    index = DOCS / "index.md"
    assert set(DOCS.rglob("*.md")) - {index} - set(links(index)) == set()
    assert index in links(DOCS.parent / "README.md")


def test_the_index_has_one_line_on_each_page():
    lines = re.findall(r"^(?:\d+\.|-) \[.*$", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert len(lines) >= len([*DOCS.rglob("*.md")]) - 1
    assert [line for line in lines if not re.fullmatch(r"(?:\d+\.|-) \[[^]]+\]\([^)]+\): .+\.", line)] == []


@pytest.mark.parametrize("page", [page for page in TEXTS if page.suffix == ".md"], ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_file(page):
    assert [str(file) for file in links(page) if not file.exists()] == []


def anchors(page: Path) -> set[str]:
    """What a link may name of a page: its headings in small letters, without marks, and numbered where they repeat."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.append(re.sub(r"[^\w -]", "", shown).replace(" ", "-"))
    numbered = [f"{name}-{found[:at].count(name)}" for at, name in enumerate(found) if name in found[:at]]
    return {*found, *numbered}


@pytest.mark.parametrize("page", [page for page in TEXTS if page.suffix == ".md"], ids=lambda page: page.name)
def test_every_link_to_a_heading_leads_to_one(page):
    named = re.findall(r"\]\(((?!\w+:)[^)#\s]*)#([^)\s]+)\)", page.read_text())
    places = [((page.parent / file).resolve() if file else page, anchor) for file, anchor in named]
    assert [anchor for file, anchor in places if file.suffix == ".md" and anchor not in anchors(file)] == []


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_python_file_that_a_page_names_is_there(page):
    named = re.findall(r"[\w.-]+/(?:[\w.-]+/)*[\w.-]+\.py\b", page.read_text())
    assert [name for name in named if not any((top / name).exists() for top in TOPS)] == []


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_no_page_names_a_python_file_of_ours_that_is_nowhere(page):
    here = {file.name for top in ("slurmsched", "tests", "examples") for file in (ROOT / top).rglob("*.py")}
    named = re.findall(r"(?<![\w/.*-])[a-z]\w*\.py\b", page.read_text())
    assert set(named) - here - {"pyslurm.py", "vNNNN_name.py", "mylas.py", "test_mylas.py"} == set()


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_module_that_a_page_names_is_there(page):
    text = re.sub(r"instead of `[^`]+`", "", page.read_text())  # a changelog names what is gone
    named = re.findall(r"(?<![\w/.-])(?:slurmsched|tests)(?:\.\w+)+", text)
    assert [name for name in named if name.split(".")[1] not in SUFFIXES and not is_module(name)] == []


def is_module(name: str) -> bool:
    """Whether a dotted name is a module, a package, or a name in the text of one."""
    path, last = ROOT.joinpath(*name.split(".")), name.rpartition(".")[2]
    holders = (path.parent.with_suffix(".py"), path.parent / "__init__.py")
    return (
        path.is_dir()
        or path.with_suffix(".py").exists()
        or any(re.search(rf"\b{last}\b", file.read_text()) for file in holders if file.exists())
    )


def test_a_module_that_is_gone_is_noticed():
    assert not is_module("slurmsched.policies.hooks")
    assert is_module("slurmsched.policies.contract")
    assert is_module("slurmsched.policies.contract.ordering")


def table(heading: str) -> list[list[str]]:
    """The rows of the table below a heading of the design page, as cells, with the head and without the rule."""
    part = (DOCS / "design.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return [row for row in rows if not set(row[0]) <= {"-"}]


def names(cell: str) -> list[str]:
    """What a cell has in backquotes."""
    return re.findall(r"`([^`]+)`", cell)


def test_the_table_of_subjects_names_files_and_folders_that_are_there():
    head, *rows = table("Six subjects")
    assert tuple(head[1:]) == SUBJECTS
    named = [
        ROOT / folder / name for row in rows for folder in names(row[0]) for cell in row[1:] for name in names(cell)
    ]
    assert len(named) > 80
    assert [str(path) for path in named if not path.exists()] == []


def test_the_table_of_subjects_has_each_package_and_all_that_is_called_after_a_subject():
    _, *rows = table("Six subjects")
    listed = {
        ROOT / folder / name for row in rows for folder in names(row[0]) for cell in row[1:] for name in names(cell)
    }
    stems = {"ordering", "deadlines", "sharing", "profiling", "profiles", "promises", "predictions", "explain"}
    called = {path for path in (ROOT / "slurmsched").rglob("*") if path.stem in stems and path.suffix in ("", ".py")}
    assert {path for path in called if not listed & {path, *path.parents}} == set()
    packages = {file.parent for file in (ROOT / "slurmsched").glob("*/__init__.py")}
    assert packages <= {ROOT / folder for row in rows for folder in names(row[0])}


def test_the_table_of_folders_names_every_package_folder():
    _, *rows = table("All folders")
    folders = {file.parent for file in (ROOT / "slurmsched").rglob("__init__.py")} - {ROOT / "slurmsched"}
    assert {ROOT / name for row in rows for name in names(row[0])} == folders


@pytest.mark.parametrize("page", [page for page in DOCS.rglob("*.md") if page.stem not in ("commands", "settings")])
def test_a_page_opens_with_what_its_reader_can_do_after_it(page):
    first = page.read_text().split("\n\n")[1]
    assert first.startswith("After this page you ")

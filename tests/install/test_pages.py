"""What plays the command blocks of pages stops at what is wrong with them, and says where."""

from __future__ import annotations

import pytest
from fresh_host import ROOT
from newcomer import COURSE
from pages import Broken, Command, Reader, Shell, commands

PAGE = """# A page

## First

<!-- newcomer: as root -->

    there=$PWD    # kept
    cat >file <<END
    one
    END
    printf '%s ' a \\
        b

Text.

<!-- newcomer: not run: needs a GPU -->

    nvidia-smi

## Second

<!-- newcomer: as root -->

    true
    test "$there" = "$PWD" && cat file
    ls no-such-file
    echo never
"""


@pytest.fixture
def page(tmp_path):
    """Writes a page, and gives its commands."""

    def written(text: str, heading: str | None = None) -> list[Command]:
        (tmp_path / "page.md").write_text(text)
        return commands(tmp_path, "page.md", heading)

    return written


@pytest.fixture
def reader(tmp_path):
    """Plays commands in the directory of the page."""
    playing = Reader(lambda who: Shell(cwd=tmp_path), show=lambda line: None)
    yield playing
    playing.leave_page()


def test_commands_have_their_lines_and_a_command_of_several_lines_is_one(page):
    found = [(each.line, each.text.splitlines()[0], each.reason) for each in page(PAGE)]
    assert found[:4] == [
        (7, "there=$PWD    # kept", ""),
        (8, "cat >file <<END", ""),
        (11, "printf '%s ' a \\", ""),
        (18, "nvidia-smi", "needs a GPU"),
    ]
    assert [each.section for each in page(PAGE, "Second")] == ["Second"] * 4


def test_the_first_command_that_fails_ends_it_with_page_line_and_command(page, reader):
    with pytest.raises(Broken, match=r"page\.md:26: root ran this, and it ended with 2:\nls no-such-file\n") as broken:
        reader.play(page(PAGE))
    assert "never" not in str(broken.value)
    assert (reader.run, reader.skipped) == (5, 1)


def test_a_shell_keeps_directory_and_variables_and_gives_what_was_printed(page, reader):
    assert reader.play(page(PAGE)[:6]).split() == ["a", "b", "one"]


def test_a_command_that_ends_the_shell_or_is_no_shell_has_failed(page, reader):
    for text in ("exit 3", "if true; then", "wait $!; false"):
        reader.leave_page()
        with pytest.raises(Broken, match=r"page\.md:3"):
            reader.play(page(f"<!-- newcomer: as root -->\n\n    {text}\n"))


def test_a_block_without_a_mark_is_refused(page):
    with pytest.raises(Broken, match=r"page\.md:3: no mark above this block"):
        page("A page\n\n    true\n")


def test_a_heading_that_is_gone_is_refused(page):
    with pytest.raises(Broken, match="no commands below 'Third'"):
        page(PAGE, "Third")


@pytest.mark.parametrize("name", ["README.md", "docs/install.md", "docs/users.md", "contrib/slurm.conf.d/00-readme.md"])
def test_the_course_has_every_block_of_its_pages(name):
    played = {heading for page, heading in COURSE if page == name}
    assert played in ({None}, {each.section for each in commands(ROOT, name)})

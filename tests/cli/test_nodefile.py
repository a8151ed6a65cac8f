"""The nodes of a job that names a file of them: the command reads it, as sbatch does, since the daemon cannot."""

from __future__ import annotations

import shlex

import click
import pytest

from slurmsched.cli.jobs.arguments import options_of
from slurmsched.cluster.text.sbatch import read_options


def test_the_nodes_of_a_file_are_those_that_the_job_names(tmp_path):
    file = tmp_path / "nodes"
    file.write_text("n1\n# not these\n\nn[3-4]  # but these\n")
    options = read_options(options_of(f"-G 4 --nodefile={shlex.quote(str(file))}", None))
    assert options == {"gpus": "4", "nodelist": "n1,n[3-4]"}


@pytest.mark.parametrize("text", [None, "", "# none\n"])
def test_a_file_that_is_missing_or_names_no_node_is_refused(tmp_path, text):
    file = tmp_path / "nodes"
    if text is not None:
        file.write_text(text)
    with pytest.raises(click.ClickException, match="Invalid --nodefile node file"):
        options_of(f"-F {shlex.quote(str(file))}", None)

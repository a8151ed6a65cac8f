from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmsched.cluster.text.hostlist import MOST, expand, fold

NAMES = st.from_regex(r"[a-z]{1,4}(-?[0-9]{1,4}){0,2}[a-z]?", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("n[1-4,07],gpu-01", ("n1", "n2", "n3", "n4", "n07", "gpu-01")),
        ("n[07-10]", ("n07", "n08", "n09", "n10")),
        ("n[7-010]", ("n7", "n8", "n9", "n10")),
        ("n[99-101]", ("n99", "n100", "n101")),
        ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
        ("n[1-2]-ib", ("n1-ib", "n2-ib")),
        ("", ()),
        ("(null)", ()),
        ("None assigned", ()),
    ],
)
def test_a_host_list_is_written_out_in_order(text: str, names: tuple[str, ...]):
    assert expand(text) == names


@given(st.lists(NAMES, max_size=30))
def test_folded_names_come_back_in_order(names: list[str]):
    assert expand(fold(names)) == tuple(names)


@given(st.integers(0, 2000), st.integers(1, 40), st.integers(1, 5))
def test_a_run_of_numbers_folds_into_one_range(low: int, length: int, width: int):
    names = [f"n{number:0{width}}" for number in range(low, low + length)]
    folded = fold(names)
    assert expand(folded) == tuple(names)
    assert len(folded) < 20


@pytest.mark.parametrize("text", ["n[1-3", "n1-3]", "n[3-1]", "n[,1]", "n[]", "a,,b", "a,", ",a", "a b", "n[x]"])
def test_what_is_no_host_list_is_refused(text: str):
    with pytest.raises(ValueError, match="accepted are"):
        expand(text)


@pytest.mark.parametrize("text", ["n[1-65537]", "n[0-999999999999999999]", "n[1-300]x[1-300]", "n[1-40000],m[1-40000]"])
def test_more_names_than_a_cluster_has_are_refused(text: str):
    with pytest.raises(ValueError, match=str(MOST)):
        expand(text)


@pytest.mark.parametrize("name", ["", "a b", "a,b", "n[1]", "n\n1"])
def test_what_is_no_node_name_is_not_folded(name: str):
    with pytest.raises(ValueError, match="no node name"):
        fold(["n1", name])


@given(st.text(alphabet="n1-[],0 9", max_size=20))
def test_any_text_expands_or_is_refused(text: str):
    with suppress(ValueError):
        assert len(expand(text)) <= MOST


@pytest.mark.parametrize("text", ["n[1-4,07],gpu-01", "r[1-2]n[01-03]", "n[098-102]", "n[0001-0003,5,6]", "a,b[1-2],c"])
def test_scontrol_agrees(text: str, tmp_path: Path):
    if not shutil.which("scontrol"):
        pytest.skip("Slurm is not installed: no scontrol to compare with")
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=none\nSlurmctldHost=localhost\n")
    environment = {**os.environ, "SLURM_CONF": str(conf)}

    def says(what: str, of: str) -> list[str]:
        argv = ["scontrol", "show", what, of]
        return subprocess.run(argv, capture_output=True, text=True, timeout=300, env=environment).stdout.split()

    assert list(expand(text)) == says("hostnames", text)
    assert [fold(expand(text))] == says("hostlist", ",".join(expand(text)))

"""Clusters that fill with fractions of GPUs: files of nodes and pods, arrivals, placements, and the figures."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from json_forms import answer_of

from examples import examples
from slurmsched.cli import main
from slurmsched.cluster.columns import Labels
from slurmsched.errors import ConfigError
from slurmsched.policies.selection.fragmentation import GPU, fragment
from slurmsched.research.fractions import scores
from slurmsched.research.fractions.fill import PLACEMENTS, fill
from slurmsched.research.fractions.pods import GpuNodes, Pods, read_nodes, read_pods
from slurmsched.research.fractions.requests import arrivals_of, requests_of, typical_of
from slurmsched.simulator.traces import TraceError

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,96000,786432,8,nan\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "p,6000,12288,1,460,\nq,12000,16384,2,1000,P100|T4\nr,4000,1024,0,0,P100\n"
)


def nodes_of(*rows):
    """Nodes of (CPUs, GPUs, model), with memory enough."""
    cpus, gpus, model = zip(*rows, strict=True)
    return GpuNodes(np.array(cpus), np.full(len(rows), 10**9), np.array(gpus), Labels.of(model))


def pods_of(*rows):
    """Pods of (CPUs, GPUs, share, models)."""
    cpus, gpus, share, models = zip(*rows, strict=True)
    return Pods(np.array(cpus), np.ones(len(rows), np.int64), np.array(gpus), np.array(share), Labels.of(models))


POD = st.one_of(
    st.tuples(st.integers(0, 9), st.just(1), st.sampled_from([100, 300, 500, 700]), st.sampled_from(["", "a", "a|b"])),
    st.tuples(st.integers(0, 9), st.integers(1, 3), st.just(GPU), st.sampled_from(["", "b"])),
    st.tuples(st.integers(0, 9), st.just(0), st.just(0), st.just("")),
)
WORLDS = st.tuples(
    st.lists(st.tuples(st.integers(5, 40), st.integers(1, 4), st.sampled_from("ab")), min_size=1, max_size=5),
    st.lists(POD, min_size=1, max_size=12).filter(lambda pods: any(pod[1] for pod in pods)),
)


def test_nodes_and_pods_are_read_plain_or_packed(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.gz").write_bytes(gzip.compress(PODS.encode()))
    nodes, pods = read_nodes(tmp_path / "nodes.csv"), read_pods(tmp_path / "pods.gz")
    assert nodes.capacity == 10 * GPU
    assert list(nodes.model) == ["P100", ""]
    assert pods.demand.tolist() == [460, 2000, 0]
    assert list(pods.models) == ["", "P100|T4", ""], "a pod without GPUs runs beside any"
    requests, row = requests_of(pods, nodes)
    assert requests.allowed[row].tolist() == [[True, True], [True, False], [True, True]]


def test_pods_that_name_no_models_accept_any(tmp_path):
    path = tmp_path / "pods.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,2000\n")
    assert list(read_pods(path).models) == [""]
    assert read_pods(path).share.tolist() == [GPU], "more than one GPU is one"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("1,460", "1,0", ":2, column gpu_milli: a pod with GPUs needs gpu_milli from 1 on"),
        ("2,1000", "2,500", ":3, column gpu_milli: a pod with GPUs needs .* and 1000 with more than one GPU"),
        ("6000", "many", ":2, column cpu_milli: 'many' is no count"),
        ("num_gpu", "gpus", ":1: there is no column num_gpu: the header has name, cpu_milli"),
        ("6000,12288,1,460,\n", "6000,12288,1,460\n", ":2: the record has 5 fields: accepted are 6"),
        ("p,6000,12288,1,460,\nq,12000,16384,2,1000,P100|T4\n", "", "none asks for GPUs"),
    ],
)
def test_what_is_wrong_with_pods_is_said_with_line_and_column(tmp_path, before, after, said):
    path = tmp_path / "pods.csv"
    assert before in PODS
    path.write_text(PODS.replace(before, after, 1))
    with pytest.raises(TraceError, match=said):
        read_pods(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NODES.replace(",8,", ",800,"), ":3, column gpu: accepted are up to 64 GPUs"),
        (NODES.replace(",8,", ",0,").replace(",2,", ",0,"), "none has GPUs"),
        ("", ":1: there is no column cpu_milli"),
    ],
)
def test_what_is_wrong_with_nodes_is_said_too(tmp_path, text, said):
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=said):
        read_nodes(path)
    with pytest.raises(TraceError, match="No such file"):
        read_nodes(tmp_path / "none.csv")


@given(st.lists(POD, min_size=1, max_size=30).filter(lambda pods: any(pod[1] for pod in pods)), st.integers(1, 60))
def test_each_pod_comes_once_and_then_any_until_the_load_has_arrived(rows, gpus):
    pods, capacity = pods_of(*rows), gpus * GPU
    arriving = arrivals_of(pods, capacity, 1.3, np.random.default_rng(0))
    most, largest = 1.3 * capacity, int(pods.demand.max())
    arrived = int(pods.demand[arriving].sum())
    assert most - largest < arrived <= most
    first = np.sort(arriving[: len(pods)])
    if pods.demand.sum() > most:
        assert len(arriving) < len(pods)
        assert len(set(arriving.tolist())) == len(arriving)
    else:
        assert first.tolist() == list(range(len(pods)))


def test_a_load_that_is_none_and_an_unknown_placement_are_refused():
    nodes, pods = nodes_of((8, 1, "a")), pods_of((1, 1, GPU, ""))
    with pytest.raises(ConfigError, match="an arrived load of 0: accepted are numbers above 0"):
        fill(nodes, pods, "fgd", ratio=0)
    with pytest.raises(ConfigError, match="placement 'best': accepted are random, dot-product"):
        fill(nodes, pods, "best")


@examples(60)
@given(world=WORLDS, placement=st.sampled_from(sorted(PLACEMENTS)), seed=st.integers(0, 9))
def test_no_node_gives_more_than_it_has_and_a_pod_is_dropped_only_where_none_has_room(world, placement, seed):
    nodes, pods = nodes_of(*world[0]), pods_of(*world[1])
    filling = fill(nodes, pods, placement, seed=seed, ratio=2.0)
    rows = arrivals_of(pods, nodes.capacity, 2.0, np.random.default_rng(seed))
    cpus, whole = nodes.cpu_milli.copy(), nodes.gpus * GPU
    for at, (row, node) in enumerate(zip(rows.tolist(), filling.course.node.tolist(), strict=True)):
        names = {name for name in pods.models[row].split("|") if name}
        if node >= 0:
            cpus[node] -= pods.cpu_milli[row]
            whole[node] -= pods.demand[row]
            assert not names or nodes.model[node] in names
            assert cpus[node] >= 0
            assert whole[node] >= 0
        elif pods.gpus[row] == 0:
            assert (cpus < pods.cpu_milli[row]).all()
        assert filling.course.allocated[at] == nodes.capacity - whole.sum()
    assert filling.arrived.tolist() == np.cumsum(pods.demand[rows]).tolist()
    free_at_the_end = nodes.capacity - filling.course.allocated[-1] if len(rows) else nodes.capacity
    assert not len(rows) or -1e-6 <= filling.course.fragments[-1] <= free_at_the_end + 1e-6


@examples(40)
@given(world=WORLDS, placement=st.sampled_from(sorted(set(PLACEMENTS) - {"random"})), seed=st.integers(0, 9))
def test_scores_that_are_kept_choose_what_scores_made_anew_do(world, placement, seed):
    nodes, pods = nodes_of(*world[0]), pods_of(*world[1])
    filling = fill(nodes, pods, placement, seed=seed, ratio=2.0)
    rows = arrivals_of(pods, nodes.capacity, 2.0, np.random.default_rng(seed))
    order = np.random.default_rng((seed, 0)).permutation(len(nodes))
    requests, request = requests_of(pods, nodes)
    typical = typical_of(pods, nodes)
    state = idle(nodes)
    for at, row in enumerate(request[rows].tolist()):
        rated = [
            (node, *scores.rate(PLACEMENTS[placement], state, requests, typical, row, node))
            for node in order.tolist()
            if scores.has_room(state, requests, row, node)
        ]
        node, _, gpu = max(rated, key=lambda one: one[1], default=(-1, 0.0, -1))
        assert filling.course.node[at] == node
        if node >= 0:
            place(state, requests, row, node, gpu)
        lost = sum(
            fragment(typical, state.free[one], int(state.gpus[one]), int(state.cpus[one]), int(state.model[one]))
            for one in range(len(nodes))
        )
        assert filling.course.fragments[at] == pytest.approx(lost)


def idle(nodes):
    """The state of nodes on which nothing runs."""
    most = int(nodes.gpus.max())
    free = np.where(np.arange(most) < nodes.gpus[:, None], GPU, 0)
    return scores.FractionalNodes(
        nodes.cpu_milli.copy(),
        nodes.memory_mib.copy(),
        nodes.gpus,
        free,
        nodes.model.codes,
        np.zeros((len(nodes), most + 1), dtype=np.int64),
        np.zeros(most, dtype=np.int64),
    )


def place(state, requests, row, node, gpu):
    """Place a request on a node, on one GPU for a fraction."""
    gpus, share = int(requests.gpus[row]), int(requests.share[row])
    state.cpus[node] -= requests.cpus[row]
    on = [gpu] if gpu >= 0 else np.flatnonzero(state.free[node] == GPU)[:gpus].tolist()
    state.free[node, on] -= share
    if gpus:
        state.sizes[node, gpus if share == GPU else 0] += 1


def chosen(placement, used, pod, nodes=((32, 2, "a"), (32, 2, "a"))):
    """The node that *placement* chooses for *pod* after pods *used* of (node, pod) run there."""
    state_nodes, every = nodes_of(*nodes), pods_of(*(one for _, one in used), pod)
    requests, row = requests_of(every, state_nodes)
    typical, state = typical_of(every, state_nodes), idle(state_nodes)
    for at, (node, (_, gpus, share, _)) in enumerate(used):
        place(state, requests, row[at], node, 0 if gpus and share < GPU else -1)
    able = [node for node in range(len(nodes)) if scores.has_room(state, requests, row[-1], node)]
    return max(able, key=lambda node: scores.rate(PLACEMENTS[placement], state, requests, typical, row[-1], node)[0])


ONE, HALF, NONE = (1, 1, GPU, ""), (1, 1, 500, ""), (8, 0, 0, "")


def test_packing_prefers_a_gpu_in_use_and_then_a_node_in_use():
    assert chosen("packing", [(1, HALF)], HALF) == 1
    assert chosen("packing", [(1, ONE)], ONE) == 1


def test_clustering_prefers_nodes_with_pods_of_the_same_size_alone():
    assert chosen("clustering", [(0, ONE), (1, HALF)], HALF) == 1
    assert chosen("clustering", [(0, ONE), (1, HALF)], ONE) == 0


def test_best_fit_prefers_the_node_with_least_left_and_dot_product_where_least_of_what_is_asked_for_is_free():
    assert chosen("best-fit", [(1, (20, 1, GPU, ""))], ONE, ((90000, 2, "a"), (90000, 2, "a"))) == 1
    assert chosen("dot-product", [], (90000, 1, GPU, ""), ((128000, 8, "a"), (128000, 2, "a"))) == 1


def test_fgd_leaves_whole_gpus_to_those_who_need_them():
    assert chosen("fgd", [(1, HALF), (0, ONE)], HALF) == 1


def test_allocation_at_a_load_is_the_mean_over_the_arrivals_around_it():
    nodes, pods = nodes_of((8, 2, "a")), pods_of((1, 1, GPU, ""))
    filling = fill(nodes, pods, "fgd", ratio=2.0)
    assert filling.course.node.tolist() == [0, 0, -1, -1]
    assert filling.at(50) == (50.0, 0.0)
    assert filling.at(200) == (100.0, 0.0)
    assert filling.at(75) == (50.0, 0.0)
    assert filling.at(10) == (0.0, 0.0)


def test_the_command_compares_placements_on_files(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES.replace("nan", "T4"))
    (tmp_path / "pods.csv").write_text(PODS)
    files = [str(tmp_path / name) for name in ("nodes.csv", "pods.csv")]
    said = CliRunner().invoke(main, ["fill", *files, "--seeds", "3"])
    assert said.exit_code == 0, said.output
    assert "2 nodes with 10 GPUs; 3 pods of pods.csv until they ask for 130 %" in said.output
    assert [name for name in PLACEMENTS if f"\n{name} " in said.output] == list(PLACEMENTS)
    words = ["fill", *files, "--placement", "fgd", "--arrived", "50", "--json"]
    one = answer_of(words, CliRunner().invoke(main, words).output)
    assert [row["placement"] for row in one["placements"]] == ["fgd"]
    assert 25 < one["placements"][0]["allocated"] <= 50
    wrong = CliRunner().invoke(main, ["fill", *files, "--placement", "best"])
    assert wrong.exit_code != 0
    assert "placement 'best': accepted are random" in wrong.output

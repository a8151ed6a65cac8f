"""``slurmsched simulate``."""

from __future__ import annotations

import csv
import io
import os
import pty
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cli.fake_site import NOW_S, FakeSite
from click.testing import CliRunner
from json_forms import answer_of

from slurmsched.cli import main
from slurmsched.cli.app import App
from slurmsched.clock import ManualClock
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.jobs import JobState
from slurmsched.cluster.records.outcomes import OutcomeTable

TRACE = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
1,4,0,10,resnet50,100,0
2,4,10,10,resnet50,50,10
3,4,20,10,resnet50,10,10
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "three.csv"
    path.write_text(TRACE)
    return str(path)


ONE_NODE = ("--nodes", "1x4", "--no-baseline")


def simulate(*words: str, status: int = 0, app: App | None = None) -> str:
    done = CliRunner().invoke(main, ["simulate", *words], obj=app)
    assert done.exit_code == status, done.output
    return done.output


def told(*words: str, app: App | None = None) -> dict:
    return answer_of(["simulate"], simulate(*words, "--json", app=app))


def test_policies_are_compared_row_by_row(trace):
    text = simulate(trace, *ONE_NODE, "--policy", "fifo", "--policy", "sjf", "--check")
    rows = [line.split()[:2] for line in text.splitlines() if line.startswith(("fifo", "sjf"))]
    assert rows == [["fifo", "strict"], ["sjf", "backfill"]]


def test_a_preset_is_a_composition_under_its_name_and_options_override_it(trace):
    text = simulate(trace, *ONE_NODE, "--preset", "pcs", "--preset", "fifo")
    assert [line.split()[:2] for line in text.splitlines()][-2:] == [["pcs", "backfill"], ["fifo", "strict"]]
    assert (
        told(trace, *ONE_NODE, "--preset", "fifo", "--set", "selection=backfill")["policies"][0]["selection"]
        == "backfill"
    )
    assert "preset 'mine' is not known; there are: 3sigma, afs-l" in simulate(
        trace, *ONE_NODE, "--preset", "mine", status=2
    )


def test_a_site_replays_a_trace_under_its_whole_policy(tmp_path):
    # Their partitions bind nobody: the nodes of --nodes have none.
    jobs = ["submit_s,runtime_s,gpus,time_limit_s,deadline_s,ckpt,partition"]
    jobs += ["0,3000,4,3600,,1,a", "5,600,4,900,1500,0,b", "6,600,4,900,700,0,b", "7,60,4,90,,0,a"]
    (tmp_path / "jobs.csv").write_text("\n".join(jobs) + "\n")
    site = tmp_path / "site.toml"
    site.write_text(
        '[daemon]\nevery_s = 30\n[policy]\nordering = "sjf"\n[power]\norder = true\nrequeue = true\n'
        "[deadline]\nenabled = true\nyields = true\nreserve = 0.0\nlead_s = 30\nlease_s = 60\nstop_s = 30\n"
    )
    (row,) = told(str(tmp_path / "jobs.csv"), *ONE_NODE, "--config", str(site))["policies"]
    assert (row["policy"], row["decided_by"]) == ("site", "decide")
    assert row["cycles"] > 0
    assert row["decide_ms"]["p50"] > 0
    assert row["yields"] >= 1, "the first job saves its work and makes room"
    kept = {name: row["deadlines"][name] for name in ("promised", "refused", "broken")}
    assert kept == {"promised": 1, "refused": 1, "broken": 0}
    (alone,) = told(str(tmp_path / "jobs.csv"), *ONE_NODE, "--config", str(site), "--ckpt", "none")["policies"]
    assert (alone["yields"], alone["deadlines"]["promised"]) == (0, 0)
    words = (str(tmp_path / "jobs.csv"), *ONE_NODE, "--config", str(site), "--set", "selection=strict")
    assert "selection does not go with --config" in simulate(*words, status=2)


def test_a_share_of_the_jobs_saves_its_work():
    assert "accepted are all, none, and a number from 0 to 1" in simulate("x", *ONE_NODE, "--ckpt", "some", status=2)


def test_json_has_every_figure(trace):
    answer = told(trace, *ONE_NODE, "--policy", "sjf")
    assert answer["schema"] == "slurmsched/1"
    assert answer["traces"] == [
        {"file": trace, "format": "tiresias", "jobs": 3, "load": 1.0, "seed": None, "notes": [], "left_out": []}
    ]
    assert (answer["nodes"], answer["gpus"], answer["gpus_per_node"]) == (1, 4, 4)
    (row,) = answer["policies"]
    assert (row["policy"], row["trace"], row["load"], row["seed"]) == ("sjf", trace, 1.0, None)
    assert row["jct_s"]["mean"] == pytest.approx((100 + 150 + 90) / 3)
    assert row["queue_s"]["mean"] == pytest.approx((0 + 100 + 80) / 3)
    assert row["makespan_s"] == 160


def test_csv_is_one_line_per_run(trace):
    text = simulate(trace, *ONE_NODE, "--csv", "--load", "1", "--load", "2")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["policy"], row["load"]) for row in rows] == [
        (policy, load) for load in ("1.0", "2.0") for policy in ("fifo", "sjf", "qssf", "srtf")
    ]
    assert float(rows[3]["jct_s.mean"]) == pytest.approx((160 + 60 + 10) / 3)


def test_jobs_can_be_chosen_and_the_load_scaled(trace):
    options = (*ONE_NODE, "--policy", "fifo")
    assert told(trace, "--jobs", "1:", *options)["traces"][0]["jobs"] == 2
    scaled = told(trace, "--load", "10", *options)
    assert scaled["policies"][0]["makespan_s"] == 160
    assert any("divided by 10" in note for note in scaled["traces"][0]["notes"])


def test_trace_load_and_seed_are_columns_where_there_are_several(trace):
    options = ("--nodes", "2x8", "--policy", "fifo", "--no-baseline")
    assert header(simulate(trace, *options))[:2] == ["POLICY", "SELECTION"]
    text = simulate(trace, "synthetic:20", "--seed", "1", "--seed", "2", "--load", "1", "--load", "2", *options)
    assert header(text)[:4] == ["TRACE", "LOAD", "SEED", "POLICY"]
    rows = [line.split()[:4] for line in text.splitlines() if " fifo " in line]
    made = [["synthetic:20", load, seed, "fifo"] for seed in "12" for load in "12"]
    assert rows == [[trace, "1", "-", "fifo"], [trace, "2", "-", "fifo"], *made]


def header(text: str) -> list[str]:
    return next(line for line in text.splitlines() if " SELECTION " in line).split()


def test_stock_slurm_is_the_first_row_unless_it_is_not_wanted(trace):
    options = (trace, "--nodes", "1x4", "--policy", "sjf")
    assert [row["policy"] for row in told(*options)["policies"]] == ["slurm", "sjf"]
    assert [row["policy"] for row in told(*options, "--policy", "slurm")["policies"]] == ["slurm", "sjf"]
    assert [row["policy"] for row in told(*options, "--no-baseline")["policies"]] == ["sjf"]


def test_users_who_are_worse_off_are_counted():
    options = ("synthetic:300:1.5", "--nodes", "2", "--no-baseline", "--policy", "sjf", "--policy", "fifo")
    assert header(simulate(*options))[-2:] == ["USERS", "WORSE"]
    first, second = told(*options)["policies"]
    assert first["harm"] is None
    assert second["harm"]["baseline"] == "sjf"
    users = second["harm"]["users"]
    assert 0 < users["worse"] <= users["count"]
    (_, line) = csv.DictReader(io.StringIO(simulate(*options, "--csv")))
    assert line["users_worse"] == str(users["worse"])


def test_a_trace_without_users_has_no_such_column(trace):
    assert "WORSE" not in header(simulate(trace, *ONE_NODE))


def test_policies_come_from_files_too(trace, tmp_path):
    file = tmp_path / "ours.toml"
    file.write_text("[policy]\nordering = 'fifo'\nselection = 'backfill'\nadmission = 'load:1.0'\n")
    options = (*ONE_NODE, "--policy", str(file))
    (row,) = told(trace, *options)["policies"]
    assert (row["policy"], row["selection"]) == ("ours", "backfill")
    assert [row["policy"] for row in told(trace, *options, "--policy", "sjf")["policies"]] == ["sjf", "ours"]


def test_a_cluster_file_stands_for_nodes(trace, tmp_path):
    file = tmp_path / "cluster.toml"
    file.write_text("[[nodes]]\ncount = 3\ngpus = 4\n")
    assert told(trace, "--cluster", str(file), "--no-baseline")["nodes"] == 3


def test_runs_in_several_processes_print_the_same(trace):
    options = (trace, *ONE_NODE, "--load", "1", "--load", "3", "--json")
    assert simulate(*options, "--workers", "2") == simulate(*options)


def test_forecasts_are_learnt_from_what_came_before(trace):
    options = (*ONE_NODE, "--policy", "sjf", "--forecast", "history", "--jobs", "2:", "--load", "0.01")
    row = told(trace, *options)["policies"][0]
    assert row["forecast"] == "history"
    other = told(trace, *options, "--set", "train=1:2")["policies"][0]
    assert row["accuracy"] != other["accuracy"]


def test_habits_and_their_seed_make_users(trace):
    notes = told(trace, *ONE_NODE, "--set", "habits=true", "--seed", "3")["traces"][0]["notes"]
    assert notes == ["semi-synthetic: users, names and time limits of 3 jobs were made up from seed 3"]


def test_a_page_is_written(trace, tmp_path):
    page = tmp_path / "page.html"
    simulate(trace, *ONE_NODE, "--html", str(page))
    text = page.read_text()
    assert "<html" in text
    assert "<h1>Policies compared on three.csv</h1>" in text


def test_a_page_that_cannot_be_written_is_an_error(trace, tmp_path):
    assert "writing the page" in simulate(trace, *ONE_NODE, "--html", str(tmp_path / "no" / "page.html"), status=1)


@pytest.fixture
def site(tmp_path: Path) -> App:
    """A site whose database knows two runs of cluster c1, a day and ten days old."""
    app = FakeSite(tmp_path, "")
    app.make_tables()
    store = app.open_store()
    store.add_outcomes("c1", runs_ended(NOW_S - 86400, NOW_S - 10 * 86400))
    store.close()
    return app


def runs_ended(*ended_s: float) -> OutcomeTable:
    size, ends = len(ended_s), np.array(ended_s)
    times = {"first_submit_s": ends - 200, "eligible_s": ends - 200, "started_s": ends - 100, "ended_s": ends}
    said = {"job_id": np.arange(size), "gpus": [2] * size, "nodes": [1] * size, "user": Labels.of(["ann"] * size)}
    neutral = {"state": JobState.COMPLETED, "runtime_s": 100.0, "time_limit_s": 3600.0}
    return table_of(OutcomeTable, size, neutral, said | times)


def test_a_site_replays_its_own_history(site):
    answer = told("--from-db", "30d", *ONE_NODE, app=site)
    assert answer["traces"][0] | {"notes": []} == {
        "file": "history of c1", "format": "database", "jobs": 2, "load": 1.0, "seed": None, "notes": [],
        "left_out": [],
    }  # fmt: skip
    assert told("--from-db", "2d", *ONE_NODE, app=site)["traces"][0]["jobs"] == 1


def test_of_several_clusters_one_is_named(site):
    site.store().add_outcomes("c2", runs_ended(NOW_S - 50))
    assert "say --from-db SPAN@NAME with one of c1, c2" in " ".join(
        simulate("--from-db", "1w", *ONE_NODE, status=2, app=site).split()
    )
    options = (*ONE_NODE, "--from-db")
    assert told(*options, "1w@c2", app=site)["traces"][0]["file"] == "history of c2"
    assert "no runs of cluster c3; there are: c1, c2" in simulate(*options, "1w@c3", status=3, app=site)


def test_the_settings_of_a_site_are_replayed_with_the_scheduling_of_its_own_slurm(site):
    site.store().add_outcomes(site.cluster().facts().cluster, runs_ended(NOW_S - 50))
    words = (*ONE_NODE, "--no-baseline", "--config", str(site.file), "--from-db")
    (known,) = told(*words, f"1w@{site.cluster().facts().cluster}", app=site)["notes"]
    assert known == "slurmsched: SchedulerParameters and priorities are those of its slurmctld"
    (other,) = told(*words, "1w@c1", app=site)["notes"]
    assert other == "slurmsched: its slurmctld does not answer: SchedulerParameters and priorities are Slurm's defaults"


def test_a_database_without_runs_says_what_to_do(tmp_path):
    file = tmp_path / "slurmsched.toml"
    file.write_text(f"[daemon]\nstate_dir = '{tmp_path}'\n")
    app = App(str(file), clock=ManualClock(NOW_S), environ={})
    app.open_store().upgrade()
    assert "try: slurmsched history import" in simulate("--from-db", "1w", *ONE_NODE, status=3, app=app)


def test_a_bar_is_drawn_only_where_people_watch(trace):
    def drawn(reader: int, writer: int) -> bytes:
        """What a simulation writes to *writer*, read all the while: a terminal holds little that nobody reads."""
        words = [sys.executable, "-m", "slurmsched", "simulate", trace, *ONE_NODE]
        parts = []
        with subprocess.Popen(words, stderr=writer, stdout=subprocess.DEVNULL) as running:
            os.close(writer)
            with suppress(OSError):  # a terminal that nobody writes to any more
                while part := os.read(reader, 65536):
                    parts.append(part)
        os.close(reader)
        assert running.returncode == 0
        return b"".join(parts)

    assert b"runs" in drawn(*pty.openpty())
    assert CliRunner().invoke(main, ["simulate", trace, *ONE_NODE]).stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--forecast", "limit"), "no time limit to forecast by"),
        (("--jobs", "9:"), "the trace has no such jobs, only 0:3"),
        (
            ("--jobs", "1:", "--forecast", "history", "--set", "train=0:2"),
            "accepted are jobs before those replayed, 0:1",
        ),
        (("none.csv",), "reading the trace none.csv: No such file"),
    ],
)
def test_what_the_world_has_not_is_named_with_what_is_accepted(trace, words, said):
    assert said in simulate(trace, *ONE_NODE, *words, status=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "best"), "there are: afs-l, chronus, edf, fair, fifo, gandiva, gavel, genie"),
        (("--set", "selection=best"), "3sigma, backfill, conservative, easy, leases, preemptive, strict, yarn-cs"),
        (("--set", "placement=best"), "there are: consolidate, fgd, fgd-filled, first-free, links"),
        (("--jobs", "7"), "accepted are a:b"),
        (("--set", "train=7"), "accepted are a:b"),
        (("--set", "admission=few"), "accept-all, load"),
        (("--load", "0"), "0<x<inf"),
        (("synthetic:few",), "accepted are synthetic:JOBS"),
    ],
)
def test_words_that_mean_nothing_are_wrong_usage(trace, words, said):
    assert said in " ".join(simulate(trace, *ONE_NODE, *words, status=2).split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Say --nodes N or --cluster FILE"),
        (("--nodes", "1", "--from-db", "30d"), "Say TRACE or --from-db SPAN"),
        (("--nodes", "1", "--from-db", "month"), "accepted are 90m, 12h, 30d, 4w"),
        (("--nodes", "1", "--cluster-name", "c1"), "say --from-db 30d@NAME"),
        (
            (
                "--nodes",
                "1x0",
            ),
            "of 1 to 64 GPUs: 16, 16x4",
        ),
        (("--nodes", "1", "--workers", "many"), "accepted are a number, all, dask, dask:N and tcp://host:8786"),
        (("--nodes", "1", "--set", "selectoin=strict"), "accepted is KEY=VALUE with one of admission, applications"),
        (("--nodes", "1", "--set", "depth=0"), "0 is not in the range x>=1"),
        (("--nodes", "1", "--beat", "300"), "say --set beat_s=VALUE, or beat_s in the [policy] of a file"),
        (("--nodes", "1", "--strict"), "say --set strict=true, or strict in the [trace] of a file"),
        (("--nodes", "1", "--seed", "3"), "--seed changes nothing here"),
        (("--nodes", "1", "--set", "train=0:1"), "goes with --forecast history or model"),
        (("--nodes", "1", "--scheduler", "tcp://x:1"), "say --workers tcp://host:8786"),
        (("--nodes", "1", "--html", "x.html", "--load", "1", "--load", "2"), "one page of one trace"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(trace, words, said):
    assert said in " ".join(simulate(trace, *words, status=2).split())


def shared(tmp_path: Path, nodes: int) -> tuple[str, ...]:
    """Jobs of one user on nodes of one GPU, where two jobs called "a" keep all their speed beside each other."""
    trace, cluster = tmp_path / "jobs.csv", tmp_path / "cluster.toml"
    rows = [(1, 0, 1000, 1), (2, 10, 500, 1), (3, 20, 50, 1)]
    trace.write_text(
        "job_id,submit_s,runtime_s,gpus,user,name\n"
        + "".join(f"{job},{at},{runs},{gpus},u,a\n" for job, at, runs, gpus in rows)
    )
    (tmp_path / "pairs.csv").write_text("first,second,first_speed,second_speed\na,a,1,1\n")
    cluster.write_text(f"[[nodes]]\ncount = {nodes}\ngpus = 1\n[sharing]\npairs = 'pairs.csv'\n")
    return str(trace), "--cluster", str(cluster), "--no-baseline", "--check"


def test_new_jobs_are_measured_first_where_a_policy_sets_nodes_apart(tmp_path):
    words = (*shared(tmp_path, 2), "--ckpt", "all")
    policy = tmp_path / "profiler.toml"
    text = "[policy]\npreset = 'lucid'\nprofile_nodes = {}\nprofile_s = 100\nrestart_s = 60\n"
    policy.write_text(text.format(1))
    (row,) = told(*words, "--policy", str(policy))["policies"]
    assert (row["preemptions"], row["decided_by"]) == (1, "decide"), "the first makes room for the third"
    policy.write_text(text.format(0))
    assert told(*words, "--policy", str(policy))["policies"][0]["preemptions"] == 0
    policy.write_text(text.format(2))
    assert "leave 0 GPUs to the queue" in simulate(*words, "--policy", str(policy), status=1)
    policy.write_text(text.format(1) + "executor = 'slurm'\n")
    refused = simulate(*words, "--policy", str(policy), status=1)
    assert "[profile] of a site's settings" in " ".join(refused.split())


def test_jobs_share_by_the_rule_of_pairs_that_the_daemon_has(tmp_path):
    words = shared(tmp_path, 1)
    rows = [(1, 0, 50, 1), (2, 100, 1000, 1), (3, 120, 500, 1)]
    Path(words[0]).write_text(
        "job_id,submit_s,runtime_s,gpus,user,name,gpu_util,memory_util,gpu_memory_mib\n"
        + "".join(f"{job},{at},{runs},{gpus},u,a,0.1,0.05,3000\n" for job, at, runs, gpus in rows)
    )
    for asked, pairs in (
        (("--policy", "sjf", "--set", "sharing=indolent"), 1),
        (("--policy", "sjf", "--set", "sharing=none"), 0),
        (("--preset", "lucid"), 1),
        (("--preset", "sjf"), 0),
        (("--preset", "lucid", "--set", "sharing=none"), 0),
    ):
        answer = told(*words, *asked)
        assert answer["notes"] == []
        (row,) = answer["policies"]
        assert (row["pairs"], row["makespan_s"]) == (pairs, 1100 if pairs else 1600)
    refused = simulate(*words, "--policy", "sjf", "--set", "sharing=best", status=2)
    assert "policy.sharing = 'best' is not known; there are: indolent, none" in refused
    refused = simulate(*words, "--policy", "fifo", "--set", "sharing=indolent", "--executor", "slurm", status=2)
    assert "[share] of a site's settings says how (--config)" in refused


def test_people_are_told_where_lucid_shares_nothing(trace, tmp_path):
    assert "note: lucid: the order alone" in simulate(trace, *ONE_NODE, "--policy", "lucid")
    assert "the order alone" not in simulate(*shared(tmp_path, 2), "--policy", "lucid")


def test_a_job_that_is_too_large_is_named(trace):
    assert "three.csv, policy fifo: job 1 asks for 4 GPUs and the cluster has 2" in simulate(
        trace, "--nodes", "1x2", "--no-baseline", "--set", "strict=true", status=1
    )


def page_example(tmp_path: Path) -> str:
    """The cluster file that the page on the simulator shows, with the pairs that it names."""
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    block = page.partition("describes any other:\n\n")[2].partition("\nOn such a cluster jobs run only where")[0]
    assert "[[nodes]]" in block
    (tmp_path / "pairs.csv").write_text("first,second,first_speed,second_speed\na,a,1,1\n")
    (tmp_path / "cluster.toml").write_text(block)
    return str(tmp_path / "cluster.toml")


PHILLY = str(Path(__file__).parents[1] / "data" / "philly.csv")


@pytest.mark.parametrize("trace", [pytest.param(PHILLY, marks=pytest.mark.soak), "synthetic:100"])
def test_the_cluster_file_of_the_page_takes_any_trace_with_its_partitions_mapped(tmp_path, trace):
    words = (trace, "--cluster", page_example(tmp_path), "--policy", "sjf", "--no-baseline", "--jobs", "0:100")
    told_why = simulate(*words, status=1)
    assert "which the cluster does not have; there are: train, debug" in told_why
    assert "--set map_partitions=all" in told_why
    answer = told(*words, "--set", "map_partitions=all")
    assert answer["traces"][0]["jobs"] == 100
    assert any("may run in train,debug" in note for note in answer["traces"][0]["notes"])


def partitioned(tmp_path: Path, *asked: str) -> str:
    trace = tmp_path / "asked.csv"
    rows = [f"{number},{number},100,1,u,{name}\n" for number, name in enumerate(asked, start=1)]
    trace.write_text("".join(["job_id,submit_s,runtime_s,gpus,user,partition\n", *rows]))
    (tmp_path / "two.toml").write_text(
        "[[nodes]]\ngpus = 1\npartitions = ['a']\n[[nodes]]\ngpus = 1\npartitions = ['b']\n"
        "[[partitions]]\nname = 'a'\n[[partitions]]\nname = 'b'\n"
    )
    return str(trace)


def test_partitions_are_mapped_one_by_one(tmp_path):
    words = (partitioned(tmp_path, "x", "x", "y"), "--cluster", f"{tmp_path}/two.toml", "--policy", "fifo")
    words += ("--no-baseline",)
    (row,) = told(*words, "--set", "map_partitions=x=a", "--set", "map_partitions=y=b")["policies"]
    assert row["queue_s"]["mean"] == pytest.approx(99 / 3), "the two of x share the one GPU of a"
    (row,) = told(*words, "--set", "map_partitions=x=a,b", "--set", "map_partitions=all")["policies"]
    assert row["queue_s"]["mean"] == pytest.approx(98 / 3), "any of the three may run on either GPU"


@pytest.mark.parametrize(
    ("mapping", "status", "said"),
    [
        ("x", 2, "accepted are all and NAME=NAME"),
        ("zz=a", 1, "no job asks for partition zz"),
        ("x=zz", 1, "partition 'zz', which the cluster does not have"),
    ],
)
def test_a_mapping_that_means_nothing_is_named(tmp_path, mapping, status, said):
    words = (partitioned(tmp_path, "x", "y"), "--cluster", f"{tmp_path}/two.toml", "--set", f"map_partitions={mapping}")
    assert said in " ".join(simulate(*words, status=status).split())


def test_a_mapping_without_partitions_to_map_to_is_wrong_usage(trace):
    assert "goes with a --cluster FILE that has [[partitions]]" in " ".join(
        simulate(trace, *ONE_NODE, "--set", "map_partitions=all", status=2).split()
    )


def mixed(tmp_path: Path, *gpus: int) -> str:
    trace = tmp_path / "mixed.csv"
    rows = [f"{number},{number},100,{each},u\n" for number, each in enumerate(gpus, start=1)]
    trace.write_text("".join(["job_id,submit_s,runtime_s,gpus,user\n", *rows]))
    return str(trace)


@pytest.mark.parametrize("baseline", ["--baseline", "--no-baseline"])
def test_jobs_that_no_node_can_hold_are_listed_and_left_out(tmp_path, baseline):
    words = (mixed(tmp_path, 1, 9, 2, 64), "--nodes", "1x4", "--policy", "sjf", baseline)
    answer = told(*words)
    assert answer["traces"][0]["jobs"] == 2
    assert [one["job_id"] for one in answer["traces"][0]["left_out"]] == [2, 4]
    text = simulate(*words)
    assert "left out, too large even for an empty cluster: 2 jobs: 2 (asks for 9 GPUs" in text
    assert "2 (asks for 9 GPUs" in simulate(*words, "--workers", "2")
    assert "job 2 asks for 9 GPUs" in simulate(*words, "--set", "strict=true", status=1)


@pytest.mark.parametrize("executor", ["direct", "slurm"])
def test_on_a_cluster_of_no_types_jobs_run_anywhere_and_the_first_lines_say_so(tmp_path, executor):
    record = "{0}|ann|100|100|200|300|00:01:40|COMPLETED|10|1|1|gres/gpu{1}=1|{2}"
    header = "JobID|User|Submit|Eligible|Start|End|Elapsed|State|Timelimit|NNodes|NCPUS|AllocTRES|Constraints"
    wishes = [(":a100", ""), (":v100", ""), ("", "ib"), ("", "")]
    rows = [record.format(number, *wishes[number % 4]) for number in range(1, 9)]
    dump = tmp_path / "dump.txt"
    dump.write_text("\n".join([header, *rows]))
    lines = simulate(str(dump), "--nodes", "2x4", "--policy", "fifo", "--executor", executor).splitlines()
    assert lines[:3] == [
        f"{dump}: jobs that ask for a type of GPUs (a100, v100) run on any node: the cluster names no types"
        " (--gpus TYPE=NODESxGPUS,...)",
        f"{dump}: jobs that ask for a feature (ib) run on any node: the cluster names no features (--cluster FILE)",
        f"{dump}: 8 jobs (sacct) on 2 nodes of 4 GPUs",
    ]


def test_where_many_jobs_are_left_out_the_first_line_says_so(tmp_path):
    lines = simulate(mixed(tmp_path, 1, 9, 2, 64), "--nodes", "1x4", "--policy", "sjf").splitlines()
    assert lines[0].endswith("mixed.csv: 2 of 4 jobs could never run there and are left out")


def test_a_long_list_of_jobs_left_out_is_cut(tmp_path):
    text = simulate(mixed(tmp_path, 1, *[9] * 20), "--nodes", "1x4", "--no-baseline")
    assert "left out, too large even for an empty cluster: 20 jobs: 2 (asks for 9 GPUs" in text
    assert "and 15 more" in text


def test_where_no_job_is_left_it_is_said(tmp_path):
    words = (mixed(tmp_path, 9, 9), "--nodes", "1x4")
    assert "no job of" in simulate(*words, status=1)


def test_on_nodes_of_several_kinds_too(tmp_path):
    trace = tmp_path / "kinds.csv"
    trace.write_text(
        "job_id,submit_s,runtime_s,gpus,user,account,gpu_type,time_limit_s\n"
        "1,0,10,1,u,small,a100,60\n2,1,10,1,u,small,h100,60\n3,2,10,3,u,small,a100,60\n4,3,10,1,u,small,a100,9999\n"
    )
    cluster = tmp_path / "c.toml"
    cluster.write_text(
        "[[nodes]]\ngpus = 4\ngpu_type = 'a100'\n[[partitions]]\nname = 'p'\nmax_time = '10'\n"
        "[[accounts]]\nname = 'small'\ngpus = 2\n"
    )
    answer = told(str(trace), "--cluster", str(cluster), "--set", "map_partitions=all", "--policy", "fifo")
    why = {one["job_id"]: one["why"] for one in answer["traces"][0]["left_out"]}
    assert set(why) == {2, 3, 4}
    assert "of type h100" in why[2]
    assert "its account may have 2" in why[3]
    assert "has a limit of 9999 s" in why[4]


def test_only_some_jobs_may_count_while_the_others_run_on(trace):
    options = (*ONE_NODE, "--policy", "fifo", "--policy", "sjf")
    answer = told(trace, *options, "--set", "measure=1:2")
    assert [(row["jobs"], row["jct_s"]["mean"], row["response_s"]["mean"]) for row in answer["policies"]] == [
        (1, 140.0, 90.0),
        (1, 150.0, 100.0),
    ]
    assert [row["makespan_s"] for row in answer["policies"]] == [160, 160]
    assert answer["traces"][0]["notes"] == ["figures about jobs are those of jobs 1:2; the others run beside them"]
    early = told(trace, *options, "--set", "measure=1:2", "--set", "until_measured=true")["policies"]
    assert [(row["jct_s"]["mean"], row["makespan_s"]) for row in early] == [(140.0, 150), (150.0, 160)]
    assert "RESPONSE" in header(simulate(trace, *options))
    assert "goes with measure=A:B" in simulate(trace, *options, "--set", "until_measured=true", status=2)
    words = (trace, *options, "--set", "measure=1:2", "--set", "until_measured=true", "--check")
    assert "goes without --check and --html" in simulate(*words, status=2)
    assert "no such jobs, only 0:3" in simulate(trace, *options, "--set", "measure=7:", status=1)


def test_jobs_stop_at_the_part_of_their_work_after_which_they_have_converged(trace, tmp_path):
    stops = tmp_path / "stops.csv"
    stops.write_text("job_id,converged_at\n1,0.4\n3,1\n9,0.5\n")
    options = (trace, *ONE_NODE, "--policy", "fifo", "--set", f"stops={stops}")
    answer = told(*options)
    assert answer["policies"][0]["jct_s"]["mean"] == pytest.approx((40 + 80 + 80) / 3)
    assert answer["traces"][0]["notes"] == [f"1 of 3 jobs stop where {stops} says that they have converged"]
    for line, problem in (("3,1.5", "2, column converged_at: 1.5 is no part of a job"), ("7,1", "none of these jobs")):
        wrong = tmp_path / f"{line}.csv"
        wrong.write_text(f"job_id,converged_at\n{line}\n")
        assert problem in simulate(trace, *ONE_NODE, "--set", f"stops={wrong}", status=1)


def test_a_synthesised_policy_says_what_it_decided(trace):
    options = (
        *ONE_NODE,
        "--policy",
        "auto orderings=fifo,srtf loads=all,1.5",
        "--policy",
        "fifo",
        "--set",
        "beat_s=10",
    )
    first, second = told(trace, *options)["policies"]
    assert first["policy"] == "auto orderings=fifo,srtf loads=all,1.5"
    assert set(first["auto"]) == {"decisions", "switches", "max_decision_s", "changes"}
    assert first["auto"]["switches"] == len(first["auto"]["changes"])
    assert first["auto"]["decisions"] >= 1
    assert second["auto"] is None
    assert "accepted are orderings=, loads=" in simulate(trace, *ONE_NODE, "--policy", "auto loud=yes", status=2)


def test_a_trace_file_says_how_its_jobs_are_read_and_set_says_what_it_leaves_open(trace, tmp_path):
    options = (*ONE_NODE, "--policy", "fifo")
    plain = told(trace, *options, "--set", "measure=1:2")["policies"][0]["jct_s"]
    file = tmp_path / "some.toml"
    file.write_text(f"[trace]\nfile = '{Path(trace).name}'\nmeasure = '1:2'\nstrict = true\n")
    answer = told(str(file), *options)
    assert answer["traces"][0]["file"] == trace
    assert answer["policies"][0]["jct_s"] == plain
    assert told(str(file), *options, "--set", "measure=0:1")["policies"][0]["jct_s"] == plain


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[trace]\nfile = 'x.csv'\nmeasured = '1:2'\n",
            "'measured' is no key; accepted are file, format, cpu_jobs",
        ),
        ("[trace]\nfile = 'x.csv'\nelastic = 2\n", "[trace]: elastic = 2: '2' is no share of the jobs"),
        ("[trace]\nmeasure = '1:2'\n", "[trace] stands alone, with the name of a file of jobs"),
        ("[trace]\nfile = 'x.csv'\n[workload]\njobs = 3\n", "[trace] stands alone"),
        ("[trac]\nfile = 'x.csv'\n", "'trac' is not known here; accepted are [trace], [workload]"),
    ],
)
def test_a_trace_file_that_makes_no_sense_is_refused(tmp_path, text, said):
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    assert said in " ".join(simulate(str(file), *ONE_NODE, status=2).split())


def test_trace_files_with_other_keys_are_replayed_one_by_one(trace, tmp_path):
    for name, rows in (("one", "1:2"), ("two", "0:2")):
        (tmp_path / f"{name}.toml").write_text(f"[trace]\nfile = '{Path(trace).name}'\nmeasure = '{rows}'\n")
    words = [str(tmp_path / f"{name}.toml") for name in ("one", "two")]
    assert "replay them one by one" in simulate(*words, *ONE_NODE, status=2)


@pytest.mark.parametrize("name", ["policy", "cluster", "trace", "workload"])
def test_an_example_can_be_replayed_at_once_and_overwrites_nothing(tmp_path, trace, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    if not (tmp_path / "jobs.csv").exists():
        shutil.copy(trace, tmp_path / "jobs.csv")
    assert f"wrote {name}.toml" in simulate("--example", name)
    command = (tmp_path / f"{name}.toml").read_text().splitlines()[0].removeprefix("# slurmsched simulate ")
    command = command.replace("synthetic:2000", "synthetic:30")
    assert told(*command.split(), "--no-baseline", *(() if name == "policy" else ("--policy", "fifo")))["policies"]
    assert "File exists" in simulate("--example", name, status=1)

"""When a job would start that nobody has submitted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import numpy as np
import pytest

from slurmsched.clock import SystemClock
from slurmsched.cluster.columns import Labels, table_of
from slurmsched.cluster.forecast import Forecast
from slurmsched.cluster.job_record import outcomes_of
from slurmsched.cluster.jobs import JobTable
from slurmsched.cluster.limits import (
    GROUP,
    JOB,
    LEAST,
    LICENCE,
    NODE,
    QOS,
    USER,
    LimitTable,
    limit_table,
    unread_limits,
)
from slurmsched.cluster.permissions import RELEASES, PartitionAccess, Permissions
from slurmsched.cluster.plan import Plan
from slurmsched.cluster.records.prediction_records import NO_RECORDS, PredictionRecords
from slurmsched.cluster.records.predictions import PredictionTable
from slurmsched.cluster.reservations import ReservationTable
from slurmsched.cluster.sbatch_probe import PROBE_ID, Site, probe
from slurmsched.cluster.state import View
from slurmsched.cluster.text.sbatch import read_options
from slurmsched.cluster.topology import Topology, Unit
from slurmsched.daemon.predictions.hypothetical_job import check_deadline, new_job, try_out
from slurmsched.daemon.predictions.play_forward import with_new_job
from slurmsched.daemon.predictions.prediction_service import PredictionService
from slurmsched.decide.policy import Policy
from slurmsched.decide.rules import DeadlineRules, Rules
from slurmsched.errors import CommentError, ConfigError
from slurmsched.explain.eta import Eta, doubts_by_job
from slurmsched.foresee.predict_completion import predict_completion
from slurmsched.models.runtime.baseline import RuntimeModel
from slurmsched.policies.contract import find_ordering
from slurmsched.powers import decide
from slurmsched.slurm.adapters.fake import FakeSlurm

NOW_S = 1_700_000_000.0
RULES = Rules(powers=frozenset({"order"}), scope="queue")
REFUSED = "(some releases of Slurm refuse it)"


class World:
    """A fake cluster of four nodes with four GPUs each, seen now."""

    def __init__(self):
        self.slurm = FakeSlurm(now_s=NOW_S)
        self.permissions = self.slurm.facts().permissions
        self.model = RuntimeModel.fit(outcomes_of(()))

    def seen(self) -> View:
        state = self.slurm.observe()
        now_s = self.slurm.now_s
        said = (self.model.forecast(jobs, now_s) for jobs in (state.pending, state.running))
        return View(now_s, state.pending, state.running, state.nodes, state.partitions, state.qos, *said)

    def told(self, options: str, view: View | None = None) -> Eta:
        seen = view or self.seen()
        played = lambda job, said: self.played(seen, job, said)  # noqa: E731
        return try_out(seen, self.permissions, self.model, played, options, "ann")

    def played(self, seen: View, job: JobTable, said: Forecast) -> Eta:
        made = PredictionService(self, NoLog(), SystemClock(), 60.0, (0.85, 0.95))
        return with_new_job(made, seen, job, said, Policy(find_ordering("sjf"), RULES))

    def predict(self, view: View, plan: Plan, mode: str) -> PredictionTable:
        return predict_completion(view, plan.jobs.rank, plan.jobs.standing, self.slurm.facts().config)

    def close(self) -> None:
        pass


class NoLog:
    """A log without earlier predictions, for a service that makes none."""

    def load(self, since_s: float) -> PredictionRecords:
        return NO_RECORDS

    def save(self, kept: PredictionRecords) -> None:
        pass


@pytest.fixture
def world():
    return World()


def full(world: World, limit_s: float = 3600.0) -> None:
    world.slurm.submit(limit_s, gpus=16, time_limit_s=limit_s)
    world.slurm.advance(1.0)


def partition(world: World) -> str:
    return world.seen().partitions.name[0]


def test_on_an_empty_cluster_it_starts_at_once_and_nothing_is_submitted(world):
    told = world.told(f"-p {partition(world)} -G 4 -t 60")
    assert told.start_s == pytest.approx(NOW_S, abs=120)
    assert told.finish_s == pytest.approx(told.start_s + 3600, abs=120)
    assert told.job_id == 0
    assert len(world.slurm.observe().pending) == 0


def test_it_waits_for_what_runs_and_for_those_before_it_in_the_order_that_serves(world):
    full(world)
    name = partition(world)
    alone = world.told(f"-p {name} -G 16 -t 60")
    assert alone.start_s == pytest.approx(NOW_S + 3600, abs=300)
    world.slurm.submit(1800.0, gpus=16, time_limit_s=1800.0)
    behind = world.told(f"-p {name} -G 16 -t 60")
    assert behind.start_s == pytest.approx(alone.start_s + 1800, abs=300)
    assert (behind.rank, behind.ahead) == (2, 1)
    before = world.told(f"-p {name} -G 16 -t 10")
    assert before.start_s == pytest.approx(alone.start_s, abs=300)
    assert (before.rank, before.ahead) == (1, 0)


def test_gpus_of_the_whole_job_come_from_as_many_nodes_as_have_some_unless_it_names_their_number(world):
    world.slurm.submit(3600.0, gpus=12, time_limit_s=3600.0)
    world.slurm.advance(1.0)
    seen = world.seen()
    everywhere = {"node_list": Labels.of([",".join(seen.nodes.name)]), "nodes": np.array([4])}
    nodes, running = seen.nodes.changed(gpus_used=np.full(4, 3)), seen.running.changed(**everywhere)
    busy, name = replace(seen, nodes=nodes, running=running), partition(world)
    for options, waits_s in (("-G 2", 0.0), ("-G 4 -n 4", 0.0), ("-G 2 -N 1", 3600.0), ("-G 5", 3600.0)):
        assert world.told(f"-p {name} {options} -t 60", busy).start_s == pytest.approx(NOW_S + waits_s, abs=300), (
            options
        )


@pytest.mark.parametrize("tasks", ["--ntasks-per-node=2", "-G 2 --ntasks-per-gpu=2"])
def test_cpus_that_releases_count_otherwise_are_said_to_be(world, tasks):
    told = world.told(f"-p {partition(world)} -O {tasks} -t 60")
    per = tasks.rpartition(" ")[2].partition("=")[0]
    assert f"--overcommit (some releases of Slurm count CPUs otherwise beside {per})" in told.not_understood


def test_gpus_that_releases_count_otherwise_are_not_refused_for_their_number(world):
    """Of 1,2 for each of 13 tasks some releases count the one (25.11), others the two, which no nodes have."""
    told = world.told(f"-p {partition(world)} -n 13 --gpus-per-task=1,2 -t 60")
    assert told.not_understood == (
        "--gpus-per-task (some releases of Slurm count a type that is named twice otherwise)",
    )
    with pytest.raises(ConfigError, match="have not 26 such GPUs"):
        world.told(f"-p {partition(world)} -n 13 --gpus-per-task=2 -t 60")


def test_what_cannot_be_counted_is_named(world):
    told = world.told(f"-p {partition(world)} -G 4 -t 60 --dependency=afterok:5 -L matlab:1")
    assert told.not_understood == (
        "--dependency=afterok:5",
        "--dependency=afterok:5 (some releases refuse it, unless job 5 has just ended)",
        "--licenses=matlab:1 (how many are free was not read)",
    )


def test_a_dependency_on_the_result_of_a_job_that_is_there_is_taken_by_every_release(world):
    world.slurm.submit(3600.0, gpus=4, time_limit_s=3600.0)
    world.slurm.advance(1.0)
    told = world.told(f"-p {partition(world)} -G 4 -t 60 --dependency=afterok:1:7,afterany:8")
    assert told.not_understood[1:] == (
        "--dependency=afterok:1:7,afterany:8 (some releases refuse it, unless job 7 has just ended)",
    )
    told = world.told(f"-p {partition(world)} -G 4 -t 60 --dependency=afterok:1,afterany:8")
    assert told.not_understood == ("--dependency=afterok:1,afterany:8",)


def test_licences_are_waited_for_where_it_is_known_how_many_there_are(world):
    world.slurm.submit(3600.0, gpus=4, time_limit_s=3600.0)
    world.slurm.advance(1.0)
    seen = world.seen()
    one = limit_table([{"whose": LICENCE, "name": "matlab", "counts": GROUP, "resource": "licence", "most": 1.0}])
    view = replace(seen, limits=one, running=replace(seen.running, licences=Labels.of(["matlab"])))
    options = f"-p {partition(world)} -G 4 -t 60 -L"
    told = world.told(f"{options} matlab", view)
    assert told.not_understood == ()
    assert told.start_s == pytest.approx(NOW_S + 3600, abs=300)
    for wrong in ("matlab:2", "ansys", "matlab:x"):
        with pytest.raises(ConfigError, match="Invalid license specification"):
            world.told(f"{options} {wrong}", view)


OF_SMALL = {"whose": QOS, "name": "small"}


def limits_of(*rows: dict[str, object]) -> LimitTable:
    """Limits of the QOS small, each with what else is said of it."""
    return limit_table([OF_SMALL | row for row in rows])


@pytest.mark.parametrize(
    ("counts", "resource", "most", "asks", "words"),
    [
        (NODE, "gpu", 2.0, "-N 1 -G 3", "it asks for 3 GPUs on one node, and {} allows 2 GPUs."),
        (NODE, "gpu", 2.0, "-N 2 -G 4", ""),
        (NODE, "gpu", 2.0, "-N 2 -G 5", ""),
        (NODE, "gpu", 2.0, "--gres=gpu:3", "it asks for 3 GPUs on one node, and {} allows 2 GPUs."),
        (JOB, "gpu", 2.0, "-N 2 -G 4", "it asks for 4 GPUs, and {} allows 2 GPUs for one job."),
        (USER, "gpu", 2.0, "-N 2 -G 4", "it asks for 4 GPUs, and {} allows 2 GPUs to one user."),
        (LEAST, "gpu", 2.0, "-G 1", "it asks for 1 GPU, and {} requires 2 GPUs at least for one job."),
        (JOB, "wall", 600.0, "-G 1 -t 60", "it asks for 60 min, and {} allows 10 min for one job."),
        (JOB, "wall", 600.0, "-G 1", ""),
    ],
)
@pytest.mark.parametrize("of_partition", [False, True])
def test_a_new_job_that_is_by_itself_beyond_a_limit_gets_no_time_but_the_limit(
    world, of_partition, counts, resource, most, asks, words
):
    seen = replace(world.seen(), limits=limits_of({"counts": counts, "resource": resource, "most": most}))
    if of_partition:
        every = Labels.of(["small"] * len(seen.partitions))
        seen = replace(seen, partitions=replace(seen.partitions, qos=every))
    told = world.told(f"-p {partition(world)} {asks}{'' if of_partition else ' --qos=small'}", view=seen)
    assert told.not_understood == ()
    whose = "the QOS of its partition (small)" if of_partition else "its QOS (small)"
    if words:
        assert told.start_s is None
        assert words.format(whose) in " ".join(told.notes)
    else:
        assert told.start_s is not None


def test_a_limit_on_one_node_is_doubted_where_slurm_may_take_more_nodes(world):
    seen = replace(world.seen(), limits=limits_of({"counts": NODE, "resource": "gpu", "most": 1}))
    told = world.told(f"-p {partition(world)} -G 4 --qos=small", view=seen)
    assert told.not_understood == ("how many nodes it takes (its QOS (small) allows 1 GPU on one node)",)


GPU_MINUTES = {"counts": GROUP, "resource": "minutes:gpu", "most": 1000.0}


@pytest.mark.parametrize(
    ("limit", "asks", "words"),
    [
        (GPU_MINUTES | {"flags": "Safe"}, "-G 2 -t 60", ""),
        (GPU_MINUTES | {"flags": "Safe", "used": 900.0}, "-G 2 -t 60", "has 100 of 1,000 GPU minutes to all jobs"),
        (GPU_MINUTES | {"flags": "Safe", "used": 900.0}, "-G 2 -t 50", ""),
        (GPU_MINUTES | {"used": 900.0}, "-G 2 -t 600", ""),
        (GPU_MINUTES | {"used": 1000.0}, "-G 2 -t 1", "has 0 of 1,000 GPU minutes to all jobs together left"),
        ({"counts": JOB, "resource": "minutes:gpu", "most": 100.0}, "-G 2 -t 60", "allows 100 GPU minutes for one job"),
        ({"counts": USER, "resource": "run-minutes:gpu", "most": 100.0}, "-G 2 -t 60", "allows 100 GPU minutes still"),
        ({"counts": USER, "resource": "run-minutes:gpu", "most": 120.0}, "-G 2 -t 60", ""),
    ],
)
def test_a_new_job_for_which_minutes_are_not_left_gets_no_time_but_the_limit(world, limit, asks, words):
    seen = replace(world.seen(), limits=limits_of(limit))
    told = world.told(f"-p {partition(world)} {asks} --qos=small", view=seen)
    assert (told.start_s is None) == bool(words)
    assert words in " ".join(told.notes)


def test_minutes_that_jobs_before_it_may_use_up_are_a_doubt(world):
    world.slurm.submit(3600.0, gpus=4, time_limit_s=3600.0, qos="small")
    world.slurm.advance(1.0)
    asks = f"-p {partition(world)} -G 2 -t 60 --qos=small"
    doubts = {
        most: world.told(
            asks, view=replace(world.seen(), limits=limits_of(GPU_MINUTES | {"most": most, "flags": "Safe"}))
        ).not_understood
        for most in (359.0, 360.0)
    }
    assert doubts == {
        359.0: ("what other jobs leave of the 359 GPU minutes that its QOS (small) allows to all jobs together",),
        360.0: (),
    }


def test_a_new_job_is_told_the_same_doubt_as_one_that_waits(world):
    limits = limits_of(GPU_MINUTES | {"most": 359.0, "flags": "Safe"})
    world.slurm.submit(3600.0, gpus=4, time_limit_s=3600.0, qos="small")
    world.slurm.advance(1.0)
    new = world.told(f"-p {partition(world)} -G 2 -t 60 --qos=small", replace(world.seen(), limits=limits))
    waits = world.slurm.submit(3600.0, gpus=2, time_limit_s=3600.0, qos="small")
    seen = replace(world.seen(), limits=limits)
    table = world.predict(seen, decide(seen, find_ordering("sjf"), RULES), "act")
    assert doubts_by_job(table) == {waits: new.not_understood}
    assert new.doubts == new.not_understood


def test_nodes_that_slurm_does_not_show_are_named_in_the_first_line_for_a_new_job_too(world):
    world.slurm.unshown = {partition(world): "c[1-2]"}
    told = world.told(f"-p {partition(world)} -G 2 -t 60")
    assert told.start_s is not None
    assert told.not_understood == ("nodes that Slurm does not show",)


@pytest.mark.parametrize(
    ("options", "doubt"),
    [
        ("-G 4 --mem-per-gpu=8000", "--mem-per-gpu=8000 (on nodes with several types of GPUs)"),
        ("-N 1 -C [ib*2&fast*1]", "--constraint=[ib*2&fast*1] (numbers of nodes that are more than it asks for)"),
        (
            "-N 2-4 -n 2 --ntasks-per-node=2 --gpus-per-task=1",
            "--gpus-per-task=1 (beside more tasks of its nodes than it has)",
        ),
        ("-G 2 -n 15 --cpus-per-gpu=2", "--cpus-per-gpu=2 (fewer CPUs than tasks)"),
        ("-G 12 --gres=gpu:4", "--gpus beside --gres (more nodes with 4 GPUs than there are)"),
        ("-G 8 --gres=gpu:4", ""),
        ("-n 3 --gpus-per-task=3", "--gpus-per-task=3 (more tasks than nodes have so many GPUs for)"),
        ("-n 2 --gpus-per-task=3", ""),
        ("-G 4 --mem-per-cpu=100", ""),
        ("-N 3 -C [ib*2&fast*1]", ""),
        ("-N 2 -n 4 --ntasks-per-node=2 --gpus-per-task=1", ""),
    ],
)
def test_requests_that_slurm_reads_in_ways_of_its_own_are_doubted(world, options, doubt):
    """Each was taken by sbatch 22.05 and never started where we had a time (drawn on a lab)."""
    seen = world.seen()
    many = len(seen.nodes)
    both = seen.nodes.changed(
        features=Labels.of(["ib,fast"] * many),
        gpus=np.array([4, 4, 2, 2]),
        gpu_types=Labels.of(["a100=2+v100=2"] + [""] * (many - 1)),
    )
    told = world.told(f"-p {partition(world)} -t 60 {options}", replace(seen, nodes=both))
    assert told.not_understood == ((doubt,) if doubt else ())


def test_all_tasks_of_arrays_count_for_minutes_that_may_be_used_up(world):
    limits = limits_of(GPU_MINUTES | {"most": 400.0, "flags": "Safe"})
    asks = f"-p {partition(world)} -G 2 -t 60 --qos=small"
    doubts = [world.told(asks + more, replace(world.seen(), limits=limits)).not_understood for more in ("", " -a 1-4")]
    assert [len(some) for some in doubts] == [0, 1]


@pytest.mark.parametrize("used", [0.0, 990.0])
def test_a_qos_that_denies_looks_at_the_whole_limit_of_minutes_alone(world, used):
    denying = GPU_MINUTES | {"flags": "DenyOnLimit", "used": used}
    seen = replace(world.seen(), limits=limits_of(denying))
    with pytest.raises(ConfigError, match=r"Job violates accounting/QOS policy .*it asks for 1,200 GPU minutes"):
        world.told(f"-p {partition(world)} -G 2 -t 600 --qos=small", view=seen)
    world.told(f"-p {partition(world)} -G 2 -t 60 --qos=small", view=seen)


def test_limits_that_could_not_be_read_are_named(world):
    told = world.told(f"-p {partition(world)} -G 1", view=replace(world.seen(), limits=unread_limits("no slurmdbd")))
    assert told.not_understood == ("limits of QOS and accounts (they could not be read)",)


def test_a_qos_that_denies_refuses_the_job_as_sbatch_does(world):
    seen = replace(
        world.seen(), limits=limits_of({"counts": JOB, "resource": "gpu", "most": 2, "flags": "DenyOnLimit"})
    )
    with pytest.raises(ConfigError, match=r"Job violates accounting/QOS policy .*it asks for 4 GPUs"):
        world.told(f"-p {partition(world)} -N 2 -G 4 --qos=small", view=seen)


def test_a_job_that_names_no_memory_has_the_default_of_its_partition(world):
    seen = world.seen()
    many = len(seen.partitions)
    defaults = {"default_cpu_memory_mib": 210.0, "default_gpu_memory_mib": 700.0, "default_gpu_cpus": 2}
    partitions = replace(seen.partitions, **{name: np.full(many, value) for name, value in defaults.items()})
    site = Site(partitions, seen.nodes)

    def size(options: str) -> tuple[int, float]:
        job = probe(read_options(options), "ann", NOW_S, UTC, site).job
        return int(job.cpus[0]), float(job.memory_mib[0])

    name = partition(world)  # as 22.05 starts them
    assert size(f"-p {name} -n 3") == (3, 630.0)
    assert size(f"-p {name} -n 3 -G 2") == (4, 1400.0)
    assert size(f"-p {name} -G 2 --mem-per-cpu=10") == (4, 40.0)
    assert size(f"-p {name} -c 3 -G 2 --mem=50") == (3, 50.0)
    assert size(f"-p {name} -n 2 -G 2 --cpus-per-gpu=3") == (6, 1400.0)


def four_nodes(taken: list[int], lasts_s: float = 3600.0) -> tuple[World, View]:
    """A cluster of four nodes of which jobs of an hour have those *taken* as a whole, and how it is seen."""
    world = World()
    for _ in taken:
        world.slurm.submit(lasts_s, gpus=4, time_limit_s=lasts_s)
    world.slurm.advance(1.0)
    seen = world.seen()
    used = np.where(np.isin(np.arange(4), taken), 4, 0)
    nodes = replace(seen.nodes, gpus_used=used, cpus_used=np.where(used > 0, seen.nodes.cpus, 0))
    where = Labels.of(seen.nodes.name[row] for row in taken)
    return world, replace(seen, nodes=nodes, running=seen.running.changed(node_list=where))


def test_what_a_job_asks_of_the_topology_is_counted():
    world, seen = four_nodes([1, 3])
    names = tuple(seen.nodes.name)
    blocks = Topology("block", ((Unit("b1", names[:2], 2), Unit("b2", names[2:], 2)),))
    view, options = replace(seen, topology=blocks), f"-p {partition(world)} -N2 --gpus-per-node=4 -t 60"
    assert world.told(options, seen).start_s == pytest.approx(NOW_S, abs=120)
    assert world.told(options, view).start_s == pytest.approx(NOW_S + 3600, abs=300)
    apart = world.told(f"{options} --segment=1", view)
    assert (apart.start_s, apart.not_understood) == (pytest.approx(NOW_S, abs=120), (f"--segment=1 {REFUSED}",))
    alone = world.told(f"-p {partition(world)} -N1 -G1 -t 60 --exclusive=topo", view)
    assert alone.start_s == pytest.approx(NOW_S + 3600, abs=300)
    assert alone.not_understood == (f"--exclusive=topo {REFUSED}",)
    with pytest.raises(ConfigError, match="--segment=2 does not divide 3 nodes"):
        world.told(f"-p {partition(world)} -N3 --segment=2", view)
    for tall in ("-N4 --segment=4", "-N1 --segment=2"):  # 26.05 starts these, 24.11 and 25.05 never do
        *_, unsure = world.told(f"-p {partition(world)} {tall}", view).not_understood
        assert "never start a job with fewer nodes" in unsure
    flat = world.told(f"{options} --segment=1", seen)
    assert flat.not_understood == ("--segment=1 (some releases of Slurm refuse it)",)


def test_a_job_waits_for_few_switches_as_long_as_slurm_lets_it():
    world, seen = four_nodes([1])
    names = tuple(seen.nodes.name)
    leaves = (Unit("s1", names[:2], 2), Unit("s2", names[2:], 2))
    view = replace(seen, topology=Topology("tree", (leaves, (Unit("top", names, 4),))))
    options = f"-p {partition(world)} -N3 --gpus-per-node=4 -t 60"
    assert world.told(f"{options} --switches=2", view).start_s == pytest.approx(NOW_S, abs=120)
    assert world.told(f"{options} --switches=1", view).start_s == pytest.approx(NOW_S + 300, abs=60)
    assert world.told(f"{options} --switches=1@2:00", view).start_s == pytest.approx(NOW_S + 120, abs=60)
    half = world.told(f"{options} --switches=1@0:30", view)
    assert half.start_s == pytest.approx(NOW_S + 30, abs=20)
    (unsure,) = world.told(f"{options} --switches=1@60", view).not_understood
    assert unsure.startswith("--switches=1@60 (for more than 5 min")


def test_a_job_starts_on_few_switches_as_soon_as_their_nodes_are_free():
    world, seen = four_nodes([1, 3], lasts_s=120.0)
    names = tuple(seen.nodes.name)
    leaves = (Unit("s1", names[:2], 2), Unit("s2", names[2:], 2))
    view = replace(seen, topology=Topology("tree", (leaves, (Unit("top", names, 4),))))
    options = f"-p {partition(world)} -N2 --gpus-per-node=4 -t 60"
    assert world.told(f"{options} --switches=2", view).start_s == pytest.approx(NOW_S, abs=60)
    assert world.told(f"{options} --switches=1", view).start_s == pytest.approx(NOW_S + 120, abs=40)
    assert world.told(f"{options} --switches=1@0:30", view).start_s == pytest.approx(NOW_S + 30, abs=20)


def window(view: View, name: str, begins_s: float, **columns: object) -> ReservationTable:
    """A reservation for ann of the first node, and for bob of all."""
    texts = {
        "name": [name, "theirs"],
        "nodes": [view.nodes.name[0], ",".join(view.nodes.name)],
        "users": ["ann", "bob"],
    }
    times = {"start_s": [NOW_S + begins_s, NOW_S + 9e5], "end_s": [NOW_S + begins_s + 7200.0, NOW_S + 9.1e5]}
    return table_of(ReservationTable, 2, {}, {"whole": [True, True], **texts, **times, **columns})


def test_a_reservation_that_is_for_the_user_is_counted_and_another_is_said(world):
    seen = world.seen()
    view = replace(seen, reservations=window(seen, "course", 1800.0))
    options = f"-p {partition(world)} -G 1 -t 60"
    told = world.told(f"{options} --reservation=course", view)
    assert (told.start_s, told.not_understood) == (pytest.approx(NOW_S + 1800, abs=120), ())
    theirs = world.told(f"{options} --reservation=theirs", view)
    assert (theirs.start_s, theirs.not_understood) == (None, ("--reservation=theirs (whether the user may use it)",))
    unknown = world.told(f"{options} --reservation=none", view)
    assert (unknown.start_s, unknown.not_understood) == (None, ("--reservation=none (it is not shown)",))
    part = replace(seen, reservations=window(seen, "course", 0.0, whole=[False, True], cores=[2, 0]))
    told = world.told(f"{options} --reservation=course", part)
    assert (told.start_s, told.not_understood) == (pytest.approx(NOW_S, abs=120), ())
    anywhere = window(seen, "course", 0.0, whole=[False, True], cores=[2, 0], flags=["ANY_NODES", ""])
    told = world.told(f"{options} --reservation=course", replace(seen, reservations=anywhere))
    assert (told.start_s, told.not_understood) == (
        None,
        ("--reservation=course (how much it has of each node is not shown)",),
    )


def test_a_job_without_a_partition_gets_that_of_its_reservation(world):
    seen = world.seen()
    both = replace(seen.partitions.take(np.zeros(2, dtype=np.int64)), name=Labels.of(["usual", "other"]))
    reservations = window(seen, "course", 0.0, partition=["other", ""])
    view = replace(seen, partitions=replace(both, default=np.array([True, False])), reservations=reservations)
    for options, partition_ in (("--reservation=course", "other"), ("--reservation=theirs", "usual")):
        job = new_job(view, world.permissions, f"-t 60 {options}", "ann").job
        assert job.partition[0] == partition_


def test_of_several_reservations_a_job_on_one_node_uses_the_first_to_open(world):
    seen = world.seen()
    table = window(seen, "course", 1800.0, users=["ann", "ann"], start_s=[NOW_S + 1800, NOW_S + 600])
    view = replace(seen, reservations=replace(table, end_s=np.full(2, NOW_S + 9e5)))
    options = f"-p {partition(world)} -G 2 -t 60 --reservation=course,theirs"
    told = world.told(options, view)
    assert (told.start_s, told.not_understood) == (pytest.approx(NOW_S + 600, abs=120), ())
    wide = world.told(f"{options} -N2", view)
    assert (wide.start_s, wide.not_understood) == (
        None,
        ("--reservation=course,theirs (which of them has room first)",),
    )


def test_a_begin_time_is_waited_for(world):
    told = world.told(f"-p {partition(world)} -G 4 -t 60 --begin=now+1hour")
    assert told.start_s == pytest.approx(NOW_S + 3600, abs=120)
    assert told.not_understood == ()


@pytest.mark.parametrize("option", ["-H", "--reservation=maint"])
def test_a_held_job_and_one_with_a_reservation_get_no_time(world, option):
    told = world.told(f"-p {partition(world)} -G 4 -t 60 {option}")
    assert (told.start_s, told.finish_s) == (None, None)
    assert told.notes
    assert not any(str(PROBE_ID) in note for note in told.notes)


def test_a_job_that_slurm_takes_and_never_starts_gets_no_time_but_the_reason(world):
    name = partition(world)
    for_others = {name: PartitionAccess(accounts=frozenset({"bio"}))}
    world.permissions = Permissions(partitions=for_others, associations={}, releases=RELEASES[:1])
    told = world.told(f"-p {name} -G 4 -t 60")
    assert (told.start_s, told.finish_s) == (None, None)
    assert "AccountNotAllowed" in " ".join(told.notes)
    world.permissions = replace(world.permissions, part_limits="ANY")
    with pytest.raises(ConfigError, match="Invalid account or account/partition combination specified"):
        world.told(f"-p {name} -G 4 -t 60")


def test_without_a_time_limit_it_has_that_of_its_partition(world):
    seen = world.seen()
    limited = replace(seen, partitions=replace(seen.partitions, max_time_s=np.full(len(seen.partitions), 600.0)))
    told = world.told(f"-p {partition(world)} -G 4", view=limited)
    assert told.finish_s - told.start_s == pytest.approx(600, abs=120)


def test_what_could_never_run_is_told_in_words(world):
    with pytest.raises(ConfigError, match="Requested node configuration is not available"):
        world.told(f"-p {partition(world)} -G 4000 -t 60")
    told = world.told(f"-p {partition(world)} -N 40 -t 60")
    assert (told.start_s, told.finish_by_s) == (None, None)
    assert told.notes


@pytest.mark.parametrize(
    ("options", "error"),
    [("-p nowhere -G 4", ConfigError), ("-G 4 -N x", ConfigError), ("-c x", ConfigError),
     ("-G 4 --comment=slurmsched:deadline=soon", CommentError)],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(world, options, error):
    with pytest.raises(error):
        world.told(options)


BOTH = (
    "-G 4 -t 60", "-G 4", "-G 99 -t 5", "-G 1.5", "--gres=gpu:nosuch:1", "-G 1 --gpus-per-task=1 -n 2", "-N 9 -t 5",
    "-G 4 -t soon", "-t 5 --mem=1T", "-C nosuch", "-p nowhere", "-w n9", "-G 4 -t 60 --hold", "-G 4 -t 60 -a 0-3",
    "-G 4 -t 60 --begin=now+3hours", "-G 4 -t 60 --begin=2040-01-01", "-G 4 -t 60 --reservation=none",
    "-G 4 -t 60 --dependency=singleton", "-G 4 -t 60 --dependency=afterok:7", "-G 4 -t 60 --dependency=nosuch",
    "-G 4 -t 60 -L matlab:1", "-G 4 -t 60 --distribution=plane=2", "-G 4 -t 60 --distribution=nosuch",
    "-G 4 -t 60 --uid=0", "-G 4 -t 60 --umask=077", "-G 4 -t 60 --signal=R:USR1@60", "-G 4 -t 60 --hint=nomultithread",
    "-G 4 -t 60 --core-spec=1", "-G 4 -t 60 --core-spec=x", "-G 4 -t 60 --deadline=now+2hours",
    "-G 4 -t 60 --deadline=now-1hour", "-G 4 -t 60 --time-min=30", "-G 4 -t 60 --qos=nosuch", "-n 500 -t 5",
    "-G 4 -t 60 --tres-per-task=gres/gpu:1", "-G 2 --ntasks-per-socket=1 -t 5", "-G 4 -t 60 --contiguous -N 2",
    "--gpus=a100:1,v100:1 -t 60", "-G 4 -t 60 --cpu-freq=nosuch", "-G 4 -t 60 --mail-type=nosuch", "-G1 -t 5 : -G2",
    "-G 4 -t 60 --bb=capacity=10G", "-G 4 -t 60 --clusters=other", "-G 4 -t 60 --nice=100", "-G 4 -t 60 --reboot",
)  # fmt: skip


def in_words(ask):
    """Return an answer, or the words of a refusal."""
    try:
        return ask()
    except (CommentError, ConfigError) as error:
        return str(error)


@pytest.mark.parametrize("release", [*RELEASES, None])
def test_a_deadline_is_refused_and_doubted_as_a_time_is_and_never_promised_where_none_can_be_told(world, release):
    full(world, 1800.0)
    seen = world.seen()
    if release:
        world.permissions = replace(world.permissions, releases=(release,))
    rules = Rules(powers=frozenset({"order", "hold", "comment"}), deadlines=DeadlineRules())
    plan = decide(seen, find_ordering("sjf"), rules)
    promised = 0
    for request in BOTH:
        options = f"{request} --comment=slurmsched:deadline=+6h"
        eta = in_words(lambda options=options: world.told(options, seen))
        answer = in_words(
            lambda options=options: check_deadline(seen, plan, world.permissions, world.model, rules, options, "ann")
        )
        if isinstance(eta, str) or isinstance(answer, str):
            assert eta == answer, request
            continue
        assert eta.not_understood == answer.not_understood, request
        left_alone = any(option in request for option in ("--nice", "--dependency", "--begin"))
        if left_alone or eta.finish_s is None or eta.start_s > answer.deadline_s:
            assert answer.answer == "refused", (request, eta.notes, answer.sentences)
        promised += answer.answer == "promised"
    assert promised >= 5

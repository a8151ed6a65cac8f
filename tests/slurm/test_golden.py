"""What is read out of what real releases of Slurm printed (scripts/record-golden records them)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zoo
from headers import headed

from slurmsched.cluster.jobs import JobState, JobTable
from slurmsched.cluster.plan import Standing
from slurmsched.decide.ordering.eligibility import standing
from slurmsched.errors import SlurmUnavailable
from slurmsched.slurm import versions
from slurmsched.slurm.read import sinfo, sprio, squeue
from slurmsched.slurm.read.records import cut

GOLDEN = Path(__file__).parent.parent / "golden"
RELEASES = sorted(path.parent.name for path in GOLDEN.glob("*/jobs.json"))
MARKS = ("~field~", "~record~")
FORGED, HARMLESS = "~field~forged~record~", "forged"
"""A name with the recorder's fixed marks; the marks of the adapter are new in each call and cannot be forged."""


class Release:
    """The recorded answers of one release, read."""

    def __init__(self, name: str) -> None:
        def text(of: str) -> str:
            return (GOLDEN / name / f"{of}.txt").read_bytes().decode("utf-8", "surrogateescape")

        self.ids: dict[str, int] = json.loads((GOLDEN / name / "jobs.json").read_text())
        fields = squeue.fields_of(versions.SlurmRelease(tuple(int(part) for part in name.split("."))))
        points = tuple(sprio.FIELDS)
        self.raw = headed(fields, *MARKS, text("squeue"))
        self.fields = fields
        columns = cut("squeue", self.raw.replace(FORGED, HARMLESS), fields, "JobID", *MARKS)
        factors = cut("sprio", headed(points, "|", ";", text("sprio")), points, "JobID", "|", ";")
        self.seen = cut("sinfo", headed(sinfo.FIELDS, *MARKS, text("sinfo")), sinfo.FIELDS, "NodeList", *MARKS)
        self.jobs = sprio.with_factors(squeue.read_jobs(columns), factors)

    def row(self, kind: str) -> int:
        row = self.jobs.row_of(self.ids[kind])
        assert row is not None, kind
        return row

    def of(self, kind: str, column: str) -> object:
        return getattr(self.jobs, column)[self.row(kind)]


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> Release:
    return Release(request.param)


def test_every_job_is_read_once(release):
    assert len(set(release.jobs.job_id.tolist())) == len(release.jobs)
    assert set(release.ids.values()) <= set(release.jobs.job_id.tolist())


def test_an_answer_with_a_record_that_has_not_its_fields_is_none(release):
    assert FORGED in release.raw
    with pytest.raises(SlurmUnavailable, match="records without the requested fields"):
        cut("squeue", release.raw, release.fields, "JobID", *MARKS)


def test_hostile_names_are_read_as_they_were_written(release):
    for row, name in enumerate(zoo.HOSTILE_NAMES):
        assert release.of(f"hostile_{row}", "name") == name.replace(FORGED, HARMLESS)


@pytest.mark.parametrize(
    ("kind", "gpus", "nodes"),
    [
        ("plain", 1, 1),
        ("array", 1, 1),
        ("gpus", 3, 1),
        ("per_node", 4, 2),
        ("per_task", 3, 1),
        ("cpus_per_gpu", 2, 1),
        ("memory_per_gpu", 2, 1),
        ("no_gpu", 0, 1),
        ("limited", 2, 1),
        ("running", 4, 1),
        ("suspended", 4, 1),
        ("interactive", 1, 1),
    ],
)
def test_gpus_are_counted_however_they_were_asked_for(release, kind, gpus, nodes):
    assert (release.of(kind, "gpus"), release.of(kind, "nodes")) == (gpus, nodes)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("completed", JobState.COMPLETED),
        ("failed", JobState.FAILED),
        ("cancelled", JobState.CANCELLED),
        ("timeout", JobState.TIMEOUT),
        ("running", JobState.RUNNING),
        ("suspended", JobState.SUSPENDED),
        ("requeued", JobState.PENDING),
        ("het", JobState.PENDING),
    ],
)
def test_states(release, kind, state):
    assert release.of(kind, "state") == state


def test_what_kinds_of_jobs_have_of_their_own(release):
    of = release.of
    assert (of("array", "tasks"), of("array", "task_id"), of("array", "job_id")) == (5, -1, release.ids["array"])
    assert of("het", "het_job_id") == release.ids["het"]
    assert "afterok" in of("dependency", "dependency")
    assert of("nice", "nice") == 50
    assert set(of("partitions", "partition").split(",")) == {"gpu", "fast"}
    assert of("reserved", "reservation") == "workshop"
    assert of("licence", "licences") == "matlab:1"
    assert of("no_gpu", "exclusive")
    assert not of("plain", "exclusive")
    assert of("interactive", "interactive")
    assert not of("plain", "interactive")
    assert not of("no_requeue", "requeueable")
    assert of("requeued", "restarts") == 1
    assert np.isinf(of("unlimited", "time_limit_s"))
    assert of("plain", "time_limit_s") == 1200
    assert (of("off", "off"), of("ckpt", "ckpt"), of("plain", "off"), of("plain", "ckpt")) == (True, True, False, False)
    assert of("plain", "memory_mib") == 100
    assert of("running", "node_list").startswith("n")
    assert of("user_hold", "priority") == of("admin_hold", "priority") == 0
    assert [kind for kind in release.ids if of_or_none(release, kind, "fixed")] == ["fixed"]


def of_or_none(release: Release, kind: str, column: str) -> object:
    row = release.jobs.row_of(release.ids[kind])
    return None if row is None else getattr(release.jobs, column)[row]


def test_only_what_is_asked_for_per_gpu_is_told_so(release):
    kinds = [kind for kind, job in release.ids.items() if release.jobs.row_of(job) is not None]
    assert [kind for kind in kinds if release.of(kind, "per_gpu")] == ["cpus_per_gpu", "memory_per_gpu"]
    assert {kind: release.of(kind, "gpu_cpus") for kind in kinds if release.of(kind, "gpu_cpus")} == {"cpus_per_gpu": 2}


def test_times_are_unix_seconds_in_order(release):
    for kind in ("completed", "timeout"):
        times = [release.of(kind, f"{moment}_s") for moment in ("submitted", "eligible", "started", "ended")]
        assert times == sorted(times)
        assert times[0] > 1.7e9
    assert np.isnan(release.of("dependency", "eligible_s"))
    assert release.of("begin", "eligible_s") - release.of("begin", "submitted_s") == pytest.approx(3600, abs=2)


def test_the_factors_add_up_to_the_priority(release):
    jobs: JobTable = release.jobs
    row = release.row("plain")
    parts = ("age", "fairshare", "size", "partition", "qos", "tres", "site")
    assert sum(getattr(jobs, f"{part}_points")[row] for part in parts) == pytest.approx(jobs.priority[row], abs=8)


def test_nodes_and_partitions(release):
    nodes, partitions = sinfo.read_nodes(release.seen), sinfo.read_partitions(release.seen)
    assert list(nodes.name) == ["n1", "n2", "n3", "n4"]
    assert nodes.gpus.tolist() == nodes.gpus_used.tolist() == [4, 4, 4, 4]
    assert nodes.usable.all()
    assert set(nodes.partitions[0].split(",")) == {"gpu", "fast", "night"}
    found = dict(zip(partitions.name, zip(partitions.tier.tolist(), partitions.up.tolist(), strict=True), strict=True))
    assert found == {"gpu": (1, True), "fast": (5, True), "night": (1, False)}
    assert list(partitions.nodes) == ["n[1-4]"] * 3


def test_each_kind_stands_as_the_page_on_policies_says(release):
    standings = standing(release.jobs, sinfo.read_partitions(release.seen))
    expected = {
        "dependent": Standing.WAITS_FOR_DEPENDENCY,
        "user_hold": Standing.HELD_BY_USER,
        "admin_hold": Standing.HELD_BY_ADMIN,
        "nice": Standing.NICE_SET,
        "begin": Standing.WAITS_FOR_BEGIN,
        "reserved": Standing.IN_RESERVATION,
        "limited": Standing.LIMIT_BLOCKED,
        "licence": Standing.LIMIT_BLOCKED,
        "down": Standing.PARTITION_CLOSED,
        "off": Standing.OWNER_SAID_OFF,
        "fixed": Standing.PRIORITY_FIXED,
        "het": Standing.HETEROGENEOUS,
        **dict.fromkeys(("plain", "array", "partitions", "ckpt", "no_gpu", "interactive"), Standing.RANKED),
    }
    assert {kind: Standing(int(standings[release.row(kind)])) for kind in expected} == expected

"""What a job may have by our tables is what Slurm lets it have: drawn requests and limits on a lab."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lab_site import Site

from examples import examples
from slurmsched.cluster.job_limits import JobLimits
from slurmsched.cluster.may_have import Allowances
from slurmsched.cluster.state import ClusterState
from slurmsched.lab import Lab
from slurmsched.lab.waiting import wait_until
from slurmsched.slurm.read.limits import read_shared_limits

NEVER = ("Requested node configuration is not available", "Memory required by task is not available")
FEATURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
PARTITIONS = ("gpu", "narrow", "few", "dear")
CPUS = st.integers(1, 9)
MEMORY_MIB = st.one_of(
    st.integers(1, 17_000), st.sampled_from([4_000, 4_001, 6_000, 6_001, 8_000, 8_001, 9_000, 9_001, 12_000, 12_001])
)


@pytest.fixture
def state(limited_lab: Lab) -> ClusterState:
    return Site.of(limited_lab).cluster().observe()


def refusal(lab: Lab, options: list[str], *, starts: bool) -> str:
    """What Slurm says against a job; empty if it could run. One that *starts* is submitted, and taken back."""
    # A trial takes no notice of MaxMemPerCPU: Slurm raises the CPUs of a real job alone.
    how = ["--begin=now+3600"] if starts else ["--test-only"]
    done = lab.run(["sbatch", "--parsable", *how, "-t1", "-o/dev/null", *options, "--wrap=true"])
    if done.returncode:
        return done.stderr.strip()
    if starts:
        lab.run(["scancel", done.stdout.strip()])
    return ""


@settings(FEATURES, max_examples=30 if settings().derandomize else 300)
@given(
    partition=st.sampled_from(PARTITIONS),
    node=st.sampled_from(["n1", "n3"]),
    cpus=CPUS,
    memory_mib=MEMORY_MIB,
    per_cpu=st.booleans(),
    exclusive=st.booleans(),
)
def test_a_job_may_have_of_a_node_in_a_partition_what_slurm_lets_it_have(
    limited_lab, state, partition, node, cpus, memory_mib, per_cpu, exclusive
):
    each_mib = max(memory_mib // cpus, 1)
    # Slurm rewrites memory per CPU beyond MaxMemPerCPU when a job is submitted: no job that waits asks for it.
    assume(not (partition == "dear" and per_cpu and each_mib > 1_000))
    # Against MaxMemPerNode it counts the cores too that a node keeps, at the submission of a job for all of them.
    assume(not (partition == "narrow" and per_cpu and exclusive))
    asked_mib = each_mib * cpus if per_cpu else memory_mib
    memory = f"--mem-per-cpu={each_mib}" if per_cpu else f"--mem={memory_mib}"
    options = [f"-p{partition}", f"-w{node}", f"-c{cpus}", memory, *(["--exclusive"] if exclusive else [])]
    said = refusal(limited_lab, options, starts=partition == "dear")
    assert not said or any(words in said for words in NEVER), said
    may = Allowances(state.nodes, state.partitions).on(partition, exclusive=exclusive)
    whole_mib = each_mib if per_cpu and exclusive else 0
    ours = bool(may.holds(cpus, asked_mib, whole_mib)[list(state.nodes.name).index(node)])
    assert ours == (not said), (options, said)


@examples(30, parent=FEATURES)
@given(cpus=st.integers(1, 8), memory_mib=st.integers(1, 8_000))
def test_the_cpus_that_a_job_is_charged_for_its_memory_are_those_of_slurm(limited_lab, state, cpus, memory_mib):
    options = ["-pdear", "-wn1", f"-c{cpus}", f"--mem={memory_mib}", "--begin=now+3600", "-t1", "--wrap=true"]
    job = limited_lab.submit(*options, "-o/dev/null")
    shown = limited_lab.ask(["scontrol", "show", "job", str(job)])
    limited_lab.run(["scancel", str(job)])
    charged = Allowances(state.nodes, state.partitions).on("dear").charged_cpus(cpus, memory_mib)
    assert int(re.search(r"MinCPUsNode=(\d+)", shown)[1]) == charged


OF_QOS = ("mintresperjob", "maxtresperjob", "maxtrespernode", "maxtresperuser", "maxtresperaccount", "grptres")
OF_USER = ("maxtresperjob", "maxtrespernode", "grptres")
BLOCKED = re.compile(r"QOS|Assoc|MaxGRES|MinGRES")
marks = itertools.count(1_000)


@pytest.fixture
def limited(limited_lab: Lab) -> Iterator[Lab]:
    """The lab, whose QOS low and whose user alice have no limits afterwards."""
    yield limited_lab
    limited_lab.cancel_all()
    for whose, kinds in ((["qos", "low"], OF_QOS), (["user", limited_lab.user("alice")], OF_USER)):
        limited_lab.ask(["sacctmgr", "-i", "modify", *whose, "set", *(f"{kind}=gres/gpu=-1" for kind in kinds)])


def set_limit(lab: Lab, whose: list[str], kind: str, most: int) -> None:
    """Set one limit of GPUs, and wait until slurmctld knows it by a mark that is set with it."""
    mark = next(marks)
    lab.ask(["sacctmgr", "-i", "modify", *whose, "set", f"{kind}=gres/gpu={most}", f"grpsubmitjobs={mark}"])
    shown = lambda: f"GrpSubmitJobs={mark}(" in lab.ask(["scontrol", "show", "assoc_mgr", "flags=qos,assoc"])  # noqa: E731
    wait_until(shown, 30.0, "a limit that slurmctld knows")


@pytest.mark.soak
@examples(60, parent=FEATURES)
@given(
    case=st.sampled_from([*(("qos", kind) for kind in OF_QOS), *(("user", kind) for kind in OF_USER)]),
    most=st.integers(1, 4),
    own=st.integers(1, 4),
    new=st.integers(1, 4),
)
def test_a_job_with_another_number_of_gpus_starts_just_where_its_limits_allow_that(limited, case, most, own, new):
    whose, kind = case
    assume(own != new and (own >= most if kind.startswith("min") else own <= most))
    set_limit(limited, ["qos", "low"] if whose == "qos" else ["user", limited.user("alice")], kind, most)
    job = limited.submit(
        *(f"--gres=gpu:{own}", "--qos=low", "-c1", "--mem=100", "--begin=now+3600", "-t1", "-o/dev/null"),
        "--wrap=sleep 30",
        user="alice",
    )
    cluster = Site.of(limited).cluster()
    seen = cluster.observe()
    read = read_shared_limits(cluster.console.query, limited.cluster, accounting=True)
    row = seen.pending.row_of(job)
    ours = JobLimits(read, seen.partitions).refusal(seen.pending, row, gpus=new)
    change = [f"trespernode=gres:gpu:{new}", "starttime=now"]
    limited.ask(["scontrol", "update", f"jobid={job}", *change], user="operator")

    def outcome() -> str:
        words = limited.ask(["squeue", "-h", "-j", str(job), "-o", "%T %r"])
        return words if "RUNNING" in words or BLOCKED.search(words) else ""

    said = wait_until(outcome, 60.0, "a job that runs or is blocked by a limit")
    limited.run(["scancel", str(job)])
    set_limit(limited, ["qos", "low"] if whose == "qos" else ["user", limited.user("alice")], kind, -1)
    assert bool(ours) == ("RUNNING" not in said), (case, most, own, new, ours, said)

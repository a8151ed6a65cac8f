"""Real Slurms for every test that asks: started once, emptied after each test, always taken down."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from processor_time import processor_s

import slurmsched.research.parts  # noqa: F401  # tests draw from all parts of policies
from examples import DEFAULT, fewer
from slurmsched.errors import LabError
from slurmsched.lab import Lab, LabSpec, programs
from slurmsched.lab.spec import DEFAULT_QOS, DEFAULT_USERS

# Who runs tests in the background may have Ctrl-C ignored for them, and so for all that they start; some send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the machine's business.
# Every machine judges a change by the same few examples; soak draws others, and more.
settings.register_profile(
    "any machine",
    max_examples=fewer(DEFAULT),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", settings.get_profile("any machine"), max_examples=DEFAULT, derandomize=False, print_blob=True
)
settings.load_profile("any machine")

_began_s: dict[str, float] = {}


def pytest_runtest_logstart(nodeid: str) -> None:
    _began_s[nodeid] = processor_s()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """What the test took of the processors goes into the results, for ``tests.durations``."""
    if call.when == "teardown":
        took_s = processor_s() - _began_s.pop(item.nodeid, processor_s())
        item.user_properties.append(("processor_s", f"{took_s:.2f}"))


LAB_FIXTURES = {"lab", "plain_lab", "typed_lab", "uneven_lab", "limited_lab", "lab_directory"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for a lab is a lab test."""
    for item in items:
        if LAB_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.lab)


def short_directory() -> Path:
    """Not pytest's: that one is closed to the lab's users, and long for a socket."""
    return Path(tempfile.mkdtemp(prefix="sslab-", dir="/tmp"))


def skip_unless_possible(spec: LabSpec) -> None:
    try:
        programs.check(spec)
    except LabError as error:
        pytest.skip(str(error))


def shared_lab(spec: LabSpec) -> Iterator[Lab]:
    skip_unless_possible(spec)
    with Lab(short_directory(), spec) as shared:
        yield shared


@pytest.fixture(scope="session")
def lab_of_the_session() -> Iterator[Lab]:
    yield from shared_lab(LabSpec(extra_conf=("Licenses=matlab:4,foo",)))


@pytest.fixture(scope="session")
def plain_lab_of_the_session() -> Iterator[Lab]:
    yield from shared_lab(LabSpec(accounting=False))


@pytest.fixture
def lab(lab_of_the_session: Lab) -> Iterator[Lab]:
    """4 nodes of 4 GPUs with accounting, two accounts, three QOS, four users, an operator and licences; no jobs."""
    yield lab_of_the_session
    lab_of_the_session.cancel_all()


@pytest.fixture
def plain_lab(plain_lab_of_the_session: Lab) -> Iterator[Lab]:
    """The same without accounting, hence without QOS and operator rights; its queue is empty."""
    yield plain_lab_of_the_session
    plain_lab_of_the_session.cancel_all()


@pytest.fixture(scope="session")
def typed_lab_of_the_session() -> Iterator[Lab]:
    yield from shared_lab(LabSpec(gpus=2, gpu_types=("a100", "v100")))


@pytest.fixture
def typed_lab(typed_lab_of_the_session: Lab) -> Iterator[Lab]:
    """n1 and n2 with two A100 each, n3 and n4 with two V100 each, with accounting; its queue is empty."""
    yield typed_lab_of_the_session
    typed_lab_of_the_session.cancel_all()


@pytest.fixture(scope="session")
def uneven_lab_of_the_session() -> Iterator[Lab]:
    shapes = (
        "CPUs=2 RealMemory=100 Gres=gpu:a100:2",
        "CPUs=1000 CoreSpecCount=100 RealMemory=200 MemSpecLimit=100 Gres=gpu:v100:2",
    )
    conf = (
        "SlurmdTimeout=30",
        "AccountingStorageEnforce=associations,limits,qos",
        "PartitionName=gpu Nodes=n[1-2] Default=YES MaxTime=INFINITE MaxMemPerNode=50 MaxCPUsPerNode=500 State=UP",
    )
    for shared in shared_lab(LabSpec(nodes=2, gpus=2, shapes=shapes, memory_mib=100, extra_conf=conf)):
        for who in (["qos", "normal"], ["user", shared.user("alice")]):
            shared.ask(["sacctmgr", "-iQ", "modify", *who, "set", "MaxTRESPerJob=gres/gpu=2,cpu=4"])
        yield shared


@pytest.fixture
def uneven_lab(uneven_lab_of_the_session: Lab) -> Iterator[Lab]:
    """n1 with two CPUs, n2 with more than a test machine has load; so little memory that it is always free.

    n2 keeps cores and memory for itself; the partition, the QOS and alice have limits.
    """
    yield uneven_lab_of_the_session
    uneven_lab_of_the_session.cancel_all()


LIMITED = LabSpec(
    gpus=8,
    users={**DEFAULT_USERS, "erin": "astro", "frank": "bio", "gwen": "astro"},
    qos={**DEFAULT_QOS, "short": 10, "wide": 10, "booked": 10},
    shapes=(
        *(("CPUs=8 RealMemory=16000 Gres=gpu:a100:4",) * 2),
        *(("CPUs=8 RealMemory=16000 CoreSpecCount=2 MemSpecLimit=4000 Gres=gpu:v100:8",) * 2),
    ),
    extra_conf=(
        "AccountingStorageEnforce=associations,limits,qos",
        "EnforcePartLimits=ALL",
        "DefMemPerCPU=100",
        "PartitionName=narrow Nodes=n[1-4] MaxMemPerNode=9000 MaxTime=INFINITE State=UP",
        "PartitionName=few Nodes=n[1-4] MaxCPUsPerNode=4 MaxTime=INFINITE State=UP",
        "PartitionName=each Nodes=n[1-4] DefCpuPerGPU=2 MaxTime=INFINITE State=UP",
        "PartitionName=small Nodes=n[1-4] MaxMemPerNode=8000 MaxCPUsPerNode=4 MaxTime=INFINITE State=UP",
        "PartitionName=dear Nodes=n[1-4] MaxMemPerCPU=1000 MaxTime=INFINITE State=UP",
    ),
)


@pytest.fixture(scope="session")
def limited_lab_of_the_session() -> Iterator[Lab]:
    for shared in shared_lab(LIMITED):
        for what in (
            ["qos", "low", "set", "MinTRESPerJob=gres/gpu=2", "MaxTRESPerJob=gres/gpu=3"],
            ["qos", "high", "set", "MaxTRESPerUser=gres/gpu=2", "MaxTRESPerNode=cpu=4"],
            ["qos", "booked", "set", "Flags=RequiresReservation"],
            ["user", shared.user("carol"), "set", "MaxTRESPerJob=cpu=4", "GrpTRES=gres/gpu=6"],
        ):
            shared.ask(["sacctmgr", "-iQ", "modify", *what])
        add_accounts(shared)
        yield shared


def add_accounts(shared: Lab) -> None:
    """Add accounts, and users with several, with one for a partition alone, and with QOS of their own."""
    erin, frank, gwen = (shared.user(name) for name in ("erin", "frank", "gwen"))
    file = shared.layout.etc / "more.cfg"
    file.write_text(
        f"Cluster - {shared.cluster}\nParent - root\nAccount - empty\n"
        f"Parent - astro\nUser - {gwen}:QOS=wide\n"
        f"Parent - bio\nAccount - physics\nUser - {gwen}:Partition=astronomy\nUser - {frank}:QOS=short,normal\n"
        f"Parent - physics\nUser - {erin}\n"
    )
    shared.ask(["sacctmgr", "-iQ", "load", str(file)])
    shared.ask(["sacctmgr", "-iQ", "modify", "user", frank, "set", "defaultqos=short"])


@pytest.fixture
def limited_lab(limited_lab_of_the_session: Lab) -> Iterator[Lab]:
    """n1 and n2 with four A100 each; n3 and n4 with eight V100, and two CPUs and 4,000 MiB that are not for jobs.

    Beside the partition ``gpu`` there are ``narrow``, ``few`` and ``dear``, which limit memory, CPUs, and memory for
    each CPU, ``small``, which limits memory and CPUs, and ``each``, which gives CPUs for each GPU. Limits of accounts
    and QOS are enforced: ``low`` is for two or three GPUs, ``high`` allows a user two GPUs and a job four CPUs on a
    node, and carol has four CPUs for a job at most, and six GPUs for all her jobs. Erin has the account ``physics``
    too, which is below ``bio``. Gwen may have the QOS ``wide`` alone, and has ``bio`` too in a partition ``astronomy``
    that there is not. Frank may have ``normal`` and ``short``, his default; ``booked`` is for jobs in reservations.
    The queue is empty.
    """
    yield limited_lab_of_the_session
    limited_lab_of_the_session.cancel_all()


@pytest.fixture
def lab_directory() -> Iterator[Path]:
    """Where a test may bring up a lab of its own; taken down whatever the test did."""
    skip_unless_possible(LabSpec(accounting=os.geteuid() == 0))
    directory = short_directory()
    yield directory
    Lab(directory).down()

"""``slurmsched node-check`` on nodes with a scripted NVML, GPU and MPS."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from json_forms import answer_of
from node_worlds import shared_library, wait_until
from one_at_a_time import one_at_a_time

from slurmsched.cli import main
from slurmsched.cli.admin.node_check.findings import (
    busy,
    clients_finding,
    gpu_finding,
    loss_finding,
    no_mps,
    nvml_trouble,
    pair_finding,
    samples_finding,
)
from slurmsched.cli.admin.node_check.links import link_findings
from slurmsched.cli.admin.node_check.programs import GpuNode, NodeTrouble
from slurmsched.cli.app import App
from slurmsched.cluster.text.gres_conf import gpus_of_node
from slurmsched.models.registry import shipped
from slurmsched.models.sharing.sharing_model import SharingModel
from slurmsched.prolog.probe import KERNEL, core_numbers

HERE = Path(__file__).parent
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable  # one that any user may run
BUSY_GPU = "0 * processes 1/4711"
"""No GPU to try: what is asked of the node without one takes a fraction of the processes."""
IDLE = """
0 * gpus 2
0 0 minor 0
0 1 minor 1
0 * mode 0
0 * memory 1000
0 * util 0/0
0 * power 100
0 * limit 400
0 * processes 0
0 * graphics 0
0 0 clients cuda
0 0 loads cuda
"""


class TrialNode:
    """A node with two GPUs, whose Python finds the scripted NVML and CUDA, and with a stand-in of MPS."""

    def __init__(self, home: Path, libraries: Iterable[Path]) -> None:
        self.home = home
        for library in libraries:
            shutil.copy(library, home)
        for number in range(5):
            information = home / "gpus" / str(number) / "information"
            information.parent.mkdir(parents=True)
            information.write_text(f"GPU UUID: \t GPU-{number}\nDevice Minor: \t {number}\n")
        for noted in ("script.cuda", "script.cuda.memory"):
            (home / noted).touch()
            (home / noted).chmod(0o666)
        (home / "control.py").write_text((HERE / "mps_control.py").read_text())
        python = self.python()
        mps = self.program("mps", "", f"{PYTHON} -I {home}/control.py")
        self.settings = {"PYTHON": python, "MPS": mps, "GPU_INFO_DIR": str(home / "gpus"), "EVERY_S": "0.2"}
        self.script(IDLE)
        self.earlier = frozenset(remains())  # a run that was killed leaves its directory

    def program(self, name: str, before: str, command: str) -> str:
        """Make a shell script that does something *before* a command, and return its path."""
        path = self.home / name
        path.write_text(f'#!/bin/sh\n{before}\nexec {command} "$@"\n')
        path.chmod(0o755)
        return str(path)

    def python(self, before: str = "") -> str:
        """Make the Python of node.conf: one with pynvml, which may be root's alone, else one of the system."""
        libraries = f"export FAKE_NVML_SCRIPT={self.home}/script LD_LIBRARY_PATH={self.home}"
        ours = f'[ ! -x {sys.executable} ] || exec {sys.executable} "$@"'
        return self.program("python", f"{before}\n{libraries}\n{ours}", PYTHON)

    def script(self, text: str) -> None:
        (self.home / "script").write_text(text)

    @property
    def conf(self) -> Path:
        path = self.home / "node.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        return path

    def check(self, *options: str) -> dict[str, tuple[bool | None, str]]:
        """Run the command: result and text of each finding by its name. All must be gone afterwards."""
        app = App(environ={"SLURMSCHED_NODE_CONF": str(self.conf)})
        done = CliRunner().invoke(main, ["node-check", "--json", "--seconds", "0.2", *options], obj=app)
        self.printed = answer_of(["node-check"], done.stdout)
        assert self.left_behind() == set()
        found = {each["name"]: (each["ok"], each["text"]) for each in self.printed["findings"]}
        assert done.exit_code == any(ok is False for ok, _ in found.values())
        return found

    def directory(self) -> Path:
        """The private directory of the command that runs."""
        wait_until(
            lambda: [path for path in self.left_behind() if path.startswith("/")], "a private directory", every_s=0.1
        )
        return Path(next(path for path in self.left_behind() if path.startswith("/")))

    def left_behind(self) -> set[str]:
        """Directories and processes of the command that were not there before this node."""
        return remains() - self.earlier


def remains() -> set[str]:
    """Directories and processes of the command on this machine."""
    mark = "slurmsched-node-check."
    found = {str(path) for top in ("/run", "/tmp") for path in Path(top).glob(f"{mark}*")}
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and mark.encode() in (process / "environ").read_bytes():
                found.add(f"{process.name} {(process / 'cmdline').read_text()}")
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def libraries(nvml, tmp_path_factory) -> list[Path]:
    """The scripted NVML and CUDA."""
    cuda = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    shared_library(HERE / "cuda.c", cuda)
    return [nvml / "libnvidia-ml.so.1", cuda]


@contextmanager
def trial_node(libraries: list[Path]) -> Iterator[TrialNode]:
    """A node of its own; one at a time on this machine, since what is left behind is looked for in all of it."""
    with one_at_a_time("node-check"), tempfile.TemporaryDirectory(prefix="node-check-", dir="/tmp") as directory:
        Path(directory).chmod(0o755)  # another user's GPU jobs go through it
        yield TrialNode(Path(directory), libraries)


@pytest.fixture
def node(libraries):
    with trial_node(libraries) as node:
        yield node


@dataclass(frozen=True)
class Watched:
    """What the check of a healthy node found, as which users MPS ran, and the environment of each Python."""

    found: dict[str, tuple[bool | None, str]]
    measured: dict[str, object]
    users: set[str]
    environments: str


@pytest.fixture(scope="module")
def healthy(libraries, tmp_path_factory) -> Watched:
    """The check of a healthy node by a caller with a hostile directory and variables."""
    hostile = tmp_path_factory.mktemp("hostile")
    (hostile / "json.py").write_text("raise SystemExit(9)")
    with trial_node(libraries) as node, pytest.MonkeyPatch.context() as caller:
        caller.chdir(hostile)
        for name, value in {"SECRET_OF_ROOT": "1", "PYTHONPATH": hostile, "CUDA_MPS_PIPE_DIRECTORY": hostile}.items():
            caller.setenv(name, str(value))
        for noted in ("users", "environments"):
            (node.home / noted).touch()
            (node.home / noted).chmod(0o666)
        node.settings["MPS"] = node.program("mps", f"id -u >>{node.home}/users", f"{PYTHON} -I {node.home}/control.py")
        node.settings["PYTHON"] = node.python(f"env >>{node.home}/environments")
        node.script(f"{IDLE}0 0 util cuda:90/40\n")
        found = node.check("--pairs")
        users, environments = ((node.home / noted).read_text() for noted in ("users", "environments"))
        return Watched(found, node.printed["measured"], set(users.split()), environments)


def wrong(found):
    return {name for name, (ok, _) in found.items() if ok is False}


def test_a_healthy_node_passes_every_check(healthy):
    found = healthy.found
    assert wrong(found) - {"loss by the sampler"} == set(), "that one depends on this machine's other work"
    assert found["NVML"] == (True, "NVML 12.scripted, driver scripted, CUDA 12.4, 2 GPUs")
    assert found["GPU 0"][1] == "Scripted, GPU-0, device 0, compute mode Default, 81920 MiB, MIG off; idle"
    assert found["UUIDs"][0] is True
    assert "it measured 2 of 2 GPUs and took" in found["sampler"][1]
    assert found["trial"] == (True, "on GPU 0")
    assert "nothing is left behind" in found["MPS"][1]
    assert found["clients of MPS"] == (
        True,
        "of 2 clients NVML lists 2 as clients and 0 as processes, the memory of 2 and the utilisation of 2;"
        " the sampler counts 2",
    )
    assert len(healthy.measured["sampler_losses"]) >= 2
    first, second = healthy.measured["pairs"][2]["speeds"]
    assert first + second < 1.6, "jobs that need all of a GPU cannot both keep their speed"
    assert "Jumbo (90% busy) and Jumbo (90% busy), which do not share" in found["heavy + heavy"][1]


def test_gpu_jobs_of_root_belong_to_another_user(healthy):
    assert healthy.found["MPS"][0] is True
    assert healthy.users == {"65534" if os.geteuid() == 0 else str(os.geteuid())}


def test_nothing_of_the_callers_environment_or_directory_reaches_a_program(healthy):
    assert healthy.found["MPS"][0] is True
    assert "FAKE_NVML_SCRIPT" not in healthy.environments, "noted before our own are set"
    assert "PATH=" in healthy.environments
    for name in ("SECRET_OF_ROOT", "PYTHONPATH", "hostile"):
        assert name not in healthy.environments


def test_a_node_without_nvml_says_so_and_what_was_not_checked(node):
    (node.home / "libnvidia-ml.so.1").unlink()
    found = node.check()
    assert wrong(found) == {"NVML"}
    assert "not checked" in found["the rest"][1]


def test_a_node_without_its_python_says_which_one(node):
    node.settings["PYTHON"] = "/nowhere/python3"
    found = node.check()
    assert wrong(found) == {"settings", "NVML"}
    assert "/nowhere/python3 does not start" in found["settings"][1]


def test_gpus_that_another_process_uses_are_left_alone(node):
    lines = """
0 * gpus 5
0 2 minor 2
0 3 minor 3
0 4 minor 4
0 0 processes 1/4711
0 1 graphics 1/4712
0 2 processes error:3
0 3 util 30/5
0 4 memory 40000
"""
    node.script(f"{IDLE}{lines}")
    found = node.check("--pairs")
    assert wrong(found) == set()
    for reason in (
        "GPU 0: process 4711 runs on it",
        "GPU 1: process 4712 runs on it",
        "GPU 2: NVML does not list its processes",
        "GPU 3: its utilisation is 30 %",
        "GPU 4: 40000 MiB of it are in use",
    ):
        assert reason in found["trial"][1]
    for name in ("loss by the sampler", "MPS"):
        assert found[name] == (None, "not checked: no GPU is idle")
    assert found["pairs"] == (None, "not checked: MPS was not up")
    assert (node.home / "script.cuda").read_text() == "", "no GPU job has run"


def test_the_idle_one_of_two_gpus_is_used(node):
    node.script(f"{IDLE}0 0 processes 1/4711\n")
    (node.home / "libcuda.so.1").unlink()
    found = node.check()
    assert found["trial"] == (True, "on GPU 1; left alone: GPU 0: process 4711 runs on it")
    assert found["MPS"][0] is True


def test_a_gpu_that_gets_a_process_meanwhile_is_left_alone(node):
    comes = f"""case "$*" in
        *" gpus") if [ -e {node.home}/looked ]; then echo "0 0 graphics 1/4711" >>{node.home}/script; fi
            touch {node.home}/looked ;;
    esac"""
    node.settings["PYTHON"] = node.python(comes)
    found = node.check()
    assert found["trial"] == (True, "on GPU 0")
    assert found["loss by the sampler"] == (None, "not checked: process 4711 runs on it now")
    assert found["MPS"] == (None, "not checked: process 4711 runs on it now")
    assert (node.home / "script.cuda").read_text() == ""


def test_anyway_uses_a_busy_gpu(node):
    node.script(f"{IDLE}0 * processes 1/4711\n")
    found = node.check("--anyway")
    assert found["trial"] == (True, "on GPU 0")
    assert found["MPS"][0] is True


def test_a_gpu_cut_into_slices_is_no_gpu_to_try(node):
    node.script(f"{IDLE}0 0 mig 1\n")
    node.settings["MPS"] = "/nowhere/mps"
    (node.home / "libcuda.so.1").unlink()
    found = node.check()
    assert found["GPU 0"][0] is None
    assert "MIG on" in found["GPU 0"][1]
    assert found["trial"] == (True, "on GPU 1")
    node.script(f"{IDLE}0 * mig 1\n")
    assert "no whole GPU" in node.check()["the rest"][1]


@pytest.mark.parametrize(
    ("instead", "reason"), [("exit 3", "ended at once with 3"), ("exec sleep 600", "was not ready within 10 s")]
)
def test_a_control_daemon_that_does_not_start_is_wrong_with_its_reason(node, instead, reason):
    node.settings["MPS"] = node.program("mps", instead, "false")
    (node.home / "libcuda.so.1").unlink()
    found = node.check()
    assert "MPS" in wrong(found)
    assert reason in found["MPS"][1]
    assert found["clients of MPS"] == (None, "not checked: MPS was not up")


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    node = GpuNode(tmp_path, pwd.getpwuid(os.geteuid()), None)
    with pytest.raises(NodeTrouble, match=r"no answer within 0\.5 s"):
        node.run("/bin/sh", "-c", "sleep 600 & sleep 600", limit_s=0.5, MARK=f"{tmp_path}")
    assert node.end_leftovers() == []


def test_a_process_that_outlives_the_control_daemon_is_found_and_ended(node):
    escape = "os.fork() or (os.setsid(), time.sleep(600))\n    os.mkfifo("
    (node.home / "control.py").write_text((HERE / "mps_control.py").read_text().replace("os.mkfifo(", escape))
    (node.home / "libcuda.so.1").unlink()
    found = node.check()
    assert found["MPS"][0] is False
    assert found["MPS"][1].startswith("left behind and removed: python3")


def test_without_a_control_program_jobs_take_turns(node):
    node.settings["MPS"] = "/nowhere/mps"
    (node.home / "libcuda.so.1").unlink()
    assert node.check()["MPS"] == (None, "there is no program /nowhere/mps: jobs that share GPUs take turns")
    assert no_mps("none", "node.conf").text == "MPS=none in node.conf: jobs that share GPUs take turns"


def test_clients_that_mps_refuses_are_a_failure(node):
    (node.home / "script.cuda.refused").write_text("805")
    found = node.check()
    assert found["clients of MPS"][0] is False
    assert "cuInit of CUDA failed with error 805" in found["clients of MPS"][1]


def test_without_cuda_gpu_jobs_are_not_checked_and_the_daemon_is(node):
    (node.home / "libcuda.so.1").unlink()
    found = node.check("--pairs")
    assert wrong(found) == set()
    assert "libcuda.so.1" in found["loss by the sampler"][1]
    assert "libcuda.so.1" in found["MPS"][1]


def test_uuids_that_the_prolog_does_not_find_cost_mps(node):
    shutil.rmtree(node.home / "gpus" / "1")
    node.script(f"{IDLE}{BUSY_GPU}\n")
    found = node.check()
    assert found["UUIDs"] == (False, "the prolog does not find that of device 1: jobs that share it have no MPS")


LINKED = f"""{IDLE}0 * gpus 3
0 2 minor 2
0 * processes 1/4711
0 * affinity 1
0 0 link0 1
0 0 link1 1
0 1 link0 0
0 1 link1 0
"""


def test_gres_conf_is_compared_with_the_links_between_gpus_and_its_lines_are_printed(node):
    node.script(LINKED)
    (node.home / "gres.conf").write_text("Include ours.conf\nName=gpu Type=v100 File=/dev/nvidia1 Links=-1,2,0\n")
    (node.home / "ours.conf").write_text("Name=gpu Type=v100 File=/dev/nvidia0 Cores=0\n")
    found = node.check("--gres-conf", str(node.home / "gres.conf"))
    assert found["links"] == (
        None,
        'a pair of GPUs has 0 to 2 NVLinks; for slots share.links = ["-1,2,0", "2,-1,0", "0,0,-1"]',
    )
    assert found["links of /dev/nvidia0"] == (None, "gres.conf has no Links= for it")
    assert found["links of /dev/nvidia1"] == (False, "gres.conf has Links=-1,2,0, and NVML 2,-1,0")
    assert found["links of /dev/nvidia2"] == (None, "gres.conf has no line for it")
    lines = {each["name"]: each["remedy"] for each in node.printed["findings"]}
    assert lines["links of /dev/nvidia0"] == "Name=gpu Type=v100 File=/dev/nvidia0 Cores=0 Links=-1,2,0"
    assert lines["links of /dev/nvidia1"] == "Name=gpu Type=v100 File=/dev/nvidia1 Cores=0 Links=2,-1,0"
    (node.home / "gres.conf").write_text("".join(f"{lines[f'links of /dev/nvidia{gpu}']}\n" for gpu in range(3)))
    found = node.check("--gres-conf", str(node.home / "gres.conf"))
    assert [name for name in found if name.startswith("links")] == ["links"]
    assert found["links"][0] is True


def three_gpus(cores):
    rows = enumerate([[-1, 2, 0], [2, -1, 0], [0, 0, -1]])
    return [{"minor": minor, "links": links, "cores": cores} for minor, links in rows]


@pytest.mark.parametrize(
    ("line", "ok", "text"),
    [
        ("Name=gpu File=/dev/nvidia0 Links=-1,2,0", False, "Links= without Cores=, which Slurm 22.05 ignores"),
        ("Name=gpu File=/dev/nvidia0 Cores=1-3 Links=-1,2,0", None, "gres.conf has Cores=1-3, and NVML 0-1"),
        ("NodeName=other Name=gpu File=/dev/nvidia0", None, "gres.conf has no line for it"),
    ],
)
def test_links_that_slurm_would_not_use_are_named(line, ok, text):
    others = ["Name=gpu File=/dev/nvidia1 Cores=0-1 Links=2,-1,0", "Name=gpu File=/dev/nvidia2 Cores=0-1 Links=0,0,-1"]
    summary, found = link_findings(three_gpus([0, 1]), gpus_of_node([line, *others], "n1"))
    assert summary.remedy.endswith("restart slurmctld and the slurmd of this node")
    assert (found.name, found.ok) == ("links of /dev/nvidia0", ok)
    assert text in found.text
    assert found.remedy == "Name=gpu File=/dev/nvidia0 Cores=0-1 Links=-1,2,0"


def test_where_slurmd_reads_links_itself_or_all_pairs_are_alike_no_line_is_printed():
    (detected,) = link_findings(three_gpus([]), gpus_of_node(["AutoDetect=nvml"], "n1"))
    assert (detected.ok, detected.remedy) == (True, "")
    alike = [{"minor": 0, "links": [-1, 0], "cores": []}, {"minor": 1, "links": [0, -1], "cores": []}]
    (none,) = link_findings(alike, gpus_of_node([], "n1"))
    assert (none.ok, none.text) == (True, "each pair of GPUs has no NVLinks of its own: any GPUs serve a job alike")


def test_cores_are_numbered_socket_by_socket_as_slurm_does(tmp_path):
    for cpu, (socket, core) in enumerate([(0, 4), (1, 4), (0, 9), (1, 9)] * 2):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{socket}\n")
        (topology / "core_id").write_text(f"{core}\n")
    (tmp_path / "cpufreq").mkdir()
    (tmp_path / "cpu8").mkdir()  # offline
    assert core_numbers(str(tmp_path)) == {0: 0, 2: 1, 1: 2, 3: 3, 4: 0, 6: 1, 5: 2, 7: 3}


def test_a_slow_nvml_is_found(node):
    node.script(f"{IDLE}{BUSY_GPU}\n0 0 power hang:1\n")
    found = node.check()
    assert found["time of a sample"][0] is False


@pytest.mark.parametrize("moment", ["sampler", "clients of MPS"])
def test_a_signal_ends_all_that_the_command_started(node, moment):
    slow = {"sampler": "60", "clients of MPS": "0.1"}[moment]
    node.script(f"{IDLE}0 0 loads hang:40\n")
    environment = os.environ | {"SLURMSCHED_NODE_CONF": str(node.conf)}
    argv = [sys.executable, "-P", "-m", "slurmsched", "node-check", "--seconds", slow]
    command = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE)
    try:
        if moment == "sampler":
            wait_until(lambda: (node.home / "script.asked.1.node-check").exists(), "the sampler to measure")
        else:
            directory = node.directory()
            wait_until(lambda: [*directory.glob("mps/*/pipe/control")], "the control daemon")
        command.send_signal(signal.SIGTERM)
        assert command.wait(60.0) == 128 + signal.SIGTERM
    finally:
        command.kill()
        command.communicate()
    assert node.left_behind() == set()


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="there is no assembler of CUDA")
def test_the_assembler_of_cuda_takes_the_kernel(tmp_path):
    (tmp_path / "turn.ptx").write_bytes(KERNEL)
    assembled = subprocess.run(["ptxas", "--gpu-name", "sm_90", tmp_path / "turn.ptx", "-o", tmp_path / "turn.cubin"])
    assert assembled.returncode == 0


@pytest.mark.parametrize(("loss", "ok"), [(0.001, True), (0.02, False), (0.005, None)])
def test_a_loss_is_judged_by_its_mean_and_its_uncertainty(loss, ok):
    finding = loss_finding([loss - 0.001, loss + 0.001, loss - 0.001, loss + 0.001], 1.0)
    assert finding.ok is ok
    assert finding.remedy == ("EVERY_S=4 in node.conf" if ok is False else finding.remedy)


@pytest.mark.parametrize(("median_s", "ok"), [(0.001, True), (0.1, None), (0.9, False)])
def test_samples_are_judged_by_the_time_between_them(median_s, ok):
    gpus = [{"median_s": median_s, "longest_s": 2.0 * median_s}] * 2
    assert samples_finding(gpus, 1.0).ok is ok


@pytest.mark.parametrize(
    ("mode", "ok", "word"),
    [(0, True, "Default"), (2, False, "Prohibited"), (3, None, "Exclusive"), (None, True, "unknown")],
)
def test_compute_modes_are_judged_by_what_jobs_can_do(mode, ok, word):
    gpu = {"index": 0, "minor": 0, "uuid": "GPU-0", "name": "X", "mig": False, "compute_mode": mode, "gpu_util": 0}
    gpu |= {"memory_mib": 100, "used_mib": 1, "processes": [], "clients": None, "graphics": None}
    finding = gpu_finding(gpu)
    assert finding.ok is ok
    assert word in finding.text
    assert busy(gpu) == ""


def test_clients_that_nvml_shows_as_one_server_are_a_failure():
    seen = {"processes": [{"pid": 5, "mib": 700}], "clients": None, "loads": None, "counted": 1}
    finding = clients_finding(seen, [7, 8])
    assert finding.ok is False
    assert "0 as clients and 0 as processes" in finding.text


@pytest.mark.parametrize(("util", "speed", "ok"), [(0.2, 0.97, True), (0.2, 0.6, False), (1.0, 0.5, True)])
def test_a_pair_fails_if_the_model_lets_jobs_share_that_slow_each_other_down(util, speed, ok):
    model = shipped().read_as(SharingModel.of_document)
    alone = {"light": {"gpu_util": util, "memory_util": 0.4 * util, "memory_mib": 500.0}}
    finding = pair_finding(("light", "light"), (speed, speed), alone, model)
    assert finding.ok is ok
    assert f"{speed:.2f} and {speed:.2f} of their speed alone" in finding.text


def test_two_jobs_whose_expected_speed_is_too_low_do_not_share_whatever_their_scores():
    model = shipped().read_as(SharingModel.of_document)
    alone = {"heavy": {"gpu_util": 0.9, "memory_util": 0.02, "memory_mib": 800.0}}
    finding = pair_finding(("heavy", "heavy"), (0.63, 0.63), alone, model)
    assert finding.ok is True
    assert "Expected: 0.73, of Medium (90% busy) and Medium (90% busy), which do not share" in finding.text


def test_a_missing_pynvml_is_named_with_its_cure():
    finding = nvml_trouble("ModuleNotFoundError: No module named 'pynvml'", "/usr/bin/python3")
    assert finding.remedy.startswith("/usr/bin/python3 -m pip install nvidia-ml-py")


TRIAL = [sys.executable, str(HERE.parents[1] / "scripts/gpu-trial"), "--seconds"]
BUSY = f"{IDLE}0 0 util cuda:90/40\n0 * processes cuda\n"


def page_of(node, *options: str) -> str:
    """Run the trial of a GPU node and return its page."""
    page = node.home / "page.md"
    environment = {**os.environ, "SLURMSCHED_NODE_CONF": str(node.conf)}
    subprocess.run([*TRIAL, *options, "--output", str(page)], env=environment, cwd="/", capture_output=True)
    return page.read_text()


def rows_of(page: str) -> dict[str, list[str]]:
    """The table of faults by what one job did."""
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in page.splitlines() if "|" in line[:1]]
    return {row[0]: row[1:] for row in rows[2:]}


def test_the_trial_of_a_gpu_node_compares_each_fault_with_its_record(node):
    node.script(BUSY)
    page = page_of(node, "1", "--no-slurm")
    assert "* ok: MPS: the control daemon was up after" in page
    rows = rows_of(page)
    assert rows["illegal address"][1].startswith("ended: cuCtxSynchronize of CUDA failed with error 700")
    assert rows["illegal address"][2] == "the other: partners, it: partners"
    assert rows["failed assertion"][1].startswith("went on at ")
    assert rows["failed assertion"][2] == "it: own"
    assert rows["out of memory"][0] == "cuMemAlloc_v2 of CUDA failed with error 2"
    assert [row[2] for row in (rows["out of memory"], rows["killed inside a kernel"])] == ["none", "none"]
    stopped = rows["stopped inside a kernel, for 4 s"]
    assert stopped[0] == "went on"
    assert stopped[1].startswith("went on at ")
    assert stopped[2] == "none"
    assert "* ok: left behind: nothing" in page
    assert node.left_behind() == set()


@pytest.mark.lab
@pytest.mark.soak
@pytest.mark.skipif(os.geteuid() != 0, reason="a Slurm with several users needs root")
def test_the_trial_of_a_gpu_node_lets_jobs_share_and_fail_on_a_real_slurm(node):
    node.script(f"{IDLE}0 0 util cuda:40/10\n0 * processes cuda\n0 0 memory cuda:1000\n")
    page = page_of(node, "3")
    slurm = page[page.index("## Under Slurm") :]
    assert "as a job that shares, with job" in slurm
    assert re.search(r"it kept about \d\.\d\d of its speed beside job \d+ for \d+ s", slurm)
    assert "* ok: an illegal address of one job: FAILED, its partner FAILED, 2 records" in slurm
    assert "later these two kinds are not paired again" in slurm
    assert re.search(r"\* ok: while the other was suspended a job ran at [0-9.]+ of its speed in turns", slurm), slurm
    assert re.search(r"\* ok: suspended for 1\d s and resumed: COMPLETED, its host COMPLETED", slurm), slurm
    assert "**wrong**" not in slurm, slurm
    assert node.left_behind() == set()

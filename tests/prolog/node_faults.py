"""What may be wrong with a compute node: lines of shell that make it so for one run of prolog, epilog or task prolog.

``$D`` is a directory of the job's own, ``$H`` one for all. ``limit`` is evaluated in the process that becomes the
program, ``attack`` beside it while it runs as ``$pid``; ``$real`` is the program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from node_worlds import PROGRAMS, TWO_GPUS, scripted_nvml

NONE, WAITS = "no program", "a program that only waits"
"""Two controls, on the same machine at the same time: without ours, and with the pauses of ours and nothing else."""

PAUSES = {"prolog": "0.01 0.02 0.04 0.08 0.15 0.25", "taskprolog": "0.01 0.02 0.04 0.08"}
WAITED_S = 0.7
"""What those before a start add up to."""

PLACES = {"RUN_DIR": "run", "TASK_DIR": "tasks", "SPOOL_DIR": "spool"}
DELIVERS = "export SLURMSCHED_COLLECTOR=127.0.0.1:$PORT; own $D/spool; echo {} >$D/spool/1.n1.1.json"
SHARES = (
    "export SLURM_JOB_PARTITION=shared SLURM_JOB_COMMENT=slurmsched:share=0 SLURM_JOB_GPUS= CUDA_VISIBLE_DEVICES="
    " SLURM_JOB_UID=0 SLURMSCHED_MPS=$H/true"
)

_CATCHES = "^SigCgt:.*[4567cdef]..[13579bdf]$ /proc/$pid/status"
CAUGHT = f"while [ -e /proc/$pid ] && ! grep -q {_CATCHES}; do sleep 0.005; done;"
"""Wait until a program catches HUP and TERM, in its first line: before that nothing of it could be told so."""

CONTROLS = {NONE: "real=", WAITS: "real=$H/waits/$program"}

FAULTS = {
    "nothing": ":",
    "a Python that is missing": "export SLURMSCHED_PYTHON=/nonexistent/python3",
    "a Python that is no program": "export SLURMSCHED_PYTHON=/etc/passwd",
    "a Python that fails": "export SLURMSCHED_PYTHON=/bin/false",
    "a Python that hangs": "export SLURMSCHED_PYTHON=$H/hang",
    "a Python that is killed": "export SLURMSCHED_PYTHON=$H/killed",
    "no memory for Python": "limit='ulimit -v 12000'",
    "no NVML": "export LD_LIBRARY_PATH=",
    "an NVML that hangs at once": "export FAKE_NVML_SCRIPT=$H/hangs",
    "an NVML that hangs later": "export FAKE_NVML_SCRIPT=$H/hangs.later",
    "an NVML that fails": "export FAKE_NVML_SCRIPT=$H/fails",
    "GPUs that are lost": "export FAKE_NVML_SCRIPT=$H/lost",
    **{f"a full disk, {name}": f"export SLURMSCHED_{name}=$H/full/{place}" for name, place in PLACES.items()},
    **{f"a read-only disk, {name}": f"export SLURMSCHED_{name}=$H/frozen/{place}" for name, place in PLACES.items()},
    **{f"a wrong owner, {name}": f"own $D/{place}; chown 65534 $D/{place}" for name, place in PLACES.items()},
    **{f"open to others, {name}": f"own $D/{place}; chmod 777 $D/{place}" for name, place in PLACES.items()},
    **{f"a link, {name}": f"rm -rf $D/{place}; ln -s /tmp $D/{place}" for name, place in PLACES.items()},
    **{f"a file, {name}": f"rm -rf $D/{place}; : >$D/{place}" for name, place in PLACES.items()},
    **{
        f"a slow file system, {name}": f"limit='export LD_PRELOAD=$H/faults.so FAULT_S=0.3 FAULT_PATH=$D/{place}'"
        for name, place in PLACES.items()
    },
    **{
        f"a file system that hangs, {name}": f"limit='export LD_PRELOAD=$H/faults.so FAULT_S=600 FAULT_PATH=$D/{place}'"
        for name, place in PLACES.items()
    },
    "slow programs": "limit='export LD_PRELOAD=$H/faults.so FAULT_S=0.1 FAULT_PATH=${real%/*}'",
    "programs that hang": "limit='export LD_PRELOAD=$H/faults.so FAULT_S=600 FAULT_PATH=${real%/*}/node.sh'",
    "settings that hang": "[ -e $D/conf ] || mkfifo $D/conf; export SLURMSCHED_NODE_CONF=$D/conf",
    "settings without an end": "export SLURMSCHED_NODE_CONF=/dev/zero",
    "settings of noise": "head -c 200000 /dev/urandom >$D/conf; export SLURMSCHED_NODE_CONF=$D/conf",
    "settings that are a directory": "export SLURMSCHED_NODE_CONF=$D",
    "a pid file that hangs": "own $D/run; rm -f $D/run/$J.pid; mkfifo $D/run/$J.pid",
    "a pid file of a stranger": "own $D/run; echo $$ 1 >$D/run/$J.pid",
    "words for tasks that hang": "own $D/tasks; chmod 755 $D/tasks; rm -f $D/tasks/$J.env; mkfifo $D/tasks/$J.env",
    "children that are killed": (
        "attack='for at in 1 2 3 4 5; do sleep 0.02; kill -KILL $(cat /proc/$pid/task/$pid/children); done'"
    ),
    "a prolog that is told to end": f"attack='{CAUGHT} sleep 0.05; kill -TERM $pid'",
    "a prolog that is hung up": f"attack='{CAUGHT} sleep 0.02; kill -HUP $pid'",
    # bash would try again for 15 s
    "no process left": "real=$H/dash/$program; limit='export LD_PRELOAD=$H/faults.so FAULT_FORK=1'",
    "few open files": "limit='ulimit -n 16'",
    "no file may grow": "limit='ulimit -f 0'",
    "no PATH": "limit='unset PATH'",
    "tools that fail": "limit='PATH=$H/failing:$PATH'",
    "tools that hang": "limit='PATH=$H/hanging:$PATH'",
    "no node.sh": "real=$H/alone/$program",
    "no Python programs": "real=$H/scripts/$program",
    "two runs": '"$real" >/dev/null',
    "a munge that is missing": f"{DELIVERS}; export SLURMSCHED_MUNGE=/nonexistent/munge",
    "a munge that hangs": f"{DELIVERS}; export SLURMSCHED_MUNGE=$H/hang",
    "a collector that is away": f"{DELIVERS}; export SLURMSCHED_COLLECTOR=127.0.0.1:1 SLURMSCHED_MUNGE=/bin/cat",
    "a collector that is silent": f"{DELIVERS}; export SLURMSCHED_MUNGE=/bin/cat",
    "a spool of thousands": (
        f"{DELIVERS}; [ -e $D/thousands ] || cp -r $H/thousands $D; export SLURMSCHED_SPOOL_DIR=$D/thousands"
    ),
    "an MPS that hangs": f"{SHARES}; export SLURMSCHED_MPS=$H/hang",
    "an MPS that fails": f"{SHARES}; export SLURMSCHED_MPS=/bin/false",
    "an MPS directory of a wrong owner": f"{SHARES}; own $D/mps; chown 65534 $D/mps",
    "an MPS that another job keeps locked": (
        f"{SHARES}; own $D/run; own $D/run/mps.$SLURMD_NODENAME; flock $D/run/mps.$SLURMD_NODENAME sleep 5 >&- 2>&- &"
    ),
    "GPU information that hangs": (
        f"{SHARES}; mkdir -p $D/gpus/0; [ -e $D/gpus/0/information ] || mkfifo $D/gpus/0/information"
    ),
}
"""By name. The set-up of the two that want a process has no limit on it."""

HOOK = """#!/bin/sh
program={program} H={home} PORT={port}
J=$SLURM_JOB_ID.$SLURMD_NODENAME D={home}/jobs/$SLURM_JOB_ID
export H D J PORT LD_LIBRARY_PATH=$H FAKE_NVML_SCRIPT=$H/script SLURMSCHED_PYTHON={python} SLURMSCHED_EVERY_S=0.05
export SLURMSCHED_RUN_DIR=$D/run SLURMSCHED_TASK_DIR=$D/tasks SLURMSCHED_SPOOL_DIR=$D/spool SLURMSCHED_MPS_DIR=$D/mps
export SLURMSCHED_GPU_INFO_DIR=$D/gpus SLURMSCHED_NODE_CONF=/nonexistent SLURMSCHED_COLLECTOR_USER=root
own() {{ mkdir -p "$1"; chmod 700 "$1"; chown 0 "$1"; }}
mkdir -p "$D"
kind=$((SLURM_JOB_ID % {kinds}))
case $((SLURM_JOB_ID / {kinds} % {shells})) in 0) real=$H/dash/$program ;; *) real=$H/bash/$program ;; esac
limit=: attack=
exec 2>/dev/null
. "$H/kinds/$kind"
read -r began _ </proc/uptime
status=0
if [ -n "$attack" ]; then
    "$real" &
    pid=$!
    (eval "$attack") >/dev/null &
    wait $pid
    status=$?
elif [ -n "$real" ]; then
    (eval "$limit"; exec "$real")
    status=$?
fi
read -r ended _ </proc/uptime
echo "$program $SLURM_JOB_ID $kind $began $ended $status" >>$H/log
exit $status
"""
"""What Slurm runs in the place of each program; the clock stands until the fault is there."""


def build(home: Path, kinds: list[str], shells: list[str], port: int) -> list[str]:
    """Make a node in *home* on which job N suffers from fault N modulo their number; the lines for slurm.conf."""
    scripted_nvml(home)
    source = Path(__file__).with_name("faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", home / "faults.so", source, "-ldl"], check=True)
    scripts = {"script": "", "hangs": "0 * init hang:600\n", "hangs.later": "#3 * util hang:600\n",
               "fails": "0 * gpus error:999\n", "lost": "#3 * memory error:15\n"}  # fmt: skip
    for name, more in scripts.items():
        (home / name).write_text(TWO_GPUS + more)
    for name, does in {"hang": "trap '' TERM; exec sleep 600", "killed": "kill -KILL $$", "true": "exit 0"}.items():
        _program(home / name, does)
    for tool in ("setsid", "readlink", "ls", "id", "mkdir", "mv", "rm", "touch"):
        _program(home / "failing" / tool, "exit 1")
        _program(home / "hanging" / tool, "exec sleep 600")
    for name in ("dash", "bash", "alone", "scripts"):
        _copy_programs(home / name, shutil.which(name), name != "alone", name in ("dash", "bash"))
    for program in ("prolog", "epilog", "taskprolog"):
        pauses = PAUSES.get(program, PAUSES["prolog"])
        assert f"for pause in {pauses}; do" in (PROGRAMS / program).read_text()
        _program(home / "waits" / program, f"for pause in {pauses}; do sleep $pause; done")
    (home / "thousands").mkdir(mode=0o700)
    for number in range(3000):
        (home / f"thousands/{number}.n1.1.json").write_text("{}")
    for disk in ("full", "frozen"):
        _disk(home / disk)
    (home / "kinds").mkdir()
    for number, kind in enumerate(kinds):
        (home / f"kinds/{number}").write_text((FAULTS | CONTROLS)[kind] + "\n")
    (home / "log").touch()
    hooks = []
    for program in ("prolog", "epilog", "taskprolog"):
        text = HOOK.format(
            program=program, home=home, port=port, python=sys.executable, kinds=len(kinds), shells=len(shells)
        )
        _program(home / program, text)
        hooks.append(f"{program}={home / program}")
    return hooks


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _copy_programs(into: Path, shell: str | None, library: bool, python: bool) -> None:
    into.mkdir()
    for file in PROGRAMS.iterdir():
        if file.name in ("prolog", "epilog", "taskprolog"):
            _program(into / file.name, file.read_text().replace("#!/bin/sh", f"#!{shell or '/bin/sh'}", 1))
        elif (file.suffix == ".py" and python) or (file.suffix == ".sh" and library):
            shutil.copy(file, into)


def _disk(at: Path) -> None:
    """A small file system of its own with the three directories, and no room for more."""
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,nr_inodes=6", "slurmsched-faults", at], check=True)
    for place, mode in (("run", 0o700), ("tasks", 0o755), ("spool", 0o700)):
        (at / place).mkdir(mode=mode)
        (at / place).chmod(mode)
    if at.name == "frozen":
        subprocess.run(["mount", "-o", "remount,ro", at], check=True)
        return
    with (at / "filler").open("wb") as file, contextlib.suppress(OSError):
        file.write(b"x" * 65536)


def unmount(home: Path) -> None:
    """Take away the file systems that ``build`` made."""
    for disk in ("full", "frozen"):
        if os.path.ismount(home / disk):
            subprocess.run(["umount", "--lazy", home / disk], check=True)

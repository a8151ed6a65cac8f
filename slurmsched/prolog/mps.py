"""MPS for jobs that share GPUs: one control daemon per set of GPUs and user, from the first sharer to the last.

A program of its own, started as root by Slurm's prolog and epilog: Python 3.6 or newer and the standard library.
``join GPUS UUIDS PERCENT MIB`` adds the job of the environment to the set of the job that it joins, else to a set of
its own GPUs, and starts the daemon of the set if there is none; ``leave DIRECTORY`` removes it again. The settings of
node.conf come in the environment as SLURMSCHED_NAME.

A fault may end all jobs of a set: when the daemon dies, or its log tells of a fault (mps_faults.py), each job that is
concerned writes a record to the spool, ``JOB.NODE.START.fault``.
"""

import contextlib
import fcntl
import importlib
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import syslog
import time

# ruff: noqa: UP006, UP035, UP045 - newer spellings do not run on Python 3.6
from typing import Any, Dict, Iterator, List, Optional, Set

VERSION = 1
WHOLE_S = 60  #: limit, after which the kernel kills us
READY_S = 10.0
QUIT_S = 5.0
WASTE = ".gone"  #: suffix of directories to be removed

# -I keeps our own directory out of sys.path.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
mps_faults: Any = importlib.import_module("mps_faults")


class GpuShare:
    """A set of GPUs and one user: the jobs that share it now, in a directory that only root reads."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.name = os.path.basename(directory)  # 0+1.1000
        self.gpus, _, uid = self.name.rpartition(".")
        self.uid = int(uid)
        node = os.path.basename(os.path.dirname(directory))
        self.public = os.path.join(os.environ["SLURMSCHED_MPS_DIR"], node[len("mps.") :] + "." + self.name)

    @property
    def pipes(self) -> str:
        """The directory in which clients find the daemon; only the user's."""
        return os.path.join(self.public, "pipe")

    @property
    def logs(self) -> str:
        """The directory of the daemon's logs; only the user's."""
        return os.path.join(self.public, "log")

    def sharers(self) -> Dict[int, Dict[str, Any]]:
        """Return the note of each job that shares, by job id."""
        found = {}
        for name in os.listdir(self.directory) if os.path.isdir(self.directory) else []:
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError), open(os.path.join(self.directory, name)) as file:
                    found[int(name)] = json.load(file)
        return found

    def note(self, job_id: int, body: Dict[str, Any]) -> None:
        """Store *body* for a job."""
        path = os.path.join(self.directory, str(job_id))
        with open(path + ".new", "w") as file:
            json.dump(body, file)
        os.rename(path + ".new", path)

    def forget(self, job_id: int) -> None:
        """Remove a job's note: it shares no more."""
        os.unlink(os.path.join(self.directory, str(job_id)))

    def daemon(self) -> Optional[int]:
        """Return the pid of the control daemon; None where it does not run."""
        try:
            with open(os.path.join(self.directory, "daemon")) as file:
                pid, since = file.read().split()
        except (OSError, ValueError):
            return None
        return int(pid) if started(int(pid)) == since else None

    def start(self, uuids: str) -> None:
        """Start the control daemon as the user, and wait until clients can find it."""
        user = pwd.getpwuid(self.uid)
        self.discard()  # files of a daemon that died
        os.mkdir(self.public)
        for directory in (self.pipes, self.logs):
            os.mkdir(directory, 0o700)
        new = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        output = os.open(
            os.path.join(self.logs, mps_faults.OUTPUT), new, 0o600
        )  # before its user could put a link there
        os.fchown(output, user.pw_uid, user.pw_gid)
        for directory in (self.pipes, self.logs):
            os.chown(directory, user.pw_uid, user.pw_gid)
        process = subprocess.Popen(
            [os.environ["SLURMSCHED_MPS"], "-f"],
            env=self.environment(CUDA_VISIBLE_DEVICES=uuids),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: become(user),
        )
        os.close(output)
        try:
            with open(os.path.join(self.directory, "daemon"), "w") as file:
                file.write(f"{process.pid} {started(process.pid)}")
        except OSError:
            process.kill()  # no later process could find it
            raise
        until_s = time.monotonic() + READY_S
        while not os.path.exists(os.path.join(self.pipes, "control")):
            if process.poll() is not None:
                raise OSError(f"{os.environ['SLURMSCHED_MPS']} ended at once with {process.returncode}")
            if time.monotonic() > until_s:
                raise OSError(f"{os.environ['SLURMSCHED_MPS']} was not ready within {READY_S:g} s")
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop the daemon, by request and then by force, and remove its files."""
        pid = self.daemon()
        if pid is not None:
            with contextlib.suppress(OSError, KeyError, subprocess.TimeoutExpired):  # the user may no longer exist
                user = pwd.getpwuid(self.uid)
                subprocess.run(
                    [os.environ["SLURMSCHED_MPS"]],
                    input=b"quit\n",
                    env=self.environment(),
                    cwd="/",
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=QUIT_S,
                    check=False,
                    preexec_fn=lambda: become(user),
                )
            for signum in (0, signal.SIGTERM, signal.SIGKILL):
                if self.daemon() is None:
                    break
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signum)
                until_s = time.monotonic() + 1.0
                while self.daemon() is not None and time.monotonic() < until_s:
                    time.sleep(0.02)
        self.discard()
        shutil.rmtree(self.directory, ignore_errors=True)

    def discard(self) -> None:
        """Set aside the directories that are partly the user's; ``empty_waste`` removes them, when no job waits."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.public, f"{self.public}.{os.getpid()}.{time.monotonic()}{WASTE}")

    def environment(self, **more: str) -> Dict[str, str]:
        """Return the environment in which the control program addresses this daemon."""
        inherited = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        return {**inherited, "CUDA_MPS_PIPE_DIRECTORY": self.pipes, "CUDA_MPS_LOG_DIRECTORY": self.logs, **more}

    def shorten(self) -> None:
        """Empty the output of the daemon if it is long; what is written later is appended."""
        path, flags = (
            os.path.join(self.logs, mps_faults.OUTPUT),
            os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
        )
        with contextlib.suppress(OSError):
            handle = os.open(path, flags)
            about = os.fstat(handle)
            if stat.S_ISREG(about.st_mode) and about.st_uid == self.uid and about.st_size > mps_faults.READ_B:
                os.ftruncate(handle, 0)
            os.close(handle)

    def fault(self, since: Dict[str, int]) -> Any:
        """Return the verdict of the logs since they had those lengths, of which the worst counts."""
        if self.daemon() is None:
            return mps_faults.Verdict(mps_faults.PARTNERS, "the control daemon has ended")
        return mps_faults.verdict_of_logs(self.logs, self.uid, since)


def empty_waste() -> None:
    """Remove the directories set aside here, including those of an interrupted process."""
    parent, node = os.environ["SLURMSCHED_MPS_DIR"], os.environ["SLURMD_NODENAME"]
    for name in os.listdir(parent) if os.path.isdir(parent) else []:
        if name.startswith(node + ".") and name.endswith(WASTE):
            remove(os.path.join(parent, name))


def remove(directory: str) -> None:
    """Remove *directory* of ours with all contents from its user, at any depth, and follow no link.

    Subdirectories are moved to the top before their parent is removed: depth costs no memory, open files or longer
    paths. Each one becomes ours first, so that its user cannot change it meanwhile.
    """
    top = open_private_directory(directory)
    if top is None:
        return
    try:
        number = 0
        left = take_out_files(top)
        while left:
            for name in left:
                below = open_private_directory(name, top)
                if below is None:
                    raise OSError(f"{name} cannot be opened")
                for deeper in take_out_files(below):
                    number += 1
                    os.rename(deeper, f".{os.getpid()}.{number}", src_dir_fd=below, dst_dir_fd=top)
                os.close(below)
                os.rmdir(name, dir_fd=top)
            left = take_out_files(top)
        os.rmdir(directory)
    except OSError as error:  # a mount of the user, or a concurrent removal
        complain(f"{directory} is not removed: {error}")
    finally:
        os.close(top)


def open_private_directory(name: str, parent: Optional[int] = None) -> Optional[int]:
    """Open a real directory, not a link, and let only us change it; None where that fails."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return None
    os.fchown(handle, os.geteuid(), -1)
    os.fchmod(handle, 0o700)
    return handle


def take_out_files(handle: int) -> List[str]:
    """Remove all entries of a directory except directories; return the names of those."""
    names = []
    for name in os.listdir(handle):
        if stat.S_ISDIR(os.lstat(name, dir_fd=handle).st_mode):
            names.append(name)
        else:
            os.unlink(name, dir_fd=handle)
    return names


def started(pid: int) -> str:
    """Return the start of a running process, in clock ticks; empty where there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def become(user: pwd.struct_passwd) -> None:
    """Give up root for *user*, who may be the current user already."""
    if os.geteuid() != user.pw_uid:
        os.initgroups(user.pw_name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    os.umask(0o077)


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Lock this node against other joins and leaves."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def join(gpus: str, uuids: str, percent: int, mib: int) -> None:
    """Add the job to the set of *gpus*, and give its tasks the address of MPS.

    No address is given where another user shares one of them: MPS is for processes of one user, others take turns.
    """
    environ = os.environ
    job_id, uid, node = int(environ["SLURM_JOB_ID"]), int(environ["SLURM_JOB_UID"]), environ["SLURMD_NODENAME"]
    parent = os.path.join(environ["SLURMSCHED_RUN_DIR"], "mps." + node)
    with locked(parent):
        other = someone_else(parent, gpus, uid)
        if other is not None:
            complain(f"job {job_id} has GPUs {gpus} without MPS: user {other} shares one of them")
            return
        share = share_for(parent, gpus, uid, job_id)
        os.makedirs(share.directory, mode=0o700, exist_ok=True)
        runs = share.daemon() is not None
        body: Dict[str, Any] = {
            "gpus": gpus,
            "restart": int(environ.get("SLURM_JOB_RESTART_COUNT") or 0),
            "start_s": int(time.time()),
        }
        body.update({"with": [], "logs": {}, "mps": runs})
        # Noted before there is a daemon, so that the epilog stops it whatever happens here.
        begin_anew(share, {**share.sharers(), job_id: body})
        tasks = os.open(environ["SLURMSCHED_TASK_FILE"], os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not runs:
            share.start(uuids)
            share.note(job_id, {**body, "mps": True})
        with os.fdopen(tasks, "w") as file:
            file.write("".join(line + "\n" for line in client_settings(share, uuids, percent, mib)))


def share_for(parent: str, gpus: str, uid: int, job_id: int) -> GpuShare:
    """Return the set that a job joins: that of the last job on its GPUs, if its daemon has them all, else its own.

    So the guests of a wide job have its daemon, also after its end, and a job on GPUs that it left begins a new set.
    """
    found = []
    for share in shares(parent):
        if share.uid == uid and numbers(gpus) <= numbers(share.gpus) and share.daemon() is not None:
            there = share.sharers()
            found += [(there[other]["start_s"], other, share.name) for other in beside(gpus, there) if other != job_id]
    return GpuShare(os.path.join(parent, max(found)[2] if found else f"{gpus}.{uid}"))


def shares(parent: str) -> List[GpuShare]:
    """Return the sets of GPUs of this node that jobs share."""
    return [GpuShare(os.path.join(parent, name)) for name in os.listdir(parent)]


def numbers(gpus: str) -> Set[str]:
    """Return the numbers in a text such as 0+1."""
    return set(gpus.split("+"))


def beside(gpus: str, sharers: Dict[int, Dict[str, Any]]) -> List[int]:
    """Return those of *sharers* that have one of *gpus*."""
    return sorted(job_id for job_id, its in sharers.items() if numbers(gpus) & numbers(its["gpus"]))


def begin_anew(share: GpuShare, sharers: Dict[int, Dict[str, Any]], failed_job: int = 0) -> None:
    """Make those of *sharers* that have one of its GPUs the partners of each from now on, with earlier faults stored.

    Jobs that join later are not blamed for these faults, nor jobs that have left for later ones. A fault that harmed
    only *failed_job*, which has left, is no fault of the others, unless they fail now too.
    """
    runs = share.daemon() is not None
    for its in sharers.values():
        if not its.get("fault"):
            mps_faults.settle(its, failed(share, its), failed_job, time.time())
    share.shorten()  # every job has what it needs of it
    for job_id, its in sharers.items():
        if not its.get("fault"):
            partners = [other for other in beside(its["gpus"], sharers) if other != job_id]
            its.update({"with": partners, "logs": mps_faults.log_ends(share.logs, share.uid) if runs else {}})
        share.note(job_id, {**its, "mps": its["mps"] and runs})  # a daemon that died takes its log with it


def someone_else(parent: str, gpus: str, uid: int) -> Optional[int]:
    """Return another user who shares one of *gpus*; None where there is none."""
    return next((share.uid for share in shares(parent) if share.uid != uid and beside(gpus, share.sharers())), None)


def client_settings(share: GpuShare, uuids: str, percent: int, mib: int) -> List[str]:
    """Return the variables that make a process a client of MPS, within the limits given; 0 is no limit."""
    lines = ["CUDA_MPS_PIPE_DIRECTORY=" + share.pipes, "CUDA_MPS_LOG_DIRECTORY=" + share.logs]
    if 0 < percent <= 100:
        lines.append(f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={percent}")
    if mib > 0:
        lines.append("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=" + ",".join(f"{uuid}={mib}M" for uuid in uuids.split(",")))
    return lines


def leave(directory: str) -> None:
    """Remove the job from its set, record and deliver its fault, and stop the daemon after the last one."""
    job_id = int(os.environ["SLURM_JOB_ID"])
    share = GpuShare(directory)
    with locked(os.path.dirname(directory)):
        mine = share.sharers().get(job_id)
        if mine is None:
            return
        harm, body = mps_faults.judged(mine, failed(share, mine), wait_status(), time.time())
        share.forget(job_id)
        left = share.sharers()
        begin_anew(share, left, job_id if harm == mps_faults.OWN else 0)
        if not left:
            share.stop()
    if harm:
        record(share, job_id, {**mine, **body}, harm)
    empty_waste()
    if harm and os.environ.get("SLURMSCHED_COLLECTOR"):
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deliver.py")
        os.execv(sys.executable, [sys.executable, "-I", program])  # noqa: S606 - nothing here is a user's


def failed(share: GpuShare, its: Dict[str, Any]) -> Any:
    """Return the verdict of MPS' logs while a job had a partner; a job that is alone harms no other."""
    return share.fault(its["logs"]) if its["mps"] and its["with"] else mps_faults.NOTHING


def wait_status() -> Optional[int]:
    """Return the status of the job's script, as wait() gives it; None where Slurm does not tell."""
    text = os.environ.get("SLURM_JOB_EXIT_CODE", "")
    return int(text) if text.isdigit() else None


def record(share: GpuShare, job_id: int, mine: Dict[str, Any], harm: str) -> None:
    """Write the fault of a job that shared GPUs to the spool."""
    node = os.environ["SLURMD_NODENAME"]
    complain(f"job {job_id} and {mine['with']} on GPUs {mine['gpus']}, harm to {harm}: {mine['fault']}")
    body = {
        "version": VERSION,
        "job_id": job_id,
        "restart": mine["restart"],
        "node": node,
        "uid": share.uid,
        "start_s": mine["start_s"],
        "end_s": max(mine["start_s"], int(time.time())),  # the clock may have been set
        "gpus": [int(gpu) for gpu in mine["gpus"].split("+")],
        "with": mine["with"],
        "fault": mine["fault"],
        "harm": harm,
    }
    sampler: Any = importlib.import_module("sampler")
    name = f"{job_id}.{node}.{mine['start_s']}.fault"
    sampler.put_down(name, json.dumps(body).encode("ascii"), *sampler.limits())


def complain(text: str) -> None:
    """Write to syslog, for the admin."""
    syslog.openlog("slurmsched", syslog.LOG_PERROR)  # also to stderr, which only node-check reads
    syslog.syslog(syslog.LOG_NOTICE, text.encode("ascii", "backslashreplace").decode()[:500])


def main(argv: List[str]) -> None:
    """Join or leave; always exits with 0 unless it takes too long, and logs errors to syslog."""
    signal.alarm(WHOLE_S)
    os.umask(0o022)
    os.closerange(3, 256)
    try:
        if argv[0] == "join":
            join(argv[1], argv[2], int(argv[3]), int(argv[4]))
            empty_waste()
        else:
            leave(argv[1])
    except Exception as error:  # no error here may affect the job
        complain(f"sharing by job {os.environ.get('SLURM_JOB_ID')}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])

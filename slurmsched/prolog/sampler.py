"""Measures the GPUs of one job until told to stop, then leaves one record in the spool.

A job that runs for longer also has a record of its beginning, which is delivered at once: after EARLY_S, twice that,
and so on; and one whenever the number of its GPUs changes that no process has used for IDLE_S.

A program of its own, started as root by the Slurm prolog: Python 3.6 or newer, the standard library and pynvml. Its
inputs come in the environment: Slurm's SLURM_JOB_ID, SLURM_JOB_UID, SLURM_JOB_RESTART_COUNT, SLURM_JOB_COMMENT,
SLURMD_NODENAME, SLURM_JOB_GPUS and CUDA_VISIBLE_DEVICES, and the settings of node.conf as SLURMSCHED_NAME.
docs/profiling.md describes the record field by field.

A separate thread queries NVML, so that a driver that hangs delays neither the record nor the exit.
"""

# ruff: noqa: UP006, UP035, UP045 - newer spellings of types do not run on Python 3.6

import contextlib
import functools
import importlib
import json
import math
import os
import re
import signal
import stat
import sys
import syslog
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

VERSION = 1
STOP = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
HUNG_S = 5.0  #: an NVML call that takes longer is taken to hang
LOOK_EVERY_S = 60.0  #: between two checks of the pid file, and of GPUs without a process
BINS = 101
BLOCK = 30  #: samples whose mean is one observation of a job's stability
BLOCKS_LEAST = 4
UNSTEADY = 15.0  #: standard deviation of those means, in points of GPU utilisation

UUID = re.compile(r"(GPU|MIG)-[A-Za-z0-9/-]+")
NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
RECORD = re.compile(r"[^/]+\.(json|fault|unstable)")
#: Seconds for which a job warms up, as its owner declared them in its comment.
COLDSTART = re.compile(r"[:,]coldstart=([0-9]{1,5})(?![^\s;,])")

Readings = Dict[str, float]


class RunningStatistics:
    """Count, mean, variance, largest value and percentiles of a stream, in constant memory.

    Percentiles come from bins of width *step*: accurate to half of it, and exact for whole numbers where it is 1.
    """

    def __init__(self, step: float) -> None:
        self.count, self.mean, self.most = 0, 0.0, 0.0
        self._squares, self._step = 0.0, step
        self._bins = [0] * BINS

    def add(self, value: float) -> None:
        """Add one value, which is not negative (Welford's method)."""
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self._squares += delta * (value - self.mean)
        if value > self.most:
            self.most = value
        self._bins[min(BINS - 1, int(value / self._step + 0.5))] += 1

    @property
    def variance(self) -> float:
        """The variance of the sample; 0 with fewer than two values."""
        return self._squares / (self.count - 1) if self.count > 1 else 0.0

    def percentile(self, share: float) -> float:
        """Return the least value that *share* of all values do not exceed."""
        wanted, cumulative = share * self.count, 0
        for place, count in enumerate(self._bins):
            cumulative += count
            if cumulative >= wanted and cumulative:
                return min(self.most, place * self._step)
        return self.most

    def summary(self) -> Optional[Dict[str, float]]:
        """Return all figures as JSON numbers; None without any measurement."""
        if not self.count:
            return None
        figures = {"mean": self.mean, "var": self.variance, "max": self.most}
        figures.update({"p5": self.percentile(0.05), "p50": self.percentile(0.5), "p95": self.percentile(0.95)})
        return {"n": self.count, **{name: round(value, 3) for name, value in figures.items()}}


class Steadiness:
    """Test the stability of utilisation: the spread of the means of blocks, since single samples always jump."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0
        self.means = RunningStatistics(1.0)

    def add(self, util: float) -> None:
        """Add one sample, 0..100."""
        self._sum += util
        self._count += 1
        if self._count == BLOCK:
            self.means.add(self._sum / BLOCK)
            self._sum, self._count = 0.0, 0

    @property
    def unstable(self) -> Optional[bool]:
        """True if unstable; None until there are enough blocks."""
        if self.means.count < BLOCKS_LEAST:
            return None
        return math.sqrt(self.means.variance) > UNSTEADY


class Gpu:
    """A GPU, or a MIG slice of one: its reading, and the figures read.

    All figures are over the samples in which a process used it; samples without one are only counted.
    """

    def __init__(self, nvml: Any, handle: Any, mig: bool) -> None:
        self._nvml, self._handle, self.mig = nvml, handle, mig
        self.uuid = value_of(nvml, lambda: nvml.nvmlDeviceGetUUID(handle), "")
        self.name = value_of(nvml, lambda: nvml.nvmlDeviceGetName(handle), "")
        self.memory_mib = value_of(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total / 2.0**20, None)
        limit_w = value_of(nvml, lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000.0, None)
        self.lost, self.samples, self.no_process = False, 0, 0
        self.unused_s = 0.0  #: from the last sample with a process, else the first of all, to the last one
        self._used_s: Optional[float] = None
        self._steadiness = Steadiness()
        self._lists_clients = hasattr(nvml, "nvmlDeviceGetMPSComputeRunningProcesses")
        self._figures = {
            "gpu_util": RunningStatistics(1.0),
            "memory_util": RunningStatistics(1.0),
            "memory_mib": RunningStatistics(max(1.0, (self.memory_mib or 100000.0) / 100.0)),
            "power_w": RunningStatistics(max(1.0, (limit_w or 1000.0) / 100.0)),
            "processes": RunningStatistics(1.0),
        }
        self._calls: List[Callable[[Readings], None]] = [
            self._utilisation,
            self._memory,
            self._power,
            self._processes,
        ]

    def read(self) -> Readings:
        """Query NVML; values missing now are omitted, unsupported ones are not queried again."""
        readings: Readings = {}
        nvml = self._nvml
        for call in tuple(self._calls):
            try:
                call(readings)
            except nvml.NVMLError as error:
                if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
                    self.lost = True
                    self._calls = []
                    return {}
                if error.value in (
                    nvml.NVML_ERROR_NOT_SUPPORTED,
                    nvml.NVML_ERROR_INVALID_ARGUMENT,
                    nvml.NVML_ERROR_NO_PERMISSION,
                    nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                ):
                    self._calls.remove(call)
        return readings

    def note(self, readings: Readings, at_s: float) -> None:
        """Add the readings of one moment, *at_s* of any steady clock."""
        if not readings:
            return
        self.samples += 1
        # Graphics and some virtual GPUs show load but no process.
        idle = readings.get("processes") == 0 and not readings.get("gpu_util")
        if self._used_s is None or not idle:
            self._used_s = at_s
        self.unused_s = at_s - self._used_s
        if idle:
            self.no_process += 1
            return
        for name, value in readings.items():
            self._figures[name].add(value)
        if "gpu_util" in readings:
            self._steadiness.add(readings["gpu_util"])

    def summary(self) -> Dict[str, Any]:
        """Return its part of the record."""
        body: Dict[str, Any] = {"uuid": self.uuid, "name": self.name, "mig": self.mig, "lost": self.lost}
        body["memory_total_mib"] = None if self.memory_mib is None else round(self.memory_mib)
        body.update({"samples": self.samples, "no_process": self.no_process, "unstable": self._steadiness.unstable})
        body.update({name: figures.summary() for name, figures in self._figures.items()})
        return body

    def _utilisation(self, into: Readings) -> None:
        rates = self._nvml.nvmlDeviceGetUtilizationRates(self._handle)
        into["gpu_util"] = rates.gpu
        if rates.memory is not None:  # not all of AMD's GPUs tell
            into["memory_util"] = rates.memory

    def _memory(self, into: Readings) -> None:
        into["memory_mib"] = self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used / 1048576.0

    def _power(self, into: Readings) -> None:
        into["power_w"] = self._nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000.0

    def _processes(self, into: Readings) -> None:
        pids = {each.pid for each in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}
        clients = {each.pid for each in self._clients()}
        into["processes"] = sum(not (clients and serves_mps(pid)) for pid in pids | clients)

    def _clients(self) -> List[Any]:
        """Return the processes that use it through MPS, from a separate list; the main list has only their server."""
        nvml = self._nvml
        if not self._lists_clients:
            return []
        try:
            found: List[Any] = nvml.nvmlDeviceGetMPSComputeRunningProcesses(self._handle)
        except nvml.NVMLError as error:
            self._lists_clients = error.value not in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            return []
        return found


def started_library(job_gpus: str) -> Any:
    """Return NVML, or AMD's library in its shape where NVML finds no driver and amdsmi is there."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # any of these: no pynvml, no driver, another maker's GPUs
        try:
            library = importlib.import_module("amdsmi")
        except Exception:  # without the library of ROCm it cannot be loaded either
            library = None
        if library is None:
            raise
        nvml = importlib.import_module("amd").Amd(library, job_gpus)
        nvml.nvmlInit()
    return nvml


def find_gpus(nvml: Any, job_gpus: str, visible: str) -> List[Gpu]:
    """Return the GPUs of a job, by Slurm's variables: UUIDs where given, else the numbers of their device files."""
    uuids = [word for word in visible.split(",") if UUID.fullmatch(word)]
    if uuids:
        return [Gpu(nvml, nvml.nvmlDeviceGetHandleByUUID(uuid), uuid.startswith("MIG-")) for uuid in uuids]
    wanted = {int(word) for word in (job_gpus or visible).split(",") if word.isdigit()}
    found = []
    for index in range(nvml.nvmlDeviceGetCount() if wanted else 0):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError:
            continue
        # NVML counts by bus address, Slurm by the name of the device file. A sliced GPU belongs to several jobs.
        number = value_of(nvml, functools.partial(nvml.nvmlDeviceGetMinorNumber, handle), index)
        sliced = value_of(nvml, functools.partial(nvml.nvmlDeviceGetMigMode, handle), (0, 0))[0]
        if number in wanted and not sliced:
            found.append(Gpu(nvml, handle, False))
    return found


def links_of_node(nvml: Any) -> Tuple[List[Any], List[List[int]]]:
    """Return the whole GPUs of this node, and the number of NVLinks of each to each, -1 to itself.

    Links to anything else count for no pair: where GPUs are joined by switches, all pairs are alike.
    """
    handles = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = value_of(nvml, functools.partial(nvml.nvmlDeviceGetHandleByIndex, index), None)
        if handle is not None and not value_of(nvml, functools.partial(nvml.nvmlDeviceGetMigMode, handle), (0, 0))[0]:
            handles.append(handle)
    buses = [value_of(nvml, functools.partial(bus_of, nvml.nvmlDeviceGetPciInfo, handle), "") for handle in handles]
    counts = [[-int(row == column) for column in range(len(handles))] for row in range(len(handles))]
    for row, handle in enumerate(handles):
        for bus in far_ends(nvml, handle):
            if bus in buses and buses.index(bus) != row:
                counts[row][buses.index(bus)] += 1
    return handles, counts


def far_ends(nvml: Any, handle: Any) -> List[str]:
    """Return the bus address at the other end of each active NVLink of a GPU."""
    found = []
    for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18)):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link):
                found.append(bus_of(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link))
        except (nvml.NVMLError, AttributeError):  # no more links, or an old release of pynvml
            break
    return found


def bus_of(call: Callable[..., Any], *arguments: Any) -> str:
    """Return the bus address in an answer of NVML."""
    bus = call(*arguments).busId
    return str(bus.decode("ascii", "replace") if isinstance(bus, bytes) else bus).lower()


def links_between(nvml: Any, uuids: List[str]) -> Optional[Dict[str, Any]]:
    """Return the NVLinks of the node, and the rows of the GPUs with these *uuids*; None without any link or pair."""
    if len(uuids) < 2:
        return None
    handles, counts = links_of_node(nvml)
    names = [value_of(nvml, functools.partial(nvml.nvmlDeviceGetUUID, handle), "") for handle in handles]
    if not any(links > 0 for row in counts for links in row) or not set(uuids) <= set(names):
        return None
    return {"counts": counts, "gpus": sorted(names.index(uuid) for uuid in uuids)}


def serves_mps(pid: int) -> bool:
    """Report whether this process is a server of MPS."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().startswith("nvidia-cuda-mps")
    except (OSError, ValueError):
        return False


def value_of(nvml: Any, call: Callable[[], Any], otherwise: Any) -> Any:
    """Query NVML and decode its answer; *otherwise* where it does not answer."""
    try:
        answer = call()
    except nvml.NVMLError:
        return otherwise
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


class GpuSampler(threading.Thread):
    """Queries NVML every *every_s* seconds, in step with the clock: missed beats are skipped."""

    def __init__(self, job_gpus: str, visible: str, every_s: float) -> None:
        super().__init__(daemon=True)
        self._wanted, self._every_s = (job_gpus, visible), every_s
        self._busy_since = time.monotonic()
        self._resting = False
        self._lock = threading.Lock()
        self.gpus: List[Gpu] = []
        self.links: Optional[Dict[str, Any]] = None  #: of the node, with the rows of the job's GPUs
        self.trouble = ""

    def run(self) -> None:
        """Measure while there is anything to measure; an error is stored as ``trouble`` and ends it."""
        # -I keeps our own directory out of sys.path, where the package for nodes has pynvml.
        sys.path.append(os.path.dirname(os.path.abspath(__file__)))
        try:
            nvml = started_library(self._wanted[0])
            self.gpus = find_gpus(nvml, *self._wanted)
            with contextlib.suppress(nvml.NVMLError):  # a profile without links is one too
                self.links = links_between(nvml, [gpu.uuid for gpu in self.gpus])
            self._measure()
        except Exception as error:  # a profile may fail in any way; the reason goes to syslog
            self.trouble = f"{type(error).__name__}: {error}"
        os.kill(os.getpid(), signal.SIGTERM)

    def summaries(self) -> List[Dict[str, Any]]:
        """Return the figures so far; called from another thread."""
        with self._lock:
            return [gpu.summary() for gpu in self.gpus]

    def unused(self, least_s: float) -> Tuple[int, float]:
        """Return how many GPUs no process has used for *least_s*, and for how long; from another thread."""
        with self._lock:
            spans_s = [gpu.unused_s for gpu in self.gpus if gpu.unused_s >= least_s]
        return len(spans_s), min(spans_s, default=0.0)

    @property
    def hung(self) -> bool:
        """True if a call to NVML takes too long."""
        return not self._resting and time.monotonic() - self._busy_since > max(HUNG_S, 3 * self._every_s)

    def _measure(self) -> None:
        due = time.monotonic()
        while any(not gpu.lost for gpu in self.gpus):
            self._busy_since, self._resting = time.monotonic(), False
            for gpu in self.gpus:
                readings = gpu.read()
                with self._lock:
                    gpu.note(readings, self._busy_since)
            self._resting = True
            now = time.monotonic()
            due += self._every_s * (1 + max(0, int((now - due) / self._every_s)))
            time.sleep(due - now)


class Spool:
    """The directory of finished records: private, bounded, and with complete records only."""

    def __init__(self, path: str) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)
        self._at = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(self._at)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise PermissionError(f"{path} is open to others; it must be mode 0700 and ours")

    def add(self, name: str, body: bytes) -> None:
        """Write a record so that a reader, even after a power cut, sees all of it or nothing."""
        draft = f".{name}.{os.getpid()}"
        handle = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._at
        )
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, name, src_dir_fd=self._at, dst_dir_fd=self._at)
        except OSError:
            os.unlink(draft, dir_fd=self._at)
            raise
        os.fsync(self._at)

    def make_room(self, size_b: int, most_b: float, oldest_s: float) -> None:
        """Remove records older than *oldest_s*, then the oldest, until *size_b* more fit into *most_b*."""
        files = []
        for name in os.listdir(self._at):
            with contextlib.suppress(FileNotFoundError):  # a delivery may remove records meanwhile
                found = os.stat(name, dir_fd=self._at, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_mtime < oldest_s:
                    os.unlink(name, dir_fd=self._at)
                elif stat.S_ISREG(found.st_mode) and RECORD.fullmatch(name):
                    files.append((found.st_mtime, name, found.st_size))
        total_b = size_b + sum(size for _, _, size in files)
        for _, name, size in sorted(files):
            if total_b <= most_b:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._at)
            total_b -= size


def setting(name: str, default: float, least: float, most: float) -> float:
    """Return a number of node.conf; ValueError where it is not a number or out of range."""
    text = os.environ.get("SLURMSCHED_" + name) or str(default)
    value = float(text)
    if not least <= value <= most:
        raise ValueError(f"{name} = {text}; accepted: {least:g} to {most:g}")
    return value


def limits() -> Tuple[float, float]:
    """Return the limits of the spool: bytes, and seconds that a record waits."""
    return setting("SPOOL_MIB", 16.0, 0.0, 65536.0) * 2**20, setting("SPOOL_DAYS", 7.0, 0.0, 3650.0) * 86400.0


def put_down(name: str, body: bytes, most_b: float, keep_s: float) -> None:
    """Write a record to the spool, within its limits; ValueError where it is too large for any."""
    spool = Spool(os.environ["SLURMSCHED_SPOOL_DIR"])
    spool.make_room(len(body), most_b, time.time() - keep_s)
    if len(body) > most_b:
        raise ValueError(f"a record of {len(body)} bytes is more than SPOOL_MIB")
    spool.add(name, body)


def ends_by(until_s: float, pid_file: str, every_s: float, look: Callable[[], None]) -> bool:
    """Sleep until *until_s* of the monotonic clock; True at once on a signal.

    True also where *pid_file* is no longer ours: then no epilog will find us. *look* is called every *every_s*.
    """
    while time.monotonic() < until_s:
        if signal.sigtimedwait(STOP, max(0.0, min(every_s, until_s - time.monotonic()))):
            return True
        try:
            with open(pid_file) as file:
                if file.read().split()[:1] != [str(os.getpid())]:
                    return True
        except OSError:
            return True
        look()
    return False


def first_record_s() -> float:
    """Return the seconds after which a first record is due: EARLY_S beyond the warm-up; infinity without a receiver."""
    early_s = setting("EARLY_S", 200.0, 0.0, 86400.0)
    if not early_s or not os.environ.get("SLURMSCHED_COLLECTOR"):
        return math.inf
    warm_up = map(int, COLDSTART.findall(os.environ.get("SLURM_JOB_COMMENT", "")))
    return early_s + min(max(warm_up, default=0), 86400)


def deliver() -> None:
    """Start the delivery of the spool; it goes on without us."""
    import subprocess  # takes memory and time that a short job need not pay

    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "deliver.py")
    argv = [sys.executable, "-I", program]
    threading.Thread(target=subprocess.call, args=(argv,), kwargs={"cwd": "/"}, daemon=True).start()


def measure() -> str:
    """Measure until a signal or the time limit, and write the record; return why there is none, if so."""
    environ = os.environ
    job_id, node = int(environ["SLURM_JOB_ID"]), environ["SLURMD_NODENAME"]
    if not NODE.fullmatch(node):
        return f"SLURMD_NODENAME = {node!r} is no name of a node"
    every_s = setting("EVERY_S", 1.0, 0.01, 3600.0)
    most_b, keep_s = limits()
    limit_s = setting("MEASURE_DAYS", 30.0, 0.0, 365.0) * 86400.0
    early_s = first_record_s()
    idle_s = setting("IDLE_S", 1800.0, 0.0, 86400.0) or math.inf
    start_s, began_s = int(time.time()), time.monotonic()
    run = {
        "version": VERSION,
        "job_id": job_id,
        "restart": int(environ.get("SLURM_JOB_RESTART_COUNT") or 0),
        "node": node,
        "uid": int(environ.get("SLURM_JOB_UID") or -1),
        "start_s": start_s,
        "every_s": every_s,
    }
    meter = GpuSampler(environ.get("SLURM_JOB_GPUS", ""), environ.get("CUDA_VISIBLE_DEVICES", ""), every_s)
    meter.start()

    def write(end: str) -> str:
        """Write the record so far; return why there is none."""
        hung, gpus = meter.hung, meter.summaries()
        if not any(gpu["samples"] for gpu in gpus):
            return meter.trouble or ("NVML hangs" if hung else "none of its GPUs could be measured")
        end_s = start_s + int(time.monotonic() - began_s)  # the wall clock may have been set
        idle_gpus, unused_s = meter.unused(idle_s)
        record = {**run, "end_s": end_s, "hung": hung, "gpus": gpus}
        if idle_s < math.inf:
            record.update({"idle_gpus": idle_gpus, "idle_s": min(int(unused_s), end_s - start_s)})
        if meter.links:
            record["links"] = meter.links
        body = json.dumps(record).encode("ascii")
        put_down(f"{job_id}.{node}.{start_s}.{end}", body, most_b, keep_s)
        return ""

    delivers = early_s < math.inf
    idle_gpus = 0  # as delivered last

    def write_early() -> None:
        """Write and deliver the record so far."""
        nonlocal idle_gpus
        now_idle = meter.unused(idle_s)[0]
        # Under a name of its own: a delivery that removes it must not remove the record of the end.
        with contextlib.suppress(Exception):  # the next record may find room
            if not write("early.json"):
                deliver()
                idle_gpus = now_idle

    def look() -> None:
        if delivers and meter.unused(idle_s)[0] != idle_gpus:
            write_early()

    pid_file, every_look_s = environ.get("SLURMSCHED_PID_FILE", ""), min(LOOK_EVERY_S, idle_s)
    while not ends_by(began_s + min(early_s, limit_s), pid_file, every_look_s, look) and early_s < limit_s:
        write_early()
        early_s *= 2
    return write("json")


def main() -> None:
    """Measure one job; always exits with 0, and logs to syslog why there is no record."""
    # Threads inherit the mask, so that only the wait in measure() sees these.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
    os.closerange(3, 256)  # inherited from slurmd, whose sockets would stay open after it ends
    try:
        trouble = measure()
    except Exception as error:  # no error here may affect the job
        trouble = f"{type(error).__name__}: {error}"
    if trouble:
        text = "no profile of job {}: {}".format(os.environ.get("SLURM_JOB_ID"), trouble)
        syslog.openlog("slurmsched", syslog.LOG_PERROR)  # also to stderr, which only node-check reads
        syslog.syslog(syslog.LOG_NOTICE, text.encode("ascii", "backslashreplace").decode()[:500])
    os._exit(0)  # not sys.exit, which would wait for a thread that hangs in NVML


if __name__ == "__main__":
    main()

"""Measures for ``slurmsched node-check`` what the programs of a node meet there: NVML, its answers, and a GPU at work.

A program of its own: Python 3.6 or newer and the standard library; all but ``work`` also take pynvml and the sampler
beside it. Each command prints JSON, with ``trouble`` where it fails.

``gpus``           versions, GPUs and their processes
``answers``        seconds of one sample of each GPU
``links``          NVLinks between the whole GPUs, and the cores beside each, as gres.conf numbers them
``processes UUID`` the processes of one GPU, by each list of NVML
``work SHAPE LOOPS`` a job that keeps one GPU busy, through the driver's libcuda.so.1 alone, by turns of so many loops,
                   or of 5 ms where LOOPS is 0: it prints ``loops``, then for each line SECONDS of its input the turns
                   per second that it did in that time
"""

import ctypes
import functools
import importlib
import json
import os
import platform
import signal
import sys
import time

# ruff: noqa: UP006, UP035, UP045 - newer spellings do not run on Python 3.6
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

WHOLE_S = 600  #: limit, after which the kernel kills us
READS = 20  #: samples of each GPU
READING_S = 3.0  #: limit of these samples
TURN_S = 0.005  #: time of one kernel that has the GPU alone
LOOPS_MOST = 1 << 30
CPUS = "/sys/devices/system/cpu"
MULTIPROCESSORS = 16  #: number of CUDA's attribute

KERNEL = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry turn(.param .u64 into, .param .u32 loops)
{
    .reg .pred %again;
    .reg .u32 %left, %place;
    .reg .u64 %at, %offset;
    .reg .f32 %x, %y;
    ld.param.u64 %at, [into];
    ld.param.u32 %left, [loops];
    cvta.to.global.u64 %at, %at;
    mov.f32 %x, 0f3F800000;
    mov.f32 %y, 0f3F7FFFFF;
AGAIN:
    fma.rn.f32 %x, %x, %y, %y;
    sub.u32 %left, %left, 1;
    setp.ne.u32 %again, %left, 0;
    @%again bra AGAIN;
    mov.u32 %place, %tid.x;
    mul.wide.u32 %offset, %place, 4;
    add.u64 %at, %at, %offset;
    st.global.f32 [%at], %x;
    ret;
}
"""
"""PTX, which every driver compiles for its GPU: each thread multiplies and adds *loops* times."""


class Shape(NamedTuple):
    """The load of a job: blocks for each multiprocessor, memory, and pauses in turns between two kernels."""

    blocks: float
    memory_mib: int
    pause: float


SHAPES = {"light": Shape(0.25, 256, 4.0), "heavy": Shape(8.0, 512, 0.0)}


class CudaJob:
    """One kernel in a context of its own on the first GPU that is visible."""

    def __init__(self, shape: Shape, loops: int) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._shape = shape
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._function, self._memory, count = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDeviceGetAttribute", ctypes.byref(count), ctypes.c_int(MULTIPROCESSORS), device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(KERNEL))
        self._call("cuModuleGetFunction", ctypes.byref(self._function), module, ctypes.c_char_p(b"turn"))
        self._call("cuMemAlloc_v2", ctypes.byref(self._memory), ctypes.c_size_t(shape.memory_mib << 20))
        self._blocks = max(1, int(shape.blocks * count.value))
        self._launch(1)  # the first one loads the code
        self.loops = loops or self._loops_of_a_turn()

    def rate(self, seconds: float) -> float:
        """Work for so long; return turns per second."""
        began_s, turns = time.monotonic(), 0
        while time.monotonic() < began_s + seconds:
            self._launch(self.loops)
            time.sleep(self._shape.pause * TURN_S)
            turns += 1
        return turns / (time.monotonic() - began_s)

    def _loops_of_a_turn(self) -> int:
        loops, took_s = 1, 0.0
        while took_s < TURN_S and loops < LOOPS_MOST:
            loops *= 2
            took_s = min(self._launch(loops) for _ in range(3))  # other work on the node delays single ones
        return max(1, int(loops * min(1.0, TURN_S / took_s)))

    def _launch(self, loops: int) -> float:
        began_s, count = time.monotonic(), ctypes.c_uint(loops)
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(self._memory), ctypes.addressof(count))
        sizes = [ctypes.c_uint(size) for size in (self._blocks, 1, 1, 128, 1, 1, 0)]
        self._call("cuLaunchKernel", self._function, *sizes, ctypes.c_void_p(), arguments, ctypes.c_void_p())
        self._call("cuCtxSynchronize")
        return time.monotonic() - began_s

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._driver, name)(*arguments)
        if status:
            raise OSError(f"{name} of CUDA failed with error {status}")


def list_gpus() -> Dict[str, Any]:
    """Return the versions of Python, NVML, the driver and CUDA, and each GPU."""
    nvml, sampler = libraries()
    versions = {
        "nvml": sampler.value_of(nvml, nvml.nvmlSystemGetNVMLVersion, ""),
        "driver": sampler.value_of(nvml, nvml.nvmlSystemGetDriverVersion, ""),
        "cuda": sampler.value_of(nvml, nvml.nvmlSystemGetCudaDriverVersion, 0),
    }
    gpus = [described(nvml, sampler, index) for index in range(nvml.nvmlDeviceGetCount())]
    return {"python": platform.python_version(), **versions, "gpus": gpus}


def described(nvml: Any, sampler: Any, index: int) -> Dict[str, Any]:
    """Return what NVML has about one GPU: None for each value that it does not give."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        return {"index": index, "trouble": str(error)}

    def value(name: str) -> Any:
        call = getattr(nvml, name, None)  # old releases of pynvml lack some
        return call and sampler.value_of(nvml, functools.partial(call, handle), None)

    memory, mig, rates = (value("nvmlDeviceGet" + name) for name in ("MemoryInfo", "MigMode", "UtilizationRates"))
    return {
        "index": index,
        "minor": value("nvmlDeviceGetMinorNumber"),
        "uuid": value("nvmlDeviceGetUUID") or "",
        "name": value("nvmlDeviceGetName") or "",
        "memory_mib": memory and memory.total >> 20,
        "used_mib": memory and memory.used >> 20,
        "gpu_util": rates and rates.gpu,
        "mig": bool(mig and mig[0]),
        "compute_mode": value("nvmlDeviceGetComputeMode"),
        "processes": listed(value("nvmlDeviceGetComputeRunningProcesses")),
        "clients": listed(value("nvmlDeviceGetMPSComputeRunningProcesses")),
        "graphics": listed(value("nvmlDeviceGetGraphicsRunningProcesses")),
    }


def listed(processes: Optional[List[Any]]) -> Optional[List[Dict[str, Any]]]:
    """Return pid and MiB of each process; None where there is no list."""
    if processes is None:
        return None
    return [{"pid": each.pid, "mib": each.usedGpuMemory and each.usedGpuMemory >> 20} for each in processes]


def answers() -> Dict[str, Any]:
    """Return the seconds that samples of each whole GPU took, as the sampler takes them: median and longest."""
    nvml, sampler = libraries()
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        about = described(nvml, sampler, index)
        if "trouble" not in about and not about["mig"]:
            gpu = sampler.Gpu(nvml, nvml.nvmlDeviceGetHandleByIndex(index), False)
            took_s = sorted(seconds_of_samples(gpu))
            found.append({"index": index, "median_s": took_s[len(took_s) // 2], "longest_s": took_s[-1]})
    return {"gpus": found}


def seconds_of_samples(gpu: Any) -> List[float]:
    """Take samples of one GPU; return the seconds of each."""
    took_s: List[float] = []
    while len(took_s) < READS and sum(took_s) < READING_S:
        began_s = time.monotonic()
        gpu.read()
        took_s.append(time.monotonic() - began_s)
    return took_s


def links() -> Dict[str, Any]:
    """Return each whole GPU by its device number, with its NVLinks to each, -1 to itself, and the cores beside it."""
    nvml, sampler = libraries()
    handles, counts = sampler.links_of_node(nvml)
    minors = [sampler.value_of(nvml, functools.partial(nvml.nvmlDeviceGetMinorNumber, each), None) for each in handles]
    order = sorted((minor, at) for at, minor in enumerate(minors) if minor is not None)
    numbers = core_numbers(CPUS)
    words = max(numbers, default=0) // 64 + 1
    found = []
    for minor, row in order:
        masks = sampler.value_of(nvml, functools.partial(nvml.nvmlDeviceGetCpuAffinity, handles[row], words), ())
        cpus = [64 * word + bit for word, mask in enumerate(masks) for bit in range(64) if mask >> bit & 1]
        cores = sorted({numbers[cpu] for cpu in cpus if cpu in numbers})
        found.append({"minor": minor, "links": [counts[row][column] for _, column in order], "cores": cores})
    return {"gpus": found}


def core_numbers(directory: str) -> Dict[int, int]:
    """Return the number of the core of each CPU, as Slurm counts them: socket by socket, each by its lowest CPU."""
    place: Dict[int, Tuple[int, int]] = {}
    for name in os.listdir(directory):
        files = [os.path.join(directory, name, "topology", each) for each in ("physical_package_id", "core_id")]
        if name[:3] == "cpu" and name[3:].isdigit() and all(map(os.path.exists, files)):
            socket, core = (int(open_text(file)) for file in files)
            place[int(name[3:])] = socket, core
    cpus = sorted(place)
    sockets = list(dict.fromkeys(place[cpu][0] for cpu in cpus))
    cores = list(dict.fromkeys(place[cpu] for socket in sockets for cpu in cpus if place[cpu][0] == socket))
    return {cpu: cores.index(place[cpu]) for cpu in cpus}


def open_text(path: str) -> str:
    """Return the content of a file."""
    with open(path) as file:
        return file.read()


def processes(uuid: str) -> Dict[str, Any]:
    """Return the processes of one GPU by each list of NVML, and how many the sampler counts."""
    nvml, sampler = libraries()
    handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
    lists = described(nvml, sampler, nvml.nvmlDeviceGetIndex(handle))
    loads = sampler.value_of(nvml, lambda: nvml.nvmlDeviceGetProcessUtilization(handle, 0), None)
    counted = sampler.Gpu(nvml, handle, False).read().get("processes")
    loads = None if loads is None else [{"pid": each.pid, "gpu_util": each.smUtil} for each in loads]
    return {"processes": lists["processes"], "clients": lists["clients"], "loads": loads, "counted": counted}


def libraries() -> Any:
    """Return pynvml, ready for calls, and the sampler."""
    # -I keeps our own directory out of sys.path.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    nvml = importlib.import_module("pynvml")
    nvml.nvmlInit()
    return nvml, importlib.import_module("sampler")


def work(shape: str, loops: str) -> None:
    """Work on a GPU for as long as each line of the input says."""
    job = CudaJob(SHAPES[shape], int(loops))
    say({"loops": job.loops})
    for line in sys.stdin:
        say({"rate": job.rate(float(line))})


def say(answer: Dict[str, Any]) -> None:
    """Print one line of JSON."""
    print(json.dumps(answer), flush=True)  # noqa: T201 - its way to answer


def main(argv: List[str]) -> None:
    """Run one command; any error is an answer."""
    signal.alarm(WHOLE_S)
    try:
        if argv[0] == "work":
            work(argv[1], argv[2])
        else:
            commands: Dict[str, Callable[..., Dict[str, Any]]] = {
                "gpus": list_gpus,
                "answers": answers,
                "links": links,
                "processes": processes,
            }
            say(commands[argv[0]](*argv[1:]))
    except Exception as error:  # the admin reads it
        say({"trouble": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main(sys.argv[1:])

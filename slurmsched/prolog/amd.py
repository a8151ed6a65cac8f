"""AMD's GPUs by the calls of NVML that the sampler makes, so that both makers' records are the same.

Used by sampler.py: Python 3.6 or newer, the standard library and amdsmi, which comes with ROCm. It was tried with a
stand-in for amdsmi alone.
"""

import os
import re

# ruff: noqa: UP006, UP035, N802 - newer spellings do not run on Python 3.6; the names are those of NVML
from typing import Any, Callable, List, NamedTuple

RENDER_LEAST = 128  #: the first number of a device file /dev/dri/renderD*
UNMEASURED = "N/A"

_UNSUPPORTED, _REFUSED = (2, 3, 49), 10  #: error codes of amdsmi
_BDF = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


class Rates(NamedTuple):
    """Utilisation in %; None is not measured."""

    gpu: Any
    memory: Any


class Memory(NamedTuple):
    """Bytes."""

    total: int
    used: int


class Process(NamedTuple):
    """A process that uses a GPU."""

    pid: int


class Address(NamedTuple):
    """The PCI address of a GPU."""

    busId: str  # noqa: N815 - as NVML names it


class Amd:
    """The part of NVML that the sampler uses, over the library amdsmi; *job_gpus* are the numbers that Slurm gave."""

    class NVMLError(Exception):
        """A call that gave nothing; ``value`` is one of the codes below."""

        def __init__(self, value: int, text: str = "") -> None:
            super().__init__(text)
            self.value = value

    NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION = 2, 3, 4
    NVML_ERROR_FUNCTION_NOT_FOUND, NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED = 13, 15, 16
    NVML_ERROR_UNKNOWN = 999

    def __init__(self, library: Any, job_gpus: str, devices: str = "/sys/bus/pci/devices") -> None:
        self._smi, self._devices = library, devices
        # Slurm counts AMD's GPUs by their place, or by the number of their device file, as gres.conf names these.
        self._by_file = any(int(word) >= RENDER_LEAST for word in job_gpus.split(",") if word.isdigit())
        self._handles: List[Any] = []

    def nvmlInit(self) -> None:
        """Start the library and list the GPUs."""
        self._call(self._smi.amdsmi_init)
        self._handles = list(self._call(self._smi.amdsmi_get_processor_handles))

    def nvmlDeviceGetCount(self) -> int:
        """Return the number of GPUs."""
        return len(self._handles)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        """Return the GPU at a place."""
        return self._handles[index]

    def nvmlDeviceGetMinorNumber(self, handle: Any) -> int:
        """Return the number by which Slurm knows a GPU."""
        if not self._by_file:
            return self._handles.index(handle)
        files = os.path.join(self._devices, self.nvmlDeviceGetPciInfo(handle).busId, "drm")
        try:
            found = [name for name in os.listdir(files) if name.startswith("renderD")]
            return int(found[0][len("renderD") :])
        except (OSError, IndexError, ValueError):
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED, "no device file") from None

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        """Return the UUID of a GPU."""
        return str(self._call(self._smi.amdsmi_get_gpu_device_uuid, handle))

    def nvmlDeviceGetName(self, handle: Any) -> str:
        """Return the name of its product."""
        return str(self._call(self._smi.amdsmi_get_gpu_asic_info, handle)["market_name"])

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Memory:
        """Return its memory."""
        kind = self._smi.AmdSmiMemoryType.VRAM
        total = self._number(self._call(self._smi.amdsmi_get_gpu_memory_total, handle, kind))
        return Memory(int(total), int(self._number(self._call(self._smi.amdsmi_get_gpu_memory_usage, handle, kind))))

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> float:
        """Return its limit of power in mW."""
        return self._number(self._call(self._smi.amdsmi_get_power_info, handle).get("power_limit")) * 1000.0

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> float:
        """Return the power that it draws in mW; older GPUs have a mean alone."""
        told = self._call(self._smi.amdsmi_get_power_info, handle)
        known = [told[name] for name in ("current_socket_power", "average_socket_power") if is_number(told.get(name))]
        return self._number(known[0] if known else None) * 1000.0

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Rates:
        """Return the use of its compute units and of its memory controller."""
        told = self._call(self._smi.amdsmi_get_gpu_activity, handle)
        memory = told.get("umc_activity")
        return Rates(self._number(told.get("gfx_activity")), memory if is_number(memory) else None)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> List[Process]:
        """Return the processes that use it."""
        told = self._call(self._smi.amdsmi_get_gpu_process_list, handle)
        return [Process(int(each["pid"])) for each in told if isinstance(each, dict) and is_number(each.get("pid"))]

    def nvmlDeviceGetPciInfo(self, handle: Any) -> Address:
        """Return its PCI address."""
        address = str(self._call(self._smi.amdsmi_get_gpu_device_bdf, handle)).lower()
        if not _BDF.fullmatch(address):
            raise self.NVMLError(self.NVML_ERROR_UNKNOWN, "no PCI address")
        return Address(address)

    def nvmlDeviceGetMigMode(self, handle: Any) -> Any:
        """Raise: there are no slices as of NVIDIA."""
        raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetNvLinkState(self, handle: Any, link: int) -> Any:
        """Raise: links between these GPUs are not read."""
        raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)

    def _number(self, value: Any) -> float:
        """Return a number that the library told; NVMLError where it told none."""
        if not is_number(value):
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return float(value)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the library; each error of its own becomes an NVMLError."""
        try:
            return function(*arguments)
        except self._smi.AmdSmiException as error:
            code = getattr(error, "err_code", None)
            if code in _UNSUPPORTED:
                raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED, str(error)) from error
            refused = self.NVML_ERROR_NO_PERMISSION if code == _REFUSED else self.NVML_ERROR_UNKNOWN
            raise self.NVMLError(refused, str(error)) from error


def is_number(value: Any) -> bool:
    """Report whether the library told a number; it says N/A for what it does not know."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0

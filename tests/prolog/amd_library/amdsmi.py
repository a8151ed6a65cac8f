"""A stand-in for AMD's amdsmi with two GPUs: the calls that the sampler makes, in the shape of its manual."""

import enum
import os


class AmdSmiException(Exception):
    """An error of the library."""


class AmdSmiLibraryException(AmdSmiException):
    """An error with the code of the C library."""

    def __init__(self, err_code):
        super().__init__(f"error code {err_code}")
        self.err_code = err_code


class AmdSmiMemoryType(enum.IntEnum):
    """Kinds of memory."""

    VRAM = 0


def amdsmi_init(flag=None):
    """Start the library; without a driver there is none."""
    if os.environ.get("FAKE_AMD") == "none":
        raise AmdSmiLibraryException(34)


def amdsmi_get_processor_handles():
    """Return the GPUs."""
    return ["one", "two"]


def _busy(handle):
    return handle == "one"


def amdsmi_get_gpu_device_uuid(handle):
    """Return a UUID."""
    return f"aaff74a1-0000-1000-8000-{handle}"


def amdsmi_get_gpu_asic_info(handle):
    """Return what it is."""
    return {"market_name": "AMD Instinct MI300X"}


def amdsmi_get_gpu_device_bdf(handle):
    """Return its address."""
    return "0000:05:00.0" if _busy(handle) else "0000:26:00.0"


def amdsmi_get_gpu_memory_total(handle, kind):
    """Return its memory in bytes."""
    return 192 * 1024**3


def amdsmi_get_gpu_memory_usage(handle, kind):
    """Return the used part of it."""
    return (4096 if _busy(handle) else 283) * 1024**2


def amdsmi_get_gpu_activity(handle):
    """Return its use in %; the second tells nothing of its memory controller."""
    return {"gfx_activity": 80, "umc_activity": 20} if _busy(handle) else {"gfx_activity": 0, "umc_activity": "N/A"}


def amdsmi_get_power_info(handle):
    """Return its power in W; the second has a mean alone."""
    now = 500 if _busy(handle) else "N/A"
    return {"current_socket_power": now, "average_socket_power": 130, "power_limit": 750}


def amdsmi_get_gpu_process_list(handle):
    """Return the processes; those of the second may not be seen."""
    if "FAKE_AMD_ASKED" in os.environ:
        with open(os.environ["FAKE_AMD_ASKED"], "a") as file:
            file.write(".")
    if os.environ.get("FAKE_AMD") == "refused":
        raise AmdSmiLibraryException(10)
    return [{"name": "python3", "pid": 4711, "mem": 4096}] if _busy(handle) else []

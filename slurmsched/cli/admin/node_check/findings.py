"""Findings about a GPU node, from what was measured there. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....cluster.text.plural import count
from ....config.settings import ShareSettings
from ....models.sharing.sharing_model import NAMES, GpuUse, SharingModel
from ....policies.sharing_candidates import CURVE_MARGIN, PackingLimits
from ....slurm.checkup import Finding

Gpu = dict[str, Any]
"""A GPU as the probe describes it; None for each value that NVML does not give."""

GOAL = 0.005  #: largest loss of speed of a job by the sampler
SAMPLE_SHARE = 0.1  #: largest share of EVERY_S that the samples of all GPUs may take
USED = 0.05  #: share of a GPU's memory that the driver may hold for itself
MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
PROHIBITED = 2
USE = ("gpu_util", "memory_util", "memory_mib")  #: of a job alone, as columns of the model
LISTS = ("processes", "clients", "graphics")


def is_whole(gpu: Gpu) -> bool:
    """Report whether jobs get this GPU as a whole, and NVML shows which it is."""
    return "trouble" not in gpu and not gpu["mig"] and gpu["minor"] is not None and bool(gpu["uuid"])


def occupied(gpu: Gpu) -> str:
    """Return the process that runs on *gpu* in words; empty if there is none."""
    if gpu["processes"] is None:
        return "NVML does not list its processes"
    pids = [str(each["pid"]) for name in LISTS for each in gpu[name] or ()]
    return f"process {', '.join(dict.fromkeys(pids))} runs on it" if pids else ""


def busy(gpu: Gpu) -> str:
    """Return the reason why a trial would disturb *gpu*, or why this is unknown; empty if it is idle."""
    if words := occupied(gpu):
        return words
    if gpu["gpu_util"]:
        return f"its utilisation is {gpu['gpu_util']} %"
    if gpu["memory_mib"] and gpu["used_mib"] > USED * gpu["memory_mib"]:
        return f"{gpu['used_mib']} MiB of it are in use"
    return ""


def nvml_finding(versions: Mapping[str, Any], gpus: int) -> Finding:
    """Judge the versions that NVML gives and the number of its GPUs."""
    cuda = f"{versions['cuda'] // 1000}.{versions['cuda'] % 1000 // 10}"
    known = [f"{name} {versions[key]}" for name, key in (("NVML", "nvml"), ("driver", "driver")) if versions[key]]
    text = ", ".join([*known, *([f"CUDA {cuda}"] if versions["cuda"] else []), count(gpus, "GPU")])
    return Finding("NVML", gpus > 0, text, "nvidia-smi, which should list the GPUs of this node")


def nvml_trouble(trouble: str, python: str) -> Finding:
    """Judge an NVML that does not answer."""
    remedy = "nvidia-smi, which should answer too; else reload the driver"
    if "pynvml" in trouble:
        remedy = f"{python} -m pip install nvidia-ml-py, or PYTHON= in node.conf: a Python that has it"
    elif "Not Found" in trouble:
        remedy = "the driver's libnvidia-ml.so.1"
    return Finding("NVML", False, trouble, remedy)


def gpu_finding(gpu: Gpu) -> Finding:
    """Describe one GPU, and judge its modes."""
    name = f"GPU {gpu['index']}"
    if "trouble" in gpu:
        return Finding(name, None, f"NVML does not show it: {gpu['trouble']}")
    mode = gpu["compute_mode"]
    words = "unknown" if mode is None else MODES[mode] if mode < len(MODES) else str(mode)
    text = f"{gpu['name']}, {gpu['uuid']}, device {gpu['minor']}, compute mode {words}"
    text += f", {gpu['memory_mib']} MiB" if gpu["memory_mib"] else ""
    text += f", MIG {'on' if gpu['mig'] else 'off'}; {busy(gpu) or 'idle'}"
    if mode == PROHIBITED:
        return Finding(name, False, text, f"nvidia-smi -i {gpu['index']} -c DEFAULT")
    if gpu["mig"]:
        return Finding(name, None, text, "its jobs are measured by slice, and none share; nvidia-smi -mig 0 ends it")
    return Finding(
        name, True if not mode else None, text, "only clients of MPS share it; -c DEFAULT lets others take turns"
    )


def uuids_finding(wanted: Mapping[int, str], found: Mapping[int, str]) -> Finding:
    """Judge the UUIDs that the prolog finds, by device number, beside those of NVML."""
    wrong = [minor for minor, uuid in wanted.items() if found.get(minor) != uuid]
    if not wrong:
        return Finding("UUIDs", True, "the prolog finds those of all GPUs")
    text = f"the prolog does not find that of device {', '.join(map(str, wrong))}: jobs that share it have no MPS"
    return Finding("UUIDs", False, text, "GPU_INFO_DIR= in node.conf: the driver's directory of GPUs")


def samples_finding(gpus: Sequence[Mapping[str, float]], every_s: float) -> Finding:
    """Judge the seconds that one sample of all *gpus* takes."""
    usual_s, longest_s = sum(gpu["median_s"] for gpu in gpus), max(gpu["longest_s"] for gpu in gpus)
    text = f"{1000 * usual_s / len(gpus):.2f} ms per GPU, {1000 * usual_s:.2f} ms for all, the longest one"
    text += f" {1000 * longest_s:.2f} ms; a sample is due every {every_s:g} s"
    ok = False if usual_s > every_s else None if usual_s > SAMPLE_SHARE * every_s else True
    return Finding("time of a sample", ok, text, f"EVERY_S={math.ceil(usual_s / SAMPLE_SHARE)} in node.conf")


def sampler_finding(measured: int, gpus: int, share: float) -> Finding:
    """Judge a sampler that measured so many of the GPUs and took *share* of a core; NaN where that is unknown."""
    text = f"it measured {measured} of {count(gpus, 'GPU')}"
    text += "" if math.isnan(share) else f" and took {share:.3%} of a core"
    return Finding("sampler", measured == gpus, text, "journalctl -t slurmsched")


def trial_finding(gpu: Gpu | None, why: str) -> Finding:
    """Name the GPU on which jobs of ours may run; *why* has the reasons against the others."""
    if gpu is not None:
        return Finding("trial", True, f"on GPU {gpu['index']}" + (f"; left alone: {why}" if why else ""))
    return Finding("trial", None, f"all are left alone: {why}", "drain the node first; --anyway disturbs what runs")


def loss_finding(losses: Sequence[float], every_s: float) -> Finding:
    """Judge the loss of a job's speed by the sampler, from that of each round."""
    name, mean = "loss by the sampler", statistics.fmean(losses)
    error = 2.0 * statistics.stdev(losses) / math.sqrt(len(losses))
    text = f"a GPU job loses {mean:.2%} ± {error:.2%} of its speed; the goal is at most {GOAL:.1%}"
    if mean + error <= GOAL:
        return Finding(name, True, text)
    if mean - error > GOAL:
        return Finding(name, False, text, f"EVERY_S={math.ceil(every_s * mean / GOAL)} in node.conf")
    return Finding(
        name, None, f"{text}: too uncertain to tell", "again with --seconds 10, on a node without other load"
    )


def no_mps(program: str, file: str) -> Finding:
    """Describe a node without MPS."""
    if program == "none":
        return Finding("MPS", None, f"MPS=none in {file}: jobs that share GPUs take turns")
    text = f"there is no program {program}: jobs that share GPUs take turns"
    return Finding("MPS", None, text, f"the driver's nvidia-cuda-mps-control, or MPS= in {file}")


def mps_finding(trouble: str, remains: Sequence[str], ready_s: float, stop_s: float, program: str) -> Finding:
    """Judge a control daemon that was started for two jobs and stopped after them."""
    if remains:
        return Finding("MPS", False, f"left behind and removed: {', '.join(remains)}; {trouble}".rstrip("; "))
    if trouble:
        return Finding("MPS", False, trouble, f"{program} -f by hand, which says more")
    text = f"the control daemon was up after {ready_s:.2f} s and gone after {stop_s:.2f} s; nothing is left behind"
    return Finding("MPS", True, text)


def clients_finding(seen: Mapping[str, Any], pids: Sequence[int]) -> Finding:
    """Judge how NVML shows two clients of MPS with these *pids*, and how many the sampler counts."""
    listed = {name: {each["pid"]: each for each in seen[name] or ()} for name in ("processes", "clients", "loads")}
    shown = {name: sum(pid in each for pid in pids) for name, each in listed.items()}
    memory = sum(any((listed[name].get(pid) or {}).get("mib") for name in ("processes", "clients")) for pid in pids)
    text = f"of 2 clients NVML lists {shown['clients']} as clients and {shown['processes']} as processes,"
    text += f" the memory of {memory} and the utilisation of {shown['loads']}; the sampler counts {seen['counted']}"
    remedy = "jobs that share are not watched for instability where fewer than 2 are counted; see docs/sharing.md"
    return Finding("clients of MPS", seen["counted"] == len(pids), text, remedy)


def pair_finding(
    pair: Sequence[str], speeds: Sequence[float], alone: Mapping[str, Mapping[str, float]], model: SharingModel
) -> Finding:
    """Judge the rule of sharing by the speeds that two jobs had together, relative to alone."""
    uses = [alone[shape] for shape in pair]
    utils, memory_utils, memory_mib = (np.array([use[name] for use in uses]) for name in USE)
    scores = model.score(GpuUse(utils, memory_utils, memory_mib, amp=np.zeros(len(pair))))
    limits = ShareSettings()
    packing = PackingLimits(
        limits.capacity,
        curve=model.speeds.knots(),
        least_speed=limits.least_speed,
        least_speed_each=limits.least_speed_each,
        margin=CURVE_MARGIN,
    )
    expected, had = packing.pair_speed(np.array([utils.sum()])), np.array(speeds)
    share = int(scores.sum()) <= packing.capacity and bool(packing.keeps_enough(expected, expected)[0])
    first, second = (f"{NAMES[score]} ({util:.0%} busy)" for score, util in zip(scores, utils, strict=True))
    text = f"{speeds[0]:.2f} and {speeds[1]:.2f} of their speed alone. Expected: {expected[0]:.2f}, of {first}"
    text += f" and {second}, which {'share' if share else 'do not share'}"
    ok = not share or bool(replace(packing, margin=0.0).keeps_enough(had[:1], had[1:])[0])
    remedy = "a larger [share] least_speed, until the models are trained on pairs of this GPU"
    return Finding(" + ".join(pair), ok, text, remedy)

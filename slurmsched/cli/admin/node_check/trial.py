"""The trial of a GPU node: each step tries what our programs do there; ``findings`` judges what it measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from socket import gethostname
from typing import Any

from ....clock import Clock
from ....daemon.profiles.profile_record import BadRecord, read_record
from ....models.registry import shipped
from ....models.sharing.sharing_model import SharingModel
from ....slurm.checkup import Finding
from .findings import (
    Gpu,
    busy,
    clients_finding,
    gpu_finding,
    is_whole,
    loss_finding,
    mps_finding,
    no_mps,
    nvml_finding,
    nvml_trouble,
    occupied,
    pair_finding,
    sampler_finding,
    samples_finding,
    trial_finding,
    uuids_finding,
)
from .links import link_findings, read_gres_conf
from .programs import GpuNode, GpuWork, NodeTrouble, TrialMps, TrialSampler

ROUNDS = 6  #: of a job with and without the sampler
SETTLE_S = 1.0  #: at most, from the start of a sampler to its usual load
SLACK_S = 30.0  #: for a GPU job beyond its time
SHAPES = ("light", "heavy")
PAIRS = (("light", "light"), ("light", "heavy"), ("heavy", "heavy"))


class NodeTrial:
    """All checks of one node, in order; *measured* has their figures by name."""

    def __init__(
        self, node: GpuNode, clock: Clock, *, seconds: float, pairs: bool, anyway: bool, gres_conf: Path | None
    ) -> None:
        self._node, self._clock, self._gres_conf = node, clock, gres_conf
        self._seconds, self._pairs, self._anyway = seconds, pairs, anyway
        self._settle_s = min(SETTLE_S, seconds)
        self._gpus: list[Gpu] = []
        self.measured: dict[str, Any] = {}

    def findings(self) -> Iterator[Finding]:
        """Run the checks and yield their results."""
        yield self._settings()
        yield self._nvml()
        yield from (gpu_finding(gpu) for gpu in self._gpus)
        if not self._whole():
            yield Finding("the rest", None, "not checked: NVML shows no whole GPU")
            return
        for name, step in (("UUIDs", self._uuids), ("time of a sample", self._samples), ("sampler", self._sampler)):
            yield _tried(name, step)
        yield from self._links()
        gpu, why = self._idle()
        yield trial_finding(gpu, why)
        if gpu is None:
            yield from (Finding(name, None, "not checked: no GPU is idle") for name in ("loss by the sampler", "MPS"))
            yield from self._without_mps()
            return
        yield self._loss(gpu)
        yield from self._shared(gpu)

    def _settings(self) -> Finding:
        settings = self._node.settings
        source = settings.file if os.path.exists(settings.file) else f"defaults, since there is no {settings.file}"
        try:
            version = self._node.run(settings.python, "-I", "-V", limit_s=SLACK_S).strip()
        except NodeTrouble as error:
            return Finding("settings", False, str(error), f"PYTHON= in {settings.file}: a Python 3.6 or newer")
        return Finding("settings", True, f"{source}; {settings.python} is {version}")

    def _nvml(self) -> Finding:
        try:
            found = self.measured["nvml"] = self._node.gpus()
        except NodeTrouble as error:
            return nvml_trouble(str(error), self._node.settings.python)
        self._gpus = found["gpus"]
        return nvml_finding(found, len(self._gpus))

    def _whole(self) -> list[Gpu]:
        return [gpu for gpu in self._gpus if is_whole(gpu)]

    def _uuids(self) -> Finding:
        minors = {gpu["minor"]: gpu["uuid"] for gpu in self._whole()}
        return uuids_finding(minors, self._node.uuids(list(minors)))

    def _links(self) -> list[Finding]:
        try:
            gpus = self.measured["links"] = self._node.probe("links")["gpus"]
            return link_findings(gpus, read_gres_conf(self._gres_conf, gethostname().partition(".")[0]))
        except (NodeTrouble, OSError, ValueError) as error:
            return [Finding("links", None, f"not checked: {error}")]

    def _samples(self) -> Finding:
        found = self.measured["samples"] = self._node.probe("answers")["gpus"]
        return samples_finding(found, self._node.settings.every_s)

    def _sampler(self) -> Finding:
        sampler = self._start_sampler()
        try:
            sampler.ready()
            time.sleep(self._settle_s)
            before_s = sampler.cpu_s()
            time.sleep(self._seconds)
            share = (sampler.cpu_s() - before_s) / self._seconds
            record = read_record(sampler.stop(), self._clock.now())
        except BadRecord as error:
            return Finding("sampler", False, f"the daemon would refuse its record: {error}")
        finally:
            sampler.kill()
        self.measured["sampler_cpu"] = share
        return sampler_finding(record.gpus, len(self._whole()), share)

    def _start_sampler(self) -> TrialSampler:
        return TrialSampler(self._node, [gpu["minor"] for gpu in self._whole()])

    def _idle(self) -> tuple[Gpu | None, str]:
        """Return the first GPU that a trial may use; None and the reasons where there is none."""
        reasons = {gpu["index"]: "" if self._anyway else busy(gpu) for gpu in self._whole()}
        found = next((gpu for gpu in self._whole() if not reasons[gpu["index"]]), None)
        return found, "; ".join(f"GPU {index}: {reason}" for index, reason in reasons.items() if reason)

    def _still_idle(self, gpu: Gpu) -> None:
        """Raise NodeTrouble where a process came to *gpu* since the first look."""
        now = [each for each in self._node.gpus()["gpus"] if is_whole(each) and each["uuid"] == gpu["uuid"]]
        reason = occupied(now[0]) if now else "NVML does not show it"
        if not now or (reason and not self._anyway):
            raise NodeTrouble(f"{reason} now")

    def _loss(self, gpu: Gpu) -> Finding:
        try:
            self._still_idle(gpu)
            losses = self.measured["sampler_losses"] = self._losses(gpu)
        except NodeTrouble as error:
            return Finding("loss by the sampler", None, f"not checked: {error}")
        return loss_finding(losses, self._node.settings.every_s)

    def _losses(self, gpu: Gpu) -> list[float]:
        """Return the loss of a job's speed by the sampler in each round."""
        work, losses = GpuWork(self._node, "heavy", gpu["uuid"]), []
        try:
            work.ready()
            for number in range(ROUNDS):
                # in turns, since a GPU that warms up changes its speed
                order = (False, True) if number % 2 else (True, False)
                speeds = {measured: self._speed(work, measured) for measured in order}
                losses.append(1.0 - speeds[True] / speeds[False])
        finally:
            work.end()
        return losses

    def _speed(self, work: GpuWork, measured: bool) -> float:
        sampler = self._start_sampler() if measured else None
        try:
            if sampler is not None:
                sampler.ready()
            time.sleep(self._settle_s)
            work.begin(self._seconds)
            return work.rate(self._seconds + SLACK_S)
        finally:
            if sampler is not None:
                sampler.kill()

    def _shared(self, gpu: Gpu) -> list[Finding]:
        """Try MPS on *gpu*, and what needs it."""
        settings = self._node.settings
        if not settings.mps_path:
            return [no_mps(settings.mps, settings.file), *self._without_mps()]
        try:
            self._still_idle(gpu)
            alone = self._alone(gpu) if self._pairs else {}
        except NodeTrouble as error:
            return [Finding("MPS", None, f"not checked: {error}"), *self._without_mps()]
        mps, trouble, found = TrialMps(self._node, gpu["minor"], gpu["uuid"]), "", list[Finding]()
        try:
            variables = mps.start()
            found = [self._clients(gpu, variables), *self._together(gpu, variables, alone)]
        except NodeTrouble as error:
            trouble = str(error)
        finally:
            try:
                mps.stop()
            except NodeTrouble as error:
                trouble = trouble or str(error)
            remains = mps.remains()
        self.measured["mps"] = {"ready_s": mps.ready_s, "stop_s": mps.stop_s, "remains": remains}
        result = mps_finding(trouble, remains, mps.ready_s, mps.stop_s, settings.mps_path)
        return [result, *(found or self._without_mps())]

    def _without_mps(self) -> list[Finding]:
        names = ("clients of MPS", *(["pairs"] if self._pairs else []))
        return [Finding(name, None, "not checked: MPS was not up") for name in names]

    def _clients(self, gpu: Gpu, variables: Mapping[str, str]) -> Finding:
        """Compare NVML's lists with two jobs that really are clients of MPS."""
        jobs: list[GpuWork] = []
        try:
            for _ in range(2):
                jobs.append(GpuWork(self._node, "light", gpu["uuid"], variables))
            for job in jobs:
                job.ready()
            for job in jobs:
                job.begin(self._seconds)
            seen = self.measured["clients"] = self._node.probe("processes", gpu["uuid"])
        except NodeTrouble as error:
            works = "sampler_losses" in self.measured
            text = "a GPU job works without MPS, and not under it" if works else "not checked"
            return Finding("clients of MPS", False if works else None, f"{text}: {error}", "nvidia-smi -q -d COMPUTE")
        finally:
            for job in jobs:
                job.end()
        return clients_finding(seen, [job.process.pid for job in jobs])

    def _alone(self, gpu: Gpu) -> dict[str, dict[str, float]]:
        """Return speed and GPU use of each shape of job that has the GPU alone."""
        return {shape: self._use_alone(gpu, shape) for shape in SHAPES}

    def _use_alone(self, gpu: Gpu, shape: str) -> dict[str, float]:
        work = GpuWork(self._node, shape, gpu["uuid"])
        try:
            loops = work.ready()
            sampler = TrialSampler(self._node, [gpu["minor"]], every_s=0.1)
            try:
                sampler.ready()
                work.begin(self._settle_s + self._seconds)
                speed = work.rate(self._seconds + SLACK_S)
                use = read_record(sampler.stop(), self._clock.now())
            finally:
                sampler.kill()
        except BadRecord as error:
            raise NodeTrouble(f"the daemon would refuse its record: {error}") from error
        finally:
            work.end()
        uses = {"gpu_util": use.gpu_util, "memory_util": use.memory_util, "memory_mib": use.memory_mib}
        return {"speed": speed, "loops": loops} | uses

    def _together(
        self, gpu: Gpu, variables: Mapping[str, str], alone: Mapping[str, Mapping[str, float]]
    ) -> list[Finding]:
        model = shipped().read_as(SharingModel.of_document)
        self.measured["alone"], self.measured["pairs"] = alone, []
        found = []
        for pair in PAIRS if alone else ():
            try:
                rates = self._rates(gpu, variables, [(shape, int(alone[shape]["loops"])) for shape in pair])
            except NodeTrouble as error:
                found.append(Finding(" + ".join(pair), None, f"not checked: {error}"))
                continue
            speeds = [rate / alone[shape]["speed"] for rate, shape in zip(rates, pair, strict=True)]
            self.measured["pairs"].append({"jobs": pair, "speeds": speeds})
            found.append(pair_finding(pair, speeds, alone, model))
        return found

    def _rates(self, gpu: Gpu, variables: Mapping[str, str], pair: Sequence[tuple[str, int]]) -> list[float]:
        jobs: list[GpuWork] = []
        try:
            for shape, loops in pair:
                jobs.append(GpuWork(self._node, shape, gpu["uuid"], variables, loops))
            for job in jobs:
                job.ready()
            for job in jobs:
                job.begin(self._seconds)
            return [job.rate(self._seconds + SLACK_S) for job in jobs]
        finally:
            for job in jobs:
                job.end()


def _tried(name: str, step: Callable[[], Finding]) -> Finding:
    try:
        return step()
    except NodeTrouble as error:
        return Finding(name, False, str(error), "nvidia-smi, which should answer too; journalctl -t slurmsched")

"""Records of jobs that clash on shared GPUs, version 1 (docs/sharing.md), sent by nodes: checked."""

from __future__ import annotations

from ...cluster.records.faults import Fault, Instability
from ...cluster.records.profiles import NodeProfile
from .profile_record import AGE_S, CLOCK_S, GPUS_MOST, ID_MOST, NODE, BadRecord, Record, profile_of, whole

TEXT_MOST = 200  #: characters


def delivery_of(record: Record, now_s: float) -> NodeProfile | Fault | Instability:
    """Parse what a node delivered from *record*; BadRecord where it is malformed or implausible."""
    if "unstable" in record:
        return instability_of(record, now_s)
    return fault_of(record, now_s) if "fault" in record else profile_of(record, now_s)


def fault_of(record: Record, now_s: float) -> Fault:
    """Parse a fault from *record*; BadRecord where it is malformed or implausible."""
    job_id, restart, node, start_s, end_s, gpus, partners = _shared(record, now_s)
    harm = record.get("harm", "partners")  # nodes before 0.3 tell of no other
    if harm not in ("own", "partners"):
        raise BadRecord("harm is neither own nor partners")
    return Fault(job_id, restart, node, start_s, end_s, gpus, partners, _text(record, "fault"), harm == "own")


def instability_of(record: Record, now_s: float) -> Instability:
    """Parse an instability from *record*; BadRecord where it is malformed or implausible."""
    job_id, restart, node, start_s, end_s, gpus, partners = _shared(record, now_s)
    restarts = _wholes(record, "with_restarts", 0, ID_MOST, GPUS_MOST)
    if len(restarts) != len(partners) or job_id in partners:
        raise BadRecord("with and with_restarts are not about the same jobs, others than job_id")
    why = _text(record, "unstable")
    return Instability(job_id, restart, node, start_s, end_s, gpus, partners, restarts, why)


def _shared(record: Record, now_s: float) -> tuple[int, int, str, int, int, tuple[int, ...], tuple[int, ...]]:
    """Parse the common fields of records about sharing jobs, in their order."""
    node = record.get("node")
    if not isinstance(node, str) or not NODE.fullmatch(node):
        raise BadRecord("node is no name of a node")
    start_s = whole(record, "start_s", int(now_s) - AGE_S, int(now_s) + CLOCK_S)
    return (
        whole(record, "job_id", 1, ID_MOST),
        whole(record, "restart", 0, ID_MOST),
        node,
        start_s,
        whole(record, "end_s", start_s, int(now_s) + CLOCK_S),
        _wholes(record, "gpus", 0, 999, GPUS_MOST),
        _wholes(record, "with", 1, ID_MOST, GPUS_MOST),  # a job on each of its GPUs
    )


def _text(record: Record, name: str) -> str:
    text = record.get(name)
    if not isinstance(text, str) or not 0 < len(text) <= TEXT_MOST:
        raise BadRecord(f"{name} is no text of 1 to {TEXT_MOST} characters")
    return text


def _wholes(record: Record, name: str, least: int, most: int, many: int) -> tuple[int, ...]:
    listed = record.get(name)
    if not isinstance(listed, list) or not 1 <= len(listed) <= many:
        raise BadRecord(f"{name} is no list of 1 to {many}")
    return tuple(whole({name: value}, name, least, most) for value in listed)

"""The record a node sends of jobs that failed together on their GPUs, version 1 (docs/sharing.md): checked."""

from __future__ import annotations

from ..cluster.faults import Fault
from ..cluster.profiles import NodeProfile
from .profile_record import AGE_S, CLOCK_S, GPUS_MOST, ID_MOST, NODE, BadRecord, Record, opened, profile_of, whole

PARTNERS_MOST = 8
FAULT_MOST = 200  #: characters


def read_delivery(payload: bytes, now_s: float) -> NodeProfile | Fault:
    """What *payload* says, a profile or a fault; BadRecord where it is malformed, of another version, or absurd."""
    record = opened(payload)
    return fault_of(record, now_s) if "fault" in record else profile_of(record, now_s)


def fault_of(record: Record, now_s: float) -> Fault:
    """What *record* says; BadRecord where it is malformed or absurd."""
    node, fault = record.get("node"), record.get("fault")
    if not isinstance(node, str) or not NODE.fullmatch(node):
        raise BadRecord("node is no name of a node")
    if not isinstance(fault, str) or not 0 < len(fault) <= FAULT_MOST:
        raise BadRecord(f"fault is no text of 1 to {FAULT_MOST} characters")
    start_s = whole(record, "start_s", int(now_s) - AGE_S, int(now_s) + CLOCK_S)
    return Fault(
        job_id=whole(record, "job_id", 1, ID_MOST),
        restart=whole(record, "restart", 0, ID_MOST),
        node=node,
        start_s=start_s,
        end_s=whole(record, "end_s", start_s, int(now_s) + CLOCK_S),
        gpus=_wholes(record, "gpus", 0, 999, GPUS_MOST),
        partners=_wholes(record, "with", 1, ID_MOST, PARTNERS_MOST),
        fault=fault,
    )


def _wholes(record: Record, name: str, least: int, most: int, many: int) -> tuple[int, ...]:
    listed = record.get(name)
    if not isinstance(listed, list) or not 1 <= len(listed) <= many:
        raise BadRecord(f"{name} is no list of 1 to {many}")
    return tuple(whole({name: value}, name, least, most) for value in listed)

"""The record of a lab's objects outside its directory, written before they are created."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurmsched.errors import LabError
from slurmsched.lab.processes import Process
from slurmsched.lab.spec import LabSpec

SCHEMA = "slurmsched/1"


@dataclass
class Manifest:
    """The record for ``down``, which makes cleaning possible after a crash at any point."""

    path: Path
    lab_id: str  #: also the ClusterName; in the environment of every process of the lab
    spec: LabSpec
    users: dict[str, str] = field(default_factory=dict)  #: lab name -> unix name, created or about to be
    ports: dict[str, int] = field(default_factory=dict)
    mounts: list[str] = field(default_factory=list)  #: in the order they were made
    processes: dict[str, Process] = field(default_factory=dict)

    def save(self) -> None:
        """Write the record so that a reader sees the old or the new one, never a part."""
        record = {
            "schema": SCHEMA,
            "lab_id": self.lab_id,
            "spec": self.spec.to_json(),
            "users": self.users,
            "ports": self.ports,
            "mounts": self.mounts,
            "processes": {name: [process.pid, process.started] for name, process in self.processes.items()},
        }
        draft = draft_of(self.path)
        draft.write_text(json.dumps(record, indent=1))
        draft.chmod(0o644)
        draft.replace(self.path)

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Read the record at *path*; `LabError` when there is none, it is not a lab's, or another user wrote it.

        ``down`` ends and removes everything the record names: it must not trust another user's file.
        """
        try:
            if (owner := path.stat().st_uid) != os.geteuid():
                raise LabError(
                    f"the lab at {path.parent} belongs to user {owner}, who alone may use this command on it"
                )
            record = json.loads(path.read_text())
            return cls._from_json(path, record)
        except FileNotFoundError as error:
            raise LabError(
                f"there is no lab at {path.parent} (no {path.name}); `slurmsched lab up` makes one"
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LabError(f"cannot read the lab's record {path}: {error!r}") from error

    @classmethod
    def _from_json(cls, path: Path, record: Mapping[str, Any]) -> Manifest:
        if record["schema"] != SCHEMA:
            raise LabError(f"{path} was written as {record['schema']}; this slurmsched reads {SCHEMA}")
        return cls(
            path=path,
            lab_id=record["lab_id"],
            spec=LabSpec.from_json(record["spec"]),
            users=record["users"],
            ports=record["ports"],
            mounts=record["mounts"],
            processes={name: Process(pid, started) for name, (pid, started) in record["processes"].items()},
        )


def draft_of(path: Path) -> Path:
    """Return the only name that a half-written record may have."""
    return path.with_name(path.name + ".draft")

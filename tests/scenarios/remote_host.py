"""The daemon's host as a process of its own: a lab with private jobs, and a daemon that other hosts may ask.

remote_host.py DIRECTORY ADDRESS brings them up, prints what a client needs as a line of JSON, and takes all down when
its input ends.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[up] / place) for up, place in ((0, ""), (1, ""), (1, "daemon"))]

from certificates import Authority
from lab_site import Site, interpreter

from slurmsched.lab import Lab, LabSpec
from slurmsched.lab.users import nobody_gid, uid_of

ASKERS = ("alice", "bob")


def serve(directory: Path, address: str) -> None:
    with Lab(directory, LabSpec(extra_conf=("PrivateData=jobs",))) as lab:
        authority = Authority.of(lab.layout.work / "site")
        certificate, key = authority.issue(address)
        site = Site.of(lab, remote=f"listen = '{address}:0'\ncertificate = '{certificate}'\nkey = '{key}'")
        shutil.chown(key, site.uid, nobody_gid())
        site.fill()
        jobs = [lab.submit("--gres=gpu:4", "-N4", "--wrap=true", "-o/dev/null", user=name) for name in ASKERS]
        with site.daemon() as daemon:
            site.until(lambda: site.said("queue")["pending"] == len(jobs), "the jobs")
            uids = {name: uid_of(lab.user(name)) for name in ASKERS}
            python, path = interpreter(lab.directory, uids["alice"])
            known = {
                "port": listening_port(daemon.pid),
                "ca": authority.file,
                "munge": str(lab.layout.munge_socket),
                "work": str(lab.layout.work),
                "python": [python, path],
                "uids": uids,
                "jobs": dict(zip(ASKERS, jobs, strict=True)),
            }
            print(json.dumps(known), flush=True)
            sys.stdin.read()


def listening_port(pid: int) -> int:
    """The TCP port on which the process *pid* listens."""
    own = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and f"socket:[{inode}]" in own:
            return int(local.partition(":")[2], 16)
    raise LookupError("the daemon listens on no port")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2])

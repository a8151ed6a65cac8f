"""The life of a made-up follower, in a copy of the product into whose list it was patched."""

from __future__ import annotations

import sys
from pathlib import Path

from cli.fake_site import FakeSite

from slurmsched.cli.daemon.build import build

daemon = build(FakeSite(Path(sys.argv[1])))
said = []
for _ in range(4):
    daemon.service.once()
    said.append(daemon.service.status()["degraded"])
daemon.close()
assert said == ["", "", "three cycles passed", ""], said
print("a follower was fed after each cycle, and heard by status")

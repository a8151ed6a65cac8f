"""From the package to forecasts on a host without a network: within ten minutes, of them one of typing."""

from __future__ import annotations

import subprocess

import pytest
from fresh_host import ROOT
from one_at_a_time import one_at_a_time


@pytest.mark.soak
def test_the_package_leads_to_forecasts_within_ten_minutes_without_a_network():
    built = [*(ROOT / "dist").glob("slurmsched_*~deb12_*.deb")]
    if len(built) != 1:
        pytest.skip("dist has not the package of one build: make packages TARGETS=deb12")
    with one_at_a_time("install"):
        done = subprocess.run([ROOT / "scripts/newcomer", "--package", built[0]], capture_output=True, text=True)
    if done.returncode == 2:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mode observe" in done.stdout
    assert "0 not run" in done.stdout

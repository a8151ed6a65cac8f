"""Certificates of a small site, made when a test needs them."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

trustme = pytest.importorskip("trustme")

KEY_MODE = 0o600
PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@dataclass
class Authority:
    """A certificate authority with its files in *directory*."""

    directory: Path
    authority: Any

    @classmethod
    def of(cls, directory: Path) -> Authority:
        made = trustme.CA(key_type=trustme.KeyType.ECDSA)
        directory.mkdir(parents=True, exist_ok=True)
        made.cert_pem.write_to_path(directory / "ca.pem")
        return cls(directory, made)

    @property
    def file(self) -> str:
        return str(self.directory / "ca.pem")

    def issue(self, *names: str, expired: bool = False) -> tuple[str, str]:
        """Files of a certificate for *names* and of its key."""
        until = {"not_before": PAST, "not_after": PAST + datetime.timedelta(days=1)} if expired else {}
        leaf = self.authority.issue_cert(*names, key_type=trustme.KeyType.ECDSA, **until)
        stem = self.directory / f"{names[0]}{'-expired' if expired else ''}"
        certificate, key = stem.with_suffix(".crt"), stem.with_suffix(".key")
        for part, blob in enumerate(leaf.cert_chain_pems):
            blob.write_to_path(certificate, append=part > 0)
        key.touch(KEY_MODE)
        key.chmod(KEY_MODE)
        leaf.private_key_pem.write_to_path(key)
        return str(certificate), str(key)

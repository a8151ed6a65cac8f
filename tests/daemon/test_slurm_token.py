"""Slurm's tokens: which ones name a user, and which do not."""

from __future__ import annotations

import base64
import hmac
import json
import time
from dataclasses import replace

import pytest
from certificates import Authority
from remote_worlds import Door, asked, private_handlers

from slurmsched.config import RemoteSettings
from slurmsched.daemon.api.remote_access import remote_access
from slurmsched.daemon.api.remote_identity import IdentityRefused
from slurmsched.daemon.api.slurm_token import token_reader
from slurmsched.errors import ConfigError

jwt = pytest.importorskip("jwt")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

NOW_S = int(time.time())
HOUR_S = 3600
SECRET, OTHER = b"k" * 32, b"o" * 32


def claims(**changes):
    """As ``scontrol token`` makes them; a claim that is None is left out."""
    made = {"exp": NOW_S + HOUR_S, "iat": NOW_S, "sun": "daemon"} | changes
    return {name: value for name, value in made.items() if value is not None}


def token(secret=SECRET, algorithm="HS256", headers=None, **changes):
    return jwt.encode(claims(**changes), secret, algorithm=algorithm, headers=headers)


def encoded(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def with_header(header):
    return f"{encoded(header)}.e30.x"


@pytest.fixture(scope="module")
def pair():
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def jwks(pair, tmp_path_factory):
    """The site's public key, beside keys for other algorithms."""
    row = jwt.algorithms.RSAAlgorithm.to_jwk(pair.public_key(), as_dict=True) | {"kid": "site", "alg": "RS256"}
    others = [{"kty": "EC", "kid": "curve"}, {**row, "kid": "encryption", "alg": "RSA-OAEP"}]
    file = tmp_path_factory.mktemp("keys") / "jwks.json"
    file.write_text(json.dumps({"keys": [*others, row]}))
    return file


@pytest.fixture
def key(tmp_path):
    file = tmp_path / "jwt_hs256.key"
    file.write_bytes(SECRET)
    file.chmod(0o640)
    return file


@pytest.fixture
def user_of(key, jwks):
    return token_reader(RemoteSettings(token_key=str(key), token_jwks=str(jwks)))


def test_a_token_of_slurm_names_its_user(user_of, pair):
    assert user_of(token()) == "daemon"
    assert user_of(token(pair, "RS256", {"kid": "site"}, sun="nobody")) == "nobody"


def test_a_clock_that_is_behind_the_maker_of_a_token_is_no_reason_to_refuse_it(user_of):
    assert user_of(token(iat=NOW_S + 60)) == "daemon"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: token(exp=NOW_S - 1), "has expired"),
        (lambda: token(exp=None), "MissingRequiredClaim"),
        (lambda: token(sun=None), "MissingRequiredClaim"),
        (lambda: token(sun=0), "is no name"),
        (lambda: token(sun=["daemon"]), "is no name"),
        (lambda: token(nbf=NOW_S + HOUR_S), "ImmatureSignature"),
        (lambda: token(aud="another service"), "InvalidAudience"),
        (lambda: token(OTHER), "forged, or signed by another key"),
        (lambda: token(headers={"kid": "site"}) + "x", "DecodeError|forged"),
        (lambda: token(None, "none"), "not accepted here"),
        (lambda: token(SECRET + SECRET, "HS512"), "not accepted here"),
        (lambda: "", "DecodeError"),
        (lambda: "a.b.c", "DecodeError"),
        (lambda: "\ud800.\0.x", "UnicodeEncodeError"),
        (lambda: "." * 10_000, "DecodeError"),
        (lambda: with_header(b"[" * 9_000), "RecursionError|DecodeError"),
        (lambda: with_header(b'{"alg": ["HS256"]}'), "not accepted here|DecodeError"),
        (lambda: with_header(b'{"alg": "RS256", "kid": {}}'), "not accepted here|DecodeError"),
        (lambda: token(exp=float("inf")), "OverflowError|DecodeError"),
        (lambda: token(exp="soon"), "DecodeError"),
    ],
)
def test_any_other_token_is_refused(user_of, made, message):
    with pytest.raises(IdentityRefused, match=message):
        user_of(made())


def test_a_changed_name_breaks_the_signature(user_of):
    head, _, sign = token().split(".")
    _, body, _ = token(OTHER, sun="root").split(".")
    with pytest.raises(IdentityRefused, match="forged"):
        user_of(f"{head}.{body}.{sign}")


def test_a_foreign_rsa_key_and_an_unknown_key_id_are_refused(user_of, pair):
    foreign = rsa.generate_private_key(65537, 2048)
    with pytest.raises(IdentityRefused, match="forged"):
        user_of(token(foreign, "RS256", {"kid": "site"}))
    for headers in (None, {"kid": "elsewhere"}, {"kid": "encryption"}):
        with pytest.raises(IdentityRefused, match="not accepted here"):
            user_of(token(pair, "RS256", headers))


def test_a_public_key_is_no_secret_of_hs256(jwks, pair):
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    user_of = token_reader(RemoteSettings(token_jwks=str(jwks)))
    public = pair.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    signed = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": "site"}, claims()))
    with pytest.raises(IdentityRefused, match="not accepted here"):
        user_of(f"{signed}.{encoded(hmac.digest(public, signed.encode(), 'sha256'))}")


def test_an_audience_that_is_demanded_must_be_named(key):
    user_of = token_reader(RemoteSettings(token_key=str(key), token_audience="slurm"))
    assert user_of(token(aud=["slurm", "more"])) == "daemon"
    for aud in (None, "another service"):
        with pytest.raises(IdentityRefused):
            user_of(token(aud=aud))


def test_the_claim_with_the_name_can_be_another(key):
    user_of = token_reader(RemoteSettings(token_key=str(key), token_claim="preferred_username"))
    assert user_of(token(preferred_username="nobody")) == "nobody"


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (SECRET, 0o644, "open to other users"),
        (SECRET, 0o660, "open to other users"),
        (SECRET[1:], 0o600, "at least 32 bytes"),
    ],
)
def test_a_secret_that_others_know_or_that_is_short_is_refused(key, content, mode, message):
    key.write_bytes(content)
    key.chmod(mode)
    with pytest.raises(ConfigError, match=rf"remote\.token_key.*{message}"):
        token_reader(RemoteSettings(token_key=str(key)))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": []}', '{"keys": [{"kty": "RSA"}]}', '{"keys": [7]}'])
def test_a_file_without_keys_is_refused(tmp_path, text):
    file = tmp_path / "jwks.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"remote\.token_jwks"):
        token_reader(RemoteSettings(token_jwks=str(file)))


def test_a_door_takes_tokens_through_tls_and_for_users_who_are_known(key, tmp_path):
    certificate, private = Authority.of(tmp_path / "site").issue("127.0.0.1")
    settings = RemoteSettings("127.0.0.1:0", certificate, private, munge=False, token_key=str(key))
    door = Door(settings, private_handlers()).open()
    try:
        request = {"ask": "queue"}
        (own,) = asked(door, {"token": token(), "request": request})["queue"]
        assert own["job_id"] == 8
        assert "no user" in asked(door, {"token": token(sun="nobody at all"), "request": request})["error"]
        assert "no token" in asked(door, {"token": 7, "request": request})["error"]
        assert "has expired" in asked(door, {"token": token(exp=NOW_S - 1), "request": request})["error"]
        assert "munge credentials are not accepted" in asked(door, {"munge": "MUNGE:AA:"})["error"]
        assert door.results == {"answered": 1, "user": 1, "token": 1, "expired": 1, "identity": 1}
    finally:
        door.close()
    with pytest.raises(ConfigError, match="needs TLS"):
        remote_access(replace(settings, certificate="", key=""))

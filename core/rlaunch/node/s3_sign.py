"""AWS Signature Version 4 for one request to an S3 store. Pure: time and keys come in as arguments.

Written from the public description of the algorithm ("Signature Version 4 signing process", Amazon S3 API
reference); its test vectors are in `tests/node/test_s3_sign.py`.
"""

from __future__ import annotations

import hashlib
import hmac
import time
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

SAFE = "-_.~"


class Keys(NamedTuple):
    """Credentials. Never printed: `repr` shows the id only."""

    key_id: str
    secret: str
    token: str = ""

    def __repr__(self) -> str:
        return f"Keys({self.key_id!r})"


class Place(NamedTuple):
    """Where a request goes."""

    method: str
    host: str
    """With the port where it is not the scheme's own."""
    path: str
    """Percent-encoded, beginning with `/`."""
    query: Mapping[str, str]


def encode_path(path: str) -> str:
    """Percent-encode a path as S3 wants it: everything but unreserved characters and `/`."""
    return urllib.parse.quote(path, safe=f"/{SAFE}")


def encode_query(query: Mapping[str, str]) -> str:
    """Return a query string, sorted, as it is signed and sent."""
    pairs = sorted((_quote(k), _quote(v)) for k, v in query.items())
    return "&".join(f"{k}={v}" for k, v in pairs)


def sign(
    place: Place,
    headers: Mapping[str, str],
    body: bytes,
    *,
    keys: Keys,
    region: str,
    at: float,
) -> dict[str, str]:
    """Return the headers of a signed request: the given ones, and those that the signature needs.

    `at` is the time in seconds since the epoch; header names are lower case.
    """
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    payload = hashlib.sha256(body).hexdigest()
    signed = {k.lower(): " ".join(v.split()) for k, v in headers.items()}
    signed.update({"host": place.host, "x-amz-date": stamp, "x-amz-content-sha256": payload})
    if keys.token:
        signed["x-amz-security-token"] = keys.token
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        [
            place.method,
            place.path,
            encode_query(place.query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            payload,
        ]
    )
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    signature = hmac.new(
        _signing_key(keys.secret, stamp[:8], region), text.encode(), hashlib.sha256
    )
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.key_id}/{scope},SignedHeaders={names},"
        f"Signature={signature.hexdigest()}"
    )
    return signed


def _quote(text: str) -> str:
    return urllib.parse.quote(text, safe=SAFE)


def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key

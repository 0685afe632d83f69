"""The signature of S3 requests: Amazon's published example, and what must not change it."""

from __future__ import annotations

import calendar
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch.node.s3_place import PlaceError, read_keys, read_place
from rlaunch.node.s3_sign import Keys, Place, encode_path, encode_query, sign

KEYS = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
AT = calendar.timegm((2013, 5, 24, 0, 0, 0))
HOST = "examplebucket.s3.amazonaws.com"


def authorization(place: Place, headers: dict[str, str], body: bytes = b"") -> str:
    return sign(place, headers, body, keys=KEYS, region="us-east-1", at=AT)["authorization"]


def test_published_get() -> None:
    """The GET example of the S3 API reference has the signature that it publishes."""
    text = authorization(Place("GET", HOST, "/test.txt", {}), {"range": "bytes=0-9"})
    assert text.endswith("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")


def test_published_put() -> None:
    """The PUT example, with a `$` in the key, has the signature that it publishes."""
    headers = {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"}
    place = Place("PUT", HOST, encode_path("/test$file.text"), {})
    text = authorization(place, headers, b"Welcome to Amazon S3.")
    assert text.endswith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")


def test_published_list() -> None:
    """The listing example, with a query, has the signature that it publishes."""
    text = authorization(Place("GET", HOST, "/", {"max-keys": "2", "prefix": "J"}), {})
    assert text.endswith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_query_order(query: dict[str, str]) -> None:
    """The order in which a query is written down changes nothing, and no character is lost."""
    from urllib.parse import parse_qsl

    backwards = dict(reversed(query.items()))
    text = encode_query(query)
    assert text == encode_query(backwards)
    assert dict(parse_qsl(text, keep_blank_values=True)) == query


@pytest.mark.parametrize(
    ("url", "env", "host", "path"),
    [
        ("s3://b/p", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "127.0.0.1:9", "/b/p/k"),
        ("s3://b/p/", {"AWS_ENDPOINT_URL": "http://cwlota.com"}, "b.cwlota.com", "/p/k"),
        ("s3://b", {"AWS_ENDPOINT_URL_S3": "https://x.y/base"}, "x.y", "/base/b/k"),
        ("s3://b/p", {}, "b.s3.us-east-1.amazonaws.com", "/p/k"),
        ("s3://b/p", {"AWS_REGION": "eu-west-1"}, "b.s3.eu-west-1.amazonaws.com", "/p/k"),
        (
            "s3://b/p",
            {"AWS_ENDPOINT_URL": "http://h", "RLAUNCH_S3_ADDRESSING": "virtual"},
            "b.h",
            "/p/k",
        ),
        (
            "s3://b/p",
            {"AWS_ENDPOINT_URL": "http://h", "RLAUNCH_S3_ENDPOINT": "http://other:1"},
            "other:1",
            "/b/p/k",
        ),
    ],
)
def test_place(url: str, env: dict[str, str], host: str, path: str) -> None:
    """Endpoint and style decide where an object's request goes; the launcher's word stands first."""
    place = read_place(url, env)
    assert place.host_and_path(place.key("k")) == (host, path)


@pytest.mark.parametrize(
    ("url", "env"),
    [
        ("gs://b/p", {}),
        ("s3:///p", {}),
        ("s3://b", {"AWS_ENDPOINT_URL": "cwlota.com"}),
        ("s3://b", {"RLAUNCH_S3_ADDRESSING": "both"}),
    ],
)
def test_bad_place(url: str, env: dict[str, str]) -> None:
    """What cannot be a place is refused in one clause."""
    with pytest.raises(PlaceError, match="`"):
        read_place(url, env)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("nonsense", "is not a credentials file"),
        ("[other]\na=1\n", "no section `default`"),
        ("[default]\naws_access_key_id=x\n", "no keys"),
    ],
)
def test_bad_key_file(tmp_path: Path, text: str | None, said: str) -> None:
    """A credentials file that cannot be used is named with its fault."""
    path = tmp_path / "keys"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(PlaceError, match=said):
        read_keys({"AWS_SHARED_CREDENTIALS_FILE": str(path)})


def test_no_keys() -> None:
    """Without any keys both places that were looked at are named."""
    with pytest.raises(PlaceError, match=r"AWS_ACCESS_KEY_ID.*AWS_SHARED_CREDENTIALS_FILE"):
        read_keys({"AWS_ACCESS_KEY_ID": "only half"})

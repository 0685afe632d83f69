"""The rendezvous store on S3: boto3 where the job's Python has it, else a small client of its own.

One request for each call (a listing may have more pages), each bounded to ten seconds; trying again is the
courier's work. What goes wrong says endpoint, bucket and addressing style, and never a key.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from .s3_client import LIMIT, Answer, Client, Request, SignedClient
from .s3_place import Bucket, PlaceError, here
from .s3_sign import Keys
from .store import Store, StoreError

TAKEN = 412
NO_CONDITIONS = (400, 405, 501)
"""What a store without conditional writes says to one."""


class S3Store(Store):
    """Objects under one prefix of a bucket."""

    def __init__(self, place: Bucket, client: Client) -> None:
        self.place, self._client = place, client
        self._no_conditions = False

    def __str__(self) -> str:
        return str(self.place)

    def list(self, prefix: str) -> dict[str, str]:
        start = self.place.key(f"{prefix}/" if prefix else "")
        found: dict[str, str] = {}
        query = {"list-type": "2", "delimiter": "/", "prefix": start}
        while True:
            answer = self._ask("list", "GET", "", query)
            names, token = _read_page(answer.body, start)
            found.update(names)
            if not token:
                return found
            query["continuation-token"] = token

    def read(self, key: str) -> bytes | None:
        answer = self._ask("read", "GET", key, {}, fine=(200, 404))
        if answer.status == 404 and answer.code == "NoSuchBucket":
            raise self._trouble("read", answer)
        return answer.body if answer.status == 200 else None

    def write(self, key: str, data: bytes) -> None:
        self._ask("write", "PUT", key, {}, body=data)

    def create(self, key: str, data: bytes) -> bool:
        if self._no_conditions:
            return self._create_by_looking(key, data)
        answer = self._ask(
            "create",
            "PUT",
            key,
            {},
            body=data,
            headers={"if-none-match": "*"},
            fine=(200, TAKEN, *NO_CONDITIONS),
        )
        if answer.status in NO_CONDITIONS:
            self._no_conditions = True  # a store without conditional writes
            return self._create_by_looking(key, data)
        return answer.status == 200

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error. The probe of preflight uses it."""
        self._ask("delete", "DELETE", key, {}, fine=(200, 204, 404))

    def _create_by_looking(self, key: str, data: bytes) -> bool:
        """Look, write, look again: the last writer wins, and everybody sees who that was."""
        if self.read(key) is not None:
            return False
        self.write(key, data)
        return self.read(key) == data

    def _ask(
        self,
        verb: str,
        method: str,
        key: str,
        query: Mapping[str, str],
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        fine: tuple[int, ...] = (200,),
    ) -> Answer:
        whole = self.place.key(key) if key else ""
        try:
            answer = self._client.send(Request(method, whole, query, body, headers or {}))
        except StoreError as error:
            raise StoreError(f"{verb}: {error} ({self.place})") from None
        if answer.status not in fine:
            raise self._trouble(verb, answer)
        return answer

    def _trouble(self, verb: str, answer: Answer) -> StoreError:
        said = " ".join(filter(None, [str(answer.status), answer.code]))
        return StoreError(f"{verb}: {said} ({self.place})")


def _read_page(body: bytes, start: str) -> tuple[dict[str, str], str]:
    """Return the names right under `start` with their tags, and the token of the next page."""
    try:
        root = ET.fromstring(body)  # noqa: S314  # the store we write to; no entities are expanded in ETags
    except ET.ParseError as error:
        raise StoreError("list: the answer is not XML") from error
    names: dict[str, str] = {}
    token = ""
    for entry in root:
        kind = entry.tag.rpartition("}")[2]
        if kind == "NextContinuationToken":
            token = entry.text or ""
        elif kind == "Contents":
            fields = {child.tag.rpartition("}")[2]: child.text or "" for child in entry}
            name = fields.get("Key", "").removeprefix(start)
            if name and "/" not in name:
                names[name] = fields.get("ETag", "").strip('"')
    return names, token


def open_s3(url: str, limit: float = LIMIT) -> S3Store:
    """Open `s3://bucket/prefix`; raises `PlaceError` for a place or keys that cannot be used."""
    place, keys = here(url)
    return S3Store(place, choose_client(place, keys, limit))


def choose_client(place: Bucket, keys: Keys, limit: float = LIMIT) -> Client:
    """Return boto3's client where it is installed and knows conditional writes, else our own."""
    try:
        import boto3
        import botocore
    except Exception:  # noqa: BLE001  # a broken installation of it is as good as none
        return SignedClient(place, keys, limit)
    release = tuple(int(part) for part in botocore.__version__.split(".")[:2] if part.isdigit())
    if release < (1, 35):  # without `IfNoneMatch`
        return SignedClient(place, keys, limit)
    from .s3_boto import BotoClient

    return BotoClient(boto3, place, keys, limit)


__all__ = ["PlaceError", "S3Store", "choose_client", "open_s3"]

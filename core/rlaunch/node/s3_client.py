"""One request to an S3 store: our own client of the standard library, and what both clients share."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import socket
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from .s3_place import Bucket
from .s3_sign import Keys, Place, encode_path, encode_query, sign
from .store import StoreError

LIMIT = 10.0
"""Seconds that one request may take, from the first byte sent to the last one read."""
LARGEST = 1 << 20
"""Bytes of an answer that are read; a rendezvous object has a few hundred."""


class Answer(NamedTuple):
    """An answer of the store, whoever fetched it."""

    status: int
    body: bytes = b""
    code: str = ""
    """S3's own error code, such as `NoSuchBucket`."""
    date: str = ""


class Request(NamedTuple):
    """What is asked of the store, before anybody signs it."""

    method: str
    key: str
    """The whole key; empty for the bucket itself."""
    query: Mapping[str, str]
    body: bytes
    headers: Mapping[str, str]


class Client(Protocol):
    """Sends one request. Raises `StoreError` where no answer came."""

    def send(self, request: Request) -> Answer:
        """Return the answer, whatever its status."""
        ...


class SignedClient:
    """S3 over `http.client`, signed by ourselves; follows the server's clock where ours is wrong."""

    def __init__(self, place: Bucket, keys: Keys, limit: float = LIMIT) -> None:
        self._place, self._keys, self._limit = place, keys, limit
        self._offset = 0.0

    def send(self, request: Request) -> Answer:
        """Send it; a second time where only the clocks differ too much."""
        answer = self._once(request)
        if answer.status == 403 and answer.code == "RequestTimeTooSkewed" and answer.date:
            parsed = email.utils.parsedate_to_datetime(answer.date)
            self._offset = parsed.timestamp() - time.time()
            answer = self._once(request)
        return answer

    def _once(self, request: Request) -> Answer:
        method, key, query, body, headers = request
        host, path = self._place.host_and_path(key)
        place = Place(method, host, encode_path(path) or "/", query)
        at = time.time() + self._offset
        signed = sign(place, headers, body, keys=self._keys, region=self._place.region, at=at)
        target = place.path + (f"?{encode_query(query)}" if query else "")
        connection = _connect(self._place.endpoint, host, self._limit)
        ended = threading.Event()
        alarm = threading.Timer(self._limit, _cut)
        alarm.daemon = True
        try:
            connection.connect()
            alarm.args = (connection.sock, ended)  # later the connection forgets it
            alarm.start()
            connection.request(method, target, body=body or None, headers=signed)
            response = connection.getresponse()
            data = response.read(LARGEST)
        except (OSError, http.client.HTTPException) as error:
            said = (
                f"no answer in {self._limit:g} s" if ended.is_set() else _reason(error, self._limit)
            )
            raise StoreError(said) from None
        finally:
            alarm.cancel()
            connection.close()
        if ended.is_set():  # cut in the middle of the answer, which then looks whole
            raise StoreError(f"no answer in {self._limit:g} s")
        code = _error_code(data) if response.status >= 300 else ""
        return Answer(response.status, data, code, response.headers.get("Date", ""))


def _connect(endpoint: str, host: str, limit: float) -> http.client.HTTPConnection:
    secure = urllib.parse.urlsplit(endpoint).scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    return kind(host, timeout=limit)


def _cut(line: socket.socket, ended: threading.Event) -> None:
    """End a request that drips on: a socket's own time-out starts anew with every byte."""
    ended.set()
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def _reason(error: Exception, limit: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {limit:g} s"
    if isinstance(error, socket.gaierror):
        return "the host name does not exist"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _error_code(body: bytes) -> str:
    with contextlib.suppress(ET.ParseError):
        for entry in ET.fromstring(body):  # noqa: S314  # as above
            if entry.tag.rpartition("}")[2] == "Code":
                return entry.text or ""
    return ""

"""Where an S3 rendezvous lies and with which keys it is reached, from URL, environment and key files."""

from __future__ import annotations

import configparser
import os
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

from .s3_sign import Keys

VIRTUAL_ONLY = ("cwobject.com", "cwlota.com", "amazonaws.com")
"""Hosts that want the bucket in front of the host name (CoreWeave refuses the other style)."""


class PlaceError(ValueError):
    """The place cannot be used as it is given: one clause, without any key."""


class Bucket(NamedTuple):
    """One bucket with the prefix that everything of a run lies under."""

    endpoint: str
    bucket: str
    prefix: str
    """Without slashes at its ends."""
    addressing: str
    """`virtual` or `path`."""
    region: str

    def __str__(self) -> str:
        return f"bucket `{self.bucket}` at `{self.endpoint}`, {self.addressing}-style, region `{self.region}`"

    def key(self, name: str) -> str:
        """Return the whole key of an object of this place."""
        return f"{self.prefix}/{name}" if self.prefix else name

    def host_and_path(self, key: str) -> tuple[str, str]:
        """Return the host (with a port where it is not the scheme's) and the path, not yet encoded."""
        parts = urllib.parse.urlsplit(self.endpoint)
        base = parts.path.rstrip("/")
        if self.addressing == "virtual":
            return f"{self.bucket}.{parts.netloc}", f"{base}/{key}"
        return parts.netloc, f"{base}/{self.bucket}/{key}" if key else f"{base}/{self.bucket}"


def read_place(url: str, env: Mapping[str, str]) -> Bucket:
    """Read `s3://bucket/prefix` with the endpoint, addressing and region that the environment gives.

    `RLAUNCH_S3_ENDPOINT`, `RLAUNCH_S3_ADDRESSING`, `RLAUNCH_S3_REGION` stand before `AWS_ENDPOINT_URL_S3`,
    `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_DEFAULT_REGION`. Raises `PlaceError`.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        raise PlaceError(f"`{url}` is not `s3://bucket/prefix`")
    region = _first(env, "RLAUNCH_S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION")
    endpoint = _first(env, "RLAUNCH_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    if not endpoint:
        region = region if region not in ("", "auto") else "us-east-1"
        endpoint = f"https://s3.{region}.amazonaws.com"
    target = urllib.parse.urlsplit(endpoint)
    if target.scheme not in ("http", "https") or not target.hostname:
        raise PlaceError(f"the endpoint `{endpoint}` is not an http or https URL")
    addressing = env.get("RLAUNCH_S3_ADDRESSING", "") or _style(target.hostname, parts.netloc)
    if addressing not in ("virtual", "path"):
        raise PlaceError(f"the addressing style `{addressing}` is neither `virtual` nor `path`")
    return Bucket(
        endpoint.rstrip("/"), parts.netloc, parts.path.strip("/"), addressing, region or "auto"
    )


def _style(host: str, bucket: str) -> str:
    wanted = any(host == name or host.endswith(f".{name}") for name in VIRTUAL_ONLY)
    return "virtual" if wanted and "." not in bucket else "path"


def read_keys(env: Mapping[str, str]) -> Keys:
    """Return the keys: from the environment, else from the file that `AWS_SHARED_CREDENTIALS_FILE` names.

    Raises `PlaceError` that names what was looked at, never a value.
    """
    key_id, secret = env.get("AWS_ACCESS_KEY_ID", ""), env.get("AWS_SECRET_ACCESS_KEY", "")
    if key_id and secret:
        return Keys(key_id, secret, env.get("AWS_SESSION_TOKEN", ""))
    path = env.get("AWS_SHARED_CREDENTIALS_FILE", "")
    if not path:
        raise PlaceError(
            "no storage keys: neither `AWS_ACCESS_KEY_ID` nor `AWS_SHARED_CREDENTIALS_FILE` is set"
        )
    parser = configparser.RawConfigParser()
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except OSError as error:
        raise PlaceError(f"`{path}` cannot be read: {error.strerror}") from error
    except configparser.Error as error:
        raise PlaceError(f"`{path}` is not a credentials file") from error
    profile = env.get("AWS_PROFILE", "") or "default"
    if not parser.has_section(profile):
        raise PlaceError(f"`{path}` has no section `{profile}`")
    found = dict(parser.items(profile))
    if not found.get("aws_access_key_id") or not found.get("aws_secret_access_key"):
        raise PlaceError(f"`{path}` has no keys in section `{profile}`")
    return Keys(
        found["aws_access_key_id"],
        found["aws_secret_access_key"],
        found.get("aws_session_token", ""),
    )


def _first(env: Mapping[str, str], *names: str) -> str:
    return next((env[name] for name in names if env.get(name)), "")


def here(url: str) -> tuple[Bucket, Keys]:
    """Read a place and its keys from this process's environment. Raises `PlaceError`."""
    return read_place(url, os.environ), read_keys(os.environ)

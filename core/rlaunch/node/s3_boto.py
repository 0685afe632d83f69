"""The same request through boto3, where the job's Python has it."""

from __future__ import annotations

import contextlib
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

from .s3_client import LARGEST, LIMIT, Answer, Request
from .s3_place import Bucket
from .s3_sign import Keys
from .store import StoreError


class BotoClient:
    """S3 through boto3, for what it knows of proxies and certificates; no retries of its own."""

    def __init__(self, boto3: Any, place: Bucket, keys: Keys, limit: float = LIMIT) -> None:
        from botocore.config import Config

        options: dict[str, Any] = {
            "connect_timeout": limit / 2,
            "read_timeout": limit,
            "retries": {"max_attempts": 0},
            "s3": {"addressing_style": place.addressing},
            "signature_version": "s3v4",
        }
        with contextlib.suppress(TypeError):  # an older botocore has no such option, and sends none
            Config(request_checksum_calculation="when_required")
            options["request_checksum_calculation"] = "when_required"
            options["response_checksum_validation"] = "when_required"
        self._bucket = place.bucket
        self._client = boto3.client(
            "s3",
            endpoint_url=place.endpoint,
            region_name=place.region,
            aws_access_key_id=keys.key_id,
            aws_secret_access_key=keys.secret,
            aws_session_token=keys.token or None,
            config=Config(**options),
        )

    def send(self, request: Request) -> Answer:
        """Send it as boto3's own call."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return self._call(request)
        except ClientError as error:
            meta = error.response.get("ResponseMetadata", {})
            code = str(error.response.get("Error", {}).get("Code", ""))
            return Answer(int(meta.get("HTTPStatusCode") or 0), b"", code)
        except BotoCoreError as error:
            raise StoreError(type(error).__name__) from None

    def _call(self, request: Request) -> Answer:
        method, key, query, body, headers = request
        if method == "PUT":
            extra = {"IfNoneMatch": "*"} if "if-none-match" in headers else {}
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body, **extra)
            return Answer(200)
        if method == "DELETE":
            self._client.delete_object(Bucket=self._bucket, Key=key)
            return Answer(204)
        if key:
            found = self._client.get_object(Bucket=self._bucket, Key=key)
            return Answer(200, found["Body"].read(LARGEST))
        names = {
            "prefix": "Prefix",
            "delimiter": "Delimiter",
            "continuation-token": "ContinuationToken",
        }
        asked = {names[k]: v for k, v in query.items() if k in names}
        page = self._client.list_objects_v2(Bucket=self._bucket, **asked)
        return Answer(200, _as_xml(page))


def _as_xml(page: Mapping[str, Any]) -> bytes:
    """Write a page of boto3 as S3 sends it, so that one reader serves both clients."""
    root = ET.Element("ListBucketResult")
    for item in page.get("Contents", ()):
        entry = ET.SubElement(root, "Contents")
        ET.SubElement(entry, "Key").text = item["Key"]
        ET.SubElement(entry, "ETag").text = item.get("ETag", "")
    if page.get("NextContinuationToken"):
        ET.SubElement(root, "NextContinuationToken").text = page["NextContinuationToken"]
    return ET.tostring(root)

"""Try the store with the keys that the job will have: write, read, delete."""

from __future__ import annotations

import secrets as random_bytes
from collections.abc import Mapping

from rlaunch.errors import ClusterError
from rlaunch.model import Plan
from rlaunch.node import s3
from rlaunch.node.s3_client import SignedClient
from rlaunch.node.s3_place import PlaceError, read_place
from rlaunch.node.s3_sign import Keys
from rlaunch.node.store import StoreError

LIMIT_S = 4.0


def keys_of(plan: Plan, values: Mapping[str, str]) -> Keys | None:
    """Return the job's own keys, where both values are at hand."""
    storage = plan.run.profile["storage"]
    key_id, secret = values.get(storage["key_id"], ""), values.get(storage["key_secret"], "")
    return Keys(key_id, secret) if key_id and secret else None


def probe(plan: Plan, values: Mapping[str, str]) -> str:
    """Write, read and delete one object beside the rendezvous; returns why that could not be done from here.

    The reason is empty where it was done, and where there is nothing to try: no store, or no keys.

    Raises ClusterError `iris.storage-refused` where the store says no, with endpoint, bucket and style. A
    store that is not reached from this machine is no error: the job's way to it is another one.
    """
    place, profile = plan.run.paths.rendezvous, plan.run.profile["storage"]
    keys = keys_of(plan, values)
    if not place.startswith("s3://") or not profile["outside_endpoint"] or keys is None:
        return ""
    told = {
        "RLAUNCH_S3_ENDPOINT": profile["outside_endpoint"],
        "RLAUNCH_S3_ADDRESSING": profile["addressing"],
        "RLAUNCH_S3_REGION": profile["region"],
    }
    try:
        bucket = read_place(place, told)
    except PlaceError as error:
        raise refused(str(error)) from None
    store = s3.S3Store(bucket, SignedClient(bucket, keys, LIMIT_S))
    name = f"probe/{random_bytes.token_hex(8)}"
    try:
        store.write(name, b"rlaunch")
        read = store.read(name)
        store.delete(name)
    except StoreError as error:
        if not _is_answer(str(error)):
            return f"it is not reached from here: {error}"
        raise refused(str(error)) from None
    if read != b"rlaunch":
        raise refused(f"what was written is not what is read ({bucket})")
    return ""


def _is_answer(text: str) -> bool:
    """Tell whether the store answered (`verb: 403 AccessDenied (…)`) or could not be reached."""
    said = text.partition(": ")[2]
    return said[:3].isdigit()


def refused(reason: str) -> ClusterError:
    """The store does not take the job's keys."""
    return ClusterError.of(
        "iris.storage-refused", f"the job could not use its store: {reason}", place="storage",
        hint="look at `CW_KEY_ID` and `CW_KEY_SECRET`, and at the bucket of `--rendezvous-dir`",
    )  # fmt: skip

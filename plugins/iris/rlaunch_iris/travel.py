"""What may travel with the workspace: no secrets, not too much, nothing that hides Python's own modules."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from rlaunch.model import Finding
from rlaunch.travel import SHOWN, Member, show
from rlaunch_iris.archive import Archive

_KEYS = re.compile(
    r"(?:^|/)(?:\.env(?:\.(?!example$|sample$|template$)[^/]*)?|secrets?\.env|id_(?:rsa|ed25519|ecdsa|dsa)|"
    r"\.netrc|\.pgpass|kubeconfig|\.aws/credentials|\.kube/config|gha-creds-[^/]*\.json|"
    r"[^/]*\.(?:pem|p12|pfx|kdbx|keytab))\Z"
)
_PUBLIC = re.compile(rb"-----BEGIN (?:CERTIFICATE|PUBLIC KEY|TRUSTED CERTIFICATE|X509 CRL)-----")
_PRIVATE = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----")


def forbidden(root: str, listed: tuple[Member, ...]) -> tuple[str, ...]:
    """Return the names of files that must not travel: `.env`, private keys, credentials."""
    return tuple(m.name for m in listed if m.kind == "file" and _is_secret(root, m))


def _is_secret(root: str, member: Member) -> bool:
    if not _KEYS.search(member.name):
        return False
    if not member.name.endswith(".pem"):
        return True
    try:  # a certificate is public, a private key is not
        head = Path(f"{root}/{member.name}").read_bytes()[: 1 << 16]
    except OSError:
        return True
    return _PRIVATE.search(head) is not None or _PUBLIC.search(head) is None


def judge(archive: Archive, secret: tuple[str, ...], limit: int) -> Iterator[Finding]:
    """Yield what keeps the workspace from travelling."""
    if secret:
        shown = ", ".join(f"`{show(name)}`" for name in secret[:SHOWN])
        more = f" and {len(secret) - SHOWN} more" if len(secret) > SHOWN else ""
        yield Finding(
            "error", "iris.workspace-secret", f"{shown}{more} would travel with the workspace",
            show(secret[0]),
            "add it to `.gitignore`, and to the secrets file what the job needs of it",
        )  # fmt: skip
    if archive.size > limit:
        sizes = ", ".join(f"`{show(n)}` {size / 2**20:.1f} MiB" for n, size in archive.largest)
        yield Finding(
            "error", "iris.workspace-too-large",
            f"the workspace has {archive.size / 2**20:.1f} MiB packed, and Iris takes "
            f"{limit / 2**20:.0f} MiB; "
            f"the largest files are {sizes}",
            show(archive.largest[0][0]) if archive.largest else "",
            "add what the job does not need to `.gitignore`, or put it into the object store",
        )  # fmt: skip


def shadowing(listed: tuple[Member, ...]) -> Iterator[Finding]:
    """Yield a warning where the workspace hides modules of Python's own: it is first on PYTHONPATH."""
    tops = {
        m.name.removesuffix(".py").removesuffix("/__init__")
        for m in listed
        if m.name.endswith(".py")
    }
    hidden = sorted(tops & sys.stdlib_module_names)
    if hidden:
        names = ", ".join(f"`{name}`" for name in hidden[:SHOWN])
        yield Finding(
            "warning", "iris.workspace-shadows",
            f"the workspace is first on PYTHONPATH and hides Python's own {names}", hidden[0],
            "move it into a package; Ray itself imports these modules",
        )  # fmt: skip

"""The workspace as an archive: what git tracks and what is new, nothing that it ignores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rlaunch import travel
from rlaunch.errors import ClusterError
from rlaunch.model import Finding, Plan
from rlaunch.shell import Shell
from rlaunch_slurm_jupiter.site import Parcel, Site

DONE = ".rlaunch-complete"
LARGEST = 64 << 20
"""A file of more bytes is no source code."""


def ship(shell: Shell, site: Site, root: str, target: str) -> bool:
    """Bring the workspace to `target` on the site unless it is there; tells whether it was sent.

    `target` carries the hash of the content, so that one that is complete is never written again. The
    mark of completeness is written last. Raises ClusterError.
    """
    if site.cat([f"{target}/{DONE}"]):
        return False
    site.put(target, _parcels(root, _listed(shell, root)))
    site.put(target, [Parcel(DONE, 0o600, b"complete\n")])
    return True


def judge(shell: Shell, plan: Plan) -> Iterator[Finding]:
    """Yield what keeps the workspace from being sent, and what of it stays behind."""
    if plan.native["source"] is None:
        return
    try:
        listed = _listed(shell, plan.run.workspace.root)
    except ClusterError as error:
        yield from error.findings
        return
    yield from travel.left_out(listed)


def _listed(shell: Shell, root: str) -> tuple[travel.Member, ...]:
    """Return what is sent. Raises ClusterError."""
    if not travel.in_git(root):
        raise _unshipped(root, "it is no git checkout, so nothing says what belongs to it")
    listed = travel.members(root, shell)
    for member in listed:
        if member.size > LARGEST:
            size = f"{member.size >> 20} MiB, more than {LARGEST >> 20}"
            raise _unshipped(root, f"`{travel.show(member.name)}` has {size}")
    return listed


def _parcels(root: str, listed: tuple[travel.Member, ...]) -> Iterator[Parcel]:
    for member in listed:
        path, mode = Path(root, member.name), 0o700 if member.executable else 0o600
        try:
            if member.kind == "link":
                yield Parcel(member.name, 0o700, os.fsencode(path.readlink()), link=True)
            elif member.kind == "file":
                yield Parcel(member.name, mode, path.read_bytes())
        except OSError as error:
            raise travel.unreadable(member.name, error.strerror or str(error)) from None


def _unshipped(root: str, why: str) -> ClusterError:
    return ClusterError.of(
        "slurm_jupiter.source", f"the workspace `{root}` cannot be sent: {why}", place=root,
        hint="`git add` what belongs to the code, and name data in `.gitignore`",
    )  # fmt: skip

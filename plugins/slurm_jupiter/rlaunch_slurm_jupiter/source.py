"""The workspace as an archive: what git tracks and what is new, nothing that it ignores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rlaunch import travel
from rlaunch.errors import ClusterError
from rlaunch.model import Finding, Plan
from rlaunch.shell import Shell
from rlaunch.world import checkout
from rlaunch_slurm_jupiter.planning import TOY
from rlaunch_slurm_jupiter.site import Parcel, Site, not_written

DONE = ".rlaunch-complete"
LARGEST = 64 << 20
"""A file of more bytes is no source code."""
_PLACE = 'mv -T -- "$1" "$2" || { [ -e "$2/$3" ] && rm -rf -- "$1"; }'


def ship(shell: Shell, site: Site, plan: Plan) -> bool:
    """Bring the plan's workspace to its place on the site unless it is there; tells whether it was sent.

    The place carries the hash of the content, so that one that is there is never written again. It is written
    aside and renamed when it is whole and still what was planned. Raises ClusterError.
    """
    target, workspace = plan.native["source"], plan.run.workspace
    if site.cat([f"{target}/{DONE}"]):
        return False
    aside = f"{target}.{plan.run.id}"
    try:
        site.put(aside, _parcels(workspace.root, _listed(shell, workspace.root)))
        if checkout(shell, workspace.root).digest != workspace.digest:
            raise _changed(workspace.root)
        site.put(aside, [Parcel(DONE, 0o600, b"complete\n")])
        # somebody may have been first
        done = site.run(("sh", "-c", _PLACE, "sh", aside, target, DONE))
        if done.code != 0:
            raise not_written(target, done.err.strip().partition("\n")[0])
    except BaseException:
        site.run(("rm", "-rf", "--", aside))
        raise
    return True


def judge(shell: Shell, plan: Plan) -> Iterator[Finding]:
    """Yield what keeps the workspace from being sent, and what of it stays behind."""
    run = plan.run
    if plan.native["source"] is None:
        if (
            run.profile["ships_workspace"]
            and not run.workspace.digest
            and TOY not in plan.command.artifacts
        ):
            yield from _unshipped(
                run.workspace.root, "it is no git checkout, so nothing says what belongs to it",
                "`git init` there and commit, or `--set ships_workspace=false`: the job then has none of it",
            ).findings  # fmt: skip
        return
    try:
        listed = _listed(shell, run.workspace.root)
    except ClusterError as error:
        yield from error.findings
        return
    yield from travel.left_out(listed)


def _listed(shell: Shell, root: str) -> tuple[travel.Member, ...]:
    """Return what is sent. Raises ClusterError."""
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


_IGNORE = "`git add` what belongs to the code, and name data in `.gitignore`"


def _unshipped(root: str, why: str, hint: str = _IGNORE) -> ClusterError:
    return ClusterError.of(
        "slurm_jupiter.source",
        f"the workspace `{root}` cannot be sent: {why}",
        place=root,
        hint=hint,
    )


def _changed(root: str) -> ClusterError:
    return ClusterError.of(
        "slurm_jupiter.workspace-changed", f"the workspace `{root}` has changed since the plan was made",
        place=root, hint="make the plan again: what is sent is what was shown",
    )  # fmt: skip

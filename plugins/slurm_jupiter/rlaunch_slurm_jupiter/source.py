"""The workspace as an archive: what git tracks and what is new, nothing that it ignores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlaunch.errors import ClusterError
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
    site.put(target, _parcels(shell, root))
    site.put(target, [Parcel(DONE, 0o600, b"complete\n")])
    return True


def _parcels(shell: Shell, root: str) -> Iterator[Parcel]:
    words = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = shell.run(words, timeout=60)
    if listed.code != 0:
        raise _unshipped(root, "it is no git checkout, so nothing says what belongs to it")
    for name in sorted(set(filter(None, listed.out.split("\0")))):
        path = Path(root, name)
        if not path.is_file():
            continue  # deleted, or a submodule
        seen = path.stat()
        if seen.st_size > LARGEST:
            raise _unshipped(
                root, f"`{name}` has {seen.st_size >> 20} MiB, more than {LARGEST >> 20}"
            )
        yield Parcel(name, 0o700 if seen.st_mode & 0o100 else 0o600, path.read_bytes())


def _unshipped(root: str, why: str) -> ClusterError:
    return ClusterError.of(
        "slurm_jupiter.source", f"the workspace `{root}` cannot be sent: {why}", place=root,
        hint="`git add` what belongs to the code, and name data in `.gitignore`",
    )  # fmt: skip

"""The workspace as one deterministic archive: what git tracks, and what is new and not ignored.

Iris's own bundle leaves out tests, docs, libraries and names that are not ASCII, and loses modes and links
without a word; so the workspace travels as a tar of our own, and Iris carries it as one opaque file.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rlaunch.shell import Shell
from rlaunch.travel import SHOWN, Member, members, unreadable

NAME = "workspace.tar.gz"


class Archive(NamedTuple):
    """A packed workspace."""

    data: bytes
    sha256: str
    files: int
    largest: tuple[tuple[str, int], ...]
    """Names and sizes, largest first."""

    @property
    def size(self) -> int:
        """Bytes of the packed archive."""
        return len(self.data)


def pack(root: str, listed: tuple[Member, ...], report: Callable[[str], None]) -> Archive:
    """Pack the members: same content, modes and links give the same bytes, whatever the dates are."""
    buffer = io.BytesIO()
    done, total, step = 0, sum(m.size for m in listed) or 1, 0
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, compresslevel=6, filename="") as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for member in listed:
            _add(tar, root, member)
            done += member.size
            if done * 10 // total > step and total > 1 << 22:
                step = done * 10 // total
                report(f"packing the workspace: {step * 10} %")
    data = buffer.getvalue()
    sizes = sorted(((m.name, m.size) for m in listed), key=lambda pair: (-pair[1], pair[0]))
    digest = hashlib.sha256(data).hexdigest()
    return Archive(data, digest, len(listed), tuple(sizes[:SHOWN]))


def _add(tar: tarfile.TarFile, root: str, member: Member) -> None:
    info = tarfile.TarInfo(member.name)
    info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
    try:
        if member.kind == "link":
            info.type, info.linkname = (
                tarfile.SYMTYPE,
                str(Path(f"{root}/{member.name}").readlink()),
            )
            info.mode = 0o777
            tar.addfile(info)
        elif member.kind == "folder":
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        else:
            content = Path(f"{root}/{member.name}").read_bytes()
            info.size, info.mode = len(content), 0o755 if member.executable else 0o644
            tar.addfile(info, io.BytesIO(content))
    except OSError as error:
        raise unreadable(member.name, error.strerror or str(error)) from None


def stamp(root: str, listed: tuple[Member, ...]) -> str:
    """Return what decides whether a packed archive can be used again: names, sizes, dates, modes."""
    total = hashlib.sha256(root.encode("utf-8", "surrogateescape"))
    for member in listed:
        total.update(repr(member).encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def bundle(
    root: str,
    shell: Shell,
    cache: str,
    report: Callable[[str], None] = lambda line: None,
    *,
    listed: tuple[Member, ...] | None = None,
) -> Archive:
    """Return the workspace's archive, from the cache directory where nothing has changed.

    The cache keeps one archive for each workspace. It is a convenience: one that is broken or cannot be
    written is passed over.
    """
    listed = members(root, shell) if listed is None else listed
    listed = tuple(member for member in listed if member.kind != "other")
    key, place = stamp(root, listed), Path(cache)
    slot = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    data_path, note_path = place / f"{slot}.tar.gz", place / f"{slot}.json"
    kept = _kept(data_path, note_path, key)
    if kept is not None:
        return kept
    report(f"packing the workspace: {len(listed)} files")
    archive = pack(root, listed, report)
    note = {
        "stamp": key, "sha256": archive.sha256, "files": archive.files,
        "largest": [[os.fsencode(n).hex(), s] for n, s in archive.largest],
    }  # fmt: skip
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        _replace(data_path, archive.data)
        _replace(note_path, json.dumps(note).encode())
    except OSError:
        report("the packed workspace could not be kept for the next time")
    return archive


def _replace(path: Path, data: bytes) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(data)
    aside.chmod(0o600)
    aside.replace(path)


def _kept(data_path: Path, note_path: Path, key: str) -> Archive | None:
    try:
        note = json.loads(note_path.read_bytes())
        if note["stamp"] != key:
            return None
        data = data_path.read_bytes()
        if hashlib.sha256(data).hexdigest() != note["sha256"]:
            return None
        largest = tuple((os.fsdecode(bytes.fromhex(n)), int(s)) for n, s in note["largest"])
        return Archive(data, note["sha256"], int(note["files"]), largest)
    except (OSError, ValueError, KeyError, TypeError):
        return None

"""The machine that speaks to SLURM: this one, or a login node through ssh.

Commands go through the injected shell. Files of the shared file system are read and written directly
where they are here, and by one command each where they are there.
"""

from __future__ import annotations

import base64
import io
import os
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from rlaunch.errors import ClusterError
from rlaunch.shell import Done, Shell
from rlaunch_slurm_jupiter.ssh import LOST, SshShell

PIECE = 4 << 20
"""Bytes of one file that one look brings; the next look brings the next."""


class Parcel(NamedTuple):
    """A file to write: its path relative to the root, its mode, its bytes."""

    path: str
    mode: int
    data: bytes
    link: bool = False
    """True: a symbolic link, to what `data` says."""


class Site(ABC):
    """Where SLURM's commands run and where the run directories lie."""

    host: str | None = None

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout: float = 60.0) -> Done:
        """Run a command on the site."""
        return self.shell.run(argv, stdin=stdin, timeout=timeout)

    @abstractmethod
    def batch(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout: float = 60.0
    ) -> Done:
        """Run sbatch without the variables that stand above a script's own `#SBATCH` lines."""

    @abstractmethod
    def put(self, root: str, parcels: Iterable[Parcel]) -> None:
        """Write files below `root`, which is made, mode 0700. Raises ClusterError."""

    @abstractmethod
    def cat(self, paths: Sequence[str], limit: int = 65536) -> dict[str, str]:
        """Return the texts of those files that exist; a path may end with `/*` for all files there."""

    @abstractmethod
    def tails(self, offsets: Mapping[str, int], folder: str) -> dict[str, bytes]:
        """Return what every file below `folder` (two levels) has behind its offset, by relative path."""


class Here(Site):
    """This machine is a login node."""

    def batch(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout: float = 60.0
    ) -> Done:
        kept = {
            k: v for k, v in os.environ.items() if k == "SLURM_CONF" or not k.startswith(_ABOVE)
        }
        return self.shell.run(argv, stdin=stdin, timeout=timeout, env=kept)

    def put(self, root: str, parcels: Iterable[Parcel]) -> None:
        try:
            base = Path(root)
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            for parcel in parcels:
                path = base / inside(parcel.path)
                if path.parent != base:
                    path.parent.mkdir(parents=True, exist_ok=True)
                if parcel.link:
                    path.unlink(missing_ok=True)
                    path.symlink_to(os.fsdecode(parcel.data))
                    continue
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, parcel.mode)
                with os.fdopen(handle, "wb") as file:
                    os.fchmod(handle, parcel.mode)  # whatever the umask says
                    file.write(parcel.data)
        except OSError as error:
            raise not_written(str(error.filename or root), error.strerror or str(error)) from None

    def cat(self, paths: Sequence[str], limit: int = 65536) -> dict[str, str]:
        found = {}
        for wanted in paths:
            for path in _listed(wanted):
                try:
                    with path.open("rb") as file:
                        found[str(path)] = file.read(limit).decode("utf-8", "replace")
                except OSError:
                    continue
        return found

    def tails(self, offsets: Mapping[str, int], folder: str) -> dict[str, bytes]:
        found = {}
        base = Path(folder)
        for path in sorted([*base.glob("*.out"), *base.glob("logs/*/*.log")]):
            name = str(path.relative_to(base))
            try:
                with path.open("rb") as file:
                    file.seek(offsets.get(name, 0))
                    found[name] = file.read(PIECE)
            except OSError:
                continue
        return {name: data for name, data in found.items() if data}


def _listed(wanted: str) -> list[Path]:
    if not wanted.endswith("/*"):
        return [Path(wanted)]
    try:
        return sorted(p for p in Path(wanted[:-2]).iterdir() if not p.name.startswith("."))
    except OSError:
        return []


_ABOVE = ("SBATCH_", "SLURM_", "SALLOC_")
"""`SBATCH_ACCOUNT` and its like win over the script; `SLURM_*` of a job that rlaunch runs in leak into
the new one."""
_BATCH = (
    "for n in $(env | sed -n 's/^\\(S\\(BATCH\\|LURM\\|ALLOC\\)_[A-Z0-9_]*\\)=.*/\\1/p'); do "
    '[ "$n" = SLURM_CONF ] || unset "$n"; done; exec "$@"'
)
_CAT = (
    'n=$1; shift; show() { [ -f "$1" ] && printf "\\001%s\\n" "$1" && head -c "$n" "$1"; }; '
    'for p do case $p in */\\*) for f in "${p%\\*}"*; do show "$f"; done;; *) show "$p";; esac; done; :'
)
_TAILS = (
    'cd -- "$1" || exit 0; while read -r at f; do seen="$seen|$f|"; [ -f "$f" ] || continue; '
    'size=$(wc -c <"$f"); [ "$size" -gt "$at" ] || continue; printf "\\001%s %s\\n" "$((size - at))" "$f"; '
    'tail -c "+$((at + 1))" "$f" | head -c 4194304 | base64; done; '
    'for f in *.out logs/*/*.log; do [ -f "$f" ] || continue; case $seen in *"|$f|"*) continue;; esac; '
    'printf "\\001%s %s\\n" 0 "$f"; head -c 4194304 "$f" | base64; done; :'
)


class There(Site):
    """A login node through ssh."""

    def __init__(self, shell: Shell, host: str) -> None:
        super().__init__(SshShell(shell, host))
        self.host = host

    def batch(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout: float = 60.0
    ) -> Done:
        return self.run(("sh", "-c", _BATCH, "sh", *argv), stdin=stdin, timeout=timeout)

    def put(self, root: str, parcels: Iterable[Parcel]) -> None:
        text = base64.b64encode(pack(parcels)).decode("ascii")
        script = 'umask 077 && mkdir -p -- "$1" && base64 -d | tar -xpf - -C "$1"'
        done = self.run(("sh", "-c", script, "sh", root), stdin=text, timeout=600)
        if done.code == LOST:
            raise lost(self.host, done)
        if done.code != 0:
            raise not_written(root, done.err.strip().splitlines()[-1] if done.err.strip() else "")

    def cat(self, paths: Sequence[str], limit: int = 65536) -> dict[str, str]:
        done = self.run(("sh", "-c", _CAT, "sh", str(limit), *paths))
        if done.code != 0:
            raise lost(self.host, done)
        found = {}
        for part in done.out.split("\1")[1:]:
            name, _, text = part.partition("\n")
            found[name] = text
        return found

    def tails(self, offsets: Mapping[str, int], folder: str) -> dict[str, bytes]:
        known = "".join(f"{at} {name}\n" for name, at in offsets.items())
        done = self.run(("sh", "-c", _TAILS, "sh", folder), stdin=known, timeout=120)
        if done.code != 0:
            raise lost(self.host, done)
        found = {}
        for part in done.out.split("\1")[1:]:
            head, _, text = part.partition("\n")
            found[head.partition(" ")[2]] = base64.b64decode(text)
        return {name: data for name, data in found.items() if data}


def site_of(shell: Shell, host: str | None) -> Site:
    """Return the machine that a profile's `host` means."""
    return There(shell, host) if host else Here(shell)


def pack(parcels: Iterable[Parcel]) -> bytes:
    """Return the files as one tar archive, the same bytes for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for parcel in parcels:
            entry = tarfile.TarInfo(str(inside(parcel.path)))
            entry.mode = parcel.mode
            if parcel.link:
                entry.type, entry.linkname = tarfile.SYMTYPE, os.fsdecode(parcel.data)
                tar.addfile(entry)
            else:
                entry.size = len(parcel.data)
                tar.addfile(entry, io.BytesIO(parcel.data))
    return buffer.getvalue()


def inside(name: str) -> PurePosixPath:
    """Return a relative path. Raises ClusterError for one that leaves its root."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ClusterError.of(
            "slurm_jupiter.not-written", f"`{name}` would lie outside the run directory", place=name,
            hint="a plan's paths are relative to the root of their place",
        )  # fmt: skip
    return path


def not_written(place: str, why: str) -> ClusterError:
    """Return the error of a directory that cannot be written."""
    return ClusterError.of(
        "slurm_jupiter.not-written", f"`{place}` cannot be written: {why}", place=place,
        hint="`--set run_dir=DIR/{run}` on a file system that all nodes share",
    )  # fmt: skip


def lost(host: str | None, done: Done) -> ClusterError:
    """Return the error of a login node that did not answer."""
    said = done.err.strip().splitlines()
    why = said[-1] if said else f"exit code {done.code}"
    return ClusterError(
        ClusterError.of(
            "slurm_jupiter.host", f"`{host}` did not answer: {why}", place="host",
            hint=f"`ssh {host} true` must work without a question",
        ).findings[0],
        transient=True,
    )  # fmt: skip

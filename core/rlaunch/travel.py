"""What of a workspace travels to the job: all that git tracks, and what is new and not ignored.

Submodules and checkouts inside the checkout are entered, so that what is changed or new in them travels
too. What stays behind is said. Two things are no part of it: the plan files that `rlaunch plan` leaves in
a checkout, as long as git does not track them, and the file that this command's own output goes to.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rlaunch.codes import Code
from rlaunch.errors import ClusterError

if TYPE_CHECKING:
    from rlaunch.model import Finding
    from rlaunch.shell import Done, Shell

SHOWN = 5
"""Names in one finding."""


class Member(NamedTuple):
    """One path of the workspace."""

    name: str
    """Relative, with `/`; bytes that are not UTF-8 as surrogates."""
    kind: str
    """`file`, `link`, `folder` (a submodule that is not checked out), `other` (a socket or pipe)."""
    size: int
    changed_ns: int
    executable: bool
    inode: int


def members(root: str, shell: Shell) -> tuple[Member, ...]:
    """List what is there to travel, sorted by name. Outside git that is everything but `__pycache__`.

    A tracked file that is deleted in the working tree is not there. Raises ClusterError
    `core.workspace-unreadable`.
    """
    return tuple(sorted(_entered(root, "", shell), key=lambda member: member.name))


def in_git(root: str) -> bool:
    """Tell whether a directory is the top of a checkout."""
    return os.path.lexists(f"{root}/.git")


def _entered(root: str, prefix: str, shell: Shell) -> Iterator[Member]:
    """Yield the members of a directory, and of the checkouts inside it."""
    place = f"{root}/{prefix}"
    listed = _by_git(place, shell)
    names = _by_walking(place) if listed is None else listed
    for member in _seen(root, (f"{prefix}{name}" for name in names)):
        if member.kind == "folder" and in_git(f"{root}/{member.name}"):
            yield from _entered(root, f"{member.name}/", shell)
        else:
            yield member


def _by_git(root: str, shell: Shell) -> list[str] | None:
    """Return what git lists in one checkout; None outside git.

    Names come quoted (`core.quotePath`), since a name need not be UTF-8 and the shell decodes text.
    """
    listing = (
        "-c",
        "core.quotePath=true",
        "ls-files",
        "-t",
        "--cached",
        "--others",
        "--exclude-standard",
    )
    done = ask_git(shell, root, *listing)
    if done.code == 0:
        listed = {unquote(line[2:]).rstrip("/"): line[0] for line in done.out.split("\n") if line}
        return sorted(n for n, tag in listed.items() if tag != "?" or not is_own(f"{root}/{n}"))
    if "not a git repository" in done.err or (done.code == 127 and not in_git(root)):
        return None
    raise unreadable(root, git_trouble(done), GIT)


def is_own(path: str) -> bool:
    """Tell whether an untracked file is rlaunch's own: a plan file, or where its output goes."""
    try:
        seen = os.lstat(path)
        if not stat.S_ISREG(seen.st_mode):
            return False
        if any(_is_open_as(descriptor, seen) for descriptor in (1, 2)):
            return True
        with open(path, "rb") as stream:  # noqa: PTH123  # travels by the thousand
            return bool(_PLAN.match(stream.read(64)))
    except OSError:
        return False


def _is_open_as(descriptor: int, seen: os.stat_result) -> bool:
    try:
        there = os.fstat(descriptor)
    except OSError:  # closed
        return False
    return (there.st_dev, there.st_ino) == (seen.st_dev, seen.st_ino)


_PLAN = re.compile(rb'\{\s*"schema": "rlaunch\.plan/')
"""How a plan file begins."""


def ask_git(shell: Shell, root: str, *words: str) -> Done:
    """Ask git about a directory, in its own language: what it says is read."""
    words = ("git", "-C", root, *words)
    return shell.run(words, timeout=GIT_S, env={**os.environ, "LC_ALL": "C"})


def git_trouble(done: Done) -> str:
    """Return why git gave no answer."""
    if done.code == 124:
        return f"git gave no answer in {GIT_S:g} s"
    return done.err.strip().partition("\n")[0] or f"git ended with {done.code}"


GIT_S = 120.0
"""Seconds that git may take: a large checkout on a shared file system takes its time."""
_READ = "every file that git lists travels to the job; make it readable, or ignore it"
GIT = "`git status` must work there, within two minutes"
"""What to do where git does not answer."""


_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def unquote(text: str) -> str:
    """Read a name as git prints it: in double quotes with C escapes where it has odd characters."""
    if not (len(text) > 1 and text[0] == text[-1] == '"'):
        return text
    raw = bytearray()
    rest = iter(text[1:-1])
    for char in rest:
        if char != "\\":
            raw += char.encode("utf-8", "surrogateescape")
            continue
        first = next(rest)
        octal = first in "0123"
        raw.append(int(first + next(rest) + next(rest), 8) if octal else _ESCAPES[first])
    return os.fsdecode(bytes(raw))


def show(name: str) -> str:
    """Return a name that can be printed and written."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _by_walking(root: str) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in {".git", "__pycache__"}]
        links = [f for f in folders if Path(folder, f).is_symlink()]
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(folder, name), root)  # noqa: PTH118  # thousands of them


def _seen(root: str, names: Iterable[str]) -> Iterator[Member]:
    real: dict[str, bool] = {}
    for name in names:
        if not _is_real(root, os.path.dirname(name), real):  # noqa: PTH120  # thousands of them
            continue  # git knows files below what is a link by now
        try:
            seen = os.lstat(f"{root}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise unreadable(name, error.strerror or str(error)) from None
        kind = _KINDS.get(stat.S_IFMT(seen.st_mode), "other")
        mark = bool(seen.st_mode & 0o111)
        yield Member(name, kind, seen.st_size, seen.st_mtime_ns, mark, seen.st_ino)


def _is_real(root: str, folder: str, known: dict[str, bool]) -> bool:
    """Tell whether no part of a folder's name is a link."""
    if not folder:
        return True
    if folder not in known:
        above = _is_real(root, os.path.dirname(folder), known)  # noqa: PTH120
        known[folder] = above and not os.path.islink(f"{root}/{folder}")  # noqa: PTH114
    return known[folder]


_KINDS = {stat.S_IFLNK: "link", stat.S_IFREG: "file", stat.S_IFDIR: "folder"}


def unreadable(name: str, reason: str, hint: str = _READ) -> ClusterError:
    """Return the error of a workspace that cannot be read, or of a file that must travel and cannot."""
    return ClusterError.of(
        "core.workspace-unreadable", f"`{show(name)}` of the workspace cannot be read: {reason}",
        place=show(name), hint=hint,
    )  # fmt: skip


def left_out(listed: tuple[Member, ...]) -> Iterator[Finding]:
    """Yield a warning for each kind of thing that stays behind although it belongs to the workspace."""
    from rlaunch.model import Finding

    for kind, code, what, hint in (
        ("folder", "core.workspace-submodule", "not checked out here: empty in the job",
         "`git submodule update --init --recursive`"),
        ("other", "core.workspace-special", "sockets or pipes, which do not travel", "remove them"),
    ):  # fmt: skip
        names = [show(member.name) for member in listed if member.kind == kind]
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            said = ", ".join(f"`{name}`" for name in names[:SHOWN])
            yield Finding("warning", code, f"{said}{more}: {what}", names[0], hint)


CODES = (
    Code(
        "core.workspace-unreadable",
        "A file of the workspace cannot be read, so it cannot travel.\n\n"
        "Leaving it out silently would start other code than the one you see.",
    ),
    Code(
        "core.workspace-submodule",
        "A submodule is not checked out, so the job gets an empty directory.\n\n"
        "Python then imports the copy that the image was built with, if it has one.",
        "warning",
    ),
    Code(
        "core.workspace-special",
        "Sockets and named pipes of the workspace do not travel.\n\nNothing in the job could answer them.",
        "warning",
    ),
)

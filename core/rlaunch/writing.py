"""Write a file that the user named: in one step where it is a file, in place where it is not one."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from rlaunch.codes import Code
from rlaunch.errors import RlaunchError


def write(output: str, text: str, *, fresh: bool = False) -> None:
    """Write `text` as UTF-8 to the path that a flag named.

    A regular file is replaced in one step, so that nobody reads half of it and of two writers one is
    whole; its mode stays and symbolic links are followed. A device or a pipe is written to as it is.
    With `fresh` a file that is there is left alone. Raises FileExistsError for that, RlaunchError
    `core.output` for everything else.
    """
    try:
        _write(output, text.encode("utf-8", "surrogateescape"), fresh=fresh)
    except FileExistsError:
        raise
    except OSError as error:
        raise RlaunchError.of(
            "core.output", f"`{output}` cannot be written: {error.strerror}", place="--output",
            hint="give a file in a directory that exists",
        ) from None  # fmt: skip


def taken(output: str) -> bool:
    """Tell whether there is a file or directory that a write would replace; not a device or a pipe."""
    try:
        here = _stat(output)
    except OSError:
        return False  # writing it will say what is wrong
    return here is not None and (stat.S_ISREG(here.st_mode) or stat.S_ISDIR(here.st_mode))


def _write(output: str, data: bytes, *, fresh: bool) -> None:
    here, path = _stat(output), os.path.realpath(output)
    nameless = here is not None and _stat(path) is None  # a file that is only open, by /dev/stdout
    if here is not None and (nameless or not stat.S_ISREG(here.st_mode)):
        with Path(output).open("wb") as stream:  # a directory raises here
            stream.write(data)
        return
    if here is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only")
    half = os.path.join(os.path.dirname(path), f".rlaunch-{os.urandom(8).hex()}.part")  # noqa: PTH118, PTH120  # text in, text out
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(half, flags, 0o666), "wb") as stream:
            stream.write(data)
        if here is not None:
            Path(half).chmod(stat.S_IMODE(here.st_mode))
        if fresh:
            os.link(half, path)  # fails where the name is taken, whoever was faster
        else:
            Path(half).replace(path)
    finally:
        Path(half).unlink(missing_ok=True)


def _stat(path: str) -> os.stat_result | None:
    try:
        return Path(path).stat()
    except FileNotFoundError:
        return None


CODES = (
    Code(
        "core.output",
        "A file or stream that was asked for cannot be written.\n\n"
        "Give a file in a directory that exists, on a file system with room. A directory, a read-only\n"
        "file and a full disk are refused as well; what stood there before is still there.",
    ),
)

"""Reading a file that somebody named: a regular file of limited size, or a reason why not."""

from __future__ import annotations

import os
import stat

LIMIT = 1024 * 1024
"""Bytes of a file that a person writes; the largest of 400 recipes has 12 KB."""
PLAN_LIMIT = 64 * LIMIT
"""Bytes of a plan file: it holds a recipe and every text that the launcher writes."""


class NotReadable(Exception):  # noqa: N818  # a reason for a finding, not a failure of its own
    """A file cannot be used; the text is why, in words that follow `cannot be read:`."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing
        """Nothing is there."""


def read(path: str, limit: int = LIMIT, *, pipe: bool = False) -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes; a leading `~` is the home directory.

    With `pipe` the text may come through a pipe too (`<(gpg -d FILE)` of a shell). Raises NotReadable.
    """
    try:
        path = os.path.expanduser(path)  # noqa: PTH111  # an unknown `~user` stays as it is here
        kind = os.stat(path).st_mode  # noqa: PTH116  # pathlib costs a start
        if not stat.S_ISREG(kind) and not (pipe and stat.S_ISFIFO(kind)):
            raise NotReadable(f"it is {'a directory' if stat.S_ISDIR(kind) else 'no regular file'}")
        with open(path, "rb") as stream:  # noqa: PTH123  # as above
            data = stream.read(limit + 1)
    except FileNotFoundError:
        raise NotReadable("there is no such file", missing=True) from None
    except OSError as error:
        raise NotReadable((error.strerror or str(error)).lower()) from None
    except ValueError:  # a NUL byte, or a surrogate that no file system takes
        raise NotReadable("its name is no file name") from None
    if len(data) > limit:
        raise NotReadable(f"it has more than {limit // 1024} KiB")
    return data


def mode(path: str) -> int:
    """Return the mode of a file, 0 where nothing is there any more."""
    try:
        return os.stat(os.path.expanduser(path)).st_mode  # noqa: PTH111, PTH116  # as in `read`
    except OSError:
        return 0


def read_text(path: str, limit: int = LIMIT, *, pipe: bool = False) -> str:
    """Return the text of such a file, which is UTF-8. Raises NotReadable."""
    try:
        return read(path, limit, pipe=pipe).decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotReadable(f"byte {error.start + 1} is not UTF-8") from None

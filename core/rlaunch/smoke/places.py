"""Where the trainer writes: a directory, or a place in an object store through fsspec, as SkyRL does.

The pods of a cluster share no disk. Its checkpoints lie in an object store, whose keys and address the
cluster gives to every pod, in the way that fsspec's `s3fs` reads them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


class PlaceError(OSError):
    """A place that cannot be read or written; the message has its URL."""


class Place:
    """A file or a directory, by path or URL; `place / name` lies below it."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self._root.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self._root

    def read(self) -> bytes:
        """Return a file's bytes. Raises `FileNotFoundError`, `PlaceError` or another `OSError`."""
        if "://" not in self._root:
            return Path(self._root).read_bytes()
        store, path = self._open()
        try:
            content: bytes = store.cat_file(path)
        except FileNotFoundError:
            raise
        except Exception as error:  # each store has errors of its own
            raise self._trouble("read", error) from error
        return content

    def write(self, content: bytes) -> None:
        """Write a whole file: a reader sees all of it, or what was there before. Raises `OSError`."""
        if "://" not in self._root:
            path = Path(self._root)
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f".{path.name}.{os.getpid()}")
            fresh.write_bytes(content)
            fresh.replace(path)
            return
        store, path_there = self._open()
        try:
            store.pipe_file(path_there, content)  # one object: it is there whole, or not at all
        except Exception as error:
            raise self._trouble("written", error) from error

    def _open(self) -> tuple[Any, str]:
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped,unused-ignore]

            store, path = url_to_fs(self._root)
        except (ImportError, ValueError) as error:
            raise PlaceError(f"`{self}` needs fsspec and its driver here: {error}") from error
        return store, str(path)

    def _trouble(self, done: str, error: Exception) -> PlaceError:
        return PlaceError(f"`{self}` cannot be {done}: {type(error).__name__}: {error}")

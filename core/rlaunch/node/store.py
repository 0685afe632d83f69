"""The rendezvous store: a few small objects that all ranks can see.

`Store` is the whole interface; `DirectoryStore` is a shared directory, and `s3.py` has the one on S3. Another
store subclasses `Store` and is chosen in `open_store`; the roles never know which one they talk to.
"""

from __future__ import annotations

import errno
import os
import secrets
from abc import ABC, abstractmethod

from .reasons import BAD_FLAGS, STORE_FAILED, Ending, fail

MODE = 0o600
"""`ray_head.json` has the token that opens Ray to whoever knows it."""
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class StoreError(Exception):
    """The store could not be asked or did not do it; worth another try."""


class Store(ABC):
    """Named objects of at most a few KiB. Every method is one request and raises only `StoreError`."""

    @abstractmethod
    def list(self, prefix: str) -> dict[str, str]:
        """Return the names right under `prefix` (empty: the root), each with a tag.

        The tag changes whenever the object is written again, so that nobody reads what has not changed.
        A prefix that does not exist is empty.
        """

    @abstractmethod
    def read(self, key: str) -> bytes | None:
        """Return an object, None where there is none."""

    @abstractmethod
    def write(self, key: str, data: bytes) -> None:
        """Write an object whole: a reader sees the old one or the new one."""

    @abstractmethod
    def create(self, key: str, data: bytes) -> bool:
        """Write an object that must not exist yet; False where it does."""


class DirectoryStore(Store):
    """A directory that all nodes share.

    Names are listed before they are read: on NFS a look-up that failed once is remembered, while a listing
    asks the server (NeMo-RL 4004: 52 of 128 nodes joined although the file was there for 8 minutes).
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def __str__(self) -> str:
        return f"`{self.root}`"

    def list(self, prefix: str) -> dict[str, str]:
        found: dict[str, str] = {}
        try:
            with os.scandir(os.path.join(self.root, prefix)) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue  # somebody's write in progress
                    try:
                        seen = entry.stat()
                    except FileNotFoundError:
                        continue  # replaced between the two calls
                    found[entry.name] = f"{seen.st_mtime_ns}-{seen.st_ino}-{seen.st_size}"
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreError(str(error)) from error
        return found

    def read(self, key: str) -> bytes | None:
        try:
            with open(os.path.join(self.root, key), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(str(error)) from error

    def write(self, key: str, data: bytes) -> None:
        path = os.path.join(self.root, key)
        try:
            os.replace(self._write_aside(path, data), path)
        except OSError as error:
            raise StoreError(str(error)) from error

    def create(self, key: str, data: bytes) -> bool:
        path = os.path.join(self.root, key)
        try:
            aside = self._write_aside(path, data)
        except OSError as error:
            raise StoreError(str(error)) from error
        try:
            os.link(aside, path)  # fails where the name is taken, and is whole where it is not
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise StoreError(str(error)) from error
            return self._create_in_place(path, data)
        finally:
            os.unlink(aside)
        return True

    def _create_in_place(self, path: str, data: bytes) -> bool:
        """Create where the file system has no hard links; a reader may see a half-written object."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
        except FileExistsError:
            return False
        except OSError as error:
            raise StoreError(str(error)) from error
        with open(descriptor, "wb") as file:
            file.write(data)
        return True

    def _write_aside(self, path: str, data: bytes) -> str:
        folder, name = os.path.split(path)
        os.makedirs(folder, exist_ok=True)
        aside = os.path.join(folder, f".{name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
        except OSError:
            os.unlink(aside)  # a full disk is tried again and again
            raise
        return aside


def open_store(place: str) -> Store:
    """Open a rendezvous place: an absolute path, a `file://` URL or an `s3://` one.

    Raises `Ending` with reason `bad-flags` for a scheme that this agent has no store for, and `store-failed`
    where an S3 place has no usable endpoint or keys.
    """
    scheme, found, rest = place.partition("://")
    if not found:
        return DirectoryStore(place)
    if scheme == "file":
        return DirectoryStore(rest)
    if scheme == "s3":
        from .s3 import PlaceError, open_s3

        try:
            return open_s3(place)
        except PlaceError as error:
            raise Ending(fail(STORE_FAILED, str(error))) from None
    raise Ending(fail(BAD_FLAGS, f"this agent has no store for `{scheme}://`"))

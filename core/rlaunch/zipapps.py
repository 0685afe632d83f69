"""The zipapps that travel with every run: the node agent and the toy trainer.

A zipapp is a package's sources in one file that any Python runs, so that no job needs rlaunch installed. The
same sources give the same bytes on every machine, and its sha256 stands in the plan.

    python -m rlaunch.zipapps rlaunch-node.pyz >rlaunch-node.pyz
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from rlaunch.model import Artifact, Place

NODE = "rlaunch-node.pyz"
SMOKE = "rlaunch-smoke.pyz"
PACKAGES = {NODE: "node", SMOKE: "smoke"}
"""Zipapp -> the package beside this module that it holds, as `rlaunch_<package>`."""
NAMES = tuple(PACKAGES)

MAIN = "import sys\n\nfrom rlaunch_{package}.__main__ import main\n\nsys.exit(main(sys.argv[1:]))\n"
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The first date that a zip file can hold."""


def build(name: str) -> bytes:
    """Return a zipapp's bytes, the same for the same sources; `name` is one of `NAMES`.

    Raises KeyError for another name.
    """
    package = PACKAGES[name]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        # stored, not deflated: another zlib would give other bytes
        _add(archive, "__main__.py", MAIN.format(package=package).encode())
        for path, data in _read_sources(package):
            _add(archive, f"rlaunch_{package}/{path}", data)
    return buffer.getvalue()


def artifact(name: str, place: Place = "run-dir") -> Artifact:
    """Return the artifact that a plan lists for a zipapp."""
    data = build(name)
    return Artifact(name, place, hashlib.sha256(data).hexdigest(), len(data))


def _add(archive: zipfile.ZipFile, path: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(path, LONG_AGO)
    entry.create_system = 3
    entry.external_attr = 0o100644 << 16
    archive.writestr(entry, data)


def _read_sources(package: str) -> Iterator[tuple[str, bytes]]:
    root = f"{Path(__file__).parent}/{package}"
    for name in sorted(os.listdir(root)):  # noqa: PTH208  # Paths would cost as much as the zip
        if not name.endswith(".py"):
            continue
        with open(f"{root}/{name}", "rb") as file:  # noqa: PTH123
            yield name, file.read()


if __name__ == "__main__":
    sys.stdout.buffer.write(build(sys.argv[1]))

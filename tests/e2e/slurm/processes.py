"""The processes of this machine, on which all pretended nodes are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def commands() -> Iterator[tuple[int, list[bytes]]]:
    """Yield every process with the words of its command; one that ends meanwhile is left out."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        yield int(path.parent.name), words

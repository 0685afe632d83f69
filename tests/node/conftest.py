"""Fixtures of the node agent's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlaunch import zipapps

from .gangs import Gang


@pytest.fixture(scope="session")
def node_zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as it is shipped."""
    path = tmp_path_factory.mktemp("zipapp") / zipapps.NODE
    path.write_bytes(zipapps.build(zipapps.NODE))
    return path


@pytest.fixture
def make_gang(tmp_path: Path, node_zipapp: Path) -> Iterator[Callable[[int], Gang]]:
    """Return a maker of gangs; whatever they leave is ended."""
    gangs: list[Gang] = []

    def make(nodes: int) -> Gang:
        gangs.append(Gang(tmp_path / f"gang-{len(gangs)}", node_zipapp, nodes))
        gangs[-1].root.mkdir()
        return gangs[-1]

    yield make
    for gang in gangs:
        gang.close()

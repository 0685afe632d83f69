"""A toy trainer as it is shipped (a zipapp), data for it, and a real Ray of two nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from rlaunch import zipapps
from rlaunch.smoke.dataset import stage

Train = Callable[..., subprocess.CompletedProcess[str]]

TWO_NODES = """
import sys
from ray.cluster_utils import Cluster
small = dict(num_cpus=1, object_store_memory=80_000_000)
head = dict(small, node_ip_address="127.0.77.1", num_gpus=1, include_dashboard=False)
cluster = Cluster(initialize_head=True, head_node_args=head)
cluster.add_node(node_ip_address="127.0.77.2", num_gpus=2, **small)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def clean_environment(**more: str) -> dict[str, str]:
    """Return this environment without what would let a process import the sources by accident."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RLAUNCH_")}
    environ.pop("PYTHONPATH", None)
    environ.pop("RAY_ADDRESS", None)
    return environ | {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"} | more


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trainer as it is shipped: one file, whose package nothing on this machine can import."""
    place = tmp_path_factory.mktemp("zip") / zipapps.SMOKE
    place.write_bytes(zipapps.build(zipapps.SMOKE))
    return place


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The directory of the staged sums."""
    return stage(["builtin/sums"], tmp_path_factory.mktemp("data"))[0].path


@pytest.fixture(scope="session")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray of two nodes (one GPU and two GPUs, pretended), ended afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-c", TWO_NODES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path_factory.mktemp("ray"),
        env=clean_environment(RLAUNCH_MARK="set on the node"),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        assert ":" in address
        yield address
    finally:
        process.stdin.close()
        process.wait(timeout=60)
        process.stdout.close()


@pytest.fixture(scope="session")
def train(pyz: Path, data: str, ray_address: str) -> Train:
    """Run the shipped trainer on the two nodes with the smoke recipe's sizes, and more arguments."""

    def run(
        *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 90
    ) -> subprocess.CompletedProcess[str]:
        sizes = (
            f"data.train_data=['{data}']",
            "trainer.max_steps=12",
            "trainer.policy_mini_batch_size=8",
            "trainer.policy.optimizer_config.lr=0.4",
        )
        return subprocess.run(
            [sys.executable, str(pyz), *sizes, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            cwd="/",
            env=clean_environment(RAY_ADDRESS=ray_address, **(env or {})),
        )

    return run

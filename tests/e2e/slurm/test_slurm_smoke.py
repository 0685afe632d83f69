"""The smoke recipe on a real SLURM, on the host and in a real SIF: it ends with 0 and nothing is lost on
the way to the processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TABLE = {
    "NCCL_IB_HCA": "mlx5_0,mlx5_1",
    "P": "a b",
    "Q": 'it\'s "q"',
    "U": "naïve-李",
    "N": "l1\nl2",
    "CPN": "64(x2)",
    "D": "$CONDA_PREFIX/lib",
    "E": "",
    "SUB": "$(id -un) `id`",
    "HASH": "# x",
    "BACK": "a\\b\\\\c\\n",
    "PCT": "%j %t",
    "JSON": '{"a": [1, "b,c"]}',
}
"""Values that launchers have cut, split or run (facts of 2026)."""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """The smoke recipe with the table as its `extra_env`, in a workspace of its own."""
    import yaml

    root = Path(__file__).resolve().parents[3]
    body = yaml.safe_load((root / "docs" / "recipes" / "smoke.yaml").read_text())
    path = tmp_path / "smoke.yaml"
    path.write_text(yaml.safe_dump({**body, "extra_env": TABLE}, allow_unicode=True))
    return path


@pytest.mark.parametrize("inside", ["host", "sif"])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_smoke(
    slurm: Any, request: pytest.FixtureRequest, recipe: Path, nodes: int, inside: str
) -> None:
    """Exit 0 on 1, 2 and 3 nodes; every value of the table is in the driver and in Ray's workers, byte
    for byte, and the run learns."""
    name = f"smoke-{inside}-{nodes}"
    changes = request.getfixturevalue("image") if inside == "sif" else {}
    dump = recipe.parent / "dump"
    done = slurm.launch(
        "--rl_config", str(recipe), "--workspace", str(recipe.parent), "--allow", "env.dollar",
        "--skyrl_override", f"++smoke.dump_env={dump}", name=name, nodes=nodes,
        **{**changes, "binds": [*changes.get("binds", ()), str(recipe.parent)]},
    )  # fmt: skip
    assert "SUCCEEDED" in done.stdout + done.stderr
    dumps = {p.stem: json.loads(p.read_text()) for p in dump.glob("*.json")}
    assert len(dumps) > nodes, f"the driver and a worker on each node: {sorted(dumps)}"
    for process, seen in dumps.items():
        assert {k: seen.get(k) for k in TABLE} == TABLE, process
        assert seen["VLLM_HOST_IP"].startswith("198.18.77."), process
        gloo = "ib0" if nodes > 1 and process != "driver" else None
        assert seen.get("GLOO_SOCKET_IFNAME") == gloo, process
    run = slurm.run_dir(name)
    assert (run / "checkpoints" / "latest_ckpt_global_step.txt").read_text().strip() == "12"
    assert not (run / "secrets.json").exists()
    assert (run / "last").read_text() == "1 succeeded driver-exit 0\n"
    assert len(list((run / "logs" / "1").glob("*.log"))) == nodes
    text = (run / "job.sh").read_text()
    assert "mlx5" not in text, "no value of the environment is in the script"


def test_a_run_directory_with_blanks(slurm: Any, image: dict[str, Any]) -> None:
    """Paths with blanks and quotes work in SLURM's directives, in binds and in the job."""
    place = f"{slurm.home}/runs/it's a dir"
    slurm.launch(name="blanks", **{**image, "run_dir": f"{place}/{{run}}"})
    [run] = Path(place).glob("blanks-*")
    assert (run / "last").read_text() == "1 succeeded driver-exit 0\n"
    assert list(run.glob("job-*.out"))

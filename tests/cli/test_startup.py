"""What a start loads. Modules are counted, not seconds: `benchmarks/` has the times."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECIPE = str(ROOT / "docs" / "recipes" / "smoke.yaml")
HEAVY = {
    "ray",
    "numpy",
    "boto3",
    "botocore",
    "kubernetes",
    "hydra",
    "omegaconf",
    "torch",
    "requests",
}
LIBRARIES = {
    "pydantic",
    "yaml",
    "stevedore",
    "pluggy",
    "rich",
    "importlib.metadata",
    "asyncio",
    "urllib.request",
}
CHILD = (
    "import atexit, sys; "
    "atexit.register(lambda: print('LOADED', *(m for m, v in sys.modules.items() if v), file=sys.stderr)); "
    "from rlaunch.cli import main; sys.argv[0] = 'rlaunch'; sys.exit(main())"
)


def loaded(home: Path, *words: str, **env: str) -> tuple[int, set[str], str]:
    """Run a command in a fresh process; returns exit code, loaded modules and stdout."""
    path = os.pathsep.join(
        (str(ROOT / "core"), str(ROOT / "plugins" / "local"), str(HERE / "scripted"))
    )
    full = {**os.environ, "HOME": str(home), "PYTHONPATH": path, "SCRIPTED_DIR": str(home), **env}
    full.pop("TYPER_USE_RICH", None)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words],
        env=full,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    line = next(line for line in done.stderr.splitlines() if line.startswith("LOADED"))
    return done.returncode, set(line.split()[1:]), done.stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["plan", "--help"], 0),
        (["--version"], 0),
        (["statsu"], 64),
        (["--rl-config"], 64),
        (["status", "--bogus"], 64),
        (["--cluster", "iris", "plan", "x"], 64),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_and_typos_load_no_library(home: Path, words: list[str], code: int):
    """What only talks about the command line loads typer and nothing else: no plugin, no pydantic."""
    ended, modules, _ = loaded(home, *words)
    assert ended == code
    assert modules & (HEAVY | LIBRARIES) == set()
    assert not any(name.startswith(("rlaunch_", "scripted")) for name in modules)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_loads_no_library(home: Path, shell: str):
    """Names of clusters, commands and flags are completed without a plugin."""
    for typed, expected in (
        ("rlaunch --cluster scr", "scripted"),
        ("rlaunch stat", "status"),
        ("rlaunch --rl", "--rl-config"),
        ("rlaunch watch --int", "--interval"),
    ):
        words = typed.split()
        env = {
            "_RLAUNCH_COMPLETE": f"complete_{shell}", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1),
            "_TYPER_COMPLETE_ARGS": typed, "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }  # fmt: skip
        _, modules, out = loaded(home, **env)
        assert expected in out
        assert modules & (HEAVY | LIBRARIES) == set()
        assert not any(name.startswith(("rlaunch_", "scripted")) for name in modules)


def test_jobs_are_completed_from_the_record(
    home: Path, rl: Callable[..., Any], scripted: Any, launch: tuple[str, ...]
):
    """`rlaunch watch <TAB>` offers recorded names and ids, and loads no plugin for it."""
    rl(*launch, "--no-wait", "--job-name", "mine")
    env = {
        "_RLAUNCH_COMPLETE": "complete_bash",
        "COMP_WORDS": "rlaunch watch mi",
        "COMP_CWORD": "2",
    }
    _, modules, out = loaded(home, **env)
    assert out.split()[0] == "mine"
    assert modules & (HEAVY | LIBRARIES) == set()


def test_the_record_is_listed_without_a_plugin(home: Path):
    """`runs`, and `status` with nothing open, ask no cluster and load none."""
    for words in (["runs"], ["status"], ["clusters"]):
        code, modules, _ = loaded(home, *words)
        assert code == 0
        assert modules & (HEAVY | {"pydantic", "yaml", "stevedore", "rich"}) == set()
        assert not any(name.startswith(("rlaunch_", "scripted")) for name in modules)


def test_a_dry_run_loads_the_chosen_plugin_only(home: Path):
    """pydantic and YAML for the profile and the recipe; no rich, no Ray, no other cluster."""
    code, modules, _ = loaded(
        home, "--cluster", "scripted", "--rl_config", RECIPE, "--model_path", "toy/grpo",
        "--train_data", '["builtin/sums"]', "--num-nodes", "2", "--dry-run",
    )  # fmt: skip
    assert code == 0
    assert modules & (HEAVY | {"rich", "asyncio", "urllib.request"}) == set()
    assert "scripted_cluster" in modules
    assert not any(name.startswith("rlaunch_") for name in modules)


def test_a_dry_run_on_a_shipped_profile_loads_no_pydantic(home: Path):
    """The profile that `local` ships was validated when it was packaged."""
    code, modules, out = loaded(
        home, "--cluster", "local", "--rl_config", RECIPE, "--model_path", "toy/grpo",
        "--train_data", '["builtin/sums"]', "--dry-run",
    )  # fmt: skip
    assert code == 0
    assert "what the scheduler is sent:" in out
    assert "rlaunch_local" in modules
    assert modules & (HEAVY | {"pydantic", "pydantic_core", "rich"}) == set()


def test_the_module_is_the_command(home: Path):
    """`python -m rlaunch` does what `rlaunch` does."""
    argv = [sys.executable, "-m", "rlaunch", "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("rlaunch ")


def test_importing_the_package_costs_nothing(home: Path):
    """`import rlaunch` loads none of its modules; each public name can be had."""
    code = "import rlaunch, sys; print(*(m for m in sys.modules if m.startswith('rlaunch')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["rlaunch"]
    import rlaunch

    for name in rlaunch.__all__:
        assert getattr(rlaunch, name) is not None
    with pytest.raises(AttributeError, match="no attribute `nothing`"):
        _ = rlaunch.nothing

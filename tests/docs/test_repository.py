"""Promises of the repository itself: versions, pins, contracts, what may not stand in a file."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlaunch
from rlaunch import world

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PLUGINS = sorted(ROOT.glob("plugins/*/pyproject.toml"))


def tracked(*patterns: str) -> list[Path]:
    """Return the files that git tracks or would track."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_versions_agree() -> None:
    """The distributions, the package and the running rlaunch have one version."""
    versions = {PROJECT["project"]["version"], rlaunch.__version__, world.VERSION}
    for path in PLUGINS:
        versions.add(tomllib.loads(path.read_text(encoding="utf-8"))["project"]["version"])
    assert len(versions) == 1, versions


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: path.parent.name)
def test_plugin_fits_this_version(path: Path) -> None:
    """Each plugin depends on this minor version of rlaunch, and on no later one."""
    major, minor, _ = PROJECT["project"]["version"].split(".")
    dependencies = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["dependencies"]
    wanted = f"rlaunch>={major}.{minor},<{major}.{int(minor) + 1}"
    assert wanted in [text.replace(" ", "") for text in dependencies]


@pytest.mark.parametrize("name", ["run", "test", "check"])
def test_pins_are_names_and_versions(name: str) -> None:
    """Pins are `name==version`, with a marker where Pythons differ: no address, no hash."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    shape = re.compile(r"[a-z0-9-]+==[0-9a-z.+]+( ; [a-z_]+ .+)?")
    assert [line for line in lines if not shape.fullmatch(line)] == []


def test_agent_contract_names_every_module() -> None:
    """The import contract of the node agent forbids every module of the core but its own."""
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    contract = next(c for c in contracts if c.get("source_modules") == ["rlaunch.node"])
    package = ROOT / "core" / "rlaunch"
    modules = {p.stem for p in package.glob("*.py")} | {
        p.parent.name for p in package.glob("*/__init__.py")
    }
    known = {f"rlaunch.{name}" for name in modules - {"__init__", "__main__", "node"}}
    assert set(contract["forbidden_modules"]) == known


@pytest.mark.parametrize("part", ["node", "smoke"])
def test_job_side_is_old_python(part: str) -> None:
    """What runs on the job's interpreter is Python 3.10 to its parser."""
    for path in (ROOT / "core" / "rlaunch" / part).rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))


def test_files_are_small() -> None:
    """A file has at most 300 lines, or says at its top why it has more; tests are no exception."""
    long = []
    for path in tracked("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > 300 and not any("300 lines" in line for line in lines[:25]):
            long.append(f"{path.relative_to(ROOT)}: {len(lines)}")
    assert long == []


def long_functions(text: str) -> Iterator[str]:
    """Yield functions of over 40 lines, docstrings left out, whose `def` line does not say why."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        says = node.body[0] if ast.get_docstring(node) is not None else None
        lost = 0 if says is None else (says.end_lineno or 0) - says.lineno + 1
        size = (node.end_lineno or 0) - node.lineno + 1 - lost
        if size > 40 and not re.search(r"# over 40 lines: \w", lines[node.lineno - 1]):
            yield f"{node.name}: {size}"


def test_functions_are_short() -> None:
    """A function has at most 40 lines, or its `def` line ends in `# over 40 lines: …`, a reason."""
    long = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in tracked("*.py")
        for found in long_functions(path.read_text(encoding="utf-8"))
    ]
    assert long == []


def test_a_long_function_needs_a_reason() -> None:
    """What is measured: all lines but the docstring's, and the reason is one of words."""
    body = "".join(f"    x = {n}\n" for n in range(40))
    doc = '    """One.\n\n    Two.\n    """\n'
    assert list(long_functions(f"def f():\n{doc}{body}")) == ["f: 41"]
    assert list(long_functions(f"def f():\n{doc}{body[10:]}")) == []
    assert list(long_functions(f"def f():  # over 40 lines: it is a table\n{body}")) == []
    assert list(long_functions(f"def f():  # over 40 lines:\n{body}")) == ["f: 41"]


def test_no_machine_is_named() -> None:
    """No file names a registry's host, or a path of the machine that it was written on."""
    # Written in two parts each, so that this file does not match itself.
    hosts = ("pypi" + r"\.o", "python" + "hosted")
    paths = ("/ro" + "ot/", "/wo" + "rk/", "/fa" + "rm/")  # where a path begins, not inside one
    strange = re.compile("|".join([*hosts, *(r"(?<![\w})\]>])" + path for path in paths)]))
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {m[0]}" for m in strange.finditer(text)]
    assert found == []


def test_every_test_says_what_it_states() -> None:
    """Every test function has a docstring."""
    silent = []
    for path in tracked("tests/**.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            if not ast.get_docstring(node):
                silent.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert silent == []

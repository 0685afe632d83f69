"""What the documentation says can be typed, and where its links point."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/*.md")])
WRONG_ON_PURPOSE = {"locl": 3}
"""A word of a command that is meant to be refused -> its exit code."""


def shell_lines(path: Path) -> list[str]:
    """Return the command lines of a page's `sh` blocks; a line that ends in `\\` goes on."""
    blocks = re.findall(r"^```sh\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip()]


COMMANDS = sorted(
    {
        (str(page.relative_to(ROOT)), line.partition(" # ")[0].strip())
        for page in PAGES
        for line in shell_lines(page)
    }
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    """A link to a file of the repository points to one that is there."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(("page", "line"), [c for c in COMMANDS if c[1].startswith("rlaunch ")])
def test_command_can_be_typed(page: str, line: str, own_home: Path) -> None:
    """A launch in the documentation plans (as a dry run), and no command in it is wrong usage."""
    words = shlex.split(line)[1:]
    launch = words[0].startswith("--")
    if launch and "--dry-run" not in words:
        words = [w for w in words if w not in ("--no-wait",)] + ["--dry-run"]
    done = subprocess.run(
        [sys.executable, "-m", "rlaunch", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode != 64, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    if launch:
        expected = next((code for word, code in WRONG_ON_PURPOSE.items() if word in words), 0)
        assert done.returncode == expected, done.stderr


@pytest.mark.parametrize(("page", "line"), [c for c in COMMANDS if c[1].startswith("make ")])
def test_make_target_exists(page: str, line: str) -> None:
    """A `make` in the documentation names a target of the Makefile."""
    done = subprocess.run(
        ["make", "-n", *shlex.split(line)[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_nothing_else_stands_in_shell_blocks() -> None:
    """Every line of a shell block is one of the commands that are tested here."""
    assert [c for c in COMMANDS if not c[1].startswith(("rlaunch ", "make "))] == []


def test_decisions_are_listed() -> None:
    """Every decision stands in the navigation of the documentation."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [p.name for p in (ROOT / "docs/adr").glob("*.md") if f"adr/{p.name}" not in nav] == []
